//! Instruction set abstraction: what lane-wise operations ask of AVX-512 and of AVX2.
//!
//! A *piece* is what one machine register has of a value: its lanes of 16, 32 or 64 bits. Two pieces of
//! 64-bit lanes belong to one of 32-bit lanes. A *mask* says something of each lane: a mask register, or
//! a vector register whose lanes are all ones or all zeros.

use crate::asm::assembler::X;
use crate::host::SimdIsa;
use crate::lanewise::codes::{
    EXTRACT_UPPER, F32_OF_F16, INSERT_UPPER, LaneCode, S32_OF_S16, S32_OF_U16, S64_OF_S32,
    S64_OF_U32, XOR,
};
use crate::lanewise::compare::By;
use iced_x86::Register;
use simt::ir::Reg;
use simt::ir::op::{Round, Width};
use simt::ir::vector::{Source, VectorInst};

/// An instruction set, with an instruction of the vector IR under construction.
pub(crate) trait VectorIsa: Sized {
    /// Which it is.
    const ISA: SimdIsa;
    /// Bytes of a register.
    const BYTES: usize;

    /// Pieces of a value.
    fn pieces(&self, w: Width) -> usize;
    /// Appends an instruction.
    fn op(&mut self, code: LaneCode, operands: &[X]);
    /// Appends an instruction on registers that rounds so.
    fn op_rounded(&mut self, code: LaneCode, operands: &[X], round: Round);
    /// Readers of a register make its NaNs canonical themselves.
    fn defers_nan(&self, r: Reg) -> bool;

    /// A register for what comes between, until the piece is put or it is freed.
    fn temp(&mut self) -> Register;
    /// There is no such form: the function stays interpreted.
    fn unsupported(&mut self);
    /// Gives a register of [`Self::temp`] back early; others are left alone.
    fn free(&mut self, register: Register);
    /// A number in all lanes, as an operand of instructions on lanes of this width.
    fn number(&mut self, bits: u64, w: Width) -> X;
    /// A register's bytes by their places, as an operand.
    fn bytes(&mut self, byte: impl Fn(u8) -> u8) -> X;
    /// A copy of an operand of lanes of this width, in a register of its own.
    fn copied(&mut self, operand: X, w: Width) -> Register;

    /// The number of the first lane of a piece of 32-bit lanes.
    fn first_lane(&self, piece: usize) -> usize;
    /// True if a source is rather the second operand of an instruction than the first.
    fn is_in_memory(&self, source: Source) -> bool;
    /// A piece of a source: a register that must not be written, or memory.
    fn source(&mut self, source: Source, w: Width, piece: usize) -> X;
    /// A piece of a source in a register that must not be written.
    fn source_in(&mut self, source: Source, w: Width, piece: usize) -> Register;
    /// A piece of lanes twice as wide as a source's: what an instruction makes of half a register of
    /// those, in a register of its own.
    fn by_half(&mut self, source: Source, w: Width, piece: usize, code: LaneCode) -> Register;
    /// A piece of 32-bit lanes: the lower or the upper halves of a source's 64-bit lanes, in a register of
    /// its own.
    fn halves(&mut self, source: Source, piece: usize, upper: bool) -> Register;
    /// A piece of 32-bit lanes: the lower halves of two registers' 64-bit lanes. They are given back, or
    /// become the result.
    fn narrowed(&mut self, low: Register, high: Register) -> Register;
    /// A register's lower half.
    fn lower(register: Register) -> Register;
    /// A source's 32-bit lanes are known to be below 2^31, and that helps.
    fn is_below_sign(&self, source: Source) -> bool;

