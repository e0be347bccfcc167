//! Tier-1 ABI: how a warp enters native code and comes back.
//!
//! A warp's state is data (`warp`), and it is the same data for both tiers: values in the register
//! file, lanes in the table of pending blocks. Native code of a kernel is entered at the start of
//! a block, keeps what it likes in machine registers, and before it returns has put every value
//! that a lane may still read back into the file. So a kernel moves up between two blocks, and
//! what native code does not do itself (barriers, calls, pauses, yielding) is done here.
//!
//! There are two entries. A warp enters alone at the start of a block of code; when it has ended,
//! native code may start the warps behind it in its place, and then the blocks of the grid that
//! follow. Where warps wait for each other, all warps of a block of the grid enter together, each
//! with its register file ([`Slot`]): native code runs one to its barrier, then the next, and when
//! all have come they go on; others wait for a warp only until it is its turn.
//!
//! An instruction for which the generator has no machine code runs in the interpreter:
//! [`Frame::run`] takes the numbers that [`Layout::handler_range`] gives.
//!
//! Invariants: native code runs only a kernel's lockstep form; only lanes that came in with it
//! ([`Frame::lanes`]) may have values in machine registers, and it takes lanes out of the table
//! only below [`Frame::limit`], where no others wait.

use crate::decode::Code;
use crate::handler_context::{HandlerContext, Ins, Step};
pub use crate::ops::rsqrt_estimate::is_here as estimates_are_here;
pub use crate::ops::transcendental::{
    COSINE_TERMS, EXP2_ENDS, EXP2_TERMS, HALF_PI_PARTS, LOG2_FIRST, LOG2_TERMS, SINE_TERMS,
    TANH_CAP, TANH_NEAR, TANH_SCALE, TANH_THIRD,
};
pub use crate::register_file::Place;
use crate::register_file::Registers;
use crate::time_slice::FUEL;
use simt::ir::vector::VectorFunction;
use simt::kernel::{Control, Dim3, Range};
use std::any::Any;
use std::sync::Arc;

/// What native code is given, and what it gives back.
#[repr(C)]
pub struct Frame {
    /// The register file.
    pub regs: *mut u8,
    /// Lanes at the start of each block.
    pub pending: *mut u32,
    /// Asks to yield.
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
    pub run: unsafe extern "C" fn(*mut Frame, u32, u32) -> u32,
    /// Back-edges left before others get a turn.
    pub fuel: i64,
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
    /// Warps behind it that native code may start when it has ended: with no lane pending, and the
    /// same register file.
    pub following: u32,
    /// Lanes of the last of them; the others have all.
    pub last_lanes: u32,
    /// Extents of the block of the grid.
    pub threads: [u32; 3],
    /// Extents of the grid.
    pub grid: [u32; 3],
    /// Which block of the grid it is.
    pub index: [u32; 3],
    /// Blocks of the grid behind it that native code may start when it has ended.
    pub more: u32,
    /// Warps of a block of the grid.
    pub warps: u32,
    /// Not 0 if what the prologue computes is still to be computed for the block of the grid.
    pub fresh: u32,
    /// Warps that have come to the barrier in this round.
    pub arrived: u32,
    /// The launch's parameters, at least [`NativeCode`]'s bytes of them.
    pub params: *const u8,
    /// A slot for each warp if all have entered together; null if one has entered alone.
    pub slots: *mut Slot,
    /// The warp's local memory, lane after lane.
    pub local: *mut u8,
    /// Bytes of it that each lane has.
    pub local_bytes: u64,
    /// Slow paths that native code has taken, where its generator counts them.
    pub slow_paths: u64,
    /// With [`FAULT`]: the instruction.
    ins: u32,
    machine: *mut (),
    code: *const Ins,
}

/// Where a warp stands while all warps of a block of the grid are in native code together: at the
/// start of one block of code, with all its lanes that have not exited.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Slot {
    /// Its register file.
    pub regs: *mut u8,
    /// Its table of pending lanes: empty.
    pub pending: *mut u32,
    /// Its local memory.
    pub local: *mut u8,
    /// Lanes that have not exited.
    pub live: u32,
    /// Where they stand, or [`START`].
    pub block: u32,
    /// Lanes that it starts with.
    pub lanes: u32,
}

impl Slot {
    /// Of a warp that has ended.
    pub(super) const ENDED: Self = Self {
        regs: std::ptr::null_mut(),
        pending: std::ptr::null_mut(),
        local: std::ptr::null_mut(),
        live: 0,
        block: START,
        lanes: 0,
    };
}

/// In place of a block: the warp starts with the prologue.
pub const START: u32 = u32::MAX;
/// Fuel of a warp that comes to its turn.
pub const TIME_SLICE_FUEL: i64 = FUEL;

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

/// All warps entered together, and the one at [`Frame::warp`] and those behind it have not had
/// their turn yet; those in front of it have come to the barrier or ended.
pub const ASKED: u32 = 5;
/// All warps entered together and have ended.
pub const FINISHED: u32 = 6;

