//! Any bytes as PTX text: `cargo +nightly fuzz run ptx_parse`. Good seeds: `samples/kernels/*.ptx`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ptx::fuzz_oracle::text(bytes));
