//! Moves, packing, predicates, carries and special registers.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::integer;
use crate::ops::map::{
    Body, Lane, Rare, Target, active, binary, each, read, read_pred, unary, versions, write,
    write_pred, write_pred_at,
};
use simt::ir::op::{PredOp, Space, Special, Width};
use simt::ir::vector::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, WINDOWS_END};
use simt::kernel::WARP_LANES;
use std::marker::PhantomData;

/// The handler of a copy.
pub(crate) fn copy(width: Width, t: Target) -> Handler {
    match width {
        Width::W16 => unary(t, |a: u16| a),
        Width::W32 => unary(t, |a: u32| a),
        Width::W64 => unary(t, |a: u64| a),
        Width::W128 => unary(t, |a: u128| a),
    }
}

/// The handler of `lop3`: every bit picks its answer from the table.
pub(crate) fn lop3(t: Target) -> Handler {
    struct Lop3<const N: usize>;
    impl<const N: usize> Body for Lop3<N> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let bit = |i: u32| if ins.imm >> i & 1 != 0 { !0u32 } else { 0 };
            let table: [u32; 8] = each(|i| bit(i as u32));
            let a = read::<u32, N>(machine, ins.a[0]);
            let b = read::<u32, N>(machine, ins.a[1]);
            let c = read::<u32, N>(machine, ins.a[2]);
            let d = each(|i| {
                let (a, b, c) = (a[i], b[i], c[i]);
                let low =
                    (!b & (!c & table[0] | c & table[1])) | (b & (!c & table[2] | c & table[3]));
                let high =
                    (!b & (!c & table[4] | c & table[5])) | (b & (!c & table[6] | c & table[7]));
                !a & low | a & high
            });
            write::<u32, N>(machine, ins.d[0], d);
            Step::Next
        }
    }
    versions::<Lop3<WARP_LANES>, Lop3<1>>(t)
}

/// The handler of `bfi`, the one arithmetic instruction with four sources.
pub(crate) fn insert(width: Width, t: Target) -> Option<Handler> {
    struct Insert<const N: usize, T>(PhantomData<T>);
    impl<const N: usize, T: Lane + Into<u64> + Truncate> Body for Insert<N, T> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let a = read::<T, N>(machine, ins.a[0]);
            let b = read::<T, N>(machine, ins.a[1]);
            let position = read::<u32, N>(machine, ins.a[2]);
            let length = read::<u32, N>(machine, ins.a[3]);
            let bits = size_of::<T>() as u32 * 8;
            let d = each(|i| {
                let d = integer::insert(a[i].into(), b[i].into(), position[i], length[i], bits);
                T::truncate(d)
            });
            write::<T, N>(machine, ins.d[0], d);
            Step::Next
        }
    }
    Some(match width {
        Width::W32 => versions::<Insert<WARP_LANES, u32>, Insert<1, u32>>(t),
        Width::W64 => versions::<Insert<WARP_LANES, u64>, Insert<1, u64>>(t),
        _ => return None,
    })
}

trait Truncate {
    fn truncate(x: u64) -> Self;
}
impl Truncate for u32 {
    #[inline(always)]
    fn truncate(x: u64) -> Self {
        x as u32
    }
}
impl Truncate for u64 {
    #[inline(always)]
    fn truncate(x: u64) -> Self {
        x
    }
}

struct Carry<const N: usize, T, const SUBTRACT: bool, const IN: bool, const OUT: bool>(
    PhantomData<T>,
);

