//! Any words as a region's header and reply, looked at by both sides: `cargo +nightly fuzz run channel_region`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| channel::oracle::region(&channel::oracle::words_of(bytes)));
