//! Any words as every request and reply: `cargo +nightly fuzz run channel_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| channel::oracle::payload(&channel::oracle::words_of(bytes)));
