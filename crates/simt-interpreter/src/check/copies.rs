//! Instrumentation of asynchronous copies, their mbarriers, and asynchronous products, for the
//! access log.
//!
//! Copies by threads (`cp.async`, `st.async`) and products (`wgmma`) are loads and stores with notes
//! behind them; bulk copies call [`started`] themselves.

use super::{AccessLog, Kind, Place, UNIT_BYTES, note, place, report_register};
use crate::check::happens_before::{Awaited, Part, Phase, Shadow};
use crate::handler_context::{Handler, HandlerContext, Ins, RESULTS_MAX, Step};
use crate::ops::map::{active, read};
use crate::ops::mbarrier;
use crate::ops::memory::{self, lanes};
use crate::register_file::Operand;
use simt::ir::op::{CopyNote, Touch};
use simt::kernel::WARP_LANES;
use simt::runtime::mbarrier::State;

/// Where an mbarrier is: rank and offset.
fn mbarrier_place(
    machine: &HandlerContext<'_>,
    account: &AccessLog,
    (space, address): (u32, u64),
) -> Option<(u64, u64)> {
    match place(machine, account, space, address, 1)? {
        Place::Shared(rank, range) => Some((rank, range.start)),
        _ => None,
    }
}

/// Something happens to an mbarrier.
#[cold]
fn happens(machine: &HandlerContext<'_>, at: (u32, u64), what: Phase) {
    if let Some(account) = machine.check
        && let Some(at) = mbarrier_place(machine, account, at)
    {
        let mut shadow = account.shadow();
        let warp = shadow.number(account.rank, machine.warp);
        shadow.phase(warp, at, what);
    }
}

/// An mbarrier's life starts or ends.
#[inline]
pub(in super::super) fn renewed(machine: &HandlerContext<'_>, at: (u32, u64)) {
    if machine.check.is_some() {
        happens(machine, at, Phase::New);
    }
}

/// An mbarrier in this state has changed, or not.
#[inline]
pub(in super::super) fn changed(machine: &HandlerContext<'_>, at: (u32, u64), before: State) {
    if machine.check.is_some() {
        happens(machine, at, Phase::Was(before));
    }
}

/// A lane has seen that a phase of an mbarrier is over, which is in this state.
#[inline]
pub(in super::super) fn waited(machine: &HandlerContext<'_>, at: (u32, u64), now: State) {
    if machine.check.is_some() {
        happens(machine, at, Phase::Over(now));
    }
}

/// A bulk copy of a lane's has read or written memory, which counts once a thread has waited for
/// it: for its group, or for an mbarrier in shared memory, which was in this state before it heard
/// of the copy.
#[inline]
pub(in super::super) fn started(
    machine: &HandlerContext<'_>,
    (space, lane): (u32, u32),
    (address, bytes): (u64, u64),
    writes: bool,
    mbarrier: Option<(u64, State)>,
) {
    if let Some(account) = machine.check {
        let kind = Kind { reads: !writes, writes, atomic: false, unit: UNIT_BYTES };
        lasts(machine, account, (space, lane), (address, bytes), kind, mbarrier, true);
    }
}

/// A copy lasts whose accesses the account has just heard of.
#[cold]
fn lasts(
    machine: &HandlerContext<'_>,
    account: &AccessLog,
    (space, lane): (u32, u32),
    (address, bytes): (u64, u64),
    kind: Kind,
    mbarrier: Option<(u64, State)>,
    bulk: bool,
) {
    let awaited = match mbarrier {
        None => Some(Awaited::Group { bulk }),
        Some((address, before)) => mbarrier_place(machine, account, (memory::SHARED, address))
            .map(|at| Awaited::Mbarrier(at, before)),
    };
    if let Some(awaited) = awaited
        && let Some(Place::Shared(rank, range)) = place(machine, account, space, address, bytes)
    {
        let mut shadow = account.shadow();
        let warp = shadow.number(account.rank, machine.warp);
        shadow.started((warp, lane), Part { rank, range }, kind, awaited);
    }
}

