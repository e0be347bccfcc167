//! Single passes on the IR's text: what tests of passes run (`tests/passes/`).

use crate::analysis::address;
use crate::analysis::divergence;
use crate::analysis::liveness::Liveness;
use crate::ir::Function;
use crate::ir::text::{ReadError, read_simt, read_vector};
use crate::ir::vector::Mode;
use crate::launch_shape::LaunchShape;
use crate::pipeline::Prepared;
use crate::transform::{
    block_layout, dce, group_mma_by_accumulator, loop_exit_copies, mask_to_shifts, mem2reg,
    simplify_cfg, split_at_guards,
};

/// Why a pass was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassError {
    /// There is none of this name.
    Unknown(String),
    /// The text is no function's.
    Text(ReadError),
}

impl std::fmt::Display for PassError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "no pass is called `{name}`"),
            Self::Text(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for PassError {}

/// Runs the pass of a name on a function of the SIMT IR, for launches of a shape; what becomes of it, as
/// text. `read` is no pass; `vectorize` gives the vector IR, in lockstep form, `independent` in the other. The
/// text of `addresses` is a function of the vector IR; it says what is known of its addresses.
///
/// # Errors
/// There is no such pass, or the text is no function's.
pub fn run(name: &str, text: &str, shape: LaunchShape) -> Result<String, PassError> {
    if name == "addresses" {
        let mut f = read_vector(text).map_err(PassError::Text)?;
        address::annotate(&mut f);
        return Ok(f.to_string());
    }
    let mut f = read_simt(text).map_err(PassError::Text)?;
    match name {
        "read" => {}
        "simplify_cfg" => simplify_cfg::run(&mut f),
        "mem2reg" => mem2reg::run(&mut f),
        "dce" => dce::run(&mut f),
        "mask_to_shifts" => mask_to_shifts::run(&mut f),
        "block_layout" => block_layout::run(&mut f),
        "group_mma_by_accumulator" => group_mma_by_accumulator::run(&mut f),
        "loop_exit_copies" => {
            let (liveness, shapes) = analysed(&f, shape);
            loop_exit_copies::run(&mut f, liveness, shapes, shape);
        }
        "split_at_guards" => {
            let (_, shapes) = analysed(&f, shape);
            split_at_guards::run(&mut f, &shapes);
        }
        "vectorize" | "independent" => {
            let (offsets, frame_bytes) = mem2reg::place_frame(&mut f);
            let prepared = Prepared { function: f, offsets, frame_bytes };
            let mode = if name == "vectorize" { Mode::Lockstep } else { Mode::Independent };
            return Ok(prepared.shaped(shape).vectorized(mode).to_string());
        }
        _ => return Err(PassError::Unknown(name.to_owned())),
    }
    Ok(f.to_string())
}

fn analysed(f: &Function, shape: LaunchShape) -> (Liveness, divergence::Shapes) {
    let liveness = Liveness::of(f);
    let shapes = divergence::analyse(f, &liveness, shape);
    (liveness, shapes)
}
