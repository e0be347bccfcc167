//! Output from kernels: the program catches its own standard output while the kernels run, compares
//! what arrived with what C's `printf` would have written, and prints it.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::fd::AsFd,
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    stdio::dup2_stdout,
};
use samples::{
    Check, Gpu, Options,
    gpu::{failed, shape},
    kernels,
    report::say,
    start,
};

/// Prints from kernels and checks what arrives.
#[derive(Parser)]
#[command(name = "printf")]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

const THREADS: u32 = 32;

/// What `print_conversions(-1234, 3.140625, 0x123456789abcdef0)` writes.
const CONVERSIONS: &str = "\
plain text with 100%
int -1234, padded [ -1234], left [-1234 ], zeros [-01234], sign [-1234]
unsigned 4294966062, hex fffffb2e, HEX FFFFFB2E, octal 37777775456
long long 1311768467463790320, hex 123456789abcdef0
real 3.140625, short [   3.141], exponent 3.140625e+00, general 3.14062
char x, string kernel, padded [     right]
";

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments.options) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(complaint)) => {
            eprintln!("printf: wrong result: {complaint}");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("printf: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<Option<String>> {
    let gpu = Gpu::open(options)?;
    let kernels = kernels::Printf::load(&gpu)?;
    let blocks = options.blocks.unwrap_or(2);
    start::wait(options)?;

    ensure!(options.seconds.is_none_or(|seconds| seconds > 0.0), "--seconds must be positive");
    let until = start::Until::new(options);
    let bounded = options.seconds.is_some() || options.until.is_some();
    let wanted = options.iterations.unwrap_or(if bounded { u64::MAX } else { 1 });
    let begin = Instant::now();
    let mut iterations = 0;
    let (printed, check) = loop {
        let printed = Printed::by(&gpu, &kernels, blocks)?;
        let check = printed.check(blocks);
        iterations += 1;
        let last = iterations >= wanted
            || options.seconds.is_some_and(|seconds| begin.elapsed().as_secs_f64() >= seconds)
            || until.reached()?;
        if last || !check.passed() {
            break (printed, check);
        }
    };

    if options.json {
        let line = serde_json::json!({
            "sample": "printf",
            "iterations": iterations,
            "kernels": 2 * iterations,
            "verified": check.passed(),
            "checksum": check.checksum(),
        });
        say(line);
    } else {
        say(printed.ordered.trim_end());
        say(format_args!(
            "{} lines of {} threads",
            printed.unordered.lines().count(),
            blocks * THREADS
        ));
        say(format_args!("verified {}", if check.passed() { "yes" } else { "NO" }));
        say(format_args!("checksum {}", check.checksum()));
    }
    Ok(check.complaint())
}

/// What the kernels have printed in one iteration.
struct Printed {
    /// By one thread.
    ordered: String,
    /// By many threads, a line each.
    unordered: String,
}

impl Printed {
    fn by(gpu: &Gpu, kernels: &kernels::Printf, blocks: u32) -> Result<Self> {
        let (number, real, large) = (-1234, 3.140625, 0x1234_5678_9abc_def0);
        let ordered = captured(|| {
            kernels.print_conversions(&gpu.stream, shape(1, 1, 0), &number, &real, &large)?;
            gpu.stream.synchronize().map_err(failed)
        })?;
        let unordered = captured(|| {
            kernels.print_threads(&gpu.stream, shape(blocks, THREADS, 0))?;
            gpu.context.synchronize().map_err(failed)
        })?;
        Ok(Self { ordered, unordered })
    }

    fn check(&self, blocks: u32) -> Check {
        let mut lines: Vec<&str> = self.unordered.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<String> = (0..blocks)
            .flat_map(|block| (0..THREADS).map(move |t| format!("block {block} thread {t}")))
            .collect();
        expected.sort_unstable();
        let mut check = Check::default();
        check.equal("byte", self.ordered.as_bytes(), CONVERSIONS.as_bytes());
        check.equal("byte", lines.join("\n").as_bytes(), expected.join("\n").as_bytes());
        check
    }
}

/// What is written to this process's standard output, by any means, while `work` runs.
fn captured(work: impl FnOnce() -> Result<()>) -> Result<String> {
    std::io::stdout().flush()?;
    flush_c_streams();
    let mut file = File::from(memfd_create("printf", MemfdFlags::CLOEXEC).context("memfd_create")?);
    let before = std::io::stdout().as_fd().try_clone_to_owned().context("standard output")?;
    dup2_stdout(&file).context("standard output")?;
    let result = work();
    flush_c_streams();
    dup2_stdout(before).context("standard output")?;
    result?;

    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text).context("the output is not text")?;
    Ok(text)
}

/// A driver may print through C's buffered streams.
fn flush_c_streams() {
    // SAFETY: a null pointer means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}
