//! Prints the random program of a seed: `cargo run -p ptx-reference --example program [--strict] SEED`.

use ptx_reference::generate::Program;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let strict = arguments.next_if(|argument| argument == "--strict").is_some();
    match arguments.next().and_then(|seed| seed.parse().ok()) {
        Some(seed) if strict => print!("{}", Program::strict(seed).text()),
        Some(seed) => print!("{}", Program::new(seed).text()),
        None => eprintln!("usage: program [--strict] SEED"),
    }
}