macro_rules! carry_body {
    ($t:ty) => {
        impl<const N: usize, const SUBTRACT: bool, const IN: bool, const OUT: bool> Body
            for Carry<N, $t, SUBTRACT, IN, OUT>
        {
            #[inline(always)]
            fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
                let a = read::<$t, N>(machine, ins.a[0]);
                let b = read::<$t, N>(machine, ins.a[1]);
                let carry = if IN { read_pred(machine, ins.a[2]) } else { 0 };
                // One value for the lanes that run: what others have says nothing.
                let carry = if N == 1 { carry & active(machine, ins) } else { carry };
                let mut out = 0;
                let mut d = [0; N];
                for i in 0..N {
                    let c = if N == 1 { (carry != 0) as $t } else { (carry >> i & 1) as $t };
                    let (x, over) = if SUBTRACT {
                        let (x, first) = a[i].overflowing_sub(b[i]);
                        let (x, second) = x.overflowing_sub(c);
                        (x, first | second)
                    } else {
                        let (x, first) = a[i].overflowing_add(b[i]);
                        let (x, second) = x.overflowing_add(c);
                        (x, first | second)
                    };
                    d[i] = x;
                    out |= u32::from(over) << i;
                }
                if N == 1 && out != 0 {
                    out = !0;
                }
                write::<$t, N>(machine, ins.d[0], (d));
                if OUT {
                    write_pred_at(machine, ins, ins.d[1], out);
                }

                Step::Next
            }
        }
    };
}
carry_body!(u32);
carry_body!(u64);

/// The handler of an addition or subtraction with a carry flag.
pub(crate) fn carry(
    subtract: bool,
    width: Width,
    carry_in: bool,
    carry_out: bool,
    t: Target,
) -> Option<Handler> {
    const W: usize = WARP_LANES;
    macro_rules! of {
        ($t:ty, $($s:literal $i:literal $o:literal,)*) => {
            match (subtract, carry_in, carry_out) {
                $(($s, $i, $o) => versions::<Carry<W, $t, $s, $i, $o>, Carry<1, $t, $s, $i, $o>>(t),)*
            }
        };
    }
    macro_rules! all {
        ($t:ty) => {
            of!($t,
                false false false, false false true, false true false, false true true,
                true false false, true false true, true true false, true true true,)
        };
    }
    Some(match width {
        Width::W32 => all!(u32),
        Width::W64 => all!(u64),
        _ => return None,
    })
}

/// The handler that makes one register of several.
pub(crate) fn pack(part: Width, whole: Width, t: Target) -> Option<Handler> {
    struct Quarters<const N: usize>;
    impl<const N: usize> Body for Quarters<N> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let p: [[u16; N]; 4] = each(|k| read::<u16, N>(machine, ins.a[k]));
            let d = each(|i| (0..4).fold(0u64, |d, k| d | u64::from(p[k][i]) << (16 * k)));
            write::<u64, N>(machine, ins.d[0], d);
            Step::Next
        }
    }
    Some(match (part, whole) {
        (Width::W16, Width::W32) => binary(t, |a: u16, b: u16| u32::from(a) | u32::from(b) << 16),
        (Width::W32, Width::W64) => binary(t, |a: u32, b: u32| u64::from(a) | u64::from(b) << 32),
        (Width::W64, Width::W128) => {
            binary(t, |a: u64, b: u64| u128::from(a) | u128::from(b) << 64)
        }
        (Width::W16, Width::W64) => versions::<Quarters<WARP_LANES>, Quarters<1>>(t),
        (a, b) if a == b => copy(a, t),
        _ => return None,
    })
}

struct Unpack<const N: usize, const PARTS: usize, W, P>(PhantomData<(W, P)>);

macro_rules! unpack_body {
    ($whole:ty, $part:ty) => {
        impl<const N: usize, const PARTS: usize> Body for Unpack<N, PARTS, $whole, $part> {
            #[inline(always)]
            fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
                let a = read::<$whole, N>(machine, ins.a[0]);
                for k in 0..PARTS {
                    let d = each(|i| (a[i] >> (<$part>::BITS as usize * k)) as $part);
                    write::<$part, N>(machine, ins.d[k], (d));
                }

                Step::Next
            }
        }
    };
}
unpack_body!(u32, u16);
unpack_body!(u64, u32);
unpack_body!(u64, u16);
unpack_body!(u128, u64);

