//! `openmps ptx dump`: the stages on PTX's way to what runs.

use super::{native_isa, read, source};
use anyhow::{Context, Result, bail};
use simt::inspect::{self, dump};
use simt::kernel::Dim3;
use simt::launch_shape::LaunchShape;
use simt_jit::CodeStage;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show a stage of compilation as text
///
/// parse: the PTX as it was understood, names resolved. ir: what one thread does, after all
/// passes. vector: what a warp does, 32 threads at a time; the interpreter runs this. Of native code,
/// for AVX-512 or AVX2 as OPENMPS_SOFT_SIMD or the processor says: intervals, through which
/// instructions each value must be kept; allocation, which machine registers it gets; schedule, the
/// order of instructions; asm, the code itself.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps ptx dump kernel.ptx
  openmps ptx dump --stage ir --kernel saxpy ./program")]
pub(crate) struct Arguments {
    /// Which stage
    #[arg(long, value_enum, default_value_t = Stage::Vector)]
    stage: Stage,
    /// Only this kernel, by its name in the PTX (C++ names are mangled)
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Extents of the blocks for which vector code is made; native code shown is for all
    #[arg(
        long,
        value_name = "X[,Y[,Z]]",
        value_delimiter = ',',
        num_args = 1,
        default_value = "256"
    )]
    block: Vec<u32>,
    /// PTX text, fatbin, program or library; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Most threads of a block, on every device.
const BLOCK_THREADS_MAX: u64 = 1024;

#[derive(Clone, Copy, clap::ValueEnum)]
enum Stage {
    Parse,
    Ir,
    Vector,
    Intervals,
    Allocation,
    Schedule,
    Asm,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let wanted = arguments.kernel.as_deref();
    let stage = match arguments.stage {
        Stage::Parse => Some(inspect::Stage::Parse),
        Stage::Ir => Some(inspect::Stage::Ir),
        Stage::Vector => Some(inspect::Stage::Vector(launch_shape(&arguments.block)?)),
        Stage::Intervals | Stage::Allocation | Stage::Schedule | Stage::Asm => None,
    };
    let code = match arguments.stage {
        Stage::Intervals => Some(CodeStage::Intervals),
        Stage::Allocation => Some(CodeStage::Allocation),
        Stage::Schedule => Some(CodeStage::Schedule),
        _ => None,
    };
    let texts = read(&arguments.file).map_err(|error| error.context(file.to_string()))?;
    let mut shown = String::new();
    for text in &texts {
        let dumped = match stage {
            Some(stage) => dump(&source(text), wanted, stage)?,
            None => native(&source(text), wanted, code)?,
        };
        let Some(dumped) = dumped else { continue };
        if let Some(architecture) = &text.architecture {
            shown += &format!("// {architecture}\n");
        }
        shown += &dumped;
    }
    if let Some(name) = wanted
        && shown.is_empty()
    {
        bail!("{file} has no kernel called {name}; `openmps ptx check {file}` lists them");
    }
    crate::output::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}

/// Native code of the kernels, or of the one that is wanted, or a stage on the way there; `None` if
/// the kernel is not in the text.
fn native(text: &str, wanted: Option<&str>, stage: Option<CodeStage>) -> Result<Option<String>> {
    let isa = native_isa().context("this processor has no native code")?;
    let mut shown = None;
    for (name, kernel) in inspect::inspect(text)? {
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let function = kernel?.kernel.entry;
        let listing = match stage {
            Some(stage) => Some(simt_jit::stage(&function, isa, stage)),
            None => simt_jit::listing(&function, isa),
        };
        let listing = listing.with_context(|| format!("{name} is interpreted: no native code"))?;
        shown.get_or_insert_with(String::new).push_str(&listing);
    }
    Ok(shown)
}

/// The shape of launches of one block with these extents.
fn launch_shape(block: &[u32]) -> Result<LaunchShape> {
    let (x, y, z) = match *block {
        [x] => (x, 1, 1),
        [x, y] => (x, y, 1),
        [x, y, z] => (x, y, z),
        _ => bail!("--block has one, two or three extents, not {}", block.len()),
    };
    let threads = [x, y, z].map(u64::from).iter().try_fold(1, |all, n| n.checked_mul(all));
    if !threads.is_some_and(|threads| (1..=BLOCK_THREADS_MAX).contains(&threads)) {
        bail!("--block {x},{y},{z}: a block has 1 to {BLOCK_THREADS_MAX} threads");
    }
    let one = Dim3 { x: 1, y: 1, z: 1 };
    Ok(LaunchShape::of(one, Dim3 { x, y, z }))
}
