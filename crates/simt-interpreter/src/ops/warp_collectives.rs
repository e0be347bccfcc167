//! Warp collectives: shuffles, votes, matches, reductions.
//!
//! These wait for the lanes they name: if some of them are elsewhere in the function, the
//! instruction asks to be parked until they come, or until no other lane can run.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{
    Body, Lane, Rare, Target, active, read, read_pred, versions, write, write_pred_at,
};
use crate::ops::memory::lanes;
use crate::register_file::Operand;
use simt::ir::op::{IntType, ReduxOp, ShflMode, VoteMode, Width};
use simt::kernel::WARP_LANES;
use std::marker::PhantomData;

const W: usize = WARP_LANES;

/// True if lanes of `members` are alive and not among the `m` that are here.
#[inline(always)]
fn must_wait(machine: &HandlerContext<'_>, members: u32, m: u32) -> bool {
    members & machine.live & !m != 0 && !machine.force
}

/// All members that lanes of `m` name.
#[inline(always)]
fn all_members(machine: &HandlerContext<'_>, at: Operand, m: u32) -> u32 {
    let masks = read::<u32, W>(machine, at);
    lanes(m).fold(0, |all, lane| all | masks[lane as usize])
}

/// The lanes that are at an instruction, once all members that they name at `at` are there who
/// can come; how it ends if none is, or if some are waited for.
#[inline(always)]
fn met(machine: &HandlerContext<'_>, ins: &Ins, at: Operand) -> Result<u32, Step> {
    match active(machine, ins) {
        0 => Err(Step::Next),
        m if must_wait(machine, all_members(machine, at, m), m) => Err(Step::Park),
        m => Ok(m),
    }
}

/// The lanes of `m` by the members that they name: those lanes, and those of the members that are
/// in `m`. Tiles of a warp come to an instruction at the same time, each with a mask of its own.
#[inline(always)]
fn groups(
    machine: &HandlerContext<'_>,
    at: Operand,
    m: u32,
) -> impl Iterator<Item = (u32, u32)> + use<> {
    let masks = read::<u32, W>(machine, at);
    let mut left = m;
    std::iter::from_fn(move || {
        let members = masks[lanes(left).next()? as usize];
        let group = lanes(left).filter(|lane| masks[*lane as usize] == members);
        let group = group.fold(0, |group, lane| group | 1 << lane);
        left &= !group;
        Some((group, m & members))
    })
}

struct Shfl<const MODE: u8, const PRED: bool>;

impl<const MODE: u8, const PRED: bool> Body for Shfl<MODE, PRED> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match met(machine, ins, ins.a[3]) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let a = read::<u32, W>(machine, ins.a[0]);
        let b = read::<u32, W>(machine, ins.a[1]);
        let c = read::<u32, W>(machine, ins.a[2]);
        let old = read::<u32, W>(machine, ins.d[0]);
        let (mut d, mut p) = (old, 0u32);
        for i in 0..W {
            let lane = i as i32;
            let (bval, cval) = ((b[i] & 31) as i32, (c[i] & 31) as i32);
            let segment = (c[i] >> 8 & 31) as i32;
            let most = (lane & segment) | (cval & !segment);
            let (j, inside) = match MODE {
                UP => (lane - bval, lane - bval >= most),
                DOWN => (lane + bval, lane + bval <= most),
                BFLY => (lane ^ bval, lane ^ bval <= most),
                _ => {
                    let j = (lane & segment) | (bval & !segment);
                    (j, j <= most)
                }
            };
            let j = if inside { j & 31 } else { lane };
            if m >> i & 1 != 0 {
                d[i] = a[j as usize];
            }
            p |= u32::from(inside) << i;
        }
        write(machine, ins.d[0], d);
        if PRED {
            write_pred_at(machine, ins, ins.d[1], p);
        }
        Step::Next
    }
}

const UP: u8 = 0;
const DOWN: u8 = 1;
const BFLY: u8 = 2;
const IDX: u8 = 3;

/// The handler of `shfl`.
pub(crate) fn shuffle(mode: ShflMode, predicate: bool, t: Target) -> Handler {
    macro_rules! of {
        ($mode:ident) => {
            if predicate {
                versions::<Shfl<$mode, true>, Shfl<$mode, true>>(t)
            } else {
                versions::<Shfl<$mode, false>, Shfl<$mode, false>>(t)
            }
        };
    }
    match mode {
        ShflMode::Up => of!(UP),
        ShflMode::Down => of!(DOWN),
        ShflMode::Bfly => of!(BFLY),
        ShflMode::Idx => of!(IDX),
    }
}

