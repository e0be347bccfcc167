//! Products of matrices are made of machine code, in every format.

use simt::inspect::inspect;
use simt_jit::SimdIsa;

/// A form of `mma`, and registers of A, B and C.
type Form = (&'static str, [usize; 3]);

const FLOATS: [Form; 5] = [
    ("m16n8k16.row.col.f32.bf16.bf16.f32", [4, 2, 4]),
    ("m16n8k8.row.col.f32.f16.f16.f32", [2, 1, 4]),
    ("m16n8k16.row.col.f16.f16.f16.f16", [4, 2, 2]),
    ("m16n8k8.row.col.f32.tf32.tf32.f32", [4, 2, 4]),
    ("m16n8k4.row.col.f32.tf32.tf32.f32", [2, 1, 4]),
];
const DOUBLES: [Form; 2] = [
    ("m8n8k4.row.col.f64.f64.f64.f64", [1, 1, 2]),
    ("m16n8k16.row.col.f64.f64.f64.f64", [8, 4, 4]),
];
const INTEGERS: [Form; 5] = [
    ("m16n8k32.row.col.s32.s8.s8.s32", [4, 2, 4]),
    ("m16n8k32.row.col.satfinite.s32.u8.s8.s32", [4, 2, 4]),
    ("m8n8k16.row.col.s32.s8.u8.s32", [1, 1, 2]),
    ("m16n8k64.row.col.s32.s4.s4.s32", [4, 2, 4]),
    ("m8n8k32.row.col.satfinite.s32.u4.u4.s32", [1, 1, 2]),
];
const SLICES: [Form; 1] = [("m16n8k32.row.col.f32.e4m3.e5m2.f32", [4, 2, 4])];
const BITS: [Form; 2] = [
    ("m16n8k256.row.col.s32.b1.b1.s32.xor.popc", [4, 2, 4]),
    ("m8n8k128.row.col.s32.b1.b1.s32.and.popc", [1, 1, 2]),
];

/// Products of the form's kernel that the interpreter runs for a full warp.
fn interpreted((form, counts): Form, isa: SimdIsa) -> Vec<String> {
    let wide = form.contains("f64");
    let list = |name: char, count: usize| {
        let registers: Vec<String> = (0..count).map(|n| format!("%{name}{n}")).collect();
        format!("{{{}}}", registers.join(", "))
    };
    let [a, b, c] = counts;
    let mut text = format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n\
         .reg .b32 %i;\n.reg .{} %a<8>, %b<4>, %c<4>;\nmov.u32 %i, %laneid;\n",
        if wide { "f64" } else { "b32" }
    );
    for (name, count) in [('a', a), ('b', b), ('c', c)] {
        for n in 0..count {
            text += &match wide {
                true => format!("cvt.rn.f64.u32 %{name}{n}, %i;\n"),
                false => format!("add.u32 %{name}{n}, %i, {n};\n"),
            };
        }
    }
    let (a, b, c) = (list('a', a), list('b', b), list('c', c));
    text += &format!("mma.sync.aligned.{form} {c}, {a}, {b}, {c};\nret;\n}}\n");
    let kernels = inspect(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = kernels.into_iter().next().expect("a kernel").1.expect("it compiles");
    let summary = simt_jit::summary(&kernel.kernel.entry, isa).expect("native code");
    summary.interpreted.into_keys().filter(|op| op.starts_with("multiply")).collect()
}

fn all_native<'a>(forms: impl IntoIterator<Item = &'a Form>, isa: SimdIsa) {
    for form in forms {
        let left = interpreted(*form, isa);
        assert!(left.is_empty(), "{} ({isa:?}): {left:?}", form.0);
    }
}

#[test]
fn formats_have_machine_code() {
    all_native(FLOATS.iter().chain(&DOUBLES).chain(&SLICES), SimdIsa::Avx512);
    if is_x86_feature_detected!("avx512vnni") {
        all_native(&INTEGERS, SimdIsa::Avx512);
    }
    if is_x86_feature_detected!("avx512vpopcntdq") {
        all_native(&BITS, SimdIsa::Avx512);
    }
    all_native(DOUBLES.iter().chain(&INTEGERS), SimdIsa::Avx2);
    if is_x86_feature_detected!("f16c") {
        all_native(&FLOATS, SimdIsa::Avx2);
    }
}

/// Programs that multiply through `wmma` have no gathers of elements of their tiles.
#[test]
fn tiles_are_moved_line_by_line() {
    let text = include_str!("../../../bench/kernels/programs/tensor_wmma.ptx");
    for (name, kernel) in inspect(text).expect("PTX") {
        let kernel = kernel.expect("a kernel").kernel.entry;
        let summary = simt_jit::summary(&kernel, SimdIsa::Avx512).expect("native code");
        assert!(summary.interpreted.is_empty(), "{name}: {:?}", summary.interpreted);
        let listing = simt_jit::listing(&kernel, SimdIsa::Avx512).expect("native code");
        let full = listing.split("masked b").next().expect("full clones");
        assert!(!full.contains("gather"), "{name}:\n{full}");
    }
}
