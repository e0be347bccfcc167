//! `cargo bench -p soft-gpu --bench interruption`: how soon kernels give way.
//!
//! An endless kernel is ended with its tenant, as a server does with a client that is gone or
//! is to go; and an empty kernel of high priority is launched while one of low priority has
//! all SMs. For each tier, in a process of its own, since a device has one.
//!
//! What the machine adds, on which others may be busy, is separated by two means. Beside the time that
//! passed stands the processor time that all threads of this process spent meanwhile: what they did
//! before they gave way, wherever they had to wait for a processor. And there is a control: as many
//! threads as the device has, which do nothing but look at a word, and how long they take to answer.
//! No kernel can be expected to be sooner.

#[macro_use]
#[path = "support/call.rs"]
mod call;

use anyhow::{Context, Result, bail};
use cuda_api::extension::Extension;
use cuda_api::*;
use openmps_soft as _;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::ffi::CString;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

cuda_api::linked_symbols! {
    cuInit cuDevicePrimaryCtxRetain cuCtxSetCurrent cuModuleLoadData cuModuleUnload
    cuModuleGetFunction cuMemAlloc_v2 cuMemFree_v2 cuMemsetD8_v2 cuMemsetD32Async cuMemsetD2D8Async
    cuMemcpyDtoDAsync_v2 cuLaunchKernel cuStreamCreateWithPriority cuStreamDestroy_v2
    cuStreamSynchronize cuStreamQuery
    openmpsTenantCreate openmpsTenantBind openmpsTenantName openmpsTenantError openmpsTenantFault openmpsTenantEnd
    openmpsTenantPrintf openmpsTenantPlaceManaged openmpsTenantPlaceVariables openmpsTenantWork openmpsTenantUsage openmpsTenantLimit openmpsTenantMemory
    openmpsDeviceActivity openmpsDeviceDescribe openmpsDeviceCodeStore openmpsTenantKernels openmpsTenantTrace openmpsTenantTraceTake
}

/// Tiers by the settings that choose them.
const TIERS: [(&str, &str, &str); 3] =
    [("AVX-512", "1", "avx512"), ("AVX2", "1", "avx2"), ("interpreter", "0", "avx2")];

/// Bytes that kernels and copies work on.
const DATA_BYTES: usize = 16 << 10;
const LARGE_BYTES: usize = 512 << 20;
/// How long what is to be interrupted runs before.
const BEFORE: Duration = Duration::from_millis(3);
/// Blocks of a grid whose end no thread waits for.
const BLOCKS: u32 = 1 << 30;
const LOWEST: i32 = 0;
const HIGHEST: i32 = -5;

/// What is interrupted.
#[derive(Clone, Copy)]
enum Work {
    /// A kernel, with so many blocks of so many threads.
    Kernel(&'static str, u32, u32),
    /// A copy of all large memory, and another one.
    Copies,
    /// A fill of it.
    Fills,
    /// A fill of single bytes, far apart.
    Rows,
}

/// What is ended.
const ENDED: &[(&str, Work)] = &[
    ("branch to itself", Work::Kernel("branch", 16, 256)),
    ("arithmetic", Work::Kernel("arithmetic", 16, 256)),
    ("divergent loop", Work::Kernel("divergent", 16, 256)),
    ("loads, each lane its own chain", Work::Kernel("chain", 16, 256)),
    ("loads and stores", Work::Kernel("stream", 16, 256)),
    ("barriers", Work::Kernel("barriers", 16, 256)),
    ("waiting at a barrier", Work::Kernel("waiting", 16, 256)),
    ("nanosleep of 1 ms", Work::Kernel("sleeping", 16, 256)),
    ("a lock that is never free", Work::Kernel("locked", 16, 256)),
    ("atomics at one address", Work::Kernel("atomics", 16, 256)),
    ("printf", Work::Kernel("printing", 16, 256)),
    ("malloc and free", Work::Kernel("allocating", 16, 256)),
    ("calls with large arguments", Work::Kernel("calling", 16, 256)),
    ("bulk copies", Work::Kernel("bulk", 16, 256)),
    ("products of matrices", Work::Kernel("products", 16, 256)),
    ("blocks of 1024 threads", Work::Kernel("arithmetic", 64, 1024)),
    ("2^30 empty blocks", Work::Kernel("empty", BLOCKS, 32)),
    ("2^30 short blocks", Work::Kernel("short", BLOCKS, 64)),
    ("copies of 256 MiB", Work::Copies),
    ("fills of 512 MiB", Work::Fills),
    ("a fill of single bytes", Work::Rows),
];

/// What gives way to an empty kernel.
const GIVES_WAY: &[(&str, Option<Work>)] = &[
    ("nothing else", None),
    ("short blocks", Some(Work::Kernel("short", BLOCKS, 64))),
    ("long blocks", Some(Work::Kernel("arithmetic", 16, 256))),
    ("long blocks that fill the SMs", Some(Work::Kernel("arithmetic", 256, 1024))),
    ("blocks that spin on a lock", Some(Work::Kernel("locked", 16, 256))),
    ("blocks that wait at barriers", Some(Work::Kernel("barriers", 256, 1024))),
    ("copies of 256 MiB", Some(Work::Copies)),
];

struct Bench {
    table: DriverTable,
    extension: Extension,
    text: CString,
}

/// A tenant with memory, a module and two streams.
struct Client<'a> {
    bench: &'a Bench,
    tenant: u64,
    module: CUmodule,
    data: CUdeviceptr,
    large: CUdeviceptr,
    low: CUstream,
    high: CUstream,
}