/// Writes one number to a scalar, or to the lanes in `m` of a register.
#[inline(always)]
fn write_number<const N: usize>(machine: &mut HandlerContext<'_>, ins: &Ins, m: u32, value: u32) {
    if N == 1 {
        write(machine, ins.d[0], [value]);
    } else {
        let mut d = read::<u32, W>(machine, ins.d[0]);
        for lane in lanes(m) {
            d[lane as usize] = value;
        }
        write(machine, ins.d[0], d);
    }
}

/// Writes the same answer to the predicate at `at` in the lanes of `group`.
#[inline(always)]
fn write_answer(machine: &mut HandlerContext<'_>, at: Operand, group: u32, answer: bool) {
    let old = read_pred(machine, at);
    machine.regs.write(at, [(old & !group) | if answer { group } else { 0 }]);
}

struct Vote<const N: usize, const MODE: u8>;

impl<const N: usize, const MODE: u8> Body for Vote<N, MODE> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        if m == 0 {
            return Step::Next;
        }
        let yes = read_pred(machine, ins.a[0]);
        if N == 1 {
            let members = read::<u32, 1>(machine, ins.a[1])[0];
            if must_wait(machine, members, m) {
                return Step::Park;
            }
            Self::poll(machine, ins, yes, m, m & members);
        } else {
            if must_wait(machine, all_members(machine, ins.a[1], m), m) {
                return Step::Park;
            }
            for (group, here) in groups(machine, ins.a[1], m) {
                Self::poll(machine, ins, yes, group, here);
            }
        }
        Step::Next
    }
}

impl<const N: usize, const MODE: u8> Vote<N, MODE> {
    /// Gives the lanes of a group what those of its members that are here say.
    #[inline(always)]
    fn poll(machine: &mut HandlerContext<'_>, ins: &Ins, yes: u32, group: u32, here: u32) {
        // Votes that name no lane are of those that are here.
        let voters = if here == 0 { group } else { here };
        let yes = yes & voters;
        match MODE {
            ALL => write_answer(machine, ins.d[0], group, yes == voters),
            ANY => write_answer(machine, ins.d[0], group, yes != 0),
            UNI => write_answer(machine, ins.d[0], group, yes == voters || yes == 0),
            _ => write_number::<N>(machine, ins, group, yes),
        }
    }
}

const ALL: u8 = 0;
const ANY: u8 = 1;
const UNI: u8 = 2;
const BALLOT: u8 = 3;

/// The handler of `vote`.
pub(crate) fn vote(mode: VoteMode, t: Target) -> Handler {
    let t = Rare(t);
    match mode {
        VoteMode::All => versions::<Vote<W, ALL>, Vote<1, ALL>>(t),
        VoteMode::Any => versions::<Vote<W, ANY>, Vote<1, ANY>>(t),
        VoteMode::Uni => versions::<Vote<W, UNI>, Vote<1, UNI>>(t),
        VoteMode::Ballot => versions::<Vote<W, BALLOT>, Vote<1, BALLOT>>(t),
    }
}

struct Match<T, const N: usize, const EVERY: bool, const PRED: bool>(PhantomData<T>);

impl<T: Lane + PartialEq, const N: usize, const EVERY: bool, const PRED: bool> Body
    for Match<T, N, EVERY, PRED>
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match met(machine, ins, ins.a[1]) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let a = read::<T, W>(machine, ins.a[0]);
        let mut d = if EVERY { [0; W] } else { read::<u32, W>(machine, ins.d[0]) };
        for (group, here) in groups(machine, ins.a[1], m) {
            let equal =
                |to: T| lanes(here).filter(|i| a[*i as usize] == to).fold(0, |g, i| g | 1u32 << i);
            if EVERY {
                let all = equal(a[group.trailing_zeros() as usize]) == here;
                write_number::<N>(machine, ins, group, if all { here } else { 0 });
                if PRED {
                    write_answer(machine, ins.d[1], group, all);
                }
            } else {
                for lane in lanes(group) {
                    d[lane as usize] = equal(a[lane as usize]);
                }
            }
        }
        if !EVERY {
            write(machine, ins.d[0], d);
        }
        Step::Next
    }
}

/// The handler of `match`.
pub(crate) fn match_lanes(all: bool, width: Width, predicate: bool, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! of {
        ($t:ty) => {
            match (all, predicate) {
                (true, true) => versions::<Match<$t, W, true, true>, Match<$t, 1, true, true>>(t),
                (true, false) => {
                    versions::<Match<$t, W, true, false>, Match<$t, 1, true, false>>(t)
                }
                (false, _) => versions::<Match<$t, W, false, false>, Match<$t, W, false, false>>(t),
            }
        };
    }
    Some(match width {
        Width::W32 => of!(u32),
        Width::W64 => of!(u64),
        _ => return None,
    })
}

struct Redux<const N: usize, const OP: u8>;

