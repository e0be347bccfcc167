//! What the sample programs share: options, a common start, the timed loop, checking and the
//! report.
//!
//! The samples are ordinary CUDA programs, written on the crate `cudarc` as any user of it would.
//! They deliberately know nothing of how the driver below them is provided: they load the
//! `libcuda.so` that the machine has.
//!
//! Invariants: what a sample computes depends on its options alone, never on time or on the device;
//! so its checksum is the same wherever and however often it runs, and a process exits with 0 only
//! if its results were right.

pub mod check;
pub mod driver;
pub mod gpu;
pub mod kernels;
pub mod memory;
pub mod options;
pub mod random;
pub mod reference;
pub mod report;
pub mod sample;
pub mod start;

pub use check::Check;
pub use gpu::Gpu;
pub use options::{NoExtra, Options};
pub use random::Random;
pub use sample::{Sample, main};

/// The PTX of each file in `samples/kernels`, as committed.
pub mod ptx {
    /// `fill`, `add_to_neighbour`, `count_there`.
    pub const PEERS: &str = include_str!("../kernels/peers.ptx");
    /// `vector_add`.
    pub const VECTOR_ADD: &str = include_str!("../kernels/vector_add.ptx");
    /// `matrix_multiply`.
    pub const MATRIX_MULTIPLY: &str = include_str!("../kernels/matrix_multiply.ptx");
    /// `reduce`.
    pub const REDUCTION: &str = include_str!("../kernels/reduction.ptx");
    /// `histogram_shared`, `histogram_global`.
    pub const HISTOGRAM: &str = include_str!("../kernels/histogram.ptx");
    /// `n_body_step`.
    pub const N_BODY: &str = include_str!("../kernels/n_body.ptx");
    /// `dense`, `softmax_classify`.
    pub const MLP: &str = include_str!("../kernels/mlp.ptx");
    /// `conv3x3_relu`, `max_pool2`, `fully_connected`, `softmax`.
    pub const CONVNET: &str = include_str!("../kernels/convnet.ptx");
    /// `spin_steps`, `spin_clock`, `spin_until`, `spin_forever`.
    pub const SPIN: &str = include_str!("../kernels/spin.ptx");
    /// `mandelbrot`.
    pub const MANDELBROT: &str = include_str!("../kernels/mandelbrot.ptx");
    /// `scan_parts`, `scan_totals`, `add_offsets`, `bitonic_sort`.
    pub const SCAN: &str = include_str!("../kernels/scan.ptx");
    /// `print_conversions`, `print_threads`.
    pub const PRINTF: &str = include_str!("../kernels/printf.ptx");
    /// `write_word`, `read_word`, `trap_now`.
    pub const FAULT: &str = include_str!("../kernels/fault.ptx");
    /// `polynomial`, `sum_table`; variables `coefficients`, `degree`, `table`, `table_end`,
    /// `calls`, `scratch`.
    pub const GLOBALS: &str = include_str!("../kernels/globals.ptx");
    /// `mix`.
    pub const PIPELINE: &str = include_str!("../kernels/pipeline.ptx");
    /// The small kernels of the API tour.
    pub const TOUR: &str = include_str!("../kernels/tour.ptx");
}

#[cfg(test)]
mod tests {
    use super::ptx::*;

    /// Each text and the kernels that the programs look for in it.
    const TEXTS: &[(&str, &[&str])] = &[
        (PEERS, &["fill", "add_to_neighbour", "count_there"]),
        (VECTOR_ADD, &["vector_add"]),
        (MATRIX_MULTIPLY, &["matrix_multiply"]),
        (REDUCTION, &["reduce"]),
        (HISTOGRAM, &["histogram_shared", "histogram_global"]),
        (N_BODY, &["n_body_step"]),
        (MLP, &["dense", "softmax_classify"]),
        (CONVNET, &["conv3x3_relu", "max_pool2", "fully_connected", "softmax"]),
        (SPIN, &["spin_steps", "spin_clock", "spin_until", "spin_forever"]),
        (MANDELBROT, &["mandelbrot"]),
        (SCAN, &["scan_parts", "scan_totals", "add_offsets", "bitonic_sort"]),
        (PRINTF, &["print_conversions", "print_threads"]),
        (FAULT, &["write_word", "read_word", "trap_now"]),
        (GLOBALS, &["polynomial", "sum_table"]),
        (PIPELINE, &["mix"]),
        (TOUR, &["nothing", "fill", "slow_write", "wait_flag", "parameters", "bounded"]),
    ];

    #[test]
    fn the_committed_ptx_has_the_kernels_and_nothing_of_the_machine_it_was_made_on() {
        for (text, kernels) in TEXTS {
            assert!(text.contains("\n.version 9.0\n.target sm_80\n"));
            for kernel in *kernels {
                assert!(text.contains(&format!(".visible .entry {kernel}(")), "{kernel}");
            }
            // Line information would bring paths.
            assert!(
                !text.contains(".file") && !text.contains("/home/") && !text.contains("/root/")
            );
        }
    }
}
