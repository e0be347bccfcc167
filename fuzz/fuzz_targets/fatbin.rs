//! Any bytes as an image: `cargo +nightly fuzz run fatbin`. Good seeds: `crates/ptx/tests/data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ptx::fuzz_oracle::image(bytes));
