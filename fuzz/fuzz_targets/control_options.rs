//! Any words as the arguments of nvidia-cuda-mps-control, one a line: `cargo +nightly fuzz run control_options`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Err(error) = control::options::parse(text.lines().map(str::to_owned)) {
        assert!(!error.to_string().is_empty());
    }
});
