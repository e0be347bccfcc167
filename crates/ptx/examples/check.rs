//! Reads and checks PTX files: what is wrong with each, and how fast it was.
//!
//! `cargo run --release -p ptx --example check -- FILE...`

use std::time::Instant;

fn main() {
    let (mut files, mut failed, mut bytes) = (0u32, 0u32, 0usize);
    let (mut parse_s, mut check_s) = (0.0, 0.0);
    for path in std::env::args().skip(1) {
        let Ok(source) = std::fs::read(&path) else {
            eprintln!("{path}: cannot be read");
            failed += 1;
            continue;
        };
        files += 1;
        bytes += source.len();
        let start = Instant::now();
        let module = ptx::parse_bytes(&source);
        parse_s += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let result = module.and_then(|module| ptx::check(&module));
        check_s += start.elapsed().as_secs_f64();
        match result {
            Ok(warnings) => warnings.iter().for_each(|warning| println!("{path}: {warning}")),
            Err(errors) => {
                failed += 1;
                println!("{path}:\n{errors}");
            }
        }
    }
    let rate = |seconds: f64| bytes as f64 / seconds.max(1e-9) / 1e6;
    println!(
        "{files} files, {failed} failed, {bytes} bytes; parse {:.0} MB/s, check {:.0} MB/s",
        rate(parse_s),
        rate(check_s)
    );
    std::process::exit(i32::from(failed > 0));
}
