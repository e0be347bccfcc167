//! Copies in, kernels and copies out, overlapped: page-locked host memory, several streams with
//! priorities, events between them, and event timing. `--size` counts words of a chunk, `--work`
//! rounds of mixing, `--chunks` and `--streams` the shape of the pipeline.

use std::{process::ExitCode, sync::Arc};

use anyhow::{Result, ensure};
use clap::Args;
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, PinnedHostSlice, result, sys};
use samples::{
    Check, Gpu, Options, Random, Sample,
    gpu::{failed, pinned, shape},
    kernels, reference,
};

const THREADS: u32 = 128;

#[derive(Args)]
struct Extra {
    /// Chunks that go through the pipeline in an iteration
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=4096))]
    chunks: u32,
    /// Streams that they are dealt out to
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: u32,
}

struct Chunk {
    host_input: PinnedHostSlice<u32>,
    host_output: PinnedHostSlice<u32>,
    input: CudaSlice<u32>,
    output: CudaSlice<u32>,
    stream: Arc<CudaStream>,
    expected: Vec<u32>,
}

struct Pipeline {
    kernels: kernels::Pipeline,
    blocks: u32,
    length: i32,
    rounds: i32,
    streams: Vec<Arc<CudaStream>>,
    chunks: Vec<Chunk>,
    begin: CudaEvent,
    end: CudaEvent,
}

impl Sample for Pipeline {
    type Extra = Extra;
    const NAME: &'static str = "pipeline";
    const ABOUT: &'static str =
        "Overlaps copies and kernels in several streams; --size counts words, --work rounds";

    fn prepare(gpu: &Gpu, options: &Options, extra: &Extra) -> Result<Self> {
        let length = options.size.unwrap_or(4096) as usize;
        let rounds = u32::try_from(options.work.unwrap_or(16))?;
        ensure!(rounds <= i32::MAX as u32, "--work {rounds}: at most {} is supported", i32::MAX);

        // Streams of all priorities that the device has, in turn. The numerically lowest is the
        // most urgent.
        let (least, greatest) = result::stream::get_priority_range().map_err(failed)?;
        let priorities: Vec<i32> = (greatest..=least).collect();
        let streams = (0..extra.streams as usize)
            .map(|i| gpu.context.new_stream_with_priority(priorities[i % priorities.len()]))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;

        let mut random = Random::new(options.seed);
        let mut chunks = Vec::new();
        for index in 0..extra.chunks as usize {
            let stream = streams[index % streams.len()].clone();
            let host = || pinned(&gpu.context, length, sys::CU_MEMHOSTALLOC_PORTABLE);
            let (mut host_input, host_output) = (host()?, host()?);
            let words = host_input.as_mut_slice().map_err(failed)?;
            words.fill_with(|| random.word());
            let expected = words.iter().map(|&word| reference::mixed(word, rounds)).collect();
            chunks.push(Chunk {
                host_input,
                host_output,
                input: stream.alloc_zeros(length).map_err(failed)?,
                output: stream.alloc_zeros(length).map_err(failed)?,
                stream,
                expected,
            });
        }
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Self {
            kernels: kernels::Pipeline::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            length: length as i32,
            rounds: rounds as i32,
            streams,
            chunks,
            begin: gpu.context.new_event(timed).map_err(failed)?,
            end: gpu.context.new_event(timed).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        // Fan out from the sample's stream, and back into it.
        self.begin.record(&gpu.stream).map_err(failed)?;
        for stream in &self.streams {
            stream.wait(&self.begin).map_err(failed)?;
        }
        let Self { kernels, length, rounds, .. } = self;
        let shape = shape(self.blocks, THREADS, 0);
        for Chunk { stream, host_input, host_output, input, output, .. } in &mut self.chunks {
            stream.memcpy_htod(host_input, input).map_err(failed)?;
            kernels.mix(stream, shape, input, output, length, rounds)?;
            stream.memcpy_dtoh(output, host_output).map_err(failed)?;
        }
        for stream in &self.streams {
            gpu.stream.join(stream).map_err(failed)?;
        }
        self.end.record(&gpu.stream).map_err(failed)?;
        Ok(self.chunks.len() as u64)
    }

    fn check(&mut self, _: &Gpu, check: &mut Check) -> Result<()> {
        for chunk in &self.chunks {
            let output = chunk.host_output.as_slice().map_err(failed)?;
            check.equal("word", output, &chunk.expected);
        }
        let elapsed_ms = self.begin.elapsed_ms(&self.end).map_err(failed)?;
        check.holds("the end of the pipeline is later than its beginning", elapsed_ms > 0.0);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Pipeline>()
}
