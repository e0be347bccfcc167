//! Handler context: the decoded instruction and the state of the warp that a handler works for.

use crate::check::{AccessLog, Follow};
use crate::ops::memory::Locate;
use crate::register_file::{Operand, Registers};
use crate::run::block::BlockEnvironment;
use simt::kernel::{Counters, Dim3, FaultKind, MemoryView};

/// Results one decoded instruction can have: a vector of four.
pub(crate) const RESULTS_MAX: usize = 4;
/// Sources: an address and a vector of four.
pub(crate) const SOURCES_MAX: usize = 5;

/// What to do after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next one.
    Next,
    /// The machine's `fault` says why the block cannot go on.
    Fault,
    /// Lanes that this instruction needs are elsewhere: run those first.
    Park,
    /// What the code for lockstep relies on does not hold: go on in the code for any order, from
    /// the start of the block.
    Leave,
}

/// Runs one instruction.
///
/// # Safety
/// The instruction was decoded for the function whose registers the machine has, and for a target
/// whose features the processor has; the machine's spaces are those of this block and warp.
pub(crate) type Handler = unsafe fn(&mut HandlerContext<'_>, &Ins) -> Step;

/// A decoded instruction: one cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Ins {
    /// What runs it.
    pub(crate) run: Handler,
    /// A constant: an address offset, or an index into one of the function's tables.
    pub(crate) imm: i64,
    /// The results; of the access log's handlers, numbers.
    pub(crate) d: [Operand; RESULTS_MAX],
    /// The sources.
    pub(crate) a: [Operand; SOURCES_MAX],
    /// The predicate that must hold; one that always does, without a guard.
    pub(crate) guard: Operand,
    /// Line of the PTX.
    pub(crate) line: u32,
    /// What else the handler needs to know, in its own encoding.
    pub(crate) tag: u32,
}

/// A fault that a handler returns.
#[derive(Debug)]
pub(crate) struct LaneFault {
    /// What happened.
    pub(crate) kind: FaultKind,
    /// The first lane it happened to.
    pub(crate) lane: u32,
}

/// The state that handlers work on, for the warp and function that run now.
pub(crate) struct HandlerContext<'a> {
    /// The registers of the running function.
    pub(crate) regs: Registers,
    /// Lanes that run.
    pub(crate) mask: u32,
    /// Lanes of the running function that have not exited or returned.
    pub(crate) live: u32,
    /// Lanes may not be waited for: run with those that are here.
    pub(crate) force: bool,
    /// The block's shared memory.
    pub(crate) shared: *mut u8,
    /// Its size, bytes.
    pub(crate) shared_bytes: u64,
    /// The warp's local memory, lane after lane.
    pub(crate) local: *mut u8,
    /// Bytes of it that each lane has.
    pub(crate) local_bytes: u64,
    /// Where the running function's frame starts in each lane's local memory.
    pub(crate) frame: u64,
    /// Number of the warp in the block.
    pub(crate) warp: u32,
    /// Warps behind this one that have not been started, and may be run when it has ended.
    pub(crate) following: u32,
    /// Lanes of the last of them.
    pub(crate) last_lanes: u32,
    /// Warps of the block.
    pub(crate) warps: u32,
    /// Which block of the grid it is.
    pub(crate) index: Dim3,
    /// Blocks of the grid behind it that have not been started, and may be run when it has ended.
    pub(crate) more: u32,
    /// The way to device memory.
    pub(crate) memory: &'a mut MemoryView,
    /// Work done.
    pub(crate) counters: &'a mut Counters,
    /// What all warps of the block share.
    pub(crate) block: &'a BlockEnvironment,
    /// `%smid`, `%nsmid`.
    pub(crate) sm: (u32, u32),
    /// Finds the memory of uncommon accesses.
    pub(crate) locate: Locate,
    /// The account of accesses, if it is kept.
    pub(crate) check: Option<&'a AccessLog>,
    /// How the instruction's own accesses are followed, and its line.
    pub(crate) followed: (Follow, u32),
    /// Set with [`Step::Fault`].
    pub(crate) fault: Option<LaneFault>,
}

impl HandlerContext<'_> {
    /// Records a fault.
    #[cold]
    pub(crate) fn fail(&mut self, lane: u32, kind: FaultKind) -> Step {
        self.fault = Some(LaneFault { kind, lane });
        Step::Fault
    }
}
