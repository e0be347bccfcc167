//! What a program may not rely on, found while it runs: races on shared memory, and reads of
//! shared, local and global memory that nobody wrote.
//!
//! On request only: every access is then preceded by an instruction that keeps account of it in a
//! shadow of the block's memory, and kernels run in their form for any order of lanes, in which
//! every address is in a register. Nothing changes in what they compute.
//!
//! Two accesses of different threads to one byte, at least one a write and not both atomic or
//! volatile, are a race unless something orders them: a barrier of the block between threads of
//! different warps, any instruction that lanes run together within a warp, or an atomic operation
//! or a fence by the thread that came first (a lock's release). What is reported is wrong; not all
//! that is wrong is reported: only the last reader of a byte is known, any barrier counts for all,
//! and lanes that write a byte with the same instruction are not looked at. Copies that are not
//! made of loads and stores (`cp.async.bulk`, `stmatrix`) are not followed, and end the search for
//! unwritten shared memory in their block. What was written of global memory is the device's
//! account, since copies and fills write as well.

use super::lanes::active;
use super::machine::{Handler, Ins, Machine, Step};
use super::memory::{self, addresses, lanes, space_of};
use super::special::thread_of;
use simt::kernel::{Dim3, WARP_LANES};
use simt::vector::{LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use simt::written::{Unwritten, WrittenBytes};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Findings of one kernel that are told; more of them help nobody.
const FINDINGS_MAX: usize = 100;

/// Takes a finding, one line of text.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// What looking for mistakes needs.
#[derive(Clone)]
pub struct Checks {
    /// Where findings go.
    pub report: Report,
    /// What has been written of global memory, if somebody keeps account of it.
    pub written: Option<Arc<WrittenBytes>>,
}

/// Where a kernel's findings go, each kind once for each pair of lines.
pub(super) struct Checker {
    checks: Checks,
    told: Mutex<HashSet<(&'static str, u32, u32)>>,
}

impl Checker {
    pub(super) fn new(checks: Checks) -> Self {
        Self { checks, told: Mutex::default() }
    }

    /// A copy has written global memory.
    pub(super) fn written(&self, address: u64, bytes: u64) {
        if let Some(written) = &self.checks.written {
            written.write(address, bytes);
        }
    }

    /// A kernel allocated memory.
    pub(super) fn allocated(&self, address: u64, bytes: u64) {
        if let Some(written) = &self.checks.written {
            written.track(address, bytes);
        }
    }

    /// It is about to free it.
    pub(super) fn freed(&self, address: u64) {
        if let Some(written) = &self.checks.written {
            written.forget(address);
        }
    }

    fn tell(&self, kind: &'static str, lines: (u32, u32), text: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < FINDINGS_MAX && told.insert((kind, lines.0, lines.1)) {
            (self.checks.report)(&text());
        }
    }
}

/// What an access does.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Atomic or volatile: races with plain accesses only.
    pub(super) atomic: bool,
}

impl Kind {
    /// As an instruction carries it.
    pub(super) fn code(self) -> u32 {
        u32::from(self.reads) | u32::from(self.writes) << 1 | u32::from(self.atomic) << 2
    }

    fn of(code: u32) -> Self {
        Self { reads: code & 1 != 0, writes: code & 2 != 0, atomic: code & 4 != 0 }
    }
}

/// One access to a byte of shared memory.
#[derive(Clone, Copy, Default)]
struct Access {
    /// Number of the thread in the block, plus one; 0 if there was none.
    thread: u32,
    line: u32,
    /// Barriers of the block before it.
    barriers: u32,
    /// Steps of its warp before it: together, and ordered for others.
    together: u32,
    released: u32,
    atomic: bool,
}

#[derive(Clone, Copy, Default)]
struct Byte {
    write: Access,
    read: Access,
}

/// How far a warp has come.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// Instructions that its lanes ran together.
    together: u32,
    /// Fences and atomic operations.
    released: u32,
}

/// The account of one block.
pub(crate) struct Shadow {
    shared: Vec<Byte>,
    /// By warp: which bytes of its lanes' local memory were written.
    local: Vec<Vec<bool>>,
    warps: Vec<Clock>,
    barriers: u32,
    /// Shared memory was written in a way that is not followed.
    blind: bool,
}

impl Shadow {
    pub(super) fn new(shared_bytes: u64, warps: u32) -> Self {
        Self {
            shared: vec![Byte::default(); shared_bytes as usize],
            local: vec![Vec::new(); warps as usize],
            warps: vec![Clock::default(); warps as usize],
            barriers: 0,
            blind: false,
        }
    }

