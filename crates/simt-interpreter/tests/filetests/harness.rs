//! A device of one thread: memory that ends where nothing is, a grid run block by block, some blocks
//! in a row.

use super::record;
use super::tiers::{Set, is_native, tier};
use simt::kernel::{
    BlockRun, Control, Counters, Dim3, Fault, Kernel, Launch, MemoryView, Module, ModuleMemory,
    OutOfMemory, Outcome, PrintfSink, Range, RangeMap, RangeSource, Wait, Worker,
};
use simt::runtime::init_tracking::WrittenBytes;
use simt::{CompileError, load_module};
use simt_interpreter::{Checks, Interpreter};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// Yields in a row after which a test counts as stuck: no test needs nearly as many.
const ROUNDS_MAX: usize = 200_000;

/// The limit of a thread's stack that contexts begin with.
pub(crate) const STACK_BYTES: u32 = 1024;

/// What buffers are aligned to, as device allocations are.
const ALIGN_BYTES: usize = 256;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Memory that kernels may touch, with an inaccessible page on either side: native code that
/// touches more than it has checked ends there.
struct Buffer {
    address: u64,
    bytes: u64,
    writable: bool,
    /// All pages: where they start, and how many bytes they have.
    pages: (usize, usize),
}

impl Buffer {
    fn new(bytes: u64, align_bytes: usize, writable: bool) -> Self {
        let room = (bytes as usize).next_multiple_of(align_bytes);
        let inside = room.next_multiple_of(PAGE_BYTES);
        let length = inside + 2 * PAGE_BYTES;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: pages wherever the system likes; those in the middle of them are made accessible.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, kind, -1, 0);
            assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            let both = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(start.byte_add(PAGE_BYTES), inside, both), 0);
            start as usize
        };
        let address = (start + PAGE_BYTES + inside - room) as u64;
        Self { address, bytes, writable, pages: (start, length) }
    }

    fn range(&self) -> Range {
        Range { start: self.address, end: self.address + self.bytes, writable: self.writable }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let (start, length) = self.pages;
        // SAFETY: they are this buffer's, and what points to it goes with the device.
        unsafe { libc::munmap(start as *mut _, length) };
    }
}

/// A device's worker, of the only SM that blocks run on.
fn worker<'a>(
    control: &'a Control,
    memory: &'a mut MemoryView,
    counters: &'a mut Counters,
) -> Worker<'a> {
    Worker { control, memory, sm: 0, other_sms: &[], sm_count: 8, counters }
}

/// Memory that kernels may touch.
#[derive(Default)]
pub(crate) struct Memory {
    buffers: Mutex<Vec<Buffer>>,
    written: Arc<WrittenBytes>,
}

impl Memory {
    /// Zeroed memory; its address.
    pub(crate) fn allocate(&self, bytes: u64, writable: bool) -> u64 {
        self.allocate_aligned(bytes, ALIGN_BYTES, writable)
    }

    /// Memory that is less aligned than that of devices is, so that nothing is between its end and
    /// the page behind it.
    pub(crate) fn allocate_aligned(&self, bytes: u64, align_bytes: usize, writable: bool) -> u64 {
        let buffer = Buffer::new(bytes, align_bytes, writable);
        let address = buffer.address;
        self.buffers.lock().unwrap().push(buffer);
        if writable {
            self.written.track(address, bytes);
        }
        address
    }

    /// Copies into memory.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        assert!(self.ranges().find(address).is_some_and(|r| address + bytes.len() as u64 <= r.end));
        self.written.write(address, bytes.len() as u64);
        // SAFETY: the range was handed out by `allocate` and nothing else runs.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    }

    /// Copies out of memory.
    pub(crate) fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        assert!(self.ranges().find(address).is_some_and(|r| address + bytes as u64 <= r.end));
        // SAFETY: the range was handed out by `allocate` and nothing else runs.
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes).to_vec() }
    }
}

