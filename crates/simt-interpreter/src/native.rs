//! The seam to tier 1: how a warp enters native code and comes back.
//!
//! A warp's state is data (`warp`), and it is the same data for both tiers: values in the register
//! file, lanes in the table of pending blocks. Native code of a kernel is entered at the start of
//! a block, keeps what it likes in machine registers, and before it returns has put every value
//! that a lane may still read back into the file. So a kernel moves up between two blocks, and
//! whatever native code does not do itself (barriers, calls, pauses, giving way) is done here.
//!
//! An instruction for which the generator has no machine code runs as its decoded form:
//! [`Frame::run`] takes the numbers that [`Layout::pieces`] gives.
//!
//! Invariants: native code runs only a kernel's lockstep form; only lanes that came in with it
//! ([`Frame::lanes`]) may have values in machine registers, and it takes lanes out of the table
//! only below [`Frame::limit`], where no others wait.

pub use super::approx::EXP2_TERMS;
use super::decode::Code;
pub use super::decode::Place;
use super::machine::{Ins, Machine, Step};
use simt::kernel::{Control, Range};
use simt::vector::VectorFunction;
use std::any::Any;
use std::sync::Arc;

/// What native code is given, and what it gives back.
#[repr(C)]
pub struct Frame {
    /// The register file.
    pub regs: *mut u8,
    /// Lanes at the start of each block.
    pub pending: *mut u32,
    /// Asks to give way.
    pub control: *const Control,
    /// Ranges of global memory that were allowed lately, [`simt::kernel::RECENT_RANGES`] of them.
    pub ranges: *const Range,
    /// The block's shared memory.
    pub shared: *mut u8,
    /// Its size, bytes.
    pub shared_bytes: u64,
    /// Where native code finds its own tables.
    pub own: *const u8,
    /// Runs decoded instructions of the function: the first one's number and how many. Gives one
    /// of [`NEXT`], [`FAULT`], [`PARK`] and [`LEAVE`].
    pub run: unsafe extern "sysv64" fn(*mut Frame, u32, u32) -> u32,
    /// Back-edges left before others get a turn.
    pub patience: i64,
    /// To be added to the counters.
    pub warp_instructions: u64,
    /// To be added to the counters.
    pub thread_instructions: u64,
    /// To be added to the counters.
    pub global_bytes: u64,
    /// Lanes that run.
    pub mask: u32,
    /// Lanes that have not exited.
    pub live: u32,
    /// The lowest block with pending lanes, or `u32::MAX`.
    pub lowest: u32,
    /// The lowest block with pending lanes that did not come in.
    pub limit: u32,
    /// Lanes that came in.
    pub lanes: u32,
    /// With [`TERMINATE`], [`PARK`] and [`LEAVE`]: the block.
    pub block: u32,
    /// Number of the warp in the block of the grid.
    pub warp: u32,
    /// Warps behind it that native code may start when it has ended: with nobody pending, and the
    /// same register file.
    pub following: u32,
    /// Lanes of the last of them; the others have all.
    pub last_lanes: u32,
    /// Extents of the block of the grid.
    pub threads: [u32; 3],
    /// With [`FAULT`]: the instruction.
    ins: u32,
    machine: *mut (),
    code: *const Ins,
}

/// All lanes that came in are in the table, or have exited.
pub const NEXT: u32 = 0;
/// The machine's fault says why the kernel cannot go on.
pub const FAULT: u32 = 1;
/// The first instruction of the block needs lanes that are elsewhere.
pub const PARK: u32 = 2;
/// The block cannot run in lockstep form; nothing of it has happened yet.
pub const LEAVE: u32 = 4;
/// The instructions of the block have been run by the lanes in the mask: its end is not native.
pub const TERMINATE: u32 = 3;

/// Enters native code at the start of a block, with [`Frame::mask`]'s lanes.
pub type Entry = unsafe extern "sysv64" fn(*mut Frame, u32) -> u32;

/// A kernel's native code.
pub struct NativeCode {
    entry: Entry,
    own: *const u8,
    _memory: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointers are to memory that is never written again and lives as long as `_memory`.
unsafe impl Send for NativeCode {}
// SAFETY: as above.
unsafe impl Sync for NativeCode {}

impl NativeCode {
    /// Code at `entry` in `memory`.
    ///
    /// # Safety
    /// The code keeps the contract of this module for the function and layout it was made for, and
    /// it and what `own` points to live as long as `memory`.
    pub unsafe fn new(entry: Entry, own: *const u8, memory: Arc<dyn Any + Send + Sync>) -> Self {
        Self { entry, own, _memory: memory }
    }
}

/// Where a function's registers and decoded instructions are.
pub struct Layout<'a>(&'a Code);

impl<'a> Layout<'a> {
    pub(super) fn new(code: &'a Code) -> Self {
        Self(code)
    }

    /// A register's places in the file.
    pub fn place(&self, register: usize) -> Place {
        self.0.places[register]
    }

