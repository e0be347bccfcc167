//! Inference of a perceptron of three layers, 64 -> 128 -> 64 -> 10, as a service would do it: each
//! iteration uploads a batch, runs it through four kernels and downloads classes and probabilities.
//! `--size` counts samples of a batch.

use std::process::ExitCode;

use anyhow::Result;
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    check::Tolerance,
    gpu::{failed, shape},
    kernels,
    reference::network,
};

const THREADS: u32 = 128;
/// Values of a sample, neurons of the hidden layers, classes.
const WIDTHS: [usize; 4] = [64, 128, 64, 10];
const CLASSES: usize = WIDTHS[3];
/// Of probabilities.
const TOLERANCE: Tolerance = Tolerance { difference: 2e-5, step: 1e-2 };
/// Two scores that are nearer to each other than this may be ordered differently by single
/// precision.
const LEAD_MIN: f64 = 1e-4;

struct Layer {
    weights: CudaSlice<f32>,
    bias: CudaSlice<f32>,
    outputs: CudaSlice<f32>,
    input_width: i32,
    output_width: i32,
    relu: i32,
}

struct Mlp {
    kernels: kernels::Mlp,
    blocks: u32,
    samples: i32,
    batch: Vec<f32>,
    inputs: CudaSlice<f32>,
    layers: Vec<Layer>,
    probabilities: CudaSlice<f32>,
    classes: CudaSlice<i32>,
    got_probabilities: Vec<f32>,
    got_classes: Vec<i32>,
    expected: Vec<Vec<f64>>,
}

impl Sample for Mlp {
    type Extra = NoExtra;
    const NAME: &'static str = "mlp_inference";
    const ABOUT: &'static str =
        "Inference of a perceptron of three layers; --size counts samples of a batch";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let samples = options.size.unwrap_or(16) as usize;
        let mut random = Random::new(options.seed);
        let batch = random.reals(samples * WIDTHS[0], -1.0, 1.0);
        let mut activations: Vec<Vec<f64>> = batch
            .chunks(WIDTHS[0])
            .map(|row| row.iter().copied().map(f64::from).collect())
            .collect();

        let mut layers = Vec::new();
        for (index, pair) in WIDTHS.windows(2).enumerate() {
            let (input_width, output_width) = (pair[0], pair[1]);
            let relu = index + 2 < WIDTHS.len();
            let scale = (6.0 / input_width as f32).sqrt();
            let weights = random.reals(input_width * output_width, -scale, scale);
            let bias = random.reals(output_width, -0.1, 0.1);
            for activation in &mut activations {
                *activation =
                    network::dense(activation, &bias, |i, o| weights[i * output_width + o]);
                if relu {
                    *activation = network::relu(std::mem::take(activation));
                }
            }
            layers.push(Layer {
                weights: gpu.stream.clone_htod(&weights).map_err(failed)?,
                bias: gpu.stream.clone_htod(&bias).map_err(failed)?,
                outputs: gpu.stream.alloc_zeros(samples * output_width).map_err(failed)?,
                input_width: input_width as i32,
                output_width: output_width as i32,
                relu: relu.into(),
            });
        }
        Ok(Self {
            kernels: kernels::Mlp::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            samples: samples as i32,
            inputs: gpu.stream.alloc_zeros(batch.len()).map_err(failed)?,
            batch,
            layers,
            probabilities: gpu.stream.alloc_zeros(samples * CLASSES).map_err(failed)?,
            classes: gpu.stream.alloc_zeros(samples).map_err(failed)?,
            got_probabilities: vec![0.0; samples * CLASSES],
            got_classes: vec![0; samples],
            expected: activations,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let stream = &gpu.stream;
        stream.memcpy_htod(&self.batch, &mut self.inputs).map_err(failed)?;
        let Self { kernels, samples, probabilities, classes, .. } = self;
        let mut inputs = &self.inputs;
        for Layer { weights, bias, outputs, input_width, output_width, relu } in &mut self.layers {
            let shape = shape(self.blocks, THREADS, *input_width as u32 * 4);
            kernels.dense(
                stream,
                shape,
                weights,
                bias,
                inputs,
                outputs,
                input_width,
                output_width,
                samples,
                relu,
            )?;
            inputs = outputs;
        }
        let (width, shape) = (CLASSES as i32, shape(self.blocks, THREADS, 0));
        kernels.softmax_classify(stream, shape, inputs, probabilities, classes, &width, samples)?;

        stream.memcpy_dtoh(probabilities, &mut self.got_probabilities).map_err(failed)?;
        stream.memcpy_dtoh(classes, &mut self.got_classes).map_err(failed)?;
        Ok(self.layers.len() as u64 + 1)
    }

    fn check(&mut self, _: &Gpu, check: &mut Check) -> Result<()> {
        let expected: Vec<f64> =
            self.expected.iter().flat_map(|scores| network::softmax(scores)).collect();
        check.close("probability", &self.got_probabilities, &expected, TOLERANCE);
        for (scores, &class) in self.expected.iter().zip(&self.got_classes) {
            let (best, lead) = network::best(scores);
            if lead > LEAD_MIN {
                check.equal("class", &[class], &[best as i32]);
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Mlp>()
}
