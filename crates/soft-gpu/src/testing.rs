//! Test doubles: kernels that are Rust closures, and devices to run them on.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::device::Device;
use crate::device::capability::Capability;
use crate::device::execution::grid::KernelOp;
use crate::device::occupancy::BlockNeed;
use crate::device::settings::Settings;
use crate::device::slab::Key;
use crate::device::stream::ops::StreamSpec;
use crate::device::stream::{Op, Stream};
use simt::kernel::{
    BlockRun, Dim3, Kernel, KernelInfo, Launch, Outcome, ParamLayout, Wait, Worker,
};

/// Body of a kernel: called for each resume with the launch, the block's index and how often it
/// has been resumed before.
type Body = dyn Fn(&mut Worker<'_>, &Launch, Dim3, u64) -> Outcome + Send + Sync;

/// Where a block says that it waits.
type Waits = Arc<Mutex<Option<Wait>>>;

/// A kernel that is a closure.
pub(crate) struct FnKernel {
    info: KernelInfo,
    body: Arc<Body>,
    /// Its blocks go on with those that follow them, and become others.
    in_rows: bool,
    /// Where the block waits that has yielded last.
    waits: Waits,
}

impl FnKernel {
    /// A kernel with 64-bit parameters, as many as `params`.
    pub(crate) fn new(
        params: u32,
        body: impl Fn(&mut Worker<'_>, &Launch, Dim3, u64) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let info = KernelInfo {
            name: "closure".into(),
            params: (0..params).map(|n| ParamLayout { offset: 8 * n, size: 8 }).collect(),
            param_bytes: 8 * params,
            registers: 16,
            max_threads_per_block: 1024,
            ..Default::default()
        };
        Self { info, body: Arc::new(body), in_rows: false, waits: Waits::default() }
    }
}

struct FnBlock {
    body: Arc<Body>,
    launch: Arc<Launch>,
    index: Dim3,
    resumed: u64,
    in_rows: bool,
    waits: Waits,
}

impl Kernel for FnKernel {
    fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn start(self: Arc<Self>, launch: Arc<Launch>, index: Dim3) -> Box<dyn BlockRun> {
        let (body, in_rows, waits) = (self.body.clone(), self.in_rows, self.waits.clone());
        Box::new(FnBlock { body, launch, index, resumed: 0, in_rows, waits })
    }
}

impl BlockRun for FnBlock {
    fn resume(&mut self, worker: &mut Worker<'_>) -> Outcome {
        self.resumed += 1;
        (self.body)(worker, &self.launch, self.index, self.resumed - 1)
    }

    fn resume_row(&mut self, worker: &mut Worker<'_>, more: u64) -> (u64, Outcome) {
        let mut moved = 0;
        loop {
            let outcome = self.resume(worker);
            if !self.in_rows || moved == more || !matches!(outcome, Outcome::Finished) {
                return (moved, outcome);
            }
            moved += 1;
            // Grids of such kernels have one dimension.
            self.index.x += 1;
            self.resumed = 0;
        }
    }

    fn restart(&mut self, index: Dim3) -> bool {
        (self.index, self.resumed) = (index, 0);
        self.in_rows
    }

    fn waits(&self) -> Option<Wait> {
        *self.waits.lock().unwrap()
    }
}

/// A launch of a closure as `blocks` blocks of `threads` threads.
pub(crate) fn launch(
    blocks: u32,
    threads: u32,
    body: impl Fn(&mut Worker<'_>, Dim3, u64) -> Outcome + Send + Sync + 'static,
) -> Op {
    launched(blocks, threads, (false, Waits::default()), body)
}

/// A launch of a closure as one block, which also says where it waits.
pub(crate) fn launch_waiting(
    body: impl Fn(&mut Worker<'_>) -> (Outcome, Option<Wait>) + Send + Sync + 'static,
) -> Op {
    let waits = Waits::default();
    let said = waits.clone();
    launched(1, 32, (false, waits), move |worker, _, _| {
        let (outcome, wait) = body(worker);
        *said.lock().unwrap() = wait;
        outcome
    })
}

/// The same, of a kernel whose blocks go on with those that follow them where they may.
pub(crate) fn launch_in_rows(
    blocks: u32,
    threads: u32,
    body: impl Fn(&mut Worker<'_>, Dim3, u64) -> Outcome + Send + Sync + 'static,
) -> Op {
    launched(blocks, threads, (true, Waits::default()), body)
}

fn launched(
    blocks: u32,
    threads: u32,
    (in_rows, waits): (bool, Waits),
    body: impl Fn(&mut Worker<'_>, Dim3, u64) -> Outcome + Send + Sync + 'static,
) -> Op {
    let kernel = FnKernel::new(0, move |worker, _, index, resumed| body(worker, index, resumed));
    let kernel = FnKernel { in_rows, waits, ..kernel };
    let launch = Launch {
        grid_id: 0,
        workspace: 0,
        grid: Dim3 { x: blocks, y: 1, z: 1 },
        block: Dim3 { x: threads, y: 1, z: 1 },
        cluster: None,
        dynamic_shared_bytes: 0,
        stack_bytes: 1024,
        warps_per_sm: 64,
        params: Box::default(),
        printf: Arc::<crate::device::printf::PrintfFifo>::default(),
        device: None,
    };
    let warps = threads.div_ceil(32);
    Op::Kernel(Box::new(KernelOp {
        kernel: Arc::new(kernel),
        launch: Arc::new(launch),
        need: BlockNeed { warps, registers: 512 * warps, ..BlockNeed::default() },
        followers: None,
        priority: None,
        sms: None,
        submitted_ns: 0,
    }))
}

/// A device that shuts down with the test, and aborts the test program should it hang.
pub(crate) struct TestDevice {
    device: Arc<Device>,
    _watchdog: Watchdog,
}

impl Deref for TestDevice {
    type Target = Arc<Device>;
    fn deref(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for TestDevice {
    fn drop(&mut self) {
        self.device.shut_down();
    }
}

impl TestDevice {
    /// Eight SMs, two workers, 256 MiB, no turns.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            devices: vec![0],
            peer_access: true,
            capability: Capability::parse("8.0").unwrap(),
            strict: false,
            sms: 8,
            threads: 2,
            memory_bytes: 256 << 20,
            context_waits: false,
            tenants: true,
            log: false,
            check: false,
            profile: None,
            tiers: simt_jit::Tiers::default(),
            code_store: None,
            isa: simt_jit::SimdIsa::choose(None),
            turn_dirs: Vec::new(),
            stall: Duration::ZERO,
            say: |_| {},
        };
        change(&mut settings);
        Self { device: Device::new(settings), _watchdog: Watchdog::new() }
    }

    /// A non-blocking stream of the default tenant.
    pub(crate) fn stream(&self) -> Key<Stream> {
        self.stream_with(StreamSpec { non_blocking: true, ..Default::default() })
    }

    pub(crate) fn stream_with(&self, spec: StreamSpec) -> Key<Stream> {
        let tenant = self.default_tenant();
        let group = self.group(1, tenant).unwrap();
        self.create_stream(group, tenant, spec).unwrap()
    }

    /// Runs 200 kernels in a new stream, one after the other. What was ready before them has had
    /// its turn, so that what has not run then waits for something.
    pub(crate) fn run_other_work(&self) {
        let (stream, counter) = (self.stream(), Arc::new(AtomicU32::new(0)));
        for _ in 0..200 {
            let counted = counter.clone();
            let body = move |_: &mut Worker<'_>, _, _| {
                counted.fetch_add(1, Ordering::Relaxed);
                Outcome::Finished
            };
            self.enqueue(stream, launch(1, 32, body)).unwrap();
            // A thread that waited would do this work itself, and leave the workers asleep.
            while self.query_stream(stream).is_err() {
                std::thread::yield_now();
            }
        }
        assert_eq!(counter.load(Ordering::Relaxed), 200);
        self.destroy_stream(stream).unwrap();
    }
}

/// A word of device memory that a test has, and frees no sooner than it ends.
pub(crate) fn word32(address: u64) -> &'static AtomicU32 {
    // SAFETY: tests' words are aligned, and others access them atomically.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

/// The same, of 8 bytes.
pub(crate) fn word64(address: u64) -> &'static AtomicU64 {
    // SAFETY: as in `word32`.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// The calling thread's number in /proc.
pub(crate) fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Waits until a thread of this process sleeps in the system at many looks in a row, as one does that
/// waits for something, or until `over`, which says that it did not wait.
pub(crate) fn wait_until_asleep(thread: i32, over: impl Fn() -> bool) {
    let mut asleep = 0;
    while asleep < 50 && !over() {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        let sleeps = stat.is_ok_and(|stat| {
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
        });
        asleep = if sleeps { asleep + 1 } else { 0 };
        std::thread::yield_now();
    }
}

/// A test that takes longer has met a deadlock: a machine that is shared may take minutes for one.
pub(crate) const TEST_MAX: Duration = Duration::from_secs(300);

/// Ends the test program if it is still there after [`TEST_MAX`].
pub(crate) struct Watchdog {
    _alive: std::sync::mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        let (alive, dead) = std::sync::mpsc::channel();
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        std::thread::spawn(move || {
            let result = dead.recv_timeout(TEST_MAX);
            if result == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("test {name} hangs");
                std::process::abort();
            }
        });
        Self { _alive: alive }
    }
}

/// Numbers that look random and are the same for the same seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 32) % end
    }
}
