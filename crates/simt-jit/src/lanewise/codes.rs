//! Instruction pairs: an operation on all lanes of a register, as AVX-512 and as AVX2 have it.

use crate::host::SimdIsa;
use iced_x86::Code;
use simt::ir::op::Width;

/// The code of AVX-512, and that of AVX2: `INVALID` if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneCode(Code, Code);

impl LaneCode {
    /// An instruction that only one file needs: the code of AVX-512, and that of AVX2.
    pub(crate) const fn new(avx512: Code, avx2: Code) -> Self {
        Self(avx512, avx2)
    }

    /// An instruction set's code.
    pub(crate) fn of(self, isa: SimdIsa) -> Code {
        match isa {
            SimdIsa::Avx512 => self.0,
            SimdIsa::Avx2 => self.1,
        }
    }

    /// True if the instruction set has it.
    pub(crate) fn is_in(self, isa: SimdIsa) -> bool {
        self.of(isa) != Code::INVALID
    }
}

/// Conditions of comparisons, as the immediate of `vcmpps`: equal.
pub(crate) const EQUAL: i32 = 0;
/// One of the two is NaN.
pub(crate) const UNORDERED: i32 = 3;
/// Less, and neither is NaN.
pub(crate) const LESS: i32 = 0x11;
/// Less or equal, and neither is NaN.
pub(crate) const NOT_ABOVE: i32 = 0x12;
/// Not less, and neither is NaN.
pub(crate) const NOT_BELOW: i32 = 0x1d;

/// The first, or the second for lanes of 64 bits.
pub(crate) fn pick(w: Width, narrow: LaneCode, wide: LaneCode) -> LaneCode {
    if w == Width::W64 { wide } else { narrow }
}

macro_rules! codes {
    ($($name:ident = $evex:ident, $vex:ident;)*) => {
        $(pub(crate) const $name: LaneCode = LaneCode(Code::$evex, Code::$vex);)*
    };
}