    /// Blocks of the cluster may write here too, which is not followed.
    pub(super) fn share(&mut self) {
        self.blind = true;
    }

    /// A barrier of the block has opened.
    pub(super) fn barrier(&mut self) {
        self.barriers += 1;
    }

    /// Local memory of these lanes is copied from one place to another.
    pub(super) fn copy_local(
        &mut self,
        machine: (u32, u64),
        mask: u32,
        from: u64,
        to: u64,
        bytes: u32,
    ) {
        let (warp, local_bytes) = machine;
        let written = self.local_of(warp, local_bytes);
        for lane in lanes(mask) {
            let base = (u64::from(lane) * local_bytes) as usize;
            let from = base + from as usize;
            written.copy_within(from..from + bytes as usize, base + to as usize);
        }
    }

    fn local_of(&mut self, warp: u32, local_bytes: u64) -> &mut Vec<bool> {
        let written = &mut self.local[warp as usize];
        written.resize(local_bytes as usize * WARP_LANES, false);
        written
    }

    /// True if nothing orders an earlier access before one by this thread now.
    fn races(&self, earlier: Access, now: Access, line: u32) -> bool {
        if earlier.thread == 0 || earlier.thread == now.thread || earlier.barriers != self.barriers
        {
            return false;
        }
        if earlier.atomic && now.atomic {
            return false;
        }
        let warp = |access: Access| (access.thread - 1) / WARP_LANES as u32;
        if warp(earlier) == warp(now) {
            return earlier.together == now.together && earlier.line != line;
        }
        earlier.released == self.warps[warp(earlier) as usize].released
    }
}

/// A finding about one lane's access, without its place.
enum Finding {
    Race {
        with: Access,
        wrote: bool,
    },
    Unwritten,
    /// In global memory, where areas are known.
    UnwrittenOf(Unwritten),
}

/// Keeps account of the access that comes next: `d` holds its bytes and its kind.
unsafe fn account(machine: &mut Machine<'_>, ins: &Ins) -> Step {
    let Some(shadow) = machine.check.take() else { return Step::Next };
    // SAFETY: the decoder gave the address and the guard of the access that follows.
    let (m, a) = unsafe { (active(machine, ins), addresses(machine, ins)) };
    let bytes = u64::from(ins.d[0]);
    let kind = Kind::of(ins.d[1]);
    for lane in lanes(m) {
        let address = a[lane as usize];
        let (space, offset) = match space_of(ins) {
            memory::GENERIC if address.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES => {
                (memory::SHARED, address - SHARED_WINDOW)
            }
            memory::GENERIC if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES => {
                (memory::LOCAL, address - LOCAL_WINDOW)
            }
            memory::GENERIC if address < SHARED_WINDOW => (memory::GLOBAL, address),
            space => (space, address),
        };
        let end = offset.saturating_add(bytes);
        let (name, finding) = match space {
            // What lies outside faults when the access is made.
            memory::SHARED if end <= machine.shared_bytes => {
                ("shared", of_shared(shadow, machine, ins.line, lane, offset..end, kind))
            }
            memory::LOCAL if end <= machine.local_bytes => {
                ("local", of_local(shadow, machine, lane, offset..end, kind))
            }
            memory::GLOBAL => ("global", of_global(machine, offset..end, kind)),
            _ => continue,
        };
        if let Some(finding) = finding {
            tell(machine, ins.line, lane, name, offset..end, kind, &finding);
        }
    }
    machine.check = Some(shadow);
    Step::Next
}

fn of_shared(
    shadow: &mut Shadow,
    machine: &Machine<'_>,
    line: u32,
    lane: u32,
    range: std::ops::Range<u64>,
    kind: Kind,
) -> Option<Finding> {
    let clock = shadow.warps[machine.warp as usize];
    let now = Access {
        thread: machine.warp * WARP_LANES as u32 + lane + 1,
        line,
        barriers: shadow.barriers,
        together: clock.together,
        released: clock.released,
        atomic: kind.atomic,
    };
    let mut finding = None;
    for at in range {
        let byte = shadow.shared[at as usize];
        if shadow.races(byte.write, now, line) {
            finding.get_or_insert(Finding::Race { with: byte.write, wrote: true });
        }
        if kind.writes && shadow.races(byte.read, now, line) {
            finding.get_or_insert(Finding::Race { with: byte.read, wrote: false });
        }
        if kind.reads && byte.write.thread == 0 && !shadow.blind {
            finding.get_or_insert(Finding::Unwritten);
        }
        let byte = &mut shadow.shared[at as usize];
        if kind.writes {
            byte.write = now;
        } else {
            byte.read = now;
        }
    }
    finding
}