/// The handler that takes a register apart.
pub(crate) fn unpack(part: Width, whole: Width, t: Target) -> Option<Handler> {
    const W: usize = WARP_LANES;
    Some(match (part, whole) {
        (Width::W16, Width::W32) => versions::<Unpack<W, 2, u32, u16>, Unpack<1, 2, u32, u16>>(t),
        (Width::W32, Width::W64) => versions::<Unpack<W, 2, u64, u32>, Unpack<1, 2, u64, u32>>(t),
        (Width::W16, Width::W64) => versions::<Unpack<W, 4, u64, u16>, Unpack<1, 4, u64, u16>>(t),
        (Width::W64, Width::W128) => {
            versions::<Unpack<W, 2, u128, u64>, Unpack<1, 2, u128, u64>>(t)
        }
        (a, b) if a == b => copy(a, t),
        _ => return None,
    })
}

struct PredLogic<const OP: u8>;

impl<const OP: u8> Body for PredLogic<OP> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let a = read_pred(machine, ins.a[0]);
        let b = || read_pred(machine, ins.a[1]);
        let d = match OP {
            0 => a & b(),
            1 => a | b(),
            2 => a ^ b(),
            3 => !a,
            4 => a,
            _ => {
                let p = read_pred(machine, ins.a[2]);
                (a & p) | (b() & !p)
            }
        };
        write_pred(machine, ins, d);
        Step::Next
    }
}

/// The handler of an operation on two predicates.
pub(crate) fn pred_logic(op: PredOp) -> Handler {
    let t = Rare(Target::Baseline);
    match op {
        PredOp::And => versions::<PredLogic<0>, PredLogic<0>>(t),
        PredOp::Or => versions::<PredLogic<1>, PredLogic<1>>(t),
        PredOp::Xor => versions::<PredLogic<2>, PredLogic<2>>(t),
    }
}

/// The handler that negates a predicate.
pub(crate) fn pred_not() -> Handler {
    versions::<PredLogic<3>, PredLogic<3>>(Rare(Target::Baseline))
}

/// The handler that copies a predicate.
pub(crate) fn pred_copy() -> Handler {
    versions::<PredLogic<4>, PredLogic<4>>(Rare(Target::Baseline))
}

/// The handler that selects between predicates.
pub(crate) fn pred_select() -> Handler {
    versions::<PredLogic<5>, PredLogic<5>>(Rare(Target::Baseline))
}

/// The window of generic addresses that stands for a space.
fn window(space: Space) -> Option<u64> {
    Some(match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Global | Space::Generic => return None,
    })
}

/// The handler of `cvta`.
pub(crate) fn to_generic(space: Space, t: Target) -> Option<Handler> {
    Some(match window(space)? {
        SHARED_WINDOW => unary(t, |a: u64| a.wrapping_add(SHARED_WINDOW)),
        LOCAL_WINDOW => unary(t, |a: u64| a.wrapping_add(LOCAL_WINDOW)),
        _ => unary(t, |a: u64| a.wrapping_add(PARAM_WINDOW)),
    })
}

/// The handler of `cvta.to`.
pub(crate) fn from_generic(space: Space, t: Target) -> Option<Handler> {
    Some(match window(space)? {
        SHARED_WINDOW => unary(t, |a: u64| a.wrapping_sub(SHARED_WINDOW)),
        LOCAL_WINDOW => unary(t, |a: u64| a.wrapping_sub(LOCAL_WINDOW)),
        _ => unary(t, |a: u64| a.wrapping_sub(PARAM_WINDOW)),
    })
}

struct InSpace<const SPACE: u8>;

impl<const SPACE: u8> Body for InSpace<SPACE> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let inside = |a: u64| match SPACE {
            0 => a.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES,
            1 => a.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES,
            2 => a.wrapping_sub(PARAM_WINDOW) < WINDOW_BYTES,
            3 => a.wrapping_sub(SHARED_WINDOW) >= WINDOWS_END - SHARED_WINDOW,
            _ => machine
                .block
                .program
                .const_ranges
                .iter()
                .any(|(start, end)| a >= *start && a < *end),
        };
        let a = read::<u64, WARP_LANES>(machine, ins.a[0]);
        let d = a.iter().enumerate().fold(0, |d, (i, a)| d | u32::from(inside(*a)) << i);
        write_pred(machine, ins, d);
        Step::Next
    }
}

