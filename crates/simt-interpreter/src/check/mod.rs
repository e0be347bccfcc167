//! Sanitizer: races on shared memory, and reads of uninitialised shared, local and global memory,
//! found while a program runs.
//!
//! On request only: every access is then preceded by an instruction that keeps account of it in a
//! shadow of the block's memory, and kernels run in their form for any order of lanes, in which
//! every address is in a register. Nothing changes in what they compute. Asynchronous copies are
//! done where they are issued, and accounted for as if they were done as late as may be.
//!
//! Two accesses of different threads to one byte, at least one a write and not both atomic or
//! volatile, are a race unless something orders them: a barrier at which the first one's warp
//! arrived and the other's waited (of the block, with a count or without, or of the cluster), any
//! instruction that lanes run together within a warp, or an atomic operation, a fence or an
//! operation of an mbarrier by the thread that came first (a lock's release). A copy lasts until its
//! thread waits for its group, or any thread for the phase of an mbarrier that hears of it: then it is
//! before what they do next. A product of four warps reads its factors until one of them has waited
//! for it; what orders others behind one of the four then orders them behind the product. Its
//! sums are there once their own warp has waited; registers with parts of its A are not looked at.
//! The shared memory of a cluster's blocks is one. What is reported is wrong; not all that is wrong is reported: only the last reader of a
//! byte is known, a warp arrives and looks at an mbarrier as a whole, lanes that write a byte with
//! the same instruction are not looked at, and a value is unwritten if no byte of it was written,
//! since compilers copy what lies between a structure's members. What was written of global memory
//! is the device's account, since copies and fills write as well.

pub(super) mod copies;
mod happens_before;

pub(super) use crate::check::happens_before::{BarrierId, Kind};
use crate::check::happens_before::{Shadow, SharedFinding, Until};
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::active;
use crate::ops::memory::{self, addresses, lanes, space_of};
use crate::ops::special::thread_of;
use locks::{Mutex, MutexGuard};
use simt::ir::op::Op;
use simt::ir::vector::{CLUSTER_WINDOW_BYTES, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use simt::kernel::{Dim3, WARP_LANES};
use simt::runtime::init_tracking::{Misuse, Misused, PATTERN_BYTES, WrittenBytes, pattern};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Findings of one kernel that are reported; more of them do not help.
const FINDINGS_MAX: usize = 100;

/// Bytes that are looked at together of what is moved without being looked at: the largest value.
const UNIT_BYTES: u64 = 16;

/// Takes a finding, one line of text.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// What looking for mistakes needs.
#[derive(Clone)]
pub struct Checks {
    /// Where findings go.
    pub report: Report,
    /// What has been written of global memory, if that is accounted for.
    pub written: Option<Arc<WrittenBytes>>,
}

/// Where a kernel's findings go, each kind once for each pair of lines.
pub(super) struct Checker {
    checks: Checks,
    reported: Mutex<HashSet<(&'static str, u32, u32)>>,
}

impl Checker {
    pub(super) fn new(checks: Checks) -> Self {
        Self { checks, reported: Mutex::default() }
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
            written.free(address);
        }
    }

    /// A warp arrives at a barrier for a number of threads, at a line; with the same of the last one that has
    /// arrived there, if any.
    pub(super) fn arrives(
        &self,
        number: u32,
        (count, line): (u32, u32),
        others: Option<(u32, u32)>,
    ) {
        if !(count as usize).is_multiple_of(WARP_LANES) {
            self.report("barrier size", (line, number), || {
                format!(
                    "PTX line {line}: barrier {number} is for {count} threads, which is no multiple of \
                     the warp size"
                )
            });
        }
        if let Some((other, at)) = others.filter(|(other, _)| *other != count) {
            self.report("barrier count", (line, at), || {
                format!(
                    "PTX line {line}: barrier {number} is for {count} threads, and for {other} at line \
                     {at}, where others have arrived"
                )
            });
        }
    }

    /// The block ends, and a barrier has not opened since threads arrived there.
    pub(super) fn leaves(&self, number: u32, (arrived, expected): (u32, u32), line: u32) {
        self.report("barrier arrivals", (line, number), || {
            format!(
                "PTX line {line}: {arrived} threads have arrived at barrier {number}, which is for \
                 {expected}, when the block ends"
            )
        });
    }

    fn report(&self, kind: &'static str, lines: (u32, u32), text: impl FnOnce() -> String) {
        let mut reported = self.reported.lock();
        if reported.len() < FINDINGS_MAX && reported.insert((kind, lines.0, lines.1)) {
            (self.checks.report)(&text());
        }
    }
}

impl Kind {
    /// As an instruction carries it.
    pub(super) fn code(self) -> u32 {
        u32::from(self.reads)
            | u32::from(self.writes) << 1
            | u32::from(self.atomic) << 2
            | (self.unit as u32) << 3
    }

    fn of(code: u32) -> Self {
        let [reads, writes, atomic] = [0, 1, 2].map(|bit| code >> bit & 1 != 0);
        Self { reads, writes, atomic, unit: u64::from(code >> 3) }
    }
}

/// A block's part of an account, which it may share with its cluster.
pub(super) struct AccessLog {
    rank: u32,
    /// Warps of the block.
    warps: u32,
    shadow: Arc<Mutex<Shadow>>,
}

/// Whose access an instruction's is whose addresses are only known once it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Follow {
    /// The instruction in front has accounted for it.
    #[default]
    No,
    /// The lane's.
    Lane,
    /// The lane's, which combines what it writes with what is there, atomically.
    Combine,
    /// Others wait for it in some way of their own.
    Ordered,
}

