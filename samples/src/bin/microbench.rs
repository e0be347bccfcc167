//! What single driver calls cost: launches, waits, copies, allocation, start-up.
//!
//! It measures the `libcuda.so` that it finds, so the same program gives the figures of two
//! drivers, or of one with and without something in between.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use cudarc::driver::{CudaContext, CudaFunction, result};
use samples::{
    Gpu,
    gpu::{failed, function, require_driver},
    memory::{DeviceMemory, HostMemory},
    ptx, start,
};
use serde::Serialize;

/// Measures the cost of driver calls
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Report as one line of JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Every single-process figure
    Calls,
    /// Launches a second of a null kernel, for a group of processes
    Launches {
        /// How long
        #[arg(long, value_name = "S", default_value_t = 1.0)]
        seconds: f64,
        /// When ready, make FILE.ready.PID, and start once FILE exists
        #[arg(long, value_name = "FILE")]
        barrier: Option<PathBuf>,
    },
    /// From the program's start to the end of its first kernel
    First,
    /// A context and 4 KiB of memory, held until FILE exists
    Idle {
        /// When ready, make FILE.ready.PID, and end once FILE exists
        #[arg(long, value_name = "FILE")]
        barrier: PathBuf,
    },
    /// That many launches without a wait between them, for a system call trace
    Burst {
        /// How many
        #[arg(default_value_t = 100_000)]
        launches: u64,
    },
}

#[derive(Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    value: f64,
}

/// Launches between two waits when their submission is timed: few enough to fit any queue.
const BURST: usize = 200;
/// Rounds of each measurement; the median is reported.
const ROUNDS: usize = 60;
/// What an idle process holds, bytes.
const IDLE_BYTES: usize = 4096;
/// Copy sizes, bytes.
const COPY_BYTES: &[usize] = &[4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];

/// The plain driver API, so that what is timed is the driver's call and nothing around it.
struct Bench {
    gpu: Gpu,
    null: CudaFunction,
    rows: Vec<Row>,
}

impl Bench {
    fn open() -> Result<Self> {
        require_driver();
        let begin = Instant::now();
        let context = CudaContext::new(0).map_err(failed).context("cannot open device 0")?;
        let attach = begin.elapsed();
        let stream = context.new_stream().map_err(failed)?;
        let gpu = Gpu { context, stream };
        let null = function(&gpu.load(ptx::TOUR)?, "nothing")?;
        let mut bench = Self { gpu, null, rows: Vec::new() };
        bench.row("attach", "us", attach.as_secs_f64() * 1e6);
        Ok(bench)
    }

    fn row(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.rows.push(Row { name: name.into(), unit, value });
    }

    fn launch(&self) -> Result<()> {
        // SAFETY: function and stream are alive and the kernel has no parameters.
        unsafe {
            let (null, stream) = (self.null.cu_function(), self.gpu.stream.cu_stream());
            result::launch_kernel(null, (1, 1, 1), (1, 1, 1), 0, stream, &mut [])
        }
        .map_err(failed)
    }

