//! Any words as the content of a ring: `cargo +nightly fuzz run channel_records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| channel::oracle::records(&channel::oracle::words_of(bytes)));