/// The handler of `isspacep`; `None` asks for constant banks.
pub(crate) fn in_space(space: Option<Space>) -> Handler {
    let t = Rare(Target::Baseline);
    match space {
        Some(Space::Shared) => versions::<InSpace<0>, InSpace<0>>(t),
        Some(Space::Local) => versions::<InSpace<1>, InSpace<1>>(t),
        Some(Space::Param) => versions::<InSpace<2>, InSpace<2>>(t),
        Some(_) => versions::<InSpace<3>, InSpace<3>>(t),
        None => versions::<InSpace<4>, InSpace<4>>(t),
    }
}

/// The address in local memory of a byte of the running function's frame: its offset is the
/// instruction's constant.
pub(crate) fn frame_address(t: Target) -> Handler {
    struct Frame<const N: usize>;
    impl<const N: usize> Body for Frame<N> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let address = machine.frame + ins.imm as u64;
            write(machine, ins.d[0], [address; N]);
            Step::Next
        }
    }
    versions::<Frame<WARP_LANES>, Frame<1>>(t)
}

/// The handler that reads a special register. The instruction's constant picks a component.
pub(crate) fn special(special: Special, t: Target) -> Handler {
    struct Read32<const N: usize>;
    struct Read64<const N: usize>;
    struct Tid;
    impl<const N: usize> Body for Read32<N> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let lane = |i: usize| machine.special(ins.imm as u8, i as u32) as u32;
            let d = each(lane);
            write::<u32, N>(machine, ins.d[0], d);
            Step::Next
        }
    }
    impl<const N: usize> Body for Read64<N> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let value = machine.special(ins.imm as u8, 0);
            write::<u64, N>(machine, ins.d[0], [value; N]);
            Step::Next
        }
    }
    impl Body for Tid {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let d = machine.thread_indices(ins.imm as usize);
            write(machine, ins.d[0], d);
            Step::Next
        }
    }
    struct FirstTid;
    impl Body for FirstTid {
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let first = machine.thread(0);
            let d = [first.x, first.y, first.z][ins.imm as usize];
            write(machine, ins.d[0], [d]);
            Step::Next
        }
    }
    match special {
        Special::Tid(_) => versions::<Tid, FirstTid>(t),
        _ if special.width() == Width::W64 => versions::<Read64<WARP_LANES>, Read64<1>>(t),
        _ => versions::<Read32<WARP_LANES>, Read32<1>>(t),
    }
}

/// The handler of `activemask`.
pub(crate) fn active_mask(t: Target) -> Handler {
    struct ActiveMask<const N: usize>;
    impl<const N: usize> Body for ActiveMask<N> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let m = active(machine, ins);
            write(machine, ins.d[0], [m; N]);
            Step::Next
        }
    }
    versions::<ActiveMask<WARP_LANES>, ActiveMask<1>>(t)
}

/// The handler of the check that a 32-bit scalar, with the stride in [`Ins::imm`], does not wrap
/// before the last lane that runs, or that in [`Ins::tag`].
pub(crate) fn no_wrap(signed: bool) -> Handler {
    struct NoWrap<const SIGNED: bool>;
    impl<const SIGNED: bool> Body for NoWrap<SIGNED> {
        #[inline(always)]
        fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
            let first = read::<u32, 1>(machine, ins.a[0])[0];
            let fits = |lane: u32| {
                let stride = ins.imm * i64::from(lane);
                if SIGNED {
                    i32::try_from(i64::from(first as i32) + stride).is_ok()
                } else {
                    u32::try_from(i64::from(first) + stride).is_ok()
                }
            };
            let last = WARP_LANES as u32 - 1 - machine.mask.leading_zeros();
            if fits(ins.tag) || fits(last.min(ins.tag)) {
                return Step::Next;
            }
            Step::Leave
        }
    }
    let t = Rare(Target::Baseline);
    match signed {
        true => versions::<NoWrap<true>, NoWrap<true>>(t),
        false => versions::<NoWrap<false>, NoWrap<false>>(t),
    }
}
