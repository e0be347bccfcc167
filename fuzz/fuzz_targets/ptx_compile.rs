//! Any text as PTX, compiled as far as native code: `cargo +nightly fuzz run ptx_compile`. Good seeds:
//! `samples/kernels/*.ptx`.
#![no_main]

use simt::inspect::inspect;
use simt_jit::Flavour;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let kernels = inspect(text).into_iter().flatten();
    for kernel in kernels.filter_map(|(_, kernel)| kernel.ok()) {
        for flavour in [Flavour::Avx512, Flavour::Avx2] {
            let _ = simt_jit::summary(&kernel.kernel.entry, flavour);
        }
    }
});
