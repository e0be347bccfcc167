//! Random programs on a device, held against the interpreter: the device of the provider, which is
//! NVIDIA's driver or the software GPU (`OPENMPS_PROVIDER`).
//!
//!     device [--first SEED] [--count N] [--processes N] [--attempts N] [--level 0 TO 4]
//!
//! Each program that differs is made small (`--attempts` runs at most) and printed with its seed and
//! launch, and with what the device says when the driver's compiler does not optimise (`--level 0`:
//! none does); the last line counts. The exit status is 1 if any differs. A process of its own takes
//! every `--processes`-th seed: a program that faults or hangs, or that the compiler dies of, ends
//! the process it runs in, and another one goes on behind it.

use cuda_api::{CUcontext, CUdeviceptr, CUfunction, CUmodule, CUstream, DriverTable};
use ptx_reference::generate::Program;
use ptx_reference::{Argument, Buffer, Launch, differential};
use std::ffi::{CString, c_uint, c_void};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio, exit};
use std::ptr::{from_mut, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "--first SEED, --count N, --processes N, --attempts N, --level 0 TO 4";
/// How long a program may run: most take a millisecond.
const RUN_S_MAX: u64 = 20;
/// Room for what a compiler says.
const LOG_BYTES: usize = 4096;
/// CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES and CU_JIT_OPTIMIZATION_LEVEL.
const LOAD_OPTIONS: [c_uint; 3] = [5, 6, 7];
/// CU_LIMIT_STACK_SIZE.
const LIMIT_STACK: c_uint = 0;
/// Stack of a thread: functions of random programs call themselves a few times.
const STACK_BYTES: usize = 16 << 10;
/// What a worker says before each seed; anything else it prints is for the reader.
const NEXT: &str = "@next ";
/// What a worker says of each program that differs.
const DIFFERS: &str = "@differs";
/// And before, if it does so only when it is optimised.
const OPTIMISER: &str = "@optimiser";
/// Exit status of a worker whose context is lost.
const LOST: i32 = 3;

/// Numbers that the command line may change.
#[derive(Clone, Copy)]
struct Options {
    first: u64,
    count: u64,
    processes: u64,
    attempts: u64,
    /// How much the driver's compiler optimises.
    level: u64,
    /// This process is a worker.
    worker: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let mut options =
            Self { first: 0, count: 1000, processes: 2, attempts: 150, level: 4, worker: false };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut number = || {
                let text = arguments.next().ok_or(format!("{name} needs a number"))?;
                text.parse::<u64>().map_err(|_| format!("{text} is not a number"))
            };
            match name.as_str() {
                "--first" => options.first = number()?,
                "--count" => options.count = number()?,
                "--processes" => options.processes = number()?.max(1),
                "--attempts" => options.attempts = number()?,
                "--level" => options.level = number()?,
                "--worker" => options.worker = true,
                _ => {
                    return Err(format!("{name} is none of {USAGE}"));
                }
            }
        }
        Ok(options)
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

fn main() -> ExitCode {
    let options = match Options::read() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if options.worker { work(options) } else { lead(options) }
}

/// How many programs.
#[derive(Default)]
struct Counts {
    differ: AtomicU64,
    optimiser: AtomicU64,
    ended: AtomicU64,
}

/// Starts workers, and others in the place of those that ended, and adds up.
fn lead(options: Options) -> ExitCode {
    let counts = Counts::default();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for offset in 0..options.processes {
            let counts = &counts;
            scope.spawn(move || {
                let mut first = options.first + offset;
                while first < options.end() {
                    let Some(last) = watch(worker(options, first), counts) else { break };
                    println!("seed {last} ended its process\n");
                    counts.ended.fetch_add(1, Ordering::Relaxed);
                    first = last + options.processes;
                }
            });
        }
    });
    let [differ, optimiser, ended] =
        [counts.differ, counts.optimiser, counts.ended].map(AtomicU64::into_inner);
    println!(
        "{} programs from seed {}: {} as in the interpreter, {differ} differ, {optimiser} of them \
         only when optimised, {ended} ended their process; {} s",
        options.count,
        options.first,
        options.count - differ - ended,
        start.elapsed().as_secs()
    );
    ExitCode::from(u8::from(differ + ended > 0))
}