impl Bench {
    fn new() -> Result<Self> {
        let (table, extension) = (linked_table(), linked_extension().context("it has tenants")?);
        let text = CString::new(include_str!("interruption.ptx"))?;
        let bench = Self { table, extension, text };
        let mut context = CUcontext::NULL;
        cu!(bench.table, cuInit(0))?;
        cu!(bench.table, cuDevicePrimaryCtxRetain(&mut context, 0))?;
        cu!(bench.table, cuCtxSetCurrent(context))?;
        Ok(bench)
    }

    fn client(&self) -> Result<Client<'_>> {
        let t = &self.table;
        let mut tenant = 0;
        cu!(self.extension, tenant_create(&mut tenant))?;
        cu!(self.extension, tenant_bind(tenant))?;
        let (mut module, mut data, mut large) =
            (CUmodule::NULL, CUdeviceptr::default(), CUdeviceptr::default());
        cu!(t, cuModuleLoadData(&mut module, self.text.as_ptr().cast()))?;
        cu!(t, cuMemAlloc_v2(&mut data, DATA_BYTES))?;
        cu!(t, cuMemsetD8_v2(data, 0, DATA_BYTES))?;
        cu!(t, cuMemAlloc_v2(&mut large, LARGE_BYTES))?;
        let stream = |priority| -> Result<CUstream> {
            let mut stream = CUstream::NULL;
            // CU_STREAM_NON_BLOCKING
            cu!(t, cuStreamCreateWithPriority(&mut stream, 1, priority))?;
            Ok(stream)
        };
        let (low, high) = (stream(LOWEST)?, stream(HIGHEST)?);
        Ok(Client { bench: self, tenant, module, data, large, low, high })
    }
}

impl Client<'_> {
    fn launch(&self, name: &str, blocks: u32, threads: u32, stream: CUstream) -> Result<()> {
        let t = &self.bench.table;
        let (mut function, name) = (CUfunction::NULL, CString::new(name)?);
        cu!(t, cuModuleGetFunction(&mut function, self.module, name.as_ptr()))?;
        let mut data = self.data;
        let mut parameters = [std::ptr::from_mut(&mut data).cast()];
        let (parameters, none) = (parameters.as_mut_ptr(), null_mut());
        cu!(t, cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, none))
    }

    /// Starts it; it will not end by itself for long.
    fn start(&self, work: Work) -> Result<()> {
        let (t, half) = (&self.bench.table, LARGE_BYTES / 2);
        match work {
            Work::Kernel(name, blocks, threads) => {
                return self.launch(name, blocks, threads, self.low);
            }
            Work::Copies => {
                let behind = CUdeviceptr(self.large.0 + half as u64);
                for _ in 0..8 {
                    cu!(t, cuMemcpyDtoDAsync_v2(behind, self.large, half, self.low))?;
                }
            }
            Work::Fills => {
                for _ in 0..8 {
                    cu!(t, cuMemsetD32Async(self.large, 7, LARGE_BYTES / 4, self.low))?;
                }
            }
            Work::Rows => {
                for _ in 0..8 {
                    cu!(t, cuMemsetD2D8Async(self.large, 8, 7, 1, LARGE_BYTES / 8, self.low))?;
                }
            }
        }
        Ok(())
    }

    fn runs(&self) -> bool {
        let still = cu!(self.bench.table, cuStreamQuery(self.low));
        still.is_err_and(|error| error.downcast_ref() == Some(&CudaError::NOT_READY))
    }

    fn end(self, times: &mut Times) -> Result<()> {
        let t = &self.bench.table;
        times.take(|| cu!(self.bench.extension, tenant_end(self.tenant)))?;
        // What an ended tenant has can still be given back.
        let _ = cu!(t, cuStreamDestroy_v2(self.low));
        let _ = cu!(t, cuStreamDestroy_v2(self.high));
        let _ = cu!(t, cuMemFree_v2(self.data));
        let _ = cu!(t, cuMemFree_v2(self.large));
        let _ = cu!(t, cuModuleUnload(self.module));
        cu!(self.bench.extension, tenant_bind(0))
    }
}