impl Memory {
    /// Address and contents of every buffer.
    fn contents(&self) -> Vec<(u64, Vec<u8>)> {
        let ranges = self.ranges();
        let buffers = self.buffers.lock().unwrap();
        let starts: Vec<(u64, u64)> = buffers.iter().map(|b| (b.address, b.bytes)).collect();
        drop(buffers);
        assert!(starts.iter().all(|(start, bytes)| *bytes == 0 || ranges.find(*start).is_some()));
        starts.into_iter().map(|(start, bytes)| (start, self.read(start, bytes as usize))).collect()
    }
}

impl RangeSource for Memory {
    fn ranges(&self) -> RangeMap {
        let buffers = self.buffers.lock().unwrap();
        let mut ranges: Vec<Range> = buffers.iter().map(Buffer::range).collect();
        ranges.sort_by_key(|r| r.start);
        RangeMap::new(ranges)
    }
}

struct Placer<'a>(&'a Memory);

impl ModuleMemory for Placer<'_> {
    fn allocate(&mut self, bytes: u64, align: u64, writable: bool) -> Result<u64, OutOfMemory> {
        assert!(align <= ALIGN_BYTES as u64);
        let address = self.0.allocate(bytes, writable);
        // Variables without initial values are zero.
        self.0.written.write(address, bytes);
        Ok(address)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.0.write(address, bytes);
    }
}

/// Keeps what kernels print.
#[derive(Default)]
pub(crate) struct Printed(pub(crate) Mutex<Vec<u8>>);

impl PrintfSink for Printed {
    fn print(&self, text: &[u8]) {
        self.0.lock().unwrap().extend(text);
    }
}

/// The device.
pub(crate) struct Device {
    pub(crate) memory: Arc<Memory>,
    pub(crate) printed: Arc<Printed>,
    pub(crate) counters: Counters,
    /// What was found, if accesses are accounted for.
    pub(crate) findings: Option<Arc<Mutex<Vec<String>>>>,
    /// Blocks are asked to give way nearly all of the time.
    pub(crate) interrupted: bool,
    /// The limit of a thread's stack.
    pub(crate) stack_bytes: u32,
    set: Set,
    /// What was loaded last.
    text: RefCell<String>,
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) cluster: Option<Dim3>,
    pub(crate) shared: u32,
}

impl Shape {
    /// One-dimensional, without dynamic shared memory.
    pub(crate) fn linear(blocks: u32, threads: u32) -> Self {
        let one = |x| Dim3 { x, y: 1, z: 1 };
        Self { grid: one(blocks), block: one(threads), cluster: None, shared: 0 }
    }
}

impl Device {
    /// A device whose kernels run on this.
    pub(crate) fn new(set: Set) -> Self {
        Self {
            memory: Arc::default(),
            printed: Arc::default(),
            counters: Counters::default(),
            findings: None,
            interrupted: false,
            stack_bytes: STACK_BYTES,
            set,
            text: RefCell::default(),
        }
    }

    /// A device that accounts for accesses, which only the interpreter does.
    pub(crate) fn checking(set: Set) -> Self {
        Self { findings: Some(Arc::default()), ..Self::new(set) }
    }

    /// Loads a module.
    pub(crate) fn load(&self, text: &str) -> Result<Arc<dyn Module>, CompileError> {
        *self.text.borrow_mut() = text.to_owned();
        let tier = match self.findings.clone() {
            None => tier(self.set),
            Some(findings) => {
                let report = Arc::new(move |text: &str| {
                    findings.lock().unwrap().push(text.to_owned());
                });
                let written = Some(self.memory.written.clone());
                Arc::new(Interpreter::new().checking(Checks { report, written }))
            }
        };
        load_module(text, &mut Placer(&self.memory), tier)
    }

    /// Runs a kernel to its end; if the set means native code, that must have run.
    pub(crate) fn run(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        shape: Shape,
        params: &[u8],
    ) -> Result<(), Box<Fault>> {
        // Who runs the records launches without attributes.
        let wanted = record::wanted(self.set) && shape.cluster.is_none();
        let before = wanted.then(|| self.memory.contents());
        let entries = self.counters.native.entries;
        let ran = self.run_blocks(kernel, shape, params);
        if is_native(self.set) && self.findings.is_none() {
            let name = &kernel.info().name;
            assert!(self.counters.native.entries > entries, "{name} has not run as native code");
        }
        ran?;
        if let Some(before) = before {
            let after = self.memory.contents();
            let kernel = &kernel.info().name;
            record::write(&self.text.borrow(), kernel, shape, params, &before, &after);
        }
        Ok(())
    }