impl Follow {
    /// How an operation's own accesses are to be followed.
    pub(super) fn of(op: &Op) -> Self {
        match op {
            Op::LoadMatrix { .. }
            | Op::StoreMatrix { .. }
            | Op::CopyToShared { .. }
            | Op::Texture(_)
            | Op::SurfaceLoad(_)
            | Op::SurfaceStore(_) => Self::Lane,
            Op::BulkCopy(copy) if copy.reduction.is_some() => Self::Combine,
            Op::BulkCopy(_) | Op::TensorCopy(_) => Self::Lane,
            Op::Mbarrier(..) => Self::Ordered,
            _ => Self::No,
        }
    }
}

impl AccessLog {
    /// Of a block by itself: bytes of its shared memory, and how many of them, its first, are kept
    /// for libraries and start as zeros.
    pub(super) fn new((shared_bytes, kept_bytes): (u64, u64), warps: u32) -> Self {
        let shadow = Shadow::new(1, shared_bytes, warps).keeping(kept_bytes);
        Self { rank: 0, warps, shadow: Arc::new(Mutex::new(shadow)) }
    }

    /// Of each block of a cluster.
    pub(super) fn of_cluster(
        blocks: u32,
        (shared_bytes, kept_bytes): (u64, u64),
        warps: u32,
    ) -> Vec<Self> {
        let shadow = Shadow::new(blocks, shared_bytes, warps).keeping(kept_bytes);
        let shadow = Arc::new(Mutex::new(shadow));
        (0..blocks).map(|rank| Self { rank, warps, shadow: shadow.clone() }).collect()
    }