/// What the threads of a [`Control`] look at.
struct Words {
    /// Rounds that have begun, and that have ended.
    begun: AtomicU32,
    ended: AtomicU32,
    /// A bit a thread.
    answered: AtomicU64,
    asks: Thread,
}

/// Threads that look at a word and answer.
struct Control {
    words: Arc<Words>,
    threads: Vec<JoinHandle<()>>,
    round: u32,
}

impl Control {
    /// As many threads as a device has by default.
    fn new() -> Self {
        let words = Arc::new(Words {
            begun: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            answered: AtomicU64::new(0),
            asks: std::thread::current(),
        });
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(64);
        let look = |number: usize, words: Arc<Words>| {
            for round in 1.. {
                while words.begun.load(Ordering::Acquire) < round {
                    std::thread::park();
                }
                while words.ended.load(Ordering::Relaxed) < round {
                    std::hint::spin_loop();
                }
                if words.ended.load(Ordering::Relaxed) == u32::MAX {
                    return;
                }
                words.answered.fetch_or(1 << number, Ordering::AcqRel);
                words.asks.unpark();
            }
        };
        let spawn = |number| {
            let words = words.clone();
            std::thread::spawn(move || look(number, words))
        };
        Self { threads: (0..threads).map(spawn).collect(), words, round: 0 }
    }

