//! `cargo bench -p simt-jit --bench compile`: how long PTX takes to become vector code and native code.
//!
//! The kernels of `bench/kernels`, and kernels of shapes that make compilers slow, each with a number of
//! pieces (`-- 2000`), twice and four times as many: what is linear takes twice as long each time.
//! Native code is not made of what is too large for it; its column is empty then.

use simt_jit::SimdIsa;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pieces of the smallest kernels.
const PIECES: usize = 2000;
/// Times that a kernel is compiled; the shortest counts.
const TURNS: usize = 5;

/// A piece of a kernel's text, by its number and how many there are.
type Piece = fn(&mut String, usize, usize) -> std::fmt::Result;

/// Kernels of many pieces: what is said once for each, and then once for each again.
const SHAPES: [(&str, Piece, Piece); 10] = [
    ("loops", one_loop, nothing),
    ("loops that lanes leave one by one", divergent_loop, nothing),
    ("loops inside each other", open_loop, close_loop),
    ("branches of all lanes", uniform_if, nothing),
    ("branches of some lanes", divergent_if, nothing),
    ("branches inside each other", open_if, close_if),
    ("cases that are compared", compare, case),
    ("cases of a table", table, case),
    ("barriers", barrier, nothing),
    ("straight code", multiply, nothing),
];

fn nothing(_: &mut String, _: usize, _: usize) -> std::fmt::Result {
    Ok(())
}

fn one_loop(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    write!(out, "mov.u32 %i, 0; L{n}: add.u32 %sum, %sum, %i; add.u32 %i, %i, 1;")?;
    writeln!(out, "setp.lt.u32 %p, %i, %same; @%p bra L{n};")
}

fn divergent_loop(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    write!(out, "mov.u32 %i, 0; L{n}: add.u32 %sum, %sum, %i; add.u32 %i, %i, 1;")?;
    writeln!(out, "setp.lt.u32 %p, %i, %own; @%p bra L{n};")
}

fn open_loop(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    writeln!(out, ".reg .u32 %i{n}; mov.u32 %i{n}, 0; L{n}: add.u32 %sum, %sum, %i{n};")
}

fn close_loop(out: &mut String, n: usize, all: usize) -> std::fmt::Result {
    let n = all - 1 - n;
    writeln!(out, "add.u32 %i{n}, %i{n}, 1; setp.lt.u32 %p, %i{n}, %same; @%p bra L{n};")
}

fn uniform_if(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    writeln!(out, "setp.gt.u32 %p, %same, {n}; @%p bra L{n}; st.global.u32 [%at], %sum; L{n}:")
}

fn divergent_if(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    writeln!(out, "setp.gt.u32 %p, %own, {n}; @%p bra L{n}; st.global.u32 [%at], %sum; L{n}:")
}

fn open_if(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    writeln!(out, "setp.gt.u32 %p, %own, {n}; @%p bra L{n}; add.u32 %sum, %sum, {n};")
}

fn close_if(out: &mut String, n: usize, all: usize) -> std::fmt::Result {
    writeln!(out, "L{}: add.u32 %sum, %sum, %own;", all - 1 - n)
}

fn compare(out: &mut String, n: usize, all: usize) -> std::fmt::Result {
    let last = if n + 1 == all { "bra DONE;" } else { "" };
    writeln!(out, "setp.eq.u32 %p, %own, {n}; @%p bra L{n}; {last}")
}

fn table(out: &mut String, n: usize, all: usize) -> std::fmt::Result {
    let first = if n == 0 { "T: .branchtargets " } else { ", " };
    let last = if n + 1 == all { "; brx.idx %own, T;\n" } else { "" };
    write!(out, "{first}L{n}{last}")
}

fn case(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    writeln!(out, "L{n}: add.u32 %sum, %own, {n}; bra DONE;")
}

fn barrier(out: &mut String, _: usize, _: usize) -> std::fmt::Result {
    writeln!(out, "bar.sync 0; ld.global.u32 %sum, [%at + 4]; st.global.u32 [%at], %sum;")
}

fn multiply(out: &mut String, n: usize, _: usize) -> std::fmt::Result {
    writeln!(out, "mad.lo.u32 %sum, %sum, %own, {n};")
}

fn kernel(first: Piece, second: Piece, pieces: usize) -> String {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry k(.param .u64 to, .param .u32 number) {\n\
        .reg .pred %p; .reg .u32 %i, %sum, %same, %own; .reg .u64 %at, %offset;\n\
        ld.param.u64 %at, [to]; ld.param.u32 %same, [number]; mov.u32 %own, %tid.x;\n\
        mul.wide.u32 %offset, %own, 4; add.u64 %at, %at, %offset;\n\
        ld.global.u32 %own, [%at]; mov.u32 %sum, 0;\n"
        .to_owned();
    for piece in [first, second] {
        for n in 0..pieces {
            piece(&mut text, n, pieces).expect("writing to a string");
        }
    }
    text + "DONE: st.global.u32 [%at], %sum; ret;\n}\n"
}

/// How long a module's kernels take to become vector code, and native code if they do.
fn measure(text: &str, turns: usize) -> (Duration, Option<Duration>) {
    let isa = SimdIsa::choose(None);
    let turn = || {
        let kernels = simt::inspect::inspect(text).unwrap_or_else(|e| panic!("{e}"));
        let kernels =
            kernels.into_iter().map(|(_, kernel)| kernel.unwrap_or_else(|e| panic!("{e}")));
        let (mut vector, mut native) = (Duration::ZERO, Some(Duration::ZERO));
        for kernel in kernels {
            vector += kernel.elapsed;
            let start = Instant::now();
            let made = isa.and_then(|f| simt_jit::summary(&kernel.kernel.entry, f));
            native = native.filter(|_| made.is_some()).map(|sum| sum + start.elapsed());
        }
        (vector, native)
    };
    let times: Vec<_> = (0..turns).map(|_| turn()).collect();
    let vector = times.iter().map(|(vector, _)| *vector).min().unwrap_or_default();
    (vector, times.iter().filter_map(|(_, native)| *native).min())
}

fn row(name: &str, pieces: Option<usize>, (vector, native): (Duration, Option<Duration>)) {
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let pieces = pieces.map_or(String::new(), |n| n.to_string());
    println!("{name:34} {pieces:>6} {:>9} {:>9}", ms(vector), native.map_or(String::new(), ms));
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    println!("{:34} {:>6} {:>9} {:>9}", "KERNEL", "PIECES", "VECTOR ms", "NATIVE ms");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels/programs");
    let files = std::fs::read_dir(&programs).unwrap_or_else(|e| panic!("{programs:?}: {e}"));
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        row(&name, None, measure(&text, TURNS));
    }
    for (name, first, second) in SHAPES {
        for pieces in [1, 2, 4].map(|times| times * wanted.unwrap_or(PIECES)) {
            row(name, Some(pieces), measure(&kernel(first, second, pieces), 1));
        }
    }
}
