//! Kernels: for each of the samples', a function that launches it and checks what it is given.
//!
//! A row is a kernel's declaration, as in its `.cu` file: parameters in their order, and behind a buffer how many of its
//! elements the kernel uses, as a product. Why a launch is safe is so said here once, for all launches. A kernel that is
//! to use plain addresses is launched by its field, with `unsafe`.

use std::sync::Arc;

use anyhow::{Result, ensure};
use cudarc::driver::{
    CudaFunction, CudaModule, CudaSlice, CudaStream, DeviceRepr, LaunchArgs, LaunchConfig,
    PushKernelArg,
};

use crate::{
    gpu::{Gpu, failed, function},
    memory::{DeviceMemory, SharedWord},
    ptx,
    reference::Totals,
};

type Input<'a, T> = &'a CudaSlice<T>;
type Output<'a, T> = &'a mut CudaSlice<T>;
type Words<'a> = &'a DeviceMemory;

trait Buffer {
    fn elements(&self) -> usize;
}

impl<T> Buffer for CudaSlice<T> {
    fn elements(&self) -> usize {
        self.len()
    }
}

impl Buffer for DeviceMemory {
    fn elements(&self) -> usize {
        self.bytes() / 4
    }
}

// SAFETY: integers and a float without padding, laid out as the kernel's structure.
unsafe impl DeviceRepr for Totals {}

// SAFETY: the argument is the address of a word that lives as long as the reference.
unsafe impl<'a, 'b: 'a> PushKernelArg<&'b SharedWord> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, word: &'b SharedWord) -> &mut Self {
        self.arg(&word.device)
    }
}

// SAFETY: as above, of memory.
unsafe impl<'a, 'b: 'a> PushKernelArg<&'b DeviceMemory> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, memory: &'b DeviceMemory) -> &mut Self {
        self.arg(&memory.address)
    }
}

/// `threads` is the name by which the rows know how many threads a launch has.
macro_rules! kernels {
    ($threads:ident: $(
        $(#[$doc:meta])* $module:ident of $ptx:ident {$(
            $kernel:ident($($parameter:ident: $ty:ty $([$($factor:expr),+])?),*);
        )*}
    )*) => {
        $(
            $(#[$doc])*
            #[allow(missing_docs, reason = "the rows are the kernels' own declarations")]
            pub struct $module {
                pub module: Arc<CudaModule>,
                $(pub $kernel: CudaFunction,)*
            }

            #[allow(missing_docs, clippy::too_many_arguments, reason = "as the kernels have them")]
            impl $module {
                pub fn load(gpu: &Gpu) -> Result<Self> {
                    let module = gpu.load(ptx::$ptx)?;
                    Ok(Self {$($kernel: function(&module, stringify!($kernel))?,)* module})
                }

                $(pub fn $kernel(
                    &self,
                    stream: &CudaStream,
                    shape: LaunchConfig,
                    $($parameter: $ty),*
                ) -> Result<()> {
                    let $threads = threads_of(shape);
                    $($(
                        let elements = [$($factor as usize),+].iter().product();
                        ensure!(
                            $parameter.elements() >= elements,
                            "{} uses {elements} elements of `{}`",
                            stringify!($kernel),
                            stringify!($parameter),
                        );
                    )?)*
                    let _ = $threads;
                    let mut launch = stream.launch_builder(&self.$kernel);
                    $(launch.arg($parameter);)*
                    // SAFETY: the row has the kernel's parameters in order, and the buffers are as long as it says.
                    // Shared memory has bounds that the device checks.
                    unsafe { launch.launch(shape) }.map(drop).map_err(failed)
                })*
            }
        )*

        /// A text, a kernel of it and its parameters' bytes.
        #[cfg(test)]
        const ROWS: &[(&str, &str, &[usize])] = &[$($((
            ptx::$ptx,
            stringify!($kernel),
            &[$(<$ty as tests::Parameter>::BYTES),*],
        ),)*)*];
    };
}

fn threads_of(LaunchConfig { grid_dim, block_dim, .. }: LaunchConfig) -> usize {
    [grid_dim, block_dim].iter().map(|(x, y, z)| *x as usize * *y as usize * *z as usize).product()
}

