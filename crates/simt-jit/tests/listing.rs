//! Every kernel of the samples has native code, and it can be shown.

#[path = "listing/memory.rs"]
mod memory;

use simt::inspect::inspect;
use simt::ir::op::Op;
use simt_jit::SimdIsa;

/// Instructions of the samples that the interpreter runs: none comes to these by mistake.
const INTERPRETED_OF_SAMPLES: [(&str, &str); 13] = [
    ("Avx2", "atom.global.add.u64"),
    ("Avx2", "convert.u64.f32.zero of one value"),
    ("Avx2", "convert.u64.f64.zero of one value"),
    ("Avx2", "runtime.assertfail"),
    ("Avx2", "runtime.vprintf"),
    ("Avx2", "special.globaltimer of one value"),
    ("Avx2", "store.shared.b32"),
    ("Avx2", "trap"),
    ("Avx512", "atom.global.add.u64"),
    ("Avx512", "runtime.assertfail"),
    ("Avx512", "runtime.vprintf"),
    ("Avx512", "special.globaltimer of one value"),
    ("Avx512", "trap"),
];

#[test]
fn native_code_of_the_samples_can_be_shown() {
    let folder = format!("{}/../../samples/kernels", env!("CARGO_MANIFEST_DIR"));
    let mut kernels = 0;
    let mut interpreted = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("PTX");
        for (name, kernel) in inspect(&text).expect("PTX") {
            let kernel = kernel.expect("a kernel").kernel.entry;
            for isa in SimdIsa::ALL {
                let listing = simt_jit::listing(&kernel, isa)
                    .unwrap_or_else(|| panic!("{name} has no {isa:?} code"));
                // Every block can be entered, and has both versions; all of it can be read.
                for block in 0..kernel.blocks.len() {
                    for kind in ["entry", "full", "masked"] {
                        let mark = format!("{kind} b{block}:");
                        let found = listing.lines().filter(|line| *line == mark).count();
                        assert_eq!(found, 1, "{name}: {mark} ({isa:?})");
                    }
                }
                assert!(!listing.contains("(bad)"), "{name} ({isa:?}):\n{listing}");
                let summary = simt_jit::summary(&kernel, isa).expect("native code");
                interpreted
                    .extend(summary.interpreted.into_keys().map(|op| (format!("{isa:?}"), op)));
                // To look at it: `cargo test -p simt-jit --test listing -- --nocapture`.
                println!("{listing}");
            }
            kernels += 1;
        }
    }
    assert!(kernels > 10, "{kernels} kernels");
    let found: Vec<_> = interpreted.iter().map(|(isa, op)| (isa.as_str(), op.as_str())).collect();
    assert_eq!(found, INTERPRETED_OF_SAMPLES);
}

/// A loop over places that came from memory has scalar code.
#[test]
fn rows_of_a_sparse_matrix_are_made_lane_by_lane() {
    let text = include_str!("../../../bench/kernels/programs/spmv.ptx");
    for (name, kernel) in inspect(text).expect("PTX") {
        let kernel = kernel.expect("a kernel").kernel.entry;
        for isa in SimdIsa::ALL {
            let listing = simt_jit::listing(&kernel, isa).expect("native code");
            assert!(listing.contains("vfmadd231sd"), "{name}, {isa:?}:\n{listing}");
        }
    }
}

/// Counters of a histogram are found by bytes: one look at the size of shared memory is enough for
/// each of the four updates, in both clones.
#[test]
fn indices_that_cannot_be_large_are_looked_at_once() {
    let text = include_str!("../../../bench/kernels/programs/histogram.ptx");
    for (name, kernel) in inspect(text).expect("PTX") {
        let kernel = kernel.expect("a kernel").kernel.entry;
        let listing = simt_jit::listing(&kernel, SimdIsa::Avx512).expect("native code");
        let looks = listing.lines().filter(|l| l.contains("cmp qword ptr") && l.ends_with(",400h"));
        let insts = kernel.blocks.iter().flat_map(|block| &block.insts);
        let updates = insts.filter(|inst| matches!(inst.op, Op::Atom { .. })).count();
        assert!(updates > 0, "{name} counts in memory");
        assert_eq!(looks.count(), 2 * updates, "{name}:\n{listing}");
    }
}

