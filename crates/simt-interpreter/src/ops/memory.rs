//! Loads and stores.
//!
//! Every access is checked before it is made: global addresses against what the client owns,
//! shared, local and parameter offsets against the size of the space, and all for alignment. A
//! warp whose lanes access consecutive elements costs one check and one copy.
//!
//! Device memory is shared with other workers and the host, as on hardware; programs that race
//! get what the processor gives. It is only ever touched through raw pointers and atomics.
#![allow(clippy::needless_range_loop, reason = "a lane's number indexes several arrays")]

mod address;
mod checked;

pub(crate) use crate::ops::memory::address::*;
pub(crate) use crate::ops::memory::checked::Checked;

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Lane, Target, active, each, read, versions, write};
use crate::processor::{load_16, store_16};
use simt::ir::op::{Access, Width};
use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;
use std::marker::PhantomData;

/// How an element in memory becomes a register and back.
pub(crate) trait Element<R>: Lane {
    /// True if only [`Self::FETCH`] and [`Self::PUT`] move an element in one piece, as threads that
    /// look at the memory meanwhile may rely on.
    const BY_ITSELF: bool = false;
    /// Reads an element that can be read, whole if it is aligned.
    const FETCH: unsafe fn(*const Self) -> Self = std::ptr::read_unaligned;
    /// Writes an element that can be written, whole if it is aligned.
    const PUT: unsafe fn(*mut Self, Self) = std::ptr::write_unaligned;

    fn widen(self) -> R;
    fn narrow(register: R) -> Self;
}

/// By an instruction for 16 bytes; the compiler might move two halves.
impl Element<u128> for u128 {
    const BY_ITSELF: bool = true;
    const FETCH: unsafe fn(*const Self) -> Self = load_16;
    const PUT: unsafe fn(*mut Self, Self) = store_16;

    #[inline(always)]
    fn widen(self) -> u128 {
        self
    }

    #[inline(always)]
    fn narrow(register: u128) -> Self {
        register
    }
}

macro_rules! elements {
    ($($memory:ty => $($register:ty)*;)*) => {
        $($(impl Element<$register> for $memory {
            #[inline(always)]
            fn widen(self) -> $register {
                self as $register
            }
            #[inline(always)]
            fn narrow(register: $register) -> Self {
                register as $memory
            }
        })*)*
    };
}
elements! {
    u8 => u16 u32 u64;
    i8 => u16 u32 u64;
    u16 => u16 u32 u64;
    i16 => u32 u64;
    u32 => u32 u64;
    i32 => u64;
    u64 => u64;
}

struct Load<M, R, const COUNT: usize>(PhantomData<(M, R)>);

impl<M: Element<R>, R: Lane, const COUNT: usize> Body for Load<M, R, COUNT> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        // SAFETY: `locate` checked the memory of the lanes in `m`, and only that is read.
        unsafe {
            let stride = size_of::<M>() * COUNT;
            let mut pointers = [0u64; WARP_LANES];
            let (m, found) = match located(machine, ins, stride as u64, false, &mut pointers) {
                Ok(found) => found,
                Err(step) => return step,
            };
            match found {
                Located::Span(p) if m == FULL && !M::BY_ITSELF => {
                    let all = p.cast::<[[M; COUNT]; WARP_LANES]>().read_unaligned();
                    for k in 0..COUNT {
                        let d = each(|i| all[i][k].widen());
                        write::<R, WARP_LANES>(machine, ins.d[k], d);
                    }
                }
                Located::HalfAffine([low, high]) if m == FULL && !M::BY_ITSELF => {
                    let low = low.cast::<[[M; COUNT]; HALF_LANES]>().read_unaligned();
                    let high = high.cast::<[[M; COUNT]; HALF_LANES]>().read_unaligned();
                    for k in 0..COUNT {
                        let [a, b]: [[R; HALF_LANES]; 2] =
                            [each(|i| low[i][k].widen()), each(|i| high[i][k].widen())];
                        let d = each(|i| if i < HALF_LANES { a[i] } else { b[i - HALF_LANES] });
                        write::<R, WARP_LANES>(machine, ins.d[k], d);
                    }
                }
                Located::Span(_) | Located::HalfAffine(_) => {
                    for lane in lanes(m) {
                        let from = found.element(lane, stride);
                        let from = Checked::new(from, stride as u64, false);
                        load_lane::<M, R, COUNT>(machine, ins, lane, from);
                    }
                }
                Located::Each if m == FULL => {
                    for lane in 0..WARP_LANES {
                        let from = Checked::new(pointers[lane] as *mut u8, stride as u64, false);
                        load_lane::<M, R, COUNT>(machine, ins, lane as u32, from);
                    }
                }
                Located::Each => {
                    for lane in lanes(m) {
                        let from = pointers[lane as usize] as *mut u8;
                        let from = Checked::new(from, stride as u64, false);
                        load_lane::<M, R, COUNT>(machine, ins, lane, from);
                    }
                }
            }
        }
        Step::Next
    }
}

