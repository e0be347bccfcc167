//! `cargo bench -p soft-gpu --bench interruption`: how soon kernels give way.
//!
//! What goes on for ever is ended with its tenant, as a server does with a client that is gone or
//! is told to go; and an empty kernel of high priority is launched while one of low priority has
//! all SMs. For each tier, in a process of its own, since a device has one.

use anyhow::{Context, Result, bail};
use cuda_api::extension::Extension;
use cuda_api::*;
use openmps_soft as _;
use serde_json::{Value, json};
use std::ffi::CString;
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

cuda_api::linked_symbols! {
    cuInit cuDevicePrimaryCtxRetain cuCtxSetCurrent cuModuleLoadData cuModuleUnload
    cuModuleGetFunction cuMemAlloc_v2 cuMemFree_v2 cuMemsetD8_v2 cuMemsetD32Async cuMemsetD2D8Async
    cuMemcpyDtoDAsync_v2 cuLaunchKernel cuStreamCreateWithPriority cuStreamDestroy_v2
    cuStreamSynchronize cuStreamQuery
    openmpsTenantCreate openmpsTenantBind openmpsTenantError openmpsTenantFault openmpsTenantEnd
    openmpsTenantPrintf openmpsTenantPlaceManaged openmpsTenantWork openmpsTenantUsage openmpsTenantMemory
    openmpsDeviceActivity openmpsDeviceDescribe openmpsDeviceCodeStore
}

/// Tiers by the settings that choose them.
const TIERS: [(&str, &str, &str); 3] =
    [("AVX-512", "1", "avx512"), ("AVX2", "1", "avx2"), ("interpreter", "0", "avx2")];

/// Bytes that kernels and copies work on.
const DATA_BYTES: usize = 16 << 10;
const LARGE_BYTES: usize = 512 << 20;
/// How long what is to be interrupted runs before.
const BEFORE: Duration = Duration::from_millis(3);
/// Blocks of a grid that nobody waits for the end of.
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

/// Calls a function of the table or of the extension.
macro_rules! cu {
    ($table:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: arguments are values, handles made by the same table, and places on the stack
        // that live across the call.
        unsafe { ($table.$name)($($argument),*) }
            .with_context(|| concat!(stringify!($name), " failed"))
    };
}

impl Bench {
    fn new() -> Result<Self> {
        // SAFETY: the symbols are the software GPU's, linked into this program.
        let table = unsafe { DriverTable::resolve(symbol) };
        // SAFETY: as above.
        let extension = unsafe { Extension::resolve(symbol) }.context("it has tenants")?;
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

    fn end(self) -> Result<Duration> {
        let (t, begin) = (&self.bench.table, Instant::now());
        cu!(self.bench.extension, tenant_end(self.tenant))?;
        let took = begin.elapsed();
        // What an ended tenant has can still be given back.
        let _ = cu!(t, cuStreamDestroy_v2(self.low));
        let _ = cu!(t, cuStreamDestroy_v2(self.high));
        let _ = cu!(t, cuMemFree_v2(self.data));
        let _ = cu!(t, cuMemFree_v2(self.large));
        let _ = cu!(t, cuModuleUnload(self.module));
        cu!(self.bench.extension, tenant_bind(0))?;
        Ok(took)
    }
}

/// Ends this many tenants that do it.
fn end_often(bench: &Bench, work: Work, times: usize) -> Result<Vec<Duration>> {
    (0..times)
        .map(|_| {
            let client = bench.client()?;
            client.start(work)?;
            std::thread::sleep(BEFORE);
            if !client.runs() {
                bail!("it came to its end: there is nothing to interrupt");
            }
            client.end()
        })
        .collect()
}

/// Launches as many empty kernels beside it.
fn give_way(bench: &Bench, work: Option<Work>, times: usize) -> Result<Vec<Duration>> {
    let client = bench.client()?;
    // The first launch of all compiles.
    client.launch("empty", 1, 32, client.high)?;
    cu!(bench.table, cuStreamSynchronize(client.high))?;
    let mut all = Vec::new();
    while all.len() < times {
        if let Some(work) = work
            && !client.runs()
        {
            client.start(work)?;
        }
        std::thread::sleep(BEFORE);
        let begin = Instant::now();
        client.launch("empty", 1, 32, client.high)?;
        cu!(bench.table, cuStreamSynchronize(client.high))?;
        all.push(begin.elapsed());
    }
    client.end()?;
    Ok(all)
}

fn row(tier: &str, kind: &str, case: &str, mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let us = |share: f64| {
        let at = ((times.len() - 1) as f64 * share).round() as usize;
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    json!({
        "tier": tier, "kind": kind, "case": case, "times": times.len(),
        "p50_us": us(0.5), "p99_us": us(0.99), "max_us": us(1.0),
    })
}

/// All cases in this process's tier, a row a line.
fn measure(tier: &str, only: &[String], times: usize) -> Result<()> {
    let bench = Bench::new()?;
    let wanted = |case: &str| only.is_empty() || only.iter().any(|part| case.contains(part));
    for (case, work) in ENDED.iter().filter(|(case, _)| wanted(case)) {
        let all = end_often(&bench, *work, times).context(*case)?;
        println!("{}", row(tier, "ended", case, all));
    }
    for (case, work) in GIVES_WAY.iter().filter(|(case, _)| wanted(case)) {
        println!(
            "{}",
            row(tier, "gives way", case, give_way(&bench, *work, times).context(*case)?)
        );
    }
    Ok(())
}

fn has(flavour: &str) -> bool {
    match flavour {
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
    for (tier, number, flavour) in TIERS.iter().filter(|(_, _, flavour)| has(flavour)) {
        eprintln!("{tier}");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--tier", tier, "--times", &times.to_string()]);
        for case in &only {
            command.args(["--only", case]);
        }
        command.env(environment::OPENMPS_SOFT_TIER, number);
        command.env(environment::OPENMPS_SOFT_SIMD, flavour);
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
    println!("{:<12} {:<10} {:<32} {:>9} {:>9} {:>9}", "", "", "us", "p50", "p99", "max");
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let us = |name: &str| row[name].as_f64().unwrap_or_default();
        println!(
            "{:<12} {:<10} {:<32} {:>9.0} {:>9.0} {:>9.0}",
            text("tier"),
            text("kind"),
            text("case"),
            us("p50_us"),
            us("p99_us"),
            us("max_us")
        );
    }
    Ok(())
}
