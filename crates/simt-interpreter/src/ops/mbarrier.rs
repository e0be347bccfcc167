//! `mbarrier` operations on a 64-bit object in shared memory, lane after lane.

use crate::check::copies;
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::atomic::{Cell, Word};
use crate::ops::map::{Body, Rare, Target, active, versions, write_pred};
use crate::ops::memory::{self, Checked, addresses, lanes, space_of};
use simt::ir::op::MbarrierOp;
use simt::kernel::FaultKind;
use simt::runtime::mbarrier::State;

/// Bytes of an object, and its alignment.
const BYTES: u64 = 8;

/// Replaces the state at `at`; returns the one before.
fn replace(at: Checked, f: impl Fn(State) -> State) -> State {
    let cell = Cell::of(at).expect("an mbarrier in memory that can be written");
    State(u64::update(cell, |old| f(State(old)).0))
}

/// The state at `at`.
fn now(at: Checked) -> State {
    State(u64::from_ne_bytes(at.read()))
}

/// Changes the object at an address in shared memory, for a copy; gives the state before.
pub(crate) fn change(
    machine: &mut HandlerContext<'_>,
    lane: u32,
    address: u64,
    f: impl Fn(State) -> State,
) -> Result<State, FaultKind> {
    let at = machine.find(memory::SHARED, lane, address, BYTES, true)?;
    let before = replace(at, f);
    copies::changed(machine, (memory::SHARED, address), before);
    Ok(before)
}

/// The state of the object at an address in a space.
pub(crate) fn state(
    machine: &mut HandlerContext<'_>,
    lane: u32,
    (space, address): (u32, u64),
) -> Result<State, FaultKind> {
    let at = machine.find(space, lane, address, BYTES, false)?;
    Ok(now(at))
}

const INIT: u8 = 0;
const INVALIDATE: u8 = 1;
const EXPECT: u8 = 2;
const COMPLETE: u8 = 3;
const ARRIVE: u8 = 4;
const DROP: u8 = 5;
const COMPLETE_IN_CLUSTER: u8 = 6;
const TEST_STATE: u8 = 7;
const TEST_PARITY: u8 = 8;

struct Mbarrier<const OP: u8>;

impl<const OP: u8> Body for Mbarrier<OP> {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        if m == 0 {
            return Step::Next;
        }
        if OP == COMPLETE_IN_CLUSTER && machine.block.launch.cluster.is_none() {
            return machine.fail(m.trailing_zeros(), FaultKind::OutsideCluster);
        }
        let at = addresses(machine, ins);
        let mut past = 0;
        for lane in lanes(m) {
            let address = at[lane as usize];
            let write = OP < TEST_STATE;
            let at = match machine.resolve(space_of(ins), lane, address, BYTES, write) {
                Ok(at) => at,
                Err(kind) => return machine.fail(lane, kind),
            };
            let number: u32 = machine.regs.lane(ins.a[1], lane);
            let place = (space_of(ins), address);
            match OP {
                INIT | INVALIDATE => {
                    // What is left must not look like a barrier that is waited for.
                    replace(at, |_| if OP == INIT { State::new(number) } else { State(0) });
                    copies::renewed(machine, place);
                }
                EXPECT => drop(replace(at, |s| s.expect(number))),
                COMPLETE | COMPLETE_IN_CLUSTER => {
                    let before = replace(at, |s| s.complete(number));
                    copies::changed(machine, place, before);
                }
                ARRIVE | DROP => {
                    let before = replace(at, |s| s.arrive(number, OP == DROP));
                    copies::changed(machine, place, before);
                    machine.regs.set_lane::<u64>(ins.d[0], lane, before.0);
                }
                _ => {
                    let now = now(at);
                    let over = if OP == TEST_STATE {
                        now.is_past(State(machine.regs.lane(ins.a[1], lane)))
                    } else {
                        now.is_past_parity(number)
                    };
                    past |= u32::from(over) << lane;
                    if over {
                        copies::waited(machine, place, now);
                    }
                }
            }
        }
        if OP >= TEST_STATE {
            write_pred(machine, ins, past);
        }
        Step::Next
    }
}

/// The handler of an operation.
pub(crate) fn handler(op: MbarrierOp) -> Handler {
    macro_rules! of {
        ($op:ident) => {
            versions::<Mbarrier<$op>, Mbarrier<$op>>(Rare(Target::Baseline))
        };
    }
    match op {
        MbarrierOp::Init => of!(INIT),
        MbarrierOp::Invalidate => of!(INVALIDATE),
        MbarrierOp::Expect => of!(EXPECT),
        MbarrierOp::Complete => of!(COMPLETE),
        MbarrierOp::CompleteInCluster => of!(COMPLETE_IN_CLUSTER),
        MbarrierOp::Arrive { drop: false } => of!(ARRIVE),
        MbarrierOp::Arrive { drop: true } => of!(DROP),
        MbarrierOp::Test { parity: false } => of!(TEST_STATE),
        MbarrierOp::Test { parity: true } => of!(TEST_PARITY),
    }
}
