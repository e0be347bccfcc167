//! The interpreter's tests once more, on native code and on kernels that move up to it.

#[path = "filetests/approximations.rs"]
mod approximations;
#[path = "filetests/bounded.rs"]
mod bounded;
#[path = "filetests/checks.rs"]
mod checks;
#[path = "filetests/emitted.rs"]
mod emitted;
#[path = "filetests/factors.rs"]
mod factors;
#[path = "../../simt-interpreter/tests/filetests/forms.rs"]
mod forms;
#[path = "../../simt-interpreter/tests/filetests/formulas.rs"]
mod formulas;
#[path = "../../simt-interpreter/tests/filetests/harness.rs"]
mod harness;
#[path = "../../simt-interpreter/tests/filetests/kinds.rs"]
mod kinds;
#[path = "filetests/limits.rs"]
mod limits;
#[path = "../../simt-interpreter/tests/filetests/locks.rs"]
mod locks;
#[path = "../../simt-interpreter/tests/filetests/lockstep.rs"]
mod lockstep;
#[path = "filetests/loops.rs"]
mod loops;
#[path = "../../simt-interpreter/tests/filetests/matrix.rs"]
mod matrix;
#[path = "filetests/neighbours.rs"]
mod neighbours;
#[path = "../../simt-interpreter/tests/filetests/operands/mod.rs"]
mod operands;
#[path = "filetests/permuted.rs"]
mod permuted;
#[path = "filetests/products.rs"]
mod products;
#[path = "../../simt-interpreter/tests/filetests/programs.rs"]
mod programs;
#[path = "../../simt-interpreter/tests/filetests/properties.rs"]
mod properties;
#[path = "../../simt-interpreter/tests/filetests/random.rs"]
mod random;
#[path = "../../simt-interpreter/tests/filetests/record.rs"]
mod record;
#[path = "filetests/relative.rs"]
mod relative;
#[path = "filetests/rounding.rs"]
mod rounding;
#[path = "filetests/scattered.rs"]
mod scattered;
#[path = "filetests/serial.rs"]
mod serial;
#[path = "filetests/signed.rs"]
mod signed;
#[path = "../../simt-interpreter/tests/filetests/sparse.rs"]
mod sparse;
#[path = "../../simt-interpreter/tests/filetests/tensor_copy.rs"]
mod tensor_copy;
#[path = "../../simt-interpreter/tests/filetests/texture.rs"]
mod texture;
#[path = "../../simt-interpreter/tests/filetests/texture_random.rs"]
mod texture_random;
#[path = "filetests/threads.rs"]
mod threads;
#[path = "../../simt-interpreter/tests/filetests/throughput.rs"]
mod throughput;
#[path = "filetests/tiers.rs"]
mod tiers;
#[path = "filetests/together.rs"]
mod together;
#[path = "filetests/warm.rs"]
mod warm;
#[path = "../../simt-interpreter/tests/filetests/wgmma.rs"]
mod wgmma;
