//! Any text as PTX, compiled as far as native code: `cargo +nightly fuzz run ptx_compile`. Good seeds:
//! `samples/kernels/*.ptx`.
#![no_main]

use simt::inspect::inspect;
use simt_jit::SimdIsa;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let kernels = inspect(text).into_iter().flatten();
    for kernel in kernels.filter_map(|(_, kernel)| kernel.ok()) {
        for isa in [SimdIsa::Avx512, SimdIsa::Avx2] {
            let _ = simt_jit::summary(&kernel.kernel.entry, isa);
        }
    }
});