    /// Keeps a register of [`Self::temp`] while pieces are put, until it is freed.
    fn hold(&mut self, register: Register);
    /// Piece of result `n`: what a register holds. Nothing else is kept in temporary registers then, but
    /// what is held.
    fn put(&mut self, inst: &VectorInst, n: usize, piece: usize, made: Register);
    /// Piece of result `n`: what an instruction on lanes of the result's width makes.
    fn put_by(&mut self, inst: &VectorInst, n: usize, piece: usize, code: LaneCode, from: &[X]);
    /// Result `n` of 16-bit lanes: `make` gives pieces of 32-bit lanes, whose lower halves count.
    fn put_words(
        &mut self,
        inst: &VectorInst,
        n: usize,
        make: impl FnMut(&mut Self, usize) -> Register,
    );

    /// Lanes in which none of these bits is set.
    fn is_zero(&mut self, a: Register, bits: X, w: Width) -> Register;
    /// Lanes of 32 bits whose bit of this number is set.
    fn has_bit(&mut self, a: Register, bit: u32) -> Register;
    /// Lanes of floats that compare so: the condition is the immediate of `vcmpps`.
    fn compare(&mut self, a: Register, b: X, condition: i32, w: Width) -> Register;
    /// A piece of an affine value, or of a source that one is compared with, in a register that must not
    /// be written.
    fn affine(&mut self, source: Source, w: Width, piece: usize) -> Register;
    /// Keeps which lanes of a piece compare so, until [`Self::put_compared`]. The operands are given back.
    fn compare_piece(&mut self, piece: usize, a: Register, b: X, by: By, w: Width);
    /// The predicate of the pieces' lanes that compare so; with AVX-512 it is left in EAX.
    fn put_compared(&mut self, inst: &VectorInst, w: Width);
    /// Lanes of a mask become those of an operand.
    fn blend(&mut self, to: Register, from: X, mask: Register, w: Width);
    /// Lanes of a mask become zero; not of [`Self::has_bit`]'s masks.
    fn clear(&mut self, to: Register, mask: Register, w: Width);
    /// All bits of lanes of a mask are set; not of [`Self::has_bit`]'s masks.
    fn fill(&mut self, to: Register, mask: Register, w: Width);
    /// Gives a mask back.
    fn free_mask(&mut self, mask: Register);

    /// The sign of each lane in all its bits, in a register of its own.
    fn signs(&mut self, a: Register, w: Width) -> Register;
    /// Shifts down by an amount for each lane; the amounts' register may be overwritten.
    fn shift_down(&mut self, a: Register, by: Register, w: Width, signed: bool) -> Register;
    /// The lower halves of products of 64-bit lanes, in a register of its own.
    fn product_long(&mut self, a: Register, b: Register) -> Register;
    /// The lesser or the larger ones of 64-bit lanes, in a register of its own.
    fn extreme_long(&mut self, a: Register, b: Register, larger: bool, signed: bool) -> Register;
    /// The low bits of lanes, extended to all of them, in a register of its own.
    fn extended(&mut self, a: Register, w: Width, bits: u8, signed: bool) -> Register;
    /// 32-bit lanes with odd numbers become those of another register.
    fn odd_lanes(&mut self, to: Register, odd: Register);
    /// Bits that are not in `mask` become those of another register; `mask` may be overwritten.
    fn choose_bits(&mut self, to: Register, other: Register, mask: Register);
    /// Bytes become those of another register where the highest bit of `by` is set.
    fn blend_bytes(&mut self, to: Register, from: Register, by: Register);
    /// The sign of each byte in all its bits, in a register of its own.
    fn byte_signs(&mut self, a: Register) -> Register;
    /// Bits that are set in each lane, in a register of its own.
    fn count_ones(&mut self, a: Register, w: Width) -> Register;
    /// Bits that are not set above the highest one, in a register of its own.
    fn leading_zeros(&mut self, a: Register, w: Width) -> Register;
    /// Bits in reverse order, in a register of its own.
    fn reversed(&mut self, a: Register, w: Width) -> Register;
    /// A function of three bits by its table: the first source becomes it.
    fn lookup(&mut self, inst: &VectorInst, piece: usize, table: u8) -> Register;