    fn shadow(&self) -> MutexGuard<'_, Shadow> {
        self.shadow.lock()
    }

    /// The block starts anew.
    pub(super) fn restart(&self) {
        self.shadow().restart(self.rank);
    }

    fn barrier(&self, number: Option<u32>) -> BarrierId {
        number.map_or(BarrierId::OfCluster, |number| BarrierId::OfBlock(self.rank, number))
    }

    /// A warp arrives at a barrier of the block, or of the cluster.
    pub(super) fn arrive(&self, warp: u32, number: Option<u32>) {
        let mut shadow = self.shadow();
        let warp = shadow.number(self.rank, warp);
        shadow.arrive(warp, self.barrier(number));
    }

    /// A barrier of the block has opened for these warps.
    pub(super) fn open(&self, number: u32, waited: impl Iterator<Item = u32>) {
        let mut shadow = self.shadow();
        let first = shadow.number(self.rank, 0);
        shadow.open(self.barrier(Some(number)), waited.map(|warp| first + warp));
    }

    /// The cluster's has, for all warps of all blocks.
    pub(super) fn open_cluster(&self, blocks: u32) {
        self.shadow().open(BarrierId::OfCluster, 0..blocks * self.warps);
    }

    /// A warp has exited.
    pub(super) fn exit(&self, warp: u32) {
        let mut shadow = self.shadow();
        let warp = shadow.number(self.rank, warp);
        shadow.exit(self.rank, warp);
    }

    /// Local memory of these lanes is copied from one place to another.
    pub(super) fn copy_local(
        &self,
        (warp, local_bytes): (u32, u64),
        mask: u32,
        places: (u64, u64),
        bytes: u32,
    ) {
        let mut shadow = self.shadow();
        let warp = shadow.number(self.rank, warp);
        shadow.copy_local((warp, local_bytes), lanes(mask), places, bytes);
    }
}

/// A finding about one lane's access, without its place.
enum Finding {
    Shared(SharedFinding),
    Unwritten,
    /// In global memory, where areas are known.
    Misused(Misused),
}

/// Where an access goes.
enum Place {
    /// To shared memory of the block of that rank.
    Shared(u64, Range<u64>),
    Local(Range<u64>),
    Global(Range<u64>),
}

/// Where an access goes that will not fault; `None` for what lies outside, or in a space that is
/// not looked at.
fn place(
    machine: &HandlerContext<'_>,
    account: &AccessLog,
    space: u32,
    address: u64,
    bytes: u64,
) -> Option<Place> {
    let (space, offset) = match space {
        memory::GENERIC if address.wrapping_sub(SHARED_WINDOW) < CLUSTER_WINDOW_BYTES => {
            (memory::SHARED, address - SHARED_WINDOW)
        }
        memory::GENERIC if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES => {
            (memory::LOCAL, address - LOCAL_WINDOW)
        }
        memory::GENERIC if address < SHARED_WINDOW => (memory::GLOBAL, address),
        space => (space, address),
    };
    let range = |offset: u64| offset..offset.saturating_add(bytes);
    match space {
        memory::SHARED => {
            let (window, offset) = (offset / WINDOW_BYTES, offset % WINDOW_BYTES);
            let rank = window.checked_sub(1).unwrap_or(account.rank.into());
            let size = account.shadow().shared_bytes(rank)?;
            (range(offset).end <= size).then(|| Place::Shared(rank, range(offset)))
        }
        memory::LOCAL => {
            (range(offset).end <= machine.local_bytes).then(|| Place::Local(range(offset)))
        }
        memory::GLOBAL => Some(Place::Global(range(offset))),
        _ => None,
    }
}

/// Keeps account of one lane's access, and reports what is wrong with it.
fn access(
    machine: &HandlerContext<'_>,
    account: &AccessLog,
    (line, lane): (u32, u32),
    place: Place,
    kind: Kind,
    follow: Follow,
) {
    let (name, range, finding) = match place {
        Place::Shared(rank, range) => {
            let mut shadow = account.shadow();
            let warp = shadow.number(account.rank, machine.warp);
            let found = match follow {
                Follow::Ordered => shadow.ordered(line, rank, range.clone(), kind),
                _ => shadow.shared((warp, lane, line), rank, range.clone(), kind),
            };
            ("shared", range, found.map(Finding::Shared))
        }
        Place::Local(range) => {
            let mut shadow = account.shadow();
            let warp = shadow.number(account.rank, machine.warp);
            let unwritten = shadow.local((warp, lane), machine.local_bytes, range.clone(), kind);
            ("local", range, unwritten.then_some(Finding::Unwritten))
        }
        Place::Global(range) => ("global", range.clone(), of_global(machine, range, kind)),
    };
    if let Some(finding) = finding {
        report(machine, account, line, lane, name, range, kind, &finding);
    }
}