/// Loads one lane's elements.
#[inline(always)]
fn load_lane<M: Element<R>, R: Lane, const COUNT: usize>(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    lane: u32,
    from: Checked,
) {
    for k in 0..COUNT {
        machine.regs.set_lane::<R>(ins.d[k], lane, from.fetch::<R, M>(k).widen());
    }
}

/// A load from one address into registers of several lanes.
struct LoadOfOne<M, R, const COUNT: usize, const LANES: usize>(PhantomData<(M, R)>);

type UniformLoad<M, R, const COUNT: usize> = LoadOfOne<M, R, COUNT, 1>;
type BroadcastLoad<M, const COUNT: usize> = LoadOfOne<M, M, COUNT, WARP_LANES>;

impl<M: Element<R>, R: Lane, const COUNT: usize, const LANES: usize> Body
    for LoadOfOne<M, R, COUNT, LANES>
{
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let from = match locate_one(machine, ins, (size_of::<M>() * COUNT) as u64, false) {
            Ok(from) => from,
            Err(step) => return step,
        };
        for k in 0..COUNT {
            write::<R, LANES>(machine, ins.d[k], [from.fetch::<R, M>(k).widen(); LANES]);
        }
        Step::Next
    }
}

/// The lanes that run an access, at least one, and where their elements of `bytes` are; or what to do
/// instead.
#[inline(always)]
fn located(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    bytes: u64,
    write: bool,
    pointers: &mut Pointers,
) -> Result<(u32, Located), Step> {
    match active(machine, ins) {
        0 => Err(Step::Next),
        m => Ok((m, locate(machine, ins, m, bytes, write, pointers)?)),
    }
}

/// Checks an access that all lanes that run it make at one address; or says what to do instead.
#[inline(always)]
fn locate_one(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    bytes: u64,
    write: bool,
) -> Result<Checked, Step> {
    let (m, address) = (active(machine, ins), first_address(machine, ins, ins.a[0]));
    if m == 0 {
        return Err(Step::Next);
    }
    let (space, aligned) = (space_of(ins), address & (bytes - 1) == 0);
    if space == GLOBAL {
        machine.counters.global_bytes += bytes;
    }
    // The site's own range, so that native code finds it there next time.
    let at = if space == GLOBAL
        && aligned
        && machine.memory.allows_at(site(ins), address, bytes, write)
    {
        address as *mut u8
    } else if space == SHARED && aligned && address.saturating_add(bytes) <= machine.shared_bytes {
        machine.shared.wrapping_add(address as usize)
    } else {
        let lane = m.trailing_zeros();
        let found = machine.resolve(space, lane, address, bytes, write);
        found.map_err(|kind| machine.fail(lane, kind))?.pointer()
    };
    // SAFETY: that was checked just now.
    Ok(unsafe { Checked::new(at, bytes, write) })
}

struct Store<M, R, const COUNT: usize>(PhantomData<(M, R)>);

impl<M: Element<R>, R: Lane, const COUNT: usize> Body for Store<M, R, COUNT> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        // SAFETY: `locate` checked the memory of the lanes in `m`, and only that is written.
        unsafe {
            let stride = size_of::<M>() * COUNT;
            let mut pointers = [0u64; WARP_LANES];
            let (m, found) = match located(machine, ins, stride as u64, true, &mut pointers) {
                Ok(found) => found,
                Err(step) => return step,
            };
            match found {
                Located::Span(p) if m == FULL && !M::BY_ITSELF => {
                    let values: [[R; WARP_LANES]; COUNT] =
                        each(|k| read::<R, WARP_LANES>(machine, ins.a[1 + k]));
                    let all: [[M; COUNT]; WARP_LANES] = each(|i| each(|k| M::narrow(values[k][i])));
                    p.cast::<[[M; COUNT]; WARP_LANES]>().write_unaligned(all);
                }
                Located::HalfAffine(halves) if m == FULL && !M::BY_ITSELF => {
                    let values: [[R; WARP_LANES]; COUNT] =
                        each(|k| read::<R, WARP_LANES>(machine, ins.a[1 + k]));
                    for (half, to) in halves.into_iter().enumerate() {
                        let all: [[M; COUNT]; HALF_LANES] =
                            each(|i| each(|k| M::narrow(values[k][half * HALF_LANES + i])));
                        to.cast::<[[M; COUNT]; HALF_LANES]>().write_unaligned(all);
                    }
                }
                Located::Span(_) | Located::HalfAffine(_) => {
                    for lane in lanes(m) {
                        let to = found.element(lane, stride);
                        let to = Checked::new(to, stride as u64, true);
                        store_lane::<M, R, COUNT>(machine, ins, lane, to);
                    }
                }
                Located::Each => {
                    for lane in lanes(m) {
                        let to = pointers[lane as usize] as *mut u8;
                        let to = Checked::new(to, stride as u64, true);
                        store_lane::<M, R, COUNT>(machine, ins, lane, to);
                    }
                }
            }
        }
        Step::Next
    }
}

