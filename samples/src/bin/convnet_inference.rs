//! Inference of a small convolutional network on 12 x 12 images: two convolutions with pooling, a
//! fully connected layer, a softmax; six kernels that depend on each other, a batch uploaded and
//! its labels downloaded each iteration. `--size` counts images of a batch.

use std::process::ExitCode;

use anyhow::Result;
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    check::Tolerance,
    gpu::{failed, shape},
    kernels,
    reference::network::{self, Planes},
};

const THREADS: u32 = 64;
const SIDE: usize = 12;
/// Channels of the image and after each convolution.
const CHANNELS: [usize; 3] = [1, 4, 8];
const FEATURES: usize = CHANNELS[2] * (SIDE / 4) * (SIDE / 4);
const CLASSES: usize = 10;
/// Of probabilities; the kernel's exponential and division are approximate.
const TOLERANCE: Tolerance = Tolerance { difference: 2e-5, step: 1e-2 };
/// Two scores that are nearer to each other than this may be ordered differently by single
/// precision.
const LEAD_MIN: f64 = 1e-4;

struct Convolution {
    filters: CudaSlice<f32>,
    bias: CudaSlice<f32>,
    convolved: CudaSlice<f32>,
    pooled: CudaSlice<f32>,
    in_channels: usize,
    out_channels: usize,
    side: usize,
}

struct ConvNet {
    kernels: kernels::Convnet,
    blocks: u32,
    images: usize,
    batch: Vec<f32>,
    input: CudaSlice<f32>,
    convolutions: Vec<Convolution>,
    weights: CudaSlice<f32>,
    bias: CudaSlice<f32>,
    scores: CudaSlice<f32>,
    probabilities: CudaSlice<f32>,
    labels: CudaSlice<i32>,
    got_probabilities: Vec<f32>,
    got_labels: Vec<i32>,
    expected: Vec<Vec<f64>>,
}

impl Sample for ConvNet {
    type Extra = NoExtra;
    const NAME: &'static str = "convnet_inference";
    const ABOUT: &'static str =
        "Inference of a small convolutional network; --size counts images of a batch";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let images = options.size.unwrap_or(4) as usize;
        let mut random = Random::new(options.seed);
        let batch = random.reals(images * SIDE * SIDE, 0.0, 1.0);
        let mut planes: Vec<Planes> = batch
            .chunks(SIDE * SIDE)
            .map(|image| Planes {
                values: image.iter().copied().map(f64::from).collect(),
                channels: 1,
                height: SIDE,
                width: SIDE,
            })
            .collect();

        let mut convolutions = Vec::new();
        let mut side = SIDE;
        for pair in CHANNELS.windows(2) {
            let (in_channels, out_channels) = (pair[0], pair[1]);
            let scale = (6.0 / (9 * in_channels) as f32).sqrt();
            let filters = random.reals(9 * in_channels * out_channels, -scale, scale);
            let bias = random.reals(out_channels, -0.1, 0.1);
            for image in &mut planes {
                *image = image.convolved(&filters, &bias).pooled();
            }
            let outputs = images * out_channels * side * side;
            convolutions.push(Convolution {
                filters: gpu.stream.clone_htod(&filters).map_err(failed)?,
                bias: gpu.stream.clone_htod(&bias).map_err(failed)?,
                convolved: gpu.stream.alloc_zeros(outputs).map_err(failed)?,
                pooled: gpu.stream.alloc_zeros(outputs / 4).map_err(failed)?,
                in_channels,
                out_channels,
                side,
            });
            side /= 2;
        }
        let weights = random.reals(CLASSES * FEATURES, -0.3, 0.3);
        let bias = random.reals(CLASSES, -0.1, 0.1);
        let expected = planes
            .iter()
            .map(|image| network::dense(&image.values, &bias, |i, o| weights[o * FEATURES + i]))
            .collect();

        Ok(Self {
            kernels: kernels::Convnet::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            images,
            input: gpu.stream.alloc_zeros(batch.len()).map_err(failed)?,
            batch,
            convolutions,
            weights: gpu.stream.clone_htod(&weights).map_err(failed)?,
            bias: gpu.stream.clone_htod(&bias).map_err(failed)?,
            scores: gpu.stream.alloc_zeros(images * CLASSES).map_err(failed)?,
            probabilities: gpu.stream.alloc_zeros(images * CLASSES).map_err(failed)?,
            labels: gpu.stream.alloc_zeros(images).map_err(failed)?,
            got_probabilities: vec![0.0; images * CLASSES],
            got_labels: vec![0; images],
            expected,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let stream = &gpu.stream;
        let images = self.images as i32;
        let (feature_count, classes) = (FEATURES as i32, CLASSES as i32);
        stream.memcpy_htod(&self.batch, &mut self.input).map_err(failed)?;

        let mut input = &self.input;
        for layer in &mut self.convolutions {
            let (in_channels, out_channels) = (layer.in_channels as i32, layer.out_channels as i32);
            let side = layer.side as i32;
            let shared_bytes = 9 * 4 * layer.in_channels as u32;
            self.kernels.conv3x3_relu(
                stream,
                shape(self.blocks, THREADS, shared_bytes),
                input,
                &layer.filters,
                &layer.bias,
                &mut layer.convolved,
                &images,
                &in_channels,
                &out_channels,
                &side,
                &side,
            )?;

            let planes = images * out_channels;
            self.kernels.max_pool2(
                stream,
                shape(self.blocks, THREADS, 0),
                &layer.convolved,
                &mut layer.pooled,
                &planes,
                &side,
                &side,
            )?;
            input = &layer.pooled;
        }

        self.kernels.fully_connected(
            stream,
            shape(self.blocks, THREADS, 0),
            input,
            &self.weights,
            &self.bias,
            &mut self.scores,
            &images,
            &feature_count,
            &classes,
        )?;

        let blocks = (self.images as u32).div_ceil(THREADS);
        self.kernels.softmax(
            stream,
            shape(blocks, THREADS, 0),
            &self.scores,
            &mut self.probabilities,
            &mut self.labels,
            &images,
            &classes,
        )?;

        stream.memcpy_dtoh(&self.probabilities, &mut self.got_probabilities).map_err(failed)?;
        stream.memcpy_dtoh(&self.labels, &mut self.got_labels).map_err(failed)?;
        Ok(2 * self.convolutions.len() as u64 + 2)
    }

    fn check(&mut self, _: &Gpu, check: &mut Check) -> Result<()> {
        let expected: Vec<f64> =
            self.expected.iter().flat_map(|scores| network::softmax(scores)).collect();
        check.close("probability", &self.got_probabilities, &expected, TOLERANCE);
        for (scores, &label) in self.expected.iter().zip(&self.got_labels) {
            let (best, lead) = network::best(scores);
            if lead > LEAD_MIN {
                check.equal("label", &[label], &[best as i32]);
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<ConvNet>()
}