codes! {
    ADD_WORDS = EVEX_Vpaddw_zmm_k1z_zmm_zmmm512, VEX_Vpaddw_ymm_ymm_ymmm256;
    ADD = EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, VEX_Vpaddd_ymm_ymm_ymmm256;
    ADD_LONG = EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, VEX_Vpaddq_ymm_ymm_ymmm256;
    ADD_BYTES = EVEX_Vpaddb_zmm_k1z_zmm_zmmm512, VEX_Vpaddb_ymm_ymm_ymmm256;
    SUB_WORDS = EVEX_Vpsubw_zmm_k1z_zmm_zmmm512, VEX_Vpsubw_ymm_ymm_ymmm256;
    SUB = EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsubd_ymm_ymm_ymmm256;
    SUB_LONG = EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, VEX_Vpsubq_ymm_ymm_ymmm256;
    MUL_WORDS = EVEX_Vpmullw_zmm_k1z_zmm_zmmm512, VEX_Vpmullw_ymm_ymm_ymmm256;
    MUL = EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, VEX_Vpmulld_ymm_ymm_ymmm256;
    MUL_LONG = EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64, INVALID;
    MUL_HIGH_S16 = EVEX_Vpmulhw_zmm_k1z_zmm_zmmm512, VEX_Vpmulhw_ymm_ymm_ymmm256;
    MUL_HIGH_U16 = EVEX_Vpmulhuw_zmm_k1z_zmm_zmmm512, VEX_Vpmulhuw_ymm_ymm_ymmm256;
    MUL_EVEN_S32 = EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64, VEX_Vpmuldq_ymm_ymm_ymmm256;
    MUL_EVEN_U32 = EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64, VEX_Vpmuludq_ymm_ymm_ymmm256;
    SUM_OF_WORDS = EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512, VEX_Vpmaddwd_ymm_ymm_ymmm256;
    AND = EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, VEX_Vpand_ymm_ymm_ymmm256;
    AND_LONG = EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, VEX_Vpand_ymm_ymm_ymmm256;
    ANDN = EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32, VEX_Vpandn_ymm_ymm_ymmm256;
    OR = EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, VEX_Vpor_ymm_ymm_ymmm256;
    OR_LONG = EVEX_Vporq_zmm_k1z_zmm_zmmm512b64, VEX_Vpor_ymm_ymm_ymmm256;
    XOR = EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, VEX_Vpxor_ymm_ymm_ymmm256;
    XOR_LONG = EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, VEX_Vpxor_ymm_ymm_ymmm256;
    MIN_S16 = EVEX_Vpminsw_zmm_k1z_zmm_zmmm512, VEX_Vpminsw_ymm_ymm_ymmm256;
    MIN_U16 = EVEX_Vpminuw_zmm_k1z_zmm_zmmm512, VEX_Vpminuw_ymm_ymm_ymmm256;
    MIN_S32 = EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, VEX_Vpminsd_ymm_ymm_ymmm256;
    MIN_U32 = EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32, VEX_Vpminud_ymm_ymm_ymmm256;
    MIN_S64 = EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64, INVALID;
    MIN_U64 = EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64, INVALID;
    MIN_BYTES = EVEX_Vpminub_zmm_k1z_zmm_zmmm512, VEX_Vpminub_ymm_ymm_ymmm256;
    MAX_S16 = EVEX_Vpmaxsw_zmm_k1z_zmm_zmmm512, VEX_Vpmaxsw_ymm_ymm_ymmm256;
    MAX_U16 = EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512, VEX_Vpmaxuw_ymm_ymm_ymmm256;
    MAX_S32 = EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, VEX_Vpmaxsd_ymm_ymm_ymmm256;
    MAX_U32 = EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, VEX_Vpmaxud_ymm_ymm_ymmm256;
    MAX_S64 = EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64, INVALID;
    MAX_U64 = EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64, INVALID;
    MAX_BYTES = EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512, VEX_Vpmaxub_ymm_ymm_ymmm256;
    ABS_WORDS = EVEX_Vpabsw_zmm_k1z_zmmm512, VEX_Vpabsw_ymm_ymmm256;
    ABS = EVEX_Vpabsd_zmm_k1z_zmmm512b32, VEX_Vpabsd_ymm_ymmm256;
    ABS_LONG = EVEX_Vpabsq_zmm_k1z_zmmm512b64, INVALID;
    // The processor gives nothing for amounts over the width, as PTX wants it.
    UP_BY = EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsllvd_ymm_ymm_ymmm256;
    UP_BY_LONG = EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, VEX_Vpsllvq_ymm_ymm_ymmm256;
    DOWN_BY = EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsrlvd_ymm_ymm_ymmm256;
    DOWN_BY_LONG = EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, VEX_Vpsrlvq_ymm_ymm_ymmm256;
    DOWN_SIGNED_BY = EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsravd_ymm_ymm_ymmm256;
    DOWN_SIGNED_BY_LONG = EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64, INVALID;
    UP_WORDS = EVEX_Vpsllw_zmm_k1z_zmmm512_imm8, VEX_Vpsllw_ymm_ymm_imm8;
    DOWN_WORDS = EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8, VEX_Vpsrlw_ymm_ymm_imm8;
    DOWN_SIGNED_WORDS = EVEX_Vpsraw_zmm_k1z_zmmm512_imm8, VEX_Vpsraw_ymm_ymm_imm8;
    UP = EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, VEX_Vpslld_ymm_ymm_imm8;
    UP_LONG = EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, VEX_Vpsllq_ymm_ymm_imm8;
    DOWN = EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, VEX_Vpsrld_ymm_ymm_imm8;
    DOWN_LONG = EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, VEX_Vpsrlq_ymm_ymm_imm8;
    DOWN_SIGNED = EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, VEX_Vpsrad_ymm_ymm_imm8;
    DOWN_SIGNED_LONG = EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8, INVALID;
    SHUFFLE_BYTES = EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, VEX_Vpshufb_ymm_ymm_ymmm256;
    ADD_F32 = EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vaddps_ymm_ymm_ymmm256;
    SUB_F32 = EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vsubps_ymm_ymm_ymmm256;
    MUL_F32 = EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vmulps_ymm_ymm_ymmm256;
    DIV_F32 = EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vdivps_ymm_ymm_ymmm256;
    ADD_F64 = EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vaddpd_ymm_ymm_ymmm256;
    SUB_F64 = EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vsubpd_ymm_ymm_ymmm256;
    MUL_F64 = EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vmulpd_ymm_ymm_ymmm256;
    DIV_F64 = EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vdivpd_ymm_ymm_ymmm256;
    SQRT_F32 = EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, VEX_Vsqrtps_ymm_ymmm256;
    SQRT_F64 = EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, VEX_Vsqrtpd_ymm_ymmm256;
    MIN_F64 = EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae, VEX_Vminpd_ymm_ymm_ymmm256;
    MAX_F64 = EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae, VEX_Vmaxpd_ymm_ymm_ymmm256;
    FMA_F64 = EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vfmadd213pd_ymm_ymm_ymmm256;
    ROUND_F64 = EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae, VEX_Vroundpd_ymm_ymmm256_imm8;
    MIN_F32 = EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, VEX_Vminps_ymm_ymm_ymmm256;
    MAX_F32 = EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae, VEX_Vmaxps_ymm_ymm_ymmm256;
    // The first is a factor, the second another, the third is added.
    FMA_F32 = EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vfmadd213ps_ymm_ymm_ymmm256;
    // The second and the third are factors of what is added to the first.
    ADD_PRODUCT_F32 = EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vfmadd231ps_ymm_ymm_ymmm256;
    ROUND_F32 = EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, VEX_Vroundps_ymm_ymmm256_imm8;
    F32_OF_S32 = EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, VEX_Vcvtdq2ps_ymm_ymmm256;
    S32_OF_F32 = EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er, VEX_Vcvtps2dq_ymm_ymmm256;
    S32_CUT_F32 = EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, VEX_Vcvttps2dq_ymm_ymmm256;
    F32_OF_U32 = EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, INVALID;
    U32_OF_F32 = EVEX_Vcvtps2udq_zmm_k1z_zmmm512b32_er, INVALID;
    F64_OF_S64 = EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er, INVALID;
    F64_OF_U64 = EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, INVALID;
    S64_OF_F64 = EVEX_Vcvtpd2qq_zmm_k1z_zmmm512b64_er, INVALID;
    U64_OF_F64 = EVEX_Vcvtpd2uqq_zmm_k1z_zmmm512b64_er, INVALID;
    // Lanes twice as wide, of half a register.
    S32_OF_S16 = EVEX_Vpmovsxwd_zmm_k1z_ymmm256, VEX_Vpmovsxwd_ymm_xmmm128;
    S32_OF_U16 = EVEX_Vpmovzxwd_zmm_k1z_ymmm256, VEX_Vpmovzxwd_ymm_xmmm128;
    S64_OF_S32 = EVEX_Vpmovsxdq_zmm_k1z_ymmm256, VEX_Vpmovsxdq_ymm_xmmm128;
    S64_OF_U32 = EVEX_Vpmovzxdq_zmm_k1z_ymmm256, VEX_Vpmovzxdq_ymm_xmmm128;
    F32_OF_F16 = EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, VEX_Vcvtph2ps_ymm_xmmm128;
    F64_OF_F32 = EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, VEX_Vcvtps2pd_ymm_xmmm128;
    F64_OF_S32 = EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er, VEX_Vcvtdq2pd_ymm_xmmm128;
    F64_OF_U32 = EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er, INVALID;
    // Lanes half as wide, in the lower half of a register.
    F32_OF_F64 = EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, VEX_Vcvtpd2ps_xmm_ymmm256;
    F32_OF_S64 = EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er, INVALID;
    F32_OF_U64 = EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er, INVALID;
    S32_OF_F64 = EVEX_Vcvtpd2dq_ymm_k1z_zmmm512b64_er, VEX_Vcvtpd2dq_xmm_ymmm256;
    U32_OF_F64 = EVEX_Vcvtpd2udq_ymm_k1z_zmmm512b64_er, INVALID;
    S32_CUT_F64 = EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae, VEX_Vcvttpd2dq_xmm_ymmm256;
    EXTRACT_UPPER = EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8, VEX_Vextracti128_xmmm128_ymm_imm8;
    INSERT_UPPER = EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
}

pub(crate) const ADD_SAT_S16: LaneCode =
    LaneCode::new(Code::EVEX_Vpaddsw_zmm_k1z_zmm_zmmm512, Code::VEX_Vpaddsw_ymm_ymm_ymmm256);
pub(crate) const ADD_SAT_U16: LaneCode =
    LaneCode::new(Code::EVEX_Vpaddusw_zmm_k1z_zmm_zmmm512, Code::VEX_Vpaddusw_ymm_ymm_ymmm256);

/// Sums of lanes of a width.
pub(crate) fn add(w: Width) -> LaneCode {
    if w == Width::W16 { ADD_WORDS } else { pick(w, ADD, ADD_LONG) }
}

/// Differences of lanes of a width.
pub(crate) fn subtract(w: Width) -> LaneCode {
    if w == Width::W16 { SUB_WORDS } else { pick(w, SUB, SUB_LONG) }
}

/// Products of the lower halves of 64-bit lanes.
pub(crate) fn even_products(signed: bool) -> LaneCode {
    if signed { MUL_EVEN_S32 } else { MUL_EVEN_U32 }
}