/// Keeps account of the access that comes next: `d` holds its bytes and its kind.
fn account(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    let (m, a) = (active(machine, ins), addresses(machine, ins));
    let bytes = u64::from(ins.d[0].number());
    let kind = Kind::of(ins.d[1].number());
    for lane in lanes(m) {
        if let Some(place) = place(machine, account, space_of(ins), a[lane as usize], bytes) {
            access(machine, account, (ins.line, lane), place, kind, Follow::Lane);
        }
    }
    Step::Next
}

/// Says how the accesses of the instruction that comes next are to be followed.
fn follow(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let all = [Follow::No, Follow::Lane, Follow::Combine, Follow::Ordered];
    machine.followed = (all[ins.d[0].number() as usize % all.len()], ins.line);
    Step::Next
}

/// Keeps account of an access that was found to be allowed, if the instruction is followed.
#[cold]
pub(super) fn resolved(
    machine: &HandlerContext<'_>,
    account: &AccessLog,
    (space, lane): (u32, u32),
    address: u64,
    bytes: u64,
    write: bool,
) {
    let (follow, line) = machine.followed;
    if follow != Follow::No
        && let Some(place) = place(machine, account, space, address, bytes)
    {
        let atomic = follow == Follow::Combine;
        let unit = bytes.clamp(1, UNIT_BYTES).next_power_of_two();
        let kind = Kind { reads: !write, writes: write, atomic, unit };
        access(machine, account, (line, lane), place, kind, follow);
    }
}

fn of_global(machine: &HandlerContext<'_>, range: Range<u64>, kind: Kind) -> Option<Finding> {
    let written = machine.block.program.checker()?.checks.written.as_ref()?;
    let mut from = range.start;
    let misused = loop {
        let misused = written.misused(from, range.end - from, kind.reads);
        let Some(Misused { address, why, .. }) = misused else { break None };
        if why == Misuse::UnwrittenByKernels && !still_pattern(address) {
            // The host wrote there.
            written.write(address / PATTERN_BYTES * PATTERN_BYTES, PATTERN_BYTES);
            continue;
        }
        let value = address / kind.unit * kind.unit;
        let end = (value + kind.unit).min(range.end);
        let wrong = |byte: u64| written.misused(byte, 1, kind.reads).is_some();
        if why == Misuse::Freed || (value.max(range.start)..end).all(wrong) {
            break misused;
        }
        from = end;
    };
    if kind.writes {
        written.write(range.start, range.end - range.start);
    }
    misused.map(Finding::Misused)
}

/// Whether the word around a byte of tracked memory holds what it was filled with.
fn still_pattern(address: u64) -> bool {
    let word = address / PATTERN_BYTES * PATTERN_BYTES;
    // SAFETY: tracked memory is mapped while a block runs, in whole pages, and the word is aligned;
    // the host may write it at any time.
    unsafe { (word as *const u64).read_volatile() == pattern(word) }
}