/// What runs a note, and its numbers for [`Ins::d`].
pub(in super::super) fn noting(note: CopyNote) -> Option<(Handler, [u32; RESULTS_MAX])> {
    Some(match note {
        // A pass has put others in its place.
        CopyNote::Product => return None,
        CopyNote::Written { bytes, barrier } => (written, [bytes.into(), barrier.into(), 0, 0]),
        CopyNote::Commit { bulk } => (commit, [bulk.into(), 0, 0, 0]),
        CopyNote::Wait { bulk, left } => {
            (wait, [bulk.into(), left.is_some().into(), left.unwrap_or(0), 0])
        }
        CopyNote::Arrive => (arrive, [0; RESULTS_MAX]),
        CopyNote::ReadByProduct { bytes } => (read_by_product, [bytes.into(), 0, 0, 0]),
        CopyNote::Sum { register, touch } => (sum, [register, touch as u32, 0, 0]),
        CopyNote::SumCopied { from, to } => (sum_copied, [from, to, 0, 0]),
        CopyNote::CommitProducts => (commit_products, [0; RESULTS_MAX]),
        CopyNote::WaitProducts { left } => (wait_products, [left, 0, 0, 0]),
    })
}

/// A lane's address in the `i`-th source.
fn address(machine: &HandlerContext<'_>, ins: &Ins, i: usize, lane: u32) -> u64 {
    read::<u64, WARP_LANES>(machine, ins.a[i])[lane as usize]
}

fn written(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    let [bytes, barrier, ..] = ins.d.map(Operand::number);
    let kind = Kind { reads: false, writes: true, atomic: false, unit: bytes.into() };
    for lane in lanes(active(machine, ins)) {
        let (to, mbarrier) = {
            let barrier = (barrier != 0).then(|| address(machine, ins, 1, lane));
            (address(machine, ins, 0, lane), barrier)
        };
        // A bad address is found by what notifies the mbarrier of the bytes.
        let known = mbarrier.map(|at| mbarrier::state(machine, lane, (memory::SHARED, at)));
        let mbarrier = match known {
            Some(Err(_)) => continue,
            Some(Ok(state)) => mbarrier.zip(Some(state)),
            None => None,
        };
        lasts(machine, account, (ins.tag, lane), (to, bytes.into()), kind, mbarrier, false);
    }
    Step::Next
}

fn commit(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    let mut shadow = account.shadow();
    let warp = shadow.number(account.rank, machine.warp);
    for lane in lanes(active(machine, ins)) {
        shadow.commit((warp, lane), ins.d[0].number() != 0);
    }
    Step::Next
}

fn wait(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    let mut shadow = account.shadow();
    let warp = shadow.number(account.rank, machine.warp);
    let left = (ins.d[1].number() != 0).then_some(ins.d[2].number());
    for lane in lanes(active(machine, ins)) {
        shadow.wait((warp, lane), ins.d[0].number() != 0, left);
    }
    Step::Next
}

fn arrive(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    for lane in lanes(active(machine, ins)) {
        let at = (ins.tag, address(machine, ins, 0, lane));
        // A bad address is found by the arrival.
        if let Ok(state) = mbarrier::state(machine, lane, at)
            && let Some(place) = mbarrier_place(machine, account, at)
        {
            let mut shadow = account.shadow();
            let warp = shadow.number(account.rank, machine.warp);
            shadow.notified((warp, lane), place, state);
        }
    }
    Step::Next
}

fn read_by_product(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    for lane in lanes(active(machine, ins)) {
        let at = address(machine, ins, 0, lane);
        if let Some(Place::Shared(rank, range)) =
            place(machine, account, ins.tag, at, ins.d[0].number().into())
        {
            let mut shadow = account.shadow();
            let warp = shadow.number(account.rank, machine.warp);
            shadow.read_by_product((warp, lane, ins.line), Part { rank, range });
        }
    }
    Step::Next
}

fn sum(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let Some(account) = machine.check else { return Step::Next };
    let all = [Touch::Product, Touch::Read, Touch::Kept, Touch::Written];
    let touch = all[ins.d[1].number() as usize % all.len()];
    let lanes = active(machine, ins);
    let found = {
        let mut shadow = account.shadow();
        let warp = shadow.number(account.rank, machine.warp);
        shadow.touched(warp, (ins.line, lanes), ins.d[0].number(), touch)
    };
    if let Some((lane, product)) = found {
        let verb = if touch == Touch::Read { "reads" } else { "writes" };
        report_register(machine, (ins.line, lane), verb, product);
    }
    Step::Next
}

fn sum_copied(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    let lanes = active(machine, ins);
    note(machine, |shadow, warp| {
        shadow.sum_copied(warp, lanes, (ins.d[0].number(), ins.d[1].number()))
    })
}

fn commit_products(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    if active(machine, ins) == 0 {
        return Step::Next;
    }
    note(machine, Shadow::commit_products)
}

fn wait_products(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
    if active(machine, ins) == 0 {
        return Step::Next;
    }
    note(machine, |shadow, warp| shadow.wait_products(warp, ins.d[0].number()))
}
