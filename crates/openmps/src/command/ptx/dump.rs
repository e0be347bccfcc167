//! `openmps ptx dump`: the stages on PTX's way to what runs.

use super::{native_flavour, read, source};
use anyhow::{Context, Result, bail};
use simt::geometry::Geometry;
use simt::inspect::{self, dump};
use simt::kernel::Dim3;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show a stage of compilation as text
///
/// parse: the PTX as it was understood, names resolved. ir: what one thread does, after all
/// passes. vector: what a warp does, 32 threads at a time; the interpreter runs this. asm: native
/// code, for AVX-512 or AVX2 as OPENMPS_SOFT_SIMD or the processor says.
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
    /// Extents of the blocks for which the vector code is made
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

#[derive(Clone, Copy, clap::ValueEnum)]
enum Stage {
    Parse,
    Ir,
    Vector,
    Asm,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let stage = match arguments.stage {
        Stage::Parse => inspect::Stage::Parse,
        Stage::Ir => inspect::Stage::Ir,
        Stage::Vector => inspect::Stage::Vector(geometry(&arguments.block)?),
        Stage::Asm => return assembly(arguments),
    };
    let texts = read(&arguments.file).map_err(|error| error.context(file.to_string()))?;
    let mut shown = String::new();
    for text in &texts {
        let Some(dumped) = dump(&source(text), arguments.kernel.as_deref(), stage)? else {
            continue;
        };
        if let Some(architecture) = &text.architecture {
            shown += &format!("// {architecture}\n");
        }
        shown += &dumped;
    }
    if let Some(name) = &arguments.kernel
        && shown.is_empty()
    {
        bail!("{file} has no kernel called {name}; `openmps ptx check {file}` lists them");
    }
    crate::output::print(&shown);
    Ok(ExitCode::SUCCESS)
}

/// Shows native code.
fn assembly(arguments: &Arguments) -> Result<ExitCode> {
    let flavour = native_flavour().context("this processor has no native code")?;
    let texts = read(&arguments.file)?;
    for text in &texts {
        for (name, kernel) in inspect::inspect(&source(text))? {
            if arguments.kernel.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            match simt_jit::listing(&kernel?.kernel.entry, flavour) {
                Some(listing) => crate::output::print(&listing),
                None => bail!("{name} has no native code: it is interpreted"),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The geometry of launches of one block with these extents.
fn geometry(block: &[u32]) -> Result<Geometry> {
    let (x, y, z) = match *block {
        [x] => (x, 1, 1),
        [x, y] => (x, y, 1),
        [x, y, z] => (x, y, z),
        _ => bail!("--block has one, two or three extents, not {}", block.len()),
    };
    let one = Dim3 { x: 1, y: 1, z: 1 };
    Ok(Geometry::of(one, Dim3 { x, y, z }))
}