fn of_global(machine: &Machine<'_>, range: std::ops::Range<u64>, kind: Kind) -> Option<Finding> {
    let written = machine.block.program.checker()?.checks.written.as_ref()?;
    let bytes = range.end - range.start;
    let finding = match kind.reads {
        true => written.unwritten(range.start, bytes).map(Finding::UnwrittenOf),
        false => None,
    };
    if kind.writes {
        written.write(range.start, bytes);
    }
    finding
}

fn of_local(
    shadow: &mut Shadow,
    machine: &Machine<'_>,
    lane: u32,
    range: std::ops::Range<u64>,
    kind: Kind,
) -> Option<Finding> {
    let base = u64::from(lane) * machine.local_bytes;
    let written = shadow.local_of(machine.warp, machine.local_bytes);
    let bytes = &mut written[(base + range.start) as usize..(base + range.end) as usize];
    let unwritten = kind.reads && bytes.contains(&false);
    if kind.writes {
        bytes.fill(true);
    }
    unwritten.then_some(Finding::Unwritten)
}

fn tell(
    machine: &Machine<'_>,
    line: u32,
    lane: u32,
    space: &str,
    range: std::ops::Range<u64>,
    kind: Kind,
    finding: &Finding,
) {
    let program = &machine.block.program;
    let Some(checker) = program.checker() else { return };
    let thread = |number: u32| {
        let Dim3 { x, y, z } = thread_of(machine.block.launch.block, number);
        format!("({x},{y},{z})")
    };
    let Dim3 { x, y, z } = machine.index;
    let me = thread(machine.warp * WARP_LANES as u32 + lane);
    let verb = if kind.writes { "writes" } else { "reads" };
    let unit = if space == "global" { "address" } else { "offset" };
    let place = format!(
        "kernel {}, block ({x},{y},{z}), thread {me}, PTX line {line}: {verb} {} bytes at {unit} \
         {:#x} of {space} memory",
        program.name(),
        range.end - range.start,
        range.start
    );
    match finding {
        Finding::Race { with, wrote } => {
            let did = if *wrote { "wrote" } else { "read" };
            checker.tell("race", (line, with.line), || {
                let other = thread(with.thread - 1);
                format!(
                    "{place} while thread {other} {did} there at line {}, with nothing between to order them",
                    with.line
                )
            });
        }
        Finding::Unwritten => {
            checker.tell("unwritten", (line, 0), || format!("{place} that nobody wrote"))
        }
        Finding::UnwrittenOf(Unwritten { address, area, area_bytes }) => {
            checker.tell("unwritten", (line, 0), || {
                let at = address - area;
                format!(
                    "{place}; byte {at} of the {area_bytes} allocated there, which nobody wrote"
                )
            })
        }
    }
}

/// The warp's lanes have run something together.
unsafe fn together(machine: &mut Machine<'_>, _: &Ins) -> Step {
    let warp = machine.warp as usize;
    if let Some(shadow) = &mut machine.check {
        shadow.warps[warp].together += 1;
    }
    Step::Next
}

/// What the warp did before is ordered before what others do when they see it.
unsafe fn release(machine: &mut Machine<'_>, _: &Ins) -> Step {
    let warp = machine.warp as usize;
    if let Some(shadow) = &mut machine.check {
        shadow.warps[warp].released += 1;
        shadow.warps[warp].together += 1;
    }
    Step::Next
}

/// Shared memory is about to be written by a copy that is not followed.
unsafe fn lose_sight(machine: &mut Machine<'_>, _: &Ins) -> Step {
    if let Some(shadow) = &mut machine.check {
        shadow.blind = true;
    }
    Step::Next
}

/// Keeps account of an access with the same address, guard and tag.
pub(super) fn accounting() -> Handler {
    account
}

/// Follows an instruction that lanes run together.
pub(super) fn met() -> Handler {
    together
}

/// Follows a fence or an atomic operation.
pub(super) fn released() -> Handler {
    release
}

/// Stands before a copy that is not followed.
pub(super) fn unfollowed() -> Handler {
    lose_sight
}