#[allow(clippy::too_many_arguments, reason = "what a finding says")]
fn report(
    machine: &HandlerContext<'_>,
    account: &AccessLog,
    line: u32,
    lane: u32,
    space: &str,
    range: Range<u64>,
    kind: Kind,
    finding: &Finding,
) {
    let Some(checker) = machine.block.program.checker() else { return };
    let verb = if kind.writes { "writes" } else { "reads" };
    let unit = if space == "global" { "address" } else { "offset" };
    let place = format!(
        "{}: {verb} {} bytes at {unit} {:#x} of {space} memory",
        who(machine, line, lane),
        range.end - range.start,
        range.start
    );
    let thread = |number| thread(machine, number);
    match finding {
        Finding::Shared(SharedFinding::Race { with, wrote }) => {
            checker.report("race", (line, with.line), || {
                let (rank, number) = account.shadow().thread(*with);
                let other = match rank == account.rank {
                    true => format!("thread {}", thread(number)),
                    false => format!("thread {} of block {rank} of the cluster", thread(number)),
                };
                let ((did, does), at) = match wrote {
                    true => (("wrote", "writes"), with.line),
                    false => (("read", "reads"), with.line),
                };
                match with.until {
                    Until::Done => format!(
                        "{place} while {other} {did} there at line {at}, with nothing between to \
                         order them"
                    ),
                    Until::Product => format!(
                        "{place} while a product of the warps of {other} at line {at} still {does} \
                         there, with nothing between that waits for it"
                    ),
                    _ => format!(
                        "{place} while a copy of {other} at line {at} still {does} there, with \
                         nothing between that waits for it"
                    ),
                }
            });
        }
        Finding::Unwritten | Finding::Shared(SharedFinding::Unwritten) => {
            checker.report("unwritten", (line, 0), || format!("{place} that was never written"))
        }
        Finding::Misused(Misused { address, area, area_bytes, why }) => {
            let at = address - area;
            let (kind, why) = match why {
                Misuse::Freed => ("freed", "which was freed"),
                _ => ("unwritten", "which was never written"),
            };
            checker.report(kind, (line, 0), || {
                format!("{place}; byte {at} of the {area_bytes} allocated there, {why}")
            })
        }
    }
}

/// A thread of the block, by its number, as findings name it.
fn thread(machine: &HandlerContext<'_>, number: u32) -> String {
    let Dim3 { x, y, z } = thread_of(machine.block.launch.block, number);
    format!("({x},{y},{z})")
}

/// Which lane of which block of which kernel does something, and at which line.
fn who(machine: &HandlerContext<'_>, line: u32, lane: u32) -> String {
    let Dim3 { x, y, z } = machine.index;
    let me = thread(machine, machine.warp * WARP_LANES as u32 + lane);
    let name = machine.block.program.name();
    format!("kernel {name}, block ({x},{y},{z}), thread {me}, PTX line {line}")
}

/// A lane reads or writes a register that the product at a line may still write.
#[cold]
fn report_register(
    machine: &HandlerContext<'_>,
    (line, lane): (u32, u32),
    verb: &str,
    product: u32,
) {
    let Some(checker) = machine.block.program.checker() else { return };
    checker.report("register", (line, product), || {
        format!(
            "{}: {verb} a register that the product at line {product} may still write, with no \
             wgmma.wait_group between that waits for it",
            who(machine, line, lane)
        )
    });
}

/// The warp's lanes have run something together.
fn together(machine: &mut HandlerContext<'_>, _: &Ins) -> Step {
    note(machine, Shadow::met)
}

/// What the warp did before is ordered before what others do when they see it.
fn release(machine: &mut HandlerContext<'_>, _: &Ins) -> Step {
    note(machine, Shadow::released)
}

/// Notifies the block's account of something that the whole warp did.
fn note(machine: &HandlerContext<'_>, what: impl FnOnce(&mut Shadow, u32)) -> Step {
    if let Some(account) = machine.check {
        let mut shadow = account.shadow();
        let warp = shadow.number(account.rank, machine.warp);
        what(&mut shadow, warp);
    }
    Step::Next
}

/// Keeps account of an access with the same address, guard and tag.
pub(super) fn accounting() -> Handler {
    account
}

/// Stands before an instruction to say how it is to be followed, and its number for [`Ins::d`].
pub(super) fn following(follow_as: Follow) -> (Handler, u32) {
    (follow, follow_as as u32)
}

/// Follows an instruction that lanes run together.
pub(super) fn met() -> Handler {
    together
}

/// Follows a fence or an atomic operation.
pub(super) fn released() -> Handler {
    release
}
