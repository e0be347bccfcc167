//! Prints the random program of a seed: `cargo run -p ptx-reference --example program SEED`.

fn main() {
    match std::env::args().nth(1).and_then(|seed| seed.parse().ok()) {
        Some(seed) => print!("{}", ptx_reference::generate::Program::new(seed).text()),
        None => eprintln!("usage: program SEED"),
    }
}