    /// The decoded form of a block's instruction for a full or a partial mask: the first one's
    /// number, and how many.
    pub fn pieces(&self, block: usize, index: usize, masked: bool) -> (u32, u32) {
        let b = &self.0.blocks[block];
        let starts = if masked { &b.masked_starts } else { &b.full_starts };
        (starts[index], starts[index + 1] - starts[index])
    }

    /// The decoded form of a block's checks.
    pub fn checks(&self, block: usize, masked: bool) -> (u32, u32) {
        let b = &self.0.blocks[block];
        let (range, starts) =
            if masked { (&b.masked, &b.masked_starts) } else { (&b.full, &b.full_starts) };
        (range.start as u32, starts[0] - range.start as u32)
    }

    /// Which of the remembered ranges the access has that is decoded first at `pieces`'s number.
    pub fn site(&self, first: u32, count: u32) -> usize {
        let last = first + count - 1;
        (first..=last).map(|i| super::memory::site(&self.0.ins[i as usize])).max().unwrap_or(0)
    }

    /// What a back-edge from a block takes of the patience.
    pub fn cost(&self, block: usize) -> i64 {
        self.0.blocks[block].cost
    }
}

/// Calls `f` with the layout that the interpreter gives a function.
pub fn with_layout<R>(function: &VectorFunction, f: impl FnOnce(&Layout<'_>) -> R) -> R {
    let code = super::decode::decode(function, super::lanes::Target::detect(), false);
    f(&Layout(&code))
}

/// Makes native code.
pub trait Generator: Send + Sync {
    /// Starts of a kernel's function before it is worth the work; 0 to do it at once.
    fn threshold(&self) -> u32;
    /// The code of a function in lockstep form; `None` if it is better interpreted.
    fn generate(&self, function: &VectorFunction, layout: &Layout<'_>) -> Option<NativeCode>;
}

unsafe extern "sysv64" fn run(frame: *mut Frame, first: u32, count: u32) -> u32 {
    // SAFETY: native code passes the frame it was given, which `enter` made of a machine and the
    // function's instructions; the numbers are of instructions decoded for that function.
    unsafe {
        let f = &mut *frame;
        let machine = &mut *f.machine.cast::<Machine<'static>>();
        machine.mask = f.mask;
        machine.live = f.live;
        machine.warp = f.warp;
        for number in first..first + count {
            let ins = &*f.code.add(number as usize);
            match (ins.run)(machine, ins) {
                Step::Next => {}
                Step::Park => return PARK,
                Step::Leave => return LEAVE,
                Step::Fault => {
                    f.ins = number;
                    return FAULT;
                }
            }
        }
    }
    NEXT
}

/// What a call of native code led to.
pub(super) struct Return {
    /// One of [`NEXT`], [`FAULT`], [`PARK`], [`LEAVE`] and [`TERMINATE`].
    pub(super) why: u32,
    pub(super) block: u32,
    pub(super) mask: u32,
    pub(super) live: u32,
    pub(super) lowest: u32,
    pub(super) patience: i64,
    pub(super) warp: u32,
    pub(super) following: u32,
    /// Number of the instruction that faulted.
    pub(super) ins: u32,
}

/// Runs native code from the start of `block` with the lanes in `mask`.
///
/// # Safety
/// `native` was made for `code`; the machine is set up for it; `pending` has an entry a block.
#[allow(clippy::too_many_arguments, reason = "the state of a warp")]
pub(super) unsafe fn enter(
    native: &NativeCode,
    code: &Code,
    machine: &mut Machine<'_>,
    control: &Control,
    pending: &mut [u32],
    lowest: u32,
    patience: i64,
    block: u32,
    mask: u32,
) -> Return {
    debug_assert_eq!(pending.len(), code.blocks.len());
    let threads = machine.block.launch.block;
    let mut frame = Frame {
        regs: machine.regs,
        pending: pending.as_mut_ptr(),
        control,
        ranges: machine.memory.recent(),
        shared: machine.shared,
        shared_bytes: machine.shared_bytes,
        own: native.own,
        run,
        patience,
        warp_instructions: 0,
        thread_instructions: 0,
        global_bytes: 0,
        mask,
        live: machine.live,
        lowest,
        limit: lowest,
        lanes: mask,
        block,
        warp: machine.warp,
        following: if lowest == u32::MAX { machine.following } else { 0 },
        last_lanes: machine.last_lanes,
        threads: [threads.x, threads.y, threads.z],
        ins: 0,
        machine: std::ptr::from_mut(machine).cast(),
        code: code.ins.as_ptr(),
    };
    // SAFETY: the frame is complete and everything it points to outlives the call; the generator
    // vouched for the code.
    let why = unsafe { (native.entry)(&mut frame, block) };
    machine.counters.warp_instructions += frame.warp_instructions;
    machine.counters.thread_instructions += frame.thread_instructions;
    machine.counters.global_bytes += frame.global_bytes;
    Return {
        why,
        block: frame.block,
        mask: frame.mask,
        live: frame.live,
        lowest: frame.lowest,
        patience: frame.patience,
        warp: frame.warp,
        following: frame.following,
        ins: frame.ins,
    }
}