    fn begin(&self, round: u32) {
        self.words.begun.store(round, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// How long it takes until all of them have answered, or the first one.
    fn answer(&mut self, all: bool) -> Duration {
        self.round += 1;
        self.words.answered.store(0, Ordering::Release);
        self.begin(self.round);
        std::thread::sleep(BEFORE);
        let all_threads = u64::MAX >> (64 - self.threads.len());
        let wait = |wanted: u64| {
            while self.words.answered.load(Ordering::Acquire) & wanted != wanted {
                std::thread::park();
            }
        };
        let begin = Instant::now();
        self.words.ended.store(self.round, Ordering::Release);
        wait(if all { all_threads } else { 1 });
        let took = begin.elapsed();
        wait(all_threads);
        took
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.words.ended.store(u32::MAX, Ordering::Release);
        self.begin(u32::MAX);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Times of what was measured, the processor time in them, and times of the control.
#[derive(Default)]
struct Times {
    own: Vec<Duration>,
    processor: Vec<Duration>,
    control: Vec<Duration>,
}

impl Times {
    /// Measures what is done.
    fn take<R>(&mut self, what: impl FnOnce() -> Result<R>) -> Result<R> {
        let (begin, spent) = (Instant::now(), processor_time());
        let done = what()?;
        self.own.push(begin.elapsed());
        self.processor.push(processor_time().saturating_sub(spent));
        Ok(done)
    }
}

/// What all threads of this process have had of the processors.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ends this many tenants that do it.
fn end_often(bench: &Bench, control: &mut Control, work: Work, times: usize) -> Result<Times> {
    let mut all = Times::default();
    for _ in 0..times {
        let client = bench.client()?;
        client.start(work)?;
        std::thread::sleep(BEFORE);
        if !client.runs() {
            bail!("it came to its end: there is nothing to interrupt");
        }
        client.end(&mut all)?;
        all.control.push(control.answer(true));
    }
    Ok(all)
}

/// Launches as many empty kernels beside it.
fn give_way(
    bench: &Bench,
    control: &mut Control,
    work: Option<Work>,
    times: usize,
) -> Result<Times> {
    // Before, since the processors are busy from then on.
    let mut all = Times::default();
    all.control.extend((0..times).map(|_| control.answer(false)));
    let client = bench.client()?;
    // The first launch of all compiles.
    client.launch("empty", 1, 32, client.high)?;
    cu!(bench.table, cuStreamSynchronize(client.high))?;
    while all.own.len() < times {
        if let Some(work) = work
            && !client.runs()
        {
            client.start(work)?;
        }
        std::thread::sleep(BEFORE);
        all.take(|| {
            client.launch("empty", 1, 32, client.high)?;
            cu!(bench.table, cuStreamSynchronize(client.high))
        })?;
    }
    client.end(&mut Times::default())?;
    Ok(all)
}

/// Middle, nearly longest and longest.
const SHARES: [f64; 3] = [0.5, 0.99, 1.0];
const NAMES: [&str; 3] = ["p50", "p99", "max"];
/// What they are of, as fields of a row begin.
const WHAT: [&str; 3] = ["", "processor_", "control_"];

fn row(tier: &str, kind: &str, case: &str, times: Times) -> Value {
    let us = |mut times: Vec<Duration>| {
        times.sort_unstable();
        SHARES.map(|share| {
            let at = ((times.len() - 1) as f64 * share).round() as usize;
            times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        })
    };
    let mut row = json!({ "tier": tier, "kind": kind, "case": case, "times": times.own.len() });
    for (what, times) in WHAT.iter().zip([times.own, times.processor, times.control]) {
        for (name, us) in NAMES.iter().zip(us(times)) {
            row[format!("{what}{name}_us")] = us.into();
        }
    }
    row
}

/// All cases in this process's tier, a row a line.
fn measure(tier: &str, only: &[String], times: usize) -> Result<()> {
    let (bench, mut control) = (Bench::new()?, Control::new());
    let wanted = |case: &str| only.is_empty() || only.iter().any(|part| case.contains(part));
    for (case, work) in ENDED.iter().filter(|(case, _)| wanted(case)) {
        let all = end_often(&bench, &mut control, *work, times).context(*case)?;
        println!("{}", row(tier, "ended", case, all));
    }
    for (case, work) in GIVES_WAY.iter().filter(|(case, _)| wanted(case)) {
        let all = give_way(&bench, &mut control, *work, times).context(*case)?;
        println!("{}", row(tier, "gives way", case, all));
    }
    Ok(())
}

fn has(isa: &str) -> bool {
    match isa {
        "avx512" => is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl"),
        _ => is_x86_feature_detected!("avx2"),
    }
}

fn main() -> Result<()> {
    let (mut json, mut only, mut times, mut inside) = (false, Vec::new(), 100, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // cargo says so.
            "--bench" => {}
            "--json" => json = true,
            "--only" => only.extend(arguments.next()),
            "--times" => times = arguments.next().context("--times N")?.parse()?,
            "--tier" => inside = arguments.next(),
            other => bail!("{other}: there are --json, --times N and --only CASE"),
        }
    }
    if let Some(tier) = inside {
        return measure(&tier, &only, times);
    }
    let mut rows = Vec::new();
    for (tier, number, isa) in TIERS.iter().filter(|(_, _, isa)| has(isa)) {
        eprintln!("{tier}");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--tier", tier, "--times", &times.to_string()]);
        for case in &only {
            command.args(["--only", case]);
        }
        command.env(environment::OPENMPS_SOFT_TIER, number);
        command.env(environment::OPENMPS_SOFT_SIMD, isa);
        let ended = command.stderr(std::process::Stdio::inherit()).output()?;
        if !ended.status.success() {
            bail!("{tier}: {}", ended.status);
        }
        for line in String::from_utf8(ended.stdout)?.lines() {
            rows.push(serde_json::from_str::<Value>(line)?);
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&json!({ "rows": rows }))?);
        return Ok(());
    }
    let heads =
        WHAT.map(|what| NAMES.map(|name| format!(" {:>13}", format!("{what}{name}"))).concat());
    println!("{:<12} {:<10} {:<32}{}", "", "", "us", heads.concat());
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let us = |name: String| format!(" {:>13.0}", row[name].as_f64().unwrap_or_default());
        let figures = WHAT.map(|what| NAMES.map(|name| us(format!("{what}{name}_us"))).concat());
        let (tier, kind, case) = (text("tier"), text("kind"), text("case"));
        println!("{tier:<12} {kind:<10} {case:<32}{}", figures.concat());
    }
    Ok(())
}