    fn wait(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.gpu.stream.cu_stream()) }.map_err(failed)
    }

    fn launches(&mut self) -> Result<()> {
        self.launch()?;
        self.wait()?;
        let mut submit = Vec::new();
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            for _ in 0..BURST {
                self.launch()?;
            }
            submit.push(begin.elapsed() / BURST as u32);
            self.wait()?;
        }
        let mut wait = Vec::new();
        for _ in 0..ROUNDS * 20 {
            let begin = Instant::now();
            self.launch()?;
            self.wait()?;
            wait.push(begin.elapsed());
        }
        let (submit, p50, p99) =
            (percentile(&mut submit, 50), percentile(&mut wait, 50), percentile(&mut wait, 99));
        self.row("launch_submit", "ns", submit * 1e9);
        self.row("launch_wait", "us", p50 * 1e6);
        self.row("launch_wait_p99", "us", p99 * 1e6);
        Ok(())
    }

    fn allocation(&mut self) -> Result<()> {
        let mut times = Vec::new();
        for _ in 0..ROUNDS * 4 {
            let begin = Instant::now();
            drop(DeviceMemory::new(1 << 20).map_err(failed)?);
            times.push(begin.elapsed());
        }
        let median = percentile(&mut times, 50);
        self.row("alloc_free_1MiB", "us", median * 1e6);
        Ok(())
    }

    fn copies(&mut self) -> Result<()> {
        let most = *COPY_BYTES.last().expect("there are sizes");
        let device = DeviceMemory::new(most).map_err(failed)?;
        let mut pageable = vec![1u8; most];
        let mut pinned = HostMemory::new(most, 0).map_err(failed)?;
        pinned.fill(2);
        for (kind, host) in [("pageable", &mut pageable[..]), ("pinned", &mut pinned)] {
            for &bytes in COPY_BYTES {
                let rounds = (ROUNDS * 4).min((1usize << 29) / bytes).max(5);
                let host = &mut host[..bytes];
                let (mut up, mut down) = (Vec::new(), Vec::new());
                for _ in 0..rounds {
                    let begin = Instant::now();
                    device.write(host).map_err(failed)?;
                    result::ctx::synchronize().map_err(failed)?;
                    up.push(begin.elapsed());
                    let begin = Instant::now();
                    device.read(host).map_err(failed)?;
                    down.push(begin.elapsed());
                }
                let (up, down) = (percentile(&mut up, 50), percentile(&mut down, 50));
                self.row(format!("htod_{kind}_{}", size_name(bytes)), "us", up * 1e6);
                self.row(format!("dtoh_{kind}_{}", size_name(bytes)), "us", down * 1e6);
            }
        }
        Ok(())
    }

    fn launches_per_second(&mut self, seconds: f64) -> Result<()> {
        let end = Duration::try_from_secs_f64(seconds).context("--seconds")?;
        let begin = Instant::now();
        let mut count = 0u64;
        while begin.elapsed() < end {
            for _ in 0..64 {
                self.launch()?;
            }
            count += 64;
        }
        self.wait()?;
        self.row("launches_per_s", "1/s", count as f64 / begin.elapsed().as_secs_f64());
        Ok(())
    }
}

fn size_name(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{}MiB", b >> 20),
        b if b >= 1 << 10 => format!("{}KiB", b >> 10),
        b => format!("{b}B"),
    }
}

/// Seconds that `per_cent` of the durations do not exceed. Sorts them.
fn percentile(durations: &mut [Duration], per_cent: usize) -> f64 {
    samples::report::percentile_us(durations, per_cent) / 1e6
}

fn run(arguments: &Arguments) -> Result<Vec<Row>> {
    let begin = Instant::now();
    let mut bench = Bench::open()?;
    match &arguments.what {
        What::First => {
            bench.launch()?;
            bench.wait()?;
            bench.row("first_kernel", "ms", begin.elapsed().as_secs_f64() * 1e3);
        }
        What::Idle { barrier } => {
            let _memory = DeviceMemory::new(IDLE_BYTES).map_err(failed)?;
            start::wait_for_file(barrier)?;
        }
        What::Calls => {
            bench.launches()?;
            bench.allocation()?;
            bench.copies()?;
        }
        What::Launches { seconds, barrier } => {
            if !(seconds.is_finite() && *seconds > 0.0) {
                bail!("--seconds must be positive");
            }
            bench.launch()?;
            bench.wait()?;
            if let Some(barrier) = barrier {
                start::wait_for_file(barrier)?;
            }
            bench.launches_per_second(*seconds)?;
        }
        What::Burst { launches } => {
            bench.launch()?;
            bench.wait()?;
            let begin = Instant::now();
            for _ in 0..*launches {
                bench.launch()?;
            }
            let submit = begin.elapsed();
            bench.wait()?;
            bench.row("launch_sustained", "ns", submit.as_secs_f64() * 1e9 / *launches as f64);
        }
    }
    Ok(bench.rows)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(rows) if arguments.json => {
            let report = serde_json::json!({ "rows": rows });
            println!("{report}");
            ExitCode::SUCCESS
        }
        Ok(rows) => {
            for row in rows {
                println!("{:<24} {:>14.3} {}", row.name, row.value, row.unit);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("microbench: {error:#}");
            ExitCode::from(2)
        }
    }
}
