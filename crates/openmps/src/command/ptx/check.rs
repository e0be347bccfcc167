//! `openmps ptx check`: which kernels the software GPU accepts, and what they need.

use super::{native_isa, read, source};
use anyhow::Result;
use serde::Serialize;
use simt::inspect::{Inspected, inspect};
use simt::ir::vector::VectorFunction;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Tell for each kernel whether the software GPU runs it, and what it needs
///
/// A kernel is accepted if every instruction that it can reach is supported; one that is not
/// still loads, and faults when it reaches that instruction. The status is 1 if a kernel was not
/// accepted or a file could not be used.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps ptx check kernel.ptx
  openmps ptx check ./program libkernels.so
  nvcc --ptx -o - kernel.cu | openmps ptx check -
  openmps ptx check --json *.ptx | jq -r '.files[].kernels[] | select(.accepted | not) | .name'

REGS is estimated: 32-bit registers a thread. SHARED is static, in bytes a block; LOCAL in bytes
a thread. CODE is the size of the native code, in bytes; a kernel without it stays interpreted.
NATIVE is the share of its instructions that have such code; the interpreter runs the others for
it, which takes longer: they are named below the kernel, with how many there are of each.")]
pub(crate) struct Arguments {
    /// PTX text, fatbin, program or library; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    file: String,
    /// Why the file could not be used, wholly or in part.
    error: Option<String>,
    kernels: Vec<Kernel>,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    /// `compute_80`: which of a fatbin's texts it is in.
    architecture: Option<String>,
    accepted: bool,
    /// The first instruction that is not supported, as written.
    unsupported: Option<String>,
    /// Its line.
    line: Option<u32>,
    /// Why it cannot be compiled at all.
    error: Option<String>,
    #[serde(flatten)]
    needs: Option<Needs>,
}

#[derive(Serialize)]
struct Needs {
    registers: u32,
    shared_bytes: u32,
    local_bytes: u32,
    const_bytes: u32,
    param_bytes: u32,
    threads_per_block_max: u32,
    /// Of the vector code.
    code_instructions: usize,
    #[serde(flatten)]
    native: Option<Native>,
    compile_ms: f64,
}

/// What there is of a kernel's native code.
#[derive(Serialize)]
struct Native {
    code_bytes: usize,
    /// Instructions of the vector code that have native code.
    native_instructions: usize,
    /// The others, with how many there are of each.
    interpreted: BTreeMap<String, usize>,
    /// Those that are interpreted only where some lanes of a warp run without the others.
    interpreted_apart: BTreeMap<String, usize>,
}

impl Native {
    /// All of the function's.
    fn instructions(&self) -> usize {
        self.native_instructions + self.interpreted.values().sum::<usize>()
    }

    fn of(function: &VectorFunction) -> Option<Self> {
        let found = simt_jit::summary(function, native_isa()?)?;
        let interpreted: usize = found.interpreted.values().sum();
        Some(Self {
            code_bytes: found.code_bytes,
            native_instructions: simt::inspect::instructions(function) - interpreted,
            interpreted: found.interpreted,
            interpreted_apart: found.interpreted_apart,
        })
    }
}

impl Needs {
    fn of(kernel: &Inspected) -> Self {
        let native = Instant::now();
        let code = Native::of(&kernel.kernel.entry);
        let native = native.elapsed();
        let info = kernel.info();
        Self {
            registers: info.registers,
            shared_bytes: info.shared_bytes,
            local_bytes: info.local_bytes,
            const_bytes: info.const_bytes,
            param_bytes: info.param_bytes,
            threads_per_block_max: info.max_threads_per_block,
            code_instructions: kernel.instructions(),
            native: code,
            compile_ms: (kernel.elapsed + native).as_secs_f64() * 1e3,
        }
    }
}