/// Enters native code at the start of a block, with [`Frame::mask`]'s lanes.
pub type Entry = unsafe extern "C" fn(*mut Frame, u32) -> u32;

/// What a kernel's native code can do besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It can take all warps of a block of the grid: see [`Slot`].
    pub block_entry: bool,
    /// It can go on with the blocks of the grid that follow.
    pub blocks: bool,
    /// Bytes of parameters that it reads; with less its prologue must not run.
    pub param_bytes: u64,
}

/// A kernel's native code.
pub struct NativeCode {
    entry: Entry,
    abilities: Abilities,
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
    pub unsafe fn new(
        entry: Entry,
        abilities: Abilities,
        own: *const u8,
        memory: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { entry, abilities, own, _memory: memory }
    }

    /// True if all warps of a block of the grid may enter together.
    pub(super) fn takes_all(&self, param_bytes: usize) -> bool {
        self.abilities.block_entry && self.has_params(param_bytes)
    }

    /// True if there are the parameters that its prologue reads.
    pub(super) fn has_params(&self, param_bytes: usize) -> bool {
        self.abilities.param_bytes <= param_bytes as u64
    }

    /// Blocks of the grid that may follow, of `more` that there are.
    pub(super) fn following_blocks(&self, more: u64, param_bytes: usize) -> u32 {
        if self.abilities.blocks && self.has_params(param_bytes) {
            u32::try_from(more).unwrap_or(u32::MAX)
        } else {
            0
        }
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

    /// The interpreter handlers of a block's instruction for a full or a partial mask: the first one's
    /// number, and how many.
    pub fn handler_range(&self, block: usize, index: usize, masked: bool) -> (u32, u32) {
        let b = &self.0.blocks[block];
        let starts = if masked { &b.masked_starts } else { &b.full_starts };
        (starts[index], starts[index + 1] - starts[index])
    }

    /// The interpreter handlers of the prologue's instruction: as [`Self::handler_range`].
    pub fn prologue_handler_range(&self, index: usize) -> (u32, u32) {
        let starts = &self.0.prologue_starts;
        (starts[index], starts[index + 1] - starts[index])
    }

    /// The interpreter handlers of a block's checks.
    pub fn checks(&self, block: usize, masked: bool) -> (u32, u32) {
        let b = &self.0.blocks[block];
        let (range, starts) =
            if masked { (&b.masked, &b.masked_starts) } else { (&b.full, &b.full_starts) };
        (range.start as u32, starts[0] - range.start as u32)
    }

    /// Which of the remembered ranges the access has that is decoded first at `pieces`'s number.
    pub fn site(&self, first: u32, count: u32) -> usize {
        let last = first + count - 1;
        (first..=last).map(|i| crate::ops::memory::site(&self.0.ins[i as usize])).max().unwrap_or(0)
    }

    /// What a back-edge from a block takes of the fuel.
    pub fn cost(&self, block: usize) -> i64 {
        self.0.blocks[block].cost
    }
}

/// Calls `f` with the layout that the interpreter gives a function.
pub fn with_layout<R>(function: &VectorFunction, f: impl FnOnce(&Layout<'_>) -> R) -> R {
    let code = crate::decode::decode(function, crate::ops::map::Target::detect(), false);
    f(&Layout(&code))
}

/// Makes native code.
pub trait Generator: Send + Sync {
    /// Starts of a kernel's function before it is worth the work; 0 to do it at once.
    fn threshold(&self) -> u32;
    /// The code of a function in lockstep form; `None` if it is better interpreted.
    fn generate(&self, function: &VectorFunction, layout: &Layout<'_>) -> Option<NativeCode>;
}

unsafe extern "C" fn run(frame: *mut Frame, first: u32, count: u32) -> u32 {
    // SAFETY: native code passes the frame it was given, which `enter` made of a machine and the
    // function's instructions; the numbers are of instructions decoded for that function.
    unsafe {
        let f = &mut *frame;
        let machine = &mut *f.machine.cast::<HandlerContext<'static>>();
        machine.mask = f.mask;
        machine.live = f.live;
        machine.warp = f.warp;
        machine.regs = Registers::at(f.regs);
        machine.index = dim3(f.index);
        machine.counters.native.interpreter_calls += 1;
        if !f.slots.is_null() {
            machine.local = (*f.slots.add(f.warp as usize)).local;
        }
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

fn dim3([x, y, z]: [u32; 3]) -> Dim3 {
    Dim3 { x, y, z }
}

fn axes(d: Dim3) -> [u32; 3] {
    [d.x, d.y, d.z]
}

/// What a call of native code led to.
pub(super) struct Return {
    /// One of the constants above.
    pub(super) why: u32,
    pub(super) block: u32,
    pub(super) mask: u32,
    pub(super) live: u32,
    pub(super) lowest: u32,
    pub(super) fuel: i64,
    pub(super) warp: u32,
    pub(super) following: u32,
    /// Number of the instruction that faulted.
    pub(super) ins: u32,
}

/// One warp at the start of a block.
pub(super) struct WarpEntry<'a> {
    pub(super) pending: &'a mut [u32],
    pub(super) lowest: u32,
    pub(super) fuel: i64,
    pub(super) block: u32,
    pub(super) mask: u32,
    /// The prologue has run for the block of the grid; native code sees to it otherwise, and
    /// leaves this true.
    pub(super) prepared: &'a mut bool,
    /// Its end must be seen, so that nothing follows in its place.
    pub(super) watched: bool,
}

/// Runs native code from the start of a block with the lanes of one warp.
///
/// # Safety
/// `native` was made for `code`; the machine is set up for it; `pending` has an entry a block; the
/// prologue has run unless the warp starts and `native` may run it.
pub(super) unsafe fn enter(
    native: &NativeCode,
    code: &Code,
    machine: &mut HandlerContext<'_>,
    control: &Control,
    warp: WarpEntry<'_>,
) -> Return {
    debug_assert_eq!(warp.pending.len(), code.blocks.len());
    // With lanes elsewhere its end is not here.
    let followed = warp.lowest == u32::MAX && !warp.watched;
    let (following, more) = if followed { (machine.following, machine.more) } else { (0, 0) };
    let kept = (machine.following - following, machine.more - more);
    let mut frame = Frame {
        pending: warp.pending.as_mut_ptr(),
        fuel: warp.fuel,
        mask: warp.mask,
        lowest: warp.lowest,
        limit: warp.lowest,
        lanes: warp.mask,
        block: warp.block,
        warp: machine.warp,
        following,
        more,
        fresh: u32::from(!*warp.prepared),
        ..Frame::new(native, code, machine, control)
    };
    *warp.prepared = true;
    let back = frame.enter(native, machine);
    machine.more += kept.1;
    Return { following: back.following + kept.0, ..back }
}

/// Runs native code with all warps of the block of the grid, in the order of the slots, each of
/// which stands at the start of a block or has ended.
///
/// # Safety
/// `native` was made for `code` and takes all warps; the slots' files are of that function and
/// their tables of pending lanes have an entry a block.
pub(super) unsafe fn enter_block(
    native: &NativeCode,
    code: &Code,
    machine: &mut HandlerContext<'_>,
    control: &Control,
    slots: &mut [Slot],
) -> Return {
    let mut frame = Frame {
        warp: u32::MAX,
        more: machine.more,
        slots: slots.as_mut_ptr(),
        warps: slots.len() as u32,
        ..Frame::new(native, code, machine, control)
    };
    frame.enter(native, machine)
}

impl Frame {
    fn new(
        native: &NativeCode,
        code: &Code,
        machine: &mut HandlerContext<'_>,
        control: &Control,
    ) -> Self {
        let launch = &machine.block.launch;
        Self {
            regs: machine.regs.base(),
            pending: std::ptr::null_mut(),
            control,
            ranges: machine.memory.recent(),
            shared: machine.shared,
            shared_bytes: machine.shared_bytes,
            own: native.own,
            run,
            fuel: 0,
            warp_instructions: 0,
            thread_instructions: 0,
            global_bytes: 0,
            mask: 0,
            live: machine.live,
            lowest: u32::MAX,
            limit: u32::MAX,
            lanes: 0,
            block: 0,
            warp: 0,
            following: 0,
            last_lanes: machine.last_lanes,
            threads: axes(launch.block),
            grid: axes(launch.grid),
            index: axes(machine.index),
            more: 0,
            warps: machine.warps,
            fresh: 0,
            arrived: 0,
            params: launch.params.as_ptr(),
            slots: std::ptr::null_mut(),
            local: machine.local,
            local_bytes: machine.local_bytes,
            slow_paths: 0,
            ins: 0,
            machine: std::ptr::from_mut(machine).cast(),
            code: code.ins.as_ptr(),
        }
    }

    /// Calls native code with the frame, which [`enter`] or [`enter_block`] has made.
    fn enter(&mut self, native: &NativeCode, machine: &mut HandlerContext<'_>) -> Return {
        self.machine = std::ptr::from_mut(machine).cast();
        // SAFETY: by the contract of these two, whose callers vouch for the frame; the generator vouched
        // for the code.
        let why = unsafe { (native.entry)(self, self.block) };
        machine.counters.warp_instructions += self.warp_instructions;
        machine.counters.thread_instructions += self.thread_instructions;
        machine.counters.global_bytes += self.global_bytes;
        machine.counters.native.entries += 1;
        machine.counters.native.slow_paths += self.slow_paths;
        machine.index = dim3(self.index);
        machine.more = self.more;
        machine.warp = self.warp;
        Return {
            why,
            block: self.block,
            mask: self.mask,
            live: self.live,
            lowest: self.lowest,
            fuel: self.fuel,
            warp: self.warp,
            following: self.following,
            ins: self.ins,
        }
    }
}