impl<const N: usize, const OP: u8> Body for Redux<N, OP> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match met(machine, ins, ins.a[1]) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let a = read::<u32, W>(machine, ins.a[0]);
        for (group, here) in groups(machine, ins.a[1], m) {
            let d = lanes(here).map(|i| a[i as usize]).reduce(|x, y| match OP {
                0 => x.wrapping_add(y),
                1 => x.min(y),
                2 => x.max(y),
                3 => (x as i32).min(y as i32) as u32,
                4 => (x as i32).max(y as i32) as u32,
                5 => x & y,
                6 => x | y,
                _ => x ^ y,
            });
            write_number::<N>(machine, ins, group, d.unwrap_or(0));
        }
        Step::Next
    }
}

/// The handler of `redux`.
pub(crate) fn redux(op: ReduxOp, ty: IntType, t: Target) -> Handler {
    let t = Rare(t);
    match (op, ty.signed()) {
        (ReduxOp::Add, _) => versions::<Redux<W, 0>, Redux<1, 0>>(t),
        (ReduxOp::Min, false) => versions::<Redux<W, 1>, Redux<1, 1>>(t),
        (ReduxOp::Max, false) => versions::<Redux<W, 2>, Redux<1, 2>>(t),
        (ReduxOp::Min, true) => versions::<Redux<W, 3>, Redux<1, 3>>(t),
        (ReduxOp::Max, true) => versions::<Redux<W, 4>, Redux<1, 4>>(t),
        (ReduxOp::And, _) => versions::<Redux<W, 5>, Redux<1, 5>>(t),
        (ReduxOp::Or, _) => versions::<Redux<W, 6>, Redux<1, 6>>(t),
        (ReduxOp::Xor, _) => versions::<Redux<W, 7>, Redux<1, 7>>(t),
    }
}

struct ReduxFloat<const MAX: bool, const ABS: bool, const NAN: bool>;

impl<const MAX: bool, const ABS: bool, const NAN: bool> Body for ReduxFloat<MAX, ABS, NAN> {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match met(machine, ins, ins.a[1]) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let a = read::<u32, W>(machine, ins.a[0]);
        let nan = |x: u32| x & 0x7fff_ffff > 0x7f80_0000;
        for (group, here) in groups(machine, ins.a[1], m) {
            let values =
                lanes(here).map(|i| if ABS { a[i as usize] & 0x7fff_ffff } else { a[i as usize] });
            let d = values.reduce(|x, y| match (nan(x), nan(y)) {
                (true, _) if NAN => x,
                (_, true) if NAN => y,
                (true, _) => y,
                (_, true) => x,
                _ => {
                    // Ordered as integers are: the bits of negative numbers run backwards.
                    let key = |x: u32| if x >> 31 != 0 { !x } else { x | 1 << 31 };
                    if (key(x) > key(y)) == MAX { x } else { y }
                }
            });
            let d = d.unwrap_or(0);
            write_number::<W>(machine, ins, group, if nan(d) { 0x7fff_ffff } else { d });
        }
        Step::Next
    }
}

/// The handler of `redux` on f32.
pub(crate) fn redux_float(max: bool, abs: bool, nan: bool) -> Handler {
    macro_rules! of {
        ($max:literal, $abs:literal, $nan:literal) => {
            versions::<ReduxFloat<$max, $abs, $nan>, ReduxFloat<$max, $abs, $nan>>(Rare(
                Target::Baseline,
            ))
        };
    }
    match (max, abs, nan) {
        (false, false, false) => of!(false, false, false),
        (false, false, true) => of!(false, false, true),
        (false, true, false) => of!(false, true, false),
        (false, true, true) => of!(false, true, true),
        (true, false, false) => of!(true, false, false),
        (true, false, true) => of!(true, false, true),
        (true, true, false) => of!(true, true, false),
        (true, true, true) => of!(true, true, true),
    }
}

/// The handler of `elect`: the lowest member leads.
pub(crate) fn elect() -> Handler {
    struct Elect;
    impl Body for Elect {
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let m = match met(machine, ins, ins.a[0]) {
                Ok(m) => m,
                Err(step) => return step,
            };
            let mut leaders = 0;
            for (group, here) in groups(machine, ins.a[0], m) {
                let leader = here.trailing_zeros();
                write_number::<W>(machine, ins, group, leader);
                leaders |= 1u32.checked_shl(leader).unwrap_or(0);
            }
            write_pred_at(machine, ins, ins.d[1], leaders);
            Step::Next
        }
    }
    versions::<Elect, Elect>(Rare(Target::Baseline))
}

/// The handler of `bar.warp.sync`.
pub(crate) fn warp_sync() -> Handler {
    struct WarpSync;
    impl Body for WarpSync {
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            met(machine, ins, ins.a[0]).map_or_else(|step| step, |_| Step::Next)
        }
    }
    versions::<WarpSync, WarpSync>(Rare(Target::Baseline))
}
