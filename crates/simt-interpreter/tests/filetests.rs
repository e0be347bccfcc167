//! Tests of the engine without a device: PTX in, results out, in this process and thread.
//!
//! `*.forms` are tables of single instructions (see `forms`), `*.ptx` are whole programs with
//! their runs in comments (see `programs`). Tests of other tiers include these modules with
//! `tiers` of their own.

#[path = "filetests/forms.rs"]
mod forms;
#[path = "filetests/formulas.rs"]
mod formulas;
#[path = "filetests/harness.rs"]
mod harness;
#[path = "filetests/kinds.rs"]
mod kinds;
#[path = "filetests/locks.rs"]
mod locks;
#[path = "filetests/lockstep.rs"]
mod lockstep;
#[path = "filetests/matrix.rs"]
mod matrix;
#[path = "filetests/operands/mod.rs"]
mod operands;
#[path = "filetests/programs.rs"]
mod programs;
#[path = "filetests/properties.rs"]
mod properties;
#[path = "filetests/random.rs"]
mod random;
#[path = "filetests/record.rs"]
mod record;
#[path = "filetests/sparse.rs"]
mod sparse;
#[path = "filetests/tensor_copy.rs"]
mod tensor_copy;
#[path = "filetests/texture.rs"]
mod texture;
#[path = "filetests/texture_random.rs"]
mod texture_random;
#[path = "filetests/throughput.rs"]
mod throughput;
#[path = "filetests/tiers.rs"]
mod tiers;
#[path = "filetests/wgmma.rs"]
mod wgmma;