impl File {
    fn check(path: &std::path::Path) -> Self {
        let mut file = Self { file: path.display().to_string(), error: None, kernels: Vec::new() };
        let texts = match read(path) {
            Ok(texts) => texts,
            Err(error) => {
                file.error = Some(format!("{error:#}"));
                return file;
            }
        };
        for text in &texts {
            match inspect(&source(text)) {
                Ok(kernels) => {
                    let architecture = &text.architecture;
                    file.kernels.extend(
                        kernels
                            .into_iter()
                            .map(|(name, kernel)| Kernel::new(name, architecture.clone(), kernel)),
                    );
                }
                Err(error) => {
                    // The first finding is reason enough; the others often follow from it.
                    let first = error.log.lines().next().unwrap_or_default();
                    file.error.get_or_insert_with(|| match &text.architecture {
                        Some(architecture) => format!("{architecture}: {first}"),
                        None => first.to_owned(),
                    });
                }
            }
        }
        file
    }

    fn good(&self) -> bool {
        self.error.is_none() && self.kernels.iter().all(|kernel| kernel.accepted)
    }

    fn table(&self, out: &mut String) {
        let _ = writeln!(out, "{}", self.file);
        if let Some(error) = &self.error {
            let _ = writeln!(out, "  {error}");
        }
        if self.kernels.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "  {:>5} {:>7} {:>7} {:>7} {:>6} {:>10}  KERNEL",
            "REGS", "SHARED", "LOCAL", "CODE", "NATIVE", "COMPILE"
        );
        for kernel in &self.kernels {
            kernel.row(out);
        }
    }
}

impl Kernel {
    fn new(
        name: String,
        architecture: Option<String>,
        kernel: Result<Inspected, simt::CompileError>,
    ) -> Self {
        let refused = Self {
            name,
            architecture,
            accepted: false,
            unsupported: None,
            line: None,
            error: None,
            needs: None,
        };
        match kernel {
            Err(error) => Self { error: Some(error.log), ..refused },
            Ok(kernel) => {
                let (unsupported, line) =
                    kernel.unsupported().map(|found| (found.text, found.line)).unzip();
                let needs = Some(Needs::of(&kernel));
                Self { accepted: unsupported.is_none(), unsupported, line, needs, ..refused }
            }
        }
    }

    fn row(&self, out: &mut String) {
        let architecture = self.architecture.as_ref().map_or(String::new(), |a| format!(" ({a})"));
        let name = format!("{}{architecture}", self.name);
        let _ = match &self.needs {
            Some(n) => {
                let (code, share) = n.native.as_ref().map_or(("-".into(), "-".into()), |native| {
                    let share =
                        100.0 * native.native_instructions as f64 / native.instructions() as f64;
                    (native.code_bytes.to_string(), format!("{share:.0}%"))
                });
                writeln!(
                    out,
                    "  {:>5} {:>7} {:>7} {code:>7} {share:>6} {:>7.2} ms  {name}",
                    n.registers, n.shared_bytes, n.local_bytes, n.compile_ms
                )
            }
            None => {
                writeln!(
                    out,
                    "  {:>5} {:>7} {:>7} {:>7} {:>6} {:>10}  {name}",
                    "-", "-", "-", "-", "-", "-"
                )
            }
        };
        if let Some(native) = self.needs.as_ref().and_then(|needs| needs.native.as_ref())
            && !native.interpreted.is_empty()
        {
            let named = native.interpreted.iter().map(|(name, count)| format!("{count} {name}"));
            let named: Vec<String> = named.collect();
            let _ = writeln!(out, "        interpreted: {}", named.join(", "));
        }
        let _ = match (&self.unsupported, &self.error) {
            (Some(text), _) => {
                let line = self.line.unwrap_or(0);
                writeln!(out, "        not accepted: line {line}: `{text}` is not supported")
            }
            (None, Some(error)) => writeln!(out, "        not accepted: {error}"),
            (None, None) => Ok(()),
        };
    }
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let report = Report { files: arguments.files.iter().map(|file| File::check(file)).collect() };
    let good = report.files.iter().all(File::good);
    let text = if arguments.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        let mut text = String::new();
        report.files.iter().for_each(|file| file.table(&mut text));
        let kernels = report.files.iter().flat_map(|file| &file.kernels);
        let (accepted, all) = (kernels.clone().filter(|k| k.accepted).count(), kernels.count());
        let _ = writeln!(text, "{accepted} of {all} kernels accepted");
        text
    };
    crate::output::print(&text)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