/// A process for the seeds from `first` on.
fn worker(options: Options, first: u64) -> (Child, ChildStdout) {
    let program = std::env::current_exe().expect("this program has a file");
    let mut child = Command::new(program)
        .arg("--worker")
        .args(["--first", &first.to_string()])
        .args(["--count", &(options.end() - first).to_string()])
        .args(["--processes", &options.processes.to_string()])
        .args(["--attempts", &options.attempts.to_string()])
        .args(["--level", &options.level.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process can be started");
    let output = child.stdout.take().expect("it was asked for");
    (child, output)
}

/// Prints what a worker finds; the seed at which it ended if that was not its last.
fn watch((mut child, output): (Child, ChildStdout), counts: &Counts) -> Option<u64> {
    let (mut seed, mut finding) = (None, String::new());
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(next) = line.strip_prefix(NEXT) {
            seed = next.parse().ok();
        } else if line == DIFFERS {
            counts.differ.fetch_add(1, Ordering::Relaxed);
        } else if line == OPTIMISER {
            counts.optimiser.fetch_add(1, Ordering::Relaxed);
        } else {
            finding += &line;
            finding.push('\n');
            continue;
        }
        print!("{finding}");
        finding.clear();
    }
    print!("{finding}");
    let status = child.wait().expect("a child can be waited for");
    if status.success() { None } else { seed.or_else(|| panic!("a worker did not start")) }
}

/// Tries seeds in this process.
fn work(options: Options) -> ExitCode {
    let provider = match provider::load() {
        Ok(provider) => provider,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let device = match Device::open(provider.table()) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let optimised = |text: &str, launch: &Launch, buffers: &mut Vec<Buffer>| {
        device.run(text, options.level as usize, launch, buffers)
    };
    let plain = |text: &str, launch: &Launch, buffers: &mut Vec<Buffer>| {
        device.run(text, 0, launch, buffers)
    };
    for seed in (options.first..options.end()).step_by(options.processes as usize) {
        println!("{NEXT}{seed}");
        let attempts = options.attempts as usize;
        let program = Program::strict(seed);
        if let Some(finding) = differential::find(program, attempts, &[("device", &optimised)]) {
            println!("seed {seed}: {finding}");
            let plain = differential::compare(&finding.program, &[("unoptimised", &plain)]);
            if plain.is_ok() {
                println!("{OPTIMISER}");
            }
            println!("{plain:?}\n{DIFFERS}");
        }
    }
    ExitCode::SUCCESS
}

/// What the driver says of a failed call.
fn call(what: &str, result: Result<(), cuda_api::CudaError>) -> Result<(), String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Calls a function of the table.
macro_rules! cu {
    ($table:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: a provider's functions have cuda.h's signatures. Arguments are values, handles made by the
        // same table, and pointers to live memory, as large as other arguments say.
        unsafe { ($table.$name)($($argument),*) }
    };
}

/// A device with a current context.
struct Device<'a> {
    table: &'a DriverTable,
}

impl<'a> Device<'a> {
    fn open(table: &'a DriverTable) -> Result<Self, String> {
        let mut context = CUcontext::default();
        call("cuInit", cu!(table, cuInit(0)))?;
        call("a context", cu!(table, cuDevicePrimaryCtxRetain(&mut context, 0)))?;
        call("cuCtxSetCurrent", cu!(table, cuCtxSetCurrent(context)))?;
        call("the stack", cu!(table, cuCtxSetLimit(LIMIT_STACK, STACK_BYTES)))?;
        Ok(Self { table })
    }

    /// Runs a program. A text that the driver refuses is an error; after any other failure the
    /// context is of no use, and the process ends.
    fn run(
        &self,
        text: &str,
        level: usize,
        launch: &Launch,
        buffers: &mut [Buffer],
    ) -> Result<(), String> {
        let module = self.load(text, level)?;
        if let Err(error) = self.launch(module, launch, buffers) {
            println!("{error}\n{launch:?}\n{text}");
            exit(LOST);
        }
        call("unloading", cu!(self.table, cuModuleUnload(module)))
    }

    fn load(&self, text: &str, level: usize) -> Result<CUmodule, String> {
        let image = CString::new(text).map_err(|_| "a text with a NUL byte".to_owned())?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = LOAD_OPTIONS;
        let number = std::ptr::without_provenance_mut;
        let mut values: [*mut c_void; 3] =
            [log.as_mut_ptr().cast(), number(LOG_BYTES), number(level)];
        let mut module = CUmodule::default();
        let (count, keys) = (options.len() as c_uint, options.as_mut_ptr());
        let (image, values) = (image.as_ptr().cast(), values.as_mut_ptr());
        let result = cu!(self.table, cuModuleLoadDataEx(&mut module, image, count, keys, values));
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        call(String::from_utf8_lossy(&log[..end]).trim(), result)?;
        Ok(module)
    }

    /// Launches, waits, and brings the buffers back.
    fn launch(
        &self,
        module: CUmodule,
        launch: &Launch,
        buffers: &mut [Buffer],
    ) -> Result<(), String> {
        let name = CString::new(launch.kernel.as_str()).map_err(|e| e.to_string())?;
        let mut function = CUfunction::default();
        let mut places = vec![CUdeviceptr(0); buffers.len()];
        let t = self.table;
        call("its kernel", cu!(t, cuModuleGetFunction(&mut function, module, name.as_ptr())))?;
        for (place, bytes) in places.iter_mut().zip(&*buffers) {
            call("memory", cu!(t, cuMemAlloc_v2(place, bytes.len())))?;
            let copied = cu!(t, cuMemcpyHtoD_v2(*place, bytes.as_ptr().cast(), bytes.len()));
            call("a copy to the device", copied)?;
        }
        // Values, in memory that is aligned for any of them.
        let mut arguments: Vec<u64> = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Buffer(index) => places[*index].0,
                Argument::Value(bytes) => {
                    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
                }
            })
            .collect();
        let mut parameters: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| from_mut(argument).cast()).collect();
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let (bytes, stream) = (launch.shared_bytes, CUstream::default());
        let (list, none) = (parameters.as_mut_ptr(), null_mut());
        let launched =
            cu!(t, cuLaunchKernel(function, gx, gy, gz, bx, by, bz, bytes, stream, list, none));
        call("the launch", launched)?;
        self.wait()?;
        for (bytes, place) in buffers.iter_mut().zip(places) {
            let copied = cu!(t, cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), place, bytes.len()));
            call("a copy from the device", copied)?;
            call("freeing memory", cu!(t, cuMemFree_v2(place)))?;
        }
        Ok(())
    }

    /// Waits for the kernel, not for ever.
    fn wait(&self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(RUN_S_MAX);
        loop {
            match cu!(self.table, cuStreamQuery(CUstream::default())) {
                Err(error) if error == cuda_api::CudaError::NOT_READY => {}
                other => return call("running", other),
            }
            if Instant::now() > end {
                return Err(format!("still runs after {RUN_S_MAX} s"));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