/// Instructions, with the kinds of their operands' registers, the result first: `h` 16 bits, `r` 32,
/// `d` 64, `p` a predicate.
const ORDINARY: &[(&str, &str)] = &[
    ("tanh.approx.f32", "rr"),
    ("tanh.approx.f16x2", "rr"),
    ("ex2.approx.ftz.f32", "rr"),
    ("add.ftz.f32", "rrr"),
    ("mul.ftz.sat.f32", "rrr"),
    ("abs.ftz.f32", "rr"),
    ("sqrt.rn.f64", "dd"),
    ("neg.f64", "dd"),
    ("copysign.f64", "ddd"),
    ("rcp.approx.ftz.f64", "dd"),
    ("div.rz.f64", "ddd"),
    ("min.NaN.f32", "rrr"),
    ("add.ftz.f16", "hhh"),
    ("add.sat.f16x2", "rrr"),
    ("fma.rn.relu.bf16x2", "rrrr"),
    ("setp.gt.f16", "phh"),
    ("setp.ne.s16", "phh"),
    ("setp.ltu.ftz.f32", "prr"),
    ("selp.b16", "hhhp"),
    ("mov.b16", "hh"),
    ("cvt.s8.s16", "hh"),
    ("cvt.u64.u16", "dh"),
    ("cvt.rn.f32.f64", "rd"),
    ("cvt.ftz.f64.f32", "dr"),
    ("cvt.rni.s32.f64", "rd"),
    ("cvt.rzi.s64.f64", "dd"),
    ("cvt.rzi.u8.f32", "hr"),
    ("cvt.rmi.f32.f32", "rr"),
    ("cvt.rzi.f64.f64", "dd"),
    ("cvt.rn.f64.u64", "dd"),
    ("cvt.rna.tf32.f32", "rr"),
    ("mul.lo.s16", "hhh"),
    ("shr.s16", "hhr"),
    ("div.u16", "hhh"),
    ("mul.hi.u64", "ddd"),
    ("mad.hi.s32", "rrrr"),
    ("mul24.hi.s32", "rrr"),
    ("add.sat.s32", "rrr"),
    ("sad.u32", "rrrr"),
    ("dp4a.s32.s32", "rrrr"),
    ("bfe.s64", "ddrr"),
    ("bfi.b64", "dddrr"),
    ("bfi.b32", "rrrrr"),
    ("bmsk.clamp.b32", "rrr"),
    ("szext.wrap.s32", "rrr"),
    ("shf.l.wrap.b32", "rrrr"),
    ("prmt.b32", "rrrr"),
];

/// Those that code for AVX2 leaves to the interpreter.
const INTERPRETED_WITH_AVX2: &[&str] = &["cvt.rzi.s64.f64", "cvt.rn.f64.u64"];

/// A kernel of one instruction on lanes that differ, or on values that all lanes have.
fn kernel_of(name: &str, kinds: &str, alike: bool) -> String {
    let address = if alike { "mov.b64 %a, %b" } else { "add.u64 %a, %x, %b" };
    let mut text = format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) {{\n\
         .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %d<8>, %a, %b, %o, %x; .reg .pred %p<8>; .reg .b32 %t;\n\
         ld.param.u64 %b, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 64;\n\
         add.u64 %o, %x, %b; {address};\n"
    );
    for (n, kind) in kinds.char_indices().skip(1) {
        text.push_str(&match kind {
            'h' => format!("ld.global.b16 %h{n}, [%a+{}];\n", 8 * n),
            'r' => format!("ld.global.b32 %r{n}, [%a+{}];\n", 8 * n),
            'd' => format!("ld.global.b64 %d{n}, [%a+{}];\n", 8 * n),
            _ => format!("ld.global.b32 %r{n}, [%a+{}]; setp.ne.u32 %p{n}, %r{n}, 0;\n", 8 * n),
        });
    }
    let operands: Vec<String> =
        kinds.char_indices().map(|(n, kind)| format!("%{kind}{n}")).collect();
    text.push_str(&format!("{name} {};\n", operands.join(", ")));
    text.push_str(match kinds.as_bytes()[0] {
        b'h' => "st.global.b16 [%o], %h0;\n",
        b'r' => "st.global.b32 [%o], %r0;\n",
        b'd' => "st.global.b64 [%o], %d0;\n",
        _ => "selp.b32 %r0, 1, 2, %p0; st.global.b32 [%o], %r0;\n",
    });
    text + "ret;\n}\n"
}

/// Which of these are interpreted, of lanes or of one value.
fn interpreted(isa: SimdIsa) -> Vec<&'static str> {
    let is_interpreted = |name: &str, kinds: &str, alike: bool| {
        let text = kernel_of(name, kinds, alike);
        inspect(&text).unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}")).into_iter().any(
            |(_, kernel)| {
                let kernel = kernel.unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}"));
                let found = simt_jit::summary(&kernel.kernel.entry, isa).expect("code");
                !found.interpreted.is_empty()
            },
        )
    };
    let forms = ORDINARY.iter().filter(|(name, kinds)| {
        [false, true].into_iter().any(|alike| is_interpreted(name, kinds, alike))
    });
    forms.map(|(name, _)| *name).collect()
}

/// What compilers make of ordinary programs has native code, of lanes and of one value.
#[test]
fn ordinary_instructions_are_not_interpreted() {
    assert_eq!(interpreted(SimdIsa::Avx512), [""; 0]);
}

/// What has none yet for AVX2 is known.
#[test]
fn few_ordinary_instructions_are_interpreted_with_avx2() {
    assert_eq!(interpreted(SimdIsa::Avx2), INTERPRETED_WITH_AVX2);
}

/// Lanes that exchange values by a pattern that the code shows do it without scatters, but where the
/// pattern turns out to be another: that is behind the clones.
#[test]
fn butterflies_of_a_transform_are_permuted() {
    let text = include_str!("../../../bench/kernels/programs/fft.ptx");
    for (name, kernel) in inspect(text).expect("PTX") {
        let kernel = kernel.expect("a kernel").kernel.entry;
        let listing = simt_jit::listing(&kernel, SimdIsa::Avx512).expect("native code");
        let (first, second) = ("full b4:", "full b8:");
        let from = listing.find(first).expect(first);
        let butterflies = &listing[from..from + listing[from..].find(second).expect(second)];
        assert!(butterflies.contains("vpermi2d"), "{name}:\n{butterflies}");
        for slow in ["vpscatter", "vpgather"] {
            assert!(!butterflies.contains(slow), "{name} has {slow}:\n{butterflies}");
        }
    }
}