/// Stores one lane's elements.
#[inline(always)]
fn store_lane<M: Element<R>, R: Lane, const COUNT: usize>(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    lane: u32,
    to: Checked,
) {
    for k in 0..COUNT {
        to.put::<R, M>(k, M::narrow(machine.regs.lane(ins.a[1 + k], lane)));
    }
}

struct UniformStore<M, R, const COUNT: usize>(PhantomData<(M, R)>);

impl<M: Element<R>, R: Lane, const COUNT: usize> Body for UniformStore<M, R, COUNT> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let to = match locate_one(machine, ins, (size_of::<M>() * COUNT) as u64, true) {
            Ok(to) => to,
            Err(step) => return step,
        };
        for k in 0..COUNT {
            to.put::<R, M>(k, M::narrow(read::<R, 1>(machine, ins.a[1 + k])[0]));
        }
        Step::Next
    }
}

macro_rules! by_element {
    ($access:expr, $vector:ident, $scalar:ident, $target:expr) => {{
        macro_rules! counted {
            ($m:ty, $r:ty) => {
                match $access.count {
                    1 => versions::<$vector<$m, $r, 1>, $scalar<$m, $r, 1>>($target),
                    2 => versions::<$vector<$m, $r, 2>, $scalar<$m, $r, 2>>($target),
                    4 => versions::<$vector<$m, $r, 4>, $scalar<$m, $r, 4>>($target),
                    _ => return None,
                }
            };
        }
        match ($access.bytes, $access.signed, $access.width) {
            (1, false, Width::W16) => counted!(u8, u16),
            (1, false, Width::W32) => counted!(u8, u32),
            (1, false, Width::W64) => counted!(u8, u64),
            (1, true, Width::W16) => counted!(i8, u16),
            (1, true, Width::W32) => counted!(i8, u32),
            (1, true, Width::W64) => counted!(i8, u64),
            (2, _, Width::W16) => counted!(u16, u16),
            (2, false, Width::W32) => counted!(u16, u32),
            (2, false, Width::W64) => counted!(u16, u64),
            (2, true, Width::W32) => counted!(i16, u32),
            (2, true, Width::W64) => counted!(i16, u64),
            (4, _, Width::W32) => counted!(u32, u32),
            (4, false, Width::W64) => counted!(u32, u64),
            (4, true, Width::W64) => counted!(i32, u64),
            (8, _, Width::W64) => counted!(u64, u64),
            (16, _, Width::W128) => counted!(u128, u128),
            _ => return None,
        }
    }};
}

/// The handler of a load.
pub(crate) fn load(access: Access, t: Target) -> Option<Handler> {
    Some(by_element!(access, Load, UniformLoad, t))
}

/// The handler of a load from one address into all lanes; `None` for elements that are not as
/// wide as their registers.
pub(crate) fn load_for_all(access: Access, t: Target) -> Option<Handler> {
    macro_rules! counted {
        ($m:ty) => {
            match access.count {
                1 => versions::<BroadcastLoad<$m, 1>, BroadcastLoad<$m, 1>>(t),
                2 => versions::<BroadcastLoad<$m, 2>, BroadcastLoad<$m, 2>>(t),
                4 => versions::<BroadcastLoad<$m, 4>, BroadcastLoad<$m, 4>>(t),
                _ => return None,
            }
        };
    }
    Some(match (access.bytes, access.width) {
        (4, Width::W32) => counted!(u32),
        (8, Width::W64) => counted!(u64),
        _ => return None,
    })
}

/// The handler of a store.
pub(crate) fn store(access: Access, t: Target) -> Option<Handler> {
    // What is cut off has no sign.
    let access = Access { signed: false, ..access };
    Some(by_element!(access, Store, UniformStore, t))
}