    fn launch(&self, kernel: &Arc<dyn Kernel>, shape: Shape, params: &[u8]) -> Arc<Launch> {
        Arc::new(Launch {
            grid_id: 1,
            workspace: 0,
            grid: shape.grid,
            block: shape.block,
            cluster: shape.cluster.or(kernel.info().required_cluster),
            dynamic_shared_bytes: shape.shared,
            stack_bytes: self.stack_bytes,
            warps_per_sm: 48,
            params: params.into(),
            printf: self.printed.clone(),
            device: None,
        })
    }

    /// Where the first block (or cluster) waits each time that it has yielded, so often.
    pub(crate) fn waits(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        shape: Shape,
        params: &[u8],
        times: usize,
    ) -> Vec<Option<Wait>> {
        let launch = self.launch(kernel, shape, params);
        let (control, mut view) = (Control::default(), MemoryView::new(self.memory.clone()));
        let mut block = kernel.clone().start(launch.clone(), launch.start_index(0));
        let mut resume = || {
            let mut worker = worker(&control, &mut view, &mut self.counters);
            let outcome = block.resume(&mut worker);
            assert!(matches!(outcome, Outcome::Yielded), "{outcome:?}");
            block.waits()
        };
        (0..times).map(|_| resume()).collect()
    }

    /// Runs it eight blocks (or clusters) resident at a time, in turns.
    fn run_blocks(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        shape: Shape,
        params: &[u8],
    ) -> Result<(), Box<Fault>> {
        let launch = self.launch(kernel, shape, params);
        let control = Control::default();
        let mut view = MemoryView::new(self.memory.clone());
        let total = launch.starts();
        let mut next = 0;
        // Numbers of blocks that have come to their end, out of all that were started.
        let (mut started, mut ended) = (0, 0);
        let mut resident: Vec<Box<dyn BlockRun>> = Vec::new();
        let mut finished: Vec<Box<dyn BlockRun>> = Vec::new();
        let mut rounds = 0;
        loop {
            while resident.len() < 8 && next < total {
                let index = launch.start_index(next);
                // As devices do: every other block in the memory of a finished one.
                let again = finished
                    .pop()
                    .and_then(|mut block| (next % 2 == 1 && block.restart(index)).then_some(block));
                resident.push(again.unwrap_or_else(|| kernel.clone().start(launch.clone(), index)));
                next += 1;
                started += 1;
            }
            if resident.is_empty() {
                assert_eq!((started, ended), (total, total), "each block once");
                return Ok(());
            }
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "the grid makes no progress");
            match self.interrupted && rounds % 7 != 0 {
                true => control.request_yield(),
                false => control.clear(),
            }
            let mut left = Vec::new();
            let newest = resident.len() - 1;
            for (at, mut block) in resident.drain(..).enumerate() {
                let mut worker = worker(&control, &mut view, &mut self.counters);
                // The newest has no block in front of what follows it: now and then it may go on.
                let more = if at == newest { (total - next).min(next % 4) } else { 0 };
                let (moved, outcome) = block.resume_row(&mut worker, more);
                assert!(moved <= more, "{moved} blocks of {more}");
                next += moved;
                started += moved;
                ended += moved;
                match outcome {
                    Outcome::Finished => {
                        ended += 1;
                        finished.push(block);
                    }
                    Outcome::Yielded => left.push(block),
                    Outcome::Fault(fault) => return Err(fault),
                }
            }
            resident = left;
        }
    }
}

/// Lays out kernel parameters: each at the next multiple of its size.
#[derive(Default)]
pub(crate) struct Params(pub(crate) Vec<u8>);

impl Params {
    /// Appends a parameter.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let at = self.0.len().next_multiple_of(bytes.len().clamp(1, 8));
        self.0.resize(at, 0);
        self.0.extend(bytes);
    }
}