kernels! { threads:
    /// Sums of vectors.
    VectorAdd of VECTOR_ADD {
        vector_add(a: Input<f32> [*length], b: Input<f32> [*length], sum: Output<f32> [*length], length: &i32);
    }

    /// Products of square matrices. A block is a tile.
    MatrixMultiply of MATRIX_MULTIPLY {
        matrix_multiply(
            a: Input<f32> [*size, *size], b: Input<f32> [*size, *size],
            product: Output<f32> [*size, *size], size: &i32);
    }

    /// Totals of an array. A block is a multiple of 32 threads.
    Reduction of REDUCTION {
        reduce(values: Input<i32> [*length], length: &i32, totals: Output<Totals> [1]);
    }

    /// Histograms of bytes.
    Histogram of HISTOGRAM {
        histogram_shared(words: Input<u32> [*length], length: &i32, bins: Output<u32> [256]);
        histogram_global(words: Input<u32> [*bytes / 4], bytes: &i32, bins: Output<u32> [256]);
    }

    /// Motion of bodies, of which a vector is four numbers. Shared memory: a vector for each thread of a block.
    NBody of N_BODY {
        n_body_step(
            positions: Input<f32> [4, *bodies], velocities: Input<f32> [4, *bodies],
            new_positions: Output<f32> [4, *bodies], new_velocities: Output<f32> [4, *bodies],
            bodies: &i32, dt: &f32, softening2: &f32);
    }

    /// Layers of a perceptron. Shared memory: a row of inputs. A block is a multiple of 32 threads.
    Mlp of MLP {
        dense(
            weights: Input<f32> [*input_width, *output_width], bias: Input<f32> [*output_width],
            inputs: Input<f32> [*samples, *input_width], outputs: Output<f32> [*samples, *output_width],
            input_width: &i32, output_width: &i32, samples: &i32, relu: &i32);
        softmax_classify(
            scores: Input<f32> [*samples, *width], probabilities: Output<f32> [*samples, *width],
            classes: Output<i32> [*samples], width: &i32, samples: &i32);
    }

    /// Layers of a convolutional network. Shared memory of the first: an output channel's filters.
    Convnet of CONVNET {
        conv3x3_relu(
            input: Input<f32> [*images, *in_channels, *height, *width],
            filters: Input<f32> [9, *in_channels, *out_channels], bias: Input<f32> [*out_channels],
            output: Output<f32> [*images, *out_channels, *height, *width],
            images: &i32, in_channels: &i32, out_channels: &i32, height: &i32, width: &i32);
        max_pool2(
            input: Input<f32> [*planes, *height, *width],
            output: Output<f32> [*planes, *height / 2, *width / 2],
            planes: &i32, height: &i32, width: &i32);
        fully_connected(
            features: Input<f32> [*images, *feature_count],
            weights: Input<f32> [*classes, *feature_count], bias: Input<f32> [*classes],
            scores: Output<f32> [*images, *classes],
            images: &i32, feature_count: &i32, classes: &i32);
        softmax(
            scores: Input<f32> [*images, *classes], probabilities: Output<f32> [*images, *classes],
            labels: Output<i32> [*images], images: &i32, classes: &i32);
    }

    /// Work of a length that is asked for.
    Spin of SPIN {
        spin_steps(results: Output<u32> [threads], steps: &u32, seed: &u32);
        spin_clock(elapsed: Output<u32> [2, threads], cycles: &i64);
        spin_until(flag: &SharedWord, seen: Output<u32> [threads]);
        spin_forever();
    }

    /// The Mandelbrot set.
    Mandelbrot of MANDELBROT {
        mandelbrot(
            counts: Output<u32> [*width, *height], width: &i32, height: &i32,
            left: &f32, top: &f32, step: &f32, limit: &u32);
    }

    /// Prefix sums, of which one block makes the totals, and sorting. Shared memory of the last: a run.
    Scan of SCAN {
        scan_parts(
            values: Input<u32> [*length], sums: Output<u32> [*length], totals: Output<u32> [*parts],
            length: &i32, parts: &i32);
        scan_totals(totals: Output<u32> [*parts], parts: &i32);
        add_offsets(
            sums: Output<u32> [*length], offsets: Input<u32> [(*length + *part_length - 1) / *part_length],
            length: &i32, part_length: &i32);
        bitonic_sort(keys: Output<u32> [*runs, *run], runs: &i32, run: &i32);
    }

    /// Output of kernels.
    Printf of PRINTF {
        print_conversions(number: &i32, real: &f64, large: &u64);
        print_threads();
    }

    /// Faults. The first two use the address that they are given.
    Fault of FAULT {
        write_word(base: Output<u32> [(*offset + 7) / 4], offset: &i64, value: &u32);
        read_word(base: Input<u32> [(*offset + 7) / 4], offset: &i64, result: Output<u32> [1]);
        trap_now();
        assert_not(value: &u32);
        overflow_stack(result: Output<u32> [1]);
    }

    /// Kernels that use variables of their module.
    Globals of GLOBALS {
        polynomial(xs: Input<f32> [*length], results: Output<f32> [*length], length: &i32);
        sum_table(sum: Output<u32> [1]);
    }

    /// Sums with a neighbour's values, in its memory.
    Peers of PEERS {
        fill(values: Words [*n], first: &u32, scale: &u32, n: &u32);
        add_to_neighbour(own: Words [*n], neighbour: Words [*n], sums_there: Words [*n], n: &u32);
        count_there(counter: Words [1]);
    }

    /// Rounds of mixing.
    Pipeline of PIPELINE {
        mix(input: Input<u32> [*length], output: Output<u32> [*length], length: &i32, rounds: &i32);
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, Output, ROWS, SharedWord, Words};

    /// A parameter's size on the device.
    pub(super) trait Parameter {
        const BYTES: usize;
    }

    macro_rules! parameters {
        ($($bytes:literal: $($ty:ty),*;)*) => {$($(
            impl Parameter for $ty {
                const BYTES: usize = $bytes;
            }
        )*)*};
    }

    parameters! {
        4: &i32, &u32, &f32;
        8: &i64, &u64, &f64, &SharedWord;
    }

    impl Parameter for Words<'_> {
        const BYTES: usize = 8;
    }

    impl<T> Parameter for Input<'_, T> {
        const BYTES: usize = 8;
    }

    impl<T> Parameter for Output<'_, T> {
        const BYTES: usize = 8;
    }

    #[test]
    fn rows_have_the_parameters_of_the_ptx() {
        for (text, kernel, bytes) in ROWS {
            let start = text.find(&format!(".visible .entry {kernel}(")).expect(kernel);
            let declared = text[start..].split(')').next().unwrap();
            let sizes = declared.lines().filter(|line| line.contains(".param"));
            let sizes: Vec<usize> =
                sizes.map(|line| if line.contains("64 ") { 8 } else { 4 }).collect();
            assert_eq!(sizes, *bytes, "{kernel}");
        }
    }
}