    /// 32-bit lanes rotated to the left, in a register of its own, if that is one instruction.
    fn rotated(&mut self, source: Source, piece: usize, by: i32) -> Option<Register>;

    /// Puts the sum of a product of floats, where that is one instruction on the operands as they are.
    fn fused(&mut self, inst: &VectorInst, w: Width, piece: usize) -> bool;
    /// f32 lanes with subnormals made zero, in a register of its own.
    fn flushed(&mut self, a: Register) -> Register;
    /// Reciprocals of roots of f32 lanes by the processor's estimate, in a register of its own.
    fn root_estimate(&mut self, a: Register) -> Register;
    /// f16 numbers in the lower halves of 32-bit lanes become f32 ones.
    fn lower_f16_as_f32(&mut self, a: Register);
    /// f32 numbers become f16 ones, in the lower halves of their lanes.
    fn f32_as_f16(&mut self, a: Register);
    /// Multiplies by 2 to the power of whole f32 numbers, which may be overwritten.
    fn scale(&mut self, to: Register, exponents: Register);
    /// f32 numbers as mantissas in [3/4, 3/2), less 1, and exponents, in registers of their own.
    fn mantissas(&mut self, a: Register) -> [Register; 2];
    /// Logarithms of what has no mantissa: NaN, infinity, zero and what is below it.
    fn special_logarithms(&mut self, a: Register, made: Register);

    /// A number in all lanes, in a register of its own.
    fn splat(&mut self, bits: u64, w: Width) -> Register {
        let number = self.number(bits, w);
        self.copied(number, w)
    }

    /// A piece of 64-bit lanes of a source of 32-bit ones, in a register of its own.
    fn widened(&mut self, source: Source, piece: usize, signed: bool) -> Register {
        if let Source::Imm(v) = source {
            let wide = if signed { v as i32 as i64 as u64 } else { u64::from(v as u32) };
            return self.splat(wide, Width::W64);
        }
        self.by_half(source, Width::W32, piece, if signed { S64_OF_S32 } else { S64_OF_U32 })
    }

    /// A piece of 32-bit lanes of a source of 16-bit ones, in a register of its own.
    fn words(&mut self, source: Source, piece: usize, signed: bool) -> Register {
        self.by_half(source, Width::W16, piece, if signed { S32_OF_S16 } else { S32_OF_U16 })
    }

    /// f32 numbers of a piece of a source of f16 ones, in a register of its own.
    fn f32_of_f16(&mut self, source: Source, piece: usize) -> Register {
        self.by_half(source, Width::W16, piece, F32_OF_F16)
    }

    /// What an instruction makes of half of a register, in a register of its own.
    fn by_half_of(&mut self, register: Register, half: usize, code: LaneCode) -> Register {
        let to = self.temp();
        let mut from = Self::lower(register);
        if half == 1 {
            from = Self::lower(to);
            self.op(EXTRACT_UPPER, &[from.into(), register.into(), X::I(1)]);
        }
        self.op(code, &[to.into(), from.into()]);
        to
    }

    /// The lower halves of two registers, in the first; the second is given back.
    fn joined(&mut self, low: Register, high: Register) -> Register {
        self.op(INSERT_UPPER, &[low.into(), low.into(), Self::lower(high).into(), X::I(1)]);
        self.free(high);
        low
    }

    /// Zeros, in a register of its own.
    fn zero(&mut self) -> Register {
        let to = self.temp();
        self.op(XOR, &[to.into(), to.into(), to.into()]);
        to
    }

    /// `code` of two operands, in a register of its own.
    fn made(&mut self, code: LaneCode, a: Register, b: impl Into<X>) -> Register {
        let to = self.temp();
        self.op(code, &[to.into(), a.into(), b.into()]);
        to
    }

    /// Gives several registers back.
    fn free_all<const N: usize>(&mut self, registers: [Register; N]) {
        registers.into_iter().for_each(|register| self.free(register));
    }
}
