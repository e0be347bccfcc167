//! Integer arithmetic and bit fields.
//!
//! Where PTX leaves a result undefined (division by zero) it is what NVIDIA hardware gives.

use crate::handler_context::Handler;
use crate::ops::map::{Rare, Target, binary, ternary, unary};
use simt::ir::op::{IntOp, IntType, PrmtMode};

/// The handler that is made of one of Rust's types, by that of the instruction.
macro_rules! by_type {
    ($ty:expr, $t:ident => $handler:expr; $($types:pat => $rust:ty),*) => {
        match $ty {
            $($types => {
                type $t = $rust;
                $handler
            })*
        }
    };
}

macro_rules! unsigned {
    ($ty:expr, $t:ident => $handler:expr) => {
        by_type!($ty, $t => $handler; IntType::U16 | IntType::S16 => u16,
            IntType::U32 | IntType::S32 => u32, IntType::U64 | IntType::S64 => u64)
    };
}

macro_rules! typed {
    ($ty:expr, $t:ident => $handler:expr) => {
        by_type!($ty, $t => $handler; IntType::U16 => u16, IntType::S16 => i16,
            IntType::U32 => u32, IntType::S32 => i32, IntType::U64 => u64, IntType::S64 => i64)
    };
}

macro_rules! signed {
    ($ty:expr, $t:ident => $handler:expr) => {
        by_type!($ty, $t => $handler; IntType::U16 | IntType::S16 => i16,
            IntType::U32 | IntType::S32 => i32, IntType::U64 | IntType::S64 => i64)
    };
}

/// The handler of an integer operation; `None` if the type has no such operation.
pub(crate) fn handler(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    Some(match op {
        IntOp::Add => unsigned!(ty, T => binary(t, |a: T, b: T| a.wrapping_add(b))),
        IntOp::Sub => unsigned!(ty, T => binary(t, |a: T, b: T| a.wrapping_sub(b))),
        IntOp::AddSat => typed!(ty, T => binary(t, |a: T, b: T| a.saturating_add(b))),
        IntOp::SubSat => typed!(ty, T => binary(t, |a: T, b: T| a.saturating_sub(b))),
        IntOp::MulLo => unsigned!(ty, T => binary(t, |a: T, b: T| a.wrapping_mul(b))),
        IntOp::MadLo => {
            unsigned!(ty, T => ternary(t, |a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c)))
        }
        IntOp::MulHi | IntOp::MadHi | IntOp::MadHiSat => return high(op, ty, t),
        IntOp::MulWide | IntOp::MadWide => return wide(op, ty, t),
        IntOp::Mul24Lo | IntOp::Mul24Hi | IntOp::Mad24Lo | IntOp::Mad24Hi => {
            return low24(op, ty, t);
        }
        IntOp::Div | IntOp::Rem => return divide(op, ty, t),
        IntOp::Min => typed!(ty, T => binary(t, |a: T, b: T| a.min(b))),
        IntOp::Max => typed!(ty, T => binary(t, |a: T, b: T| a.max(b))),
        IntOp::And => unsigned!(ty, T => binary(t, |a: T, b: T| a & b)),
        IntOp::Or => unsigned!(ty, T => binary(t, |a: T, b: T| a | b)),
        IntOp::Xor => unsigned!(ty, T => binary(t, |a: T, b: T| a ^ b)),
        IntOp::Not => unsigned!(ty, T => unary(t, |a: T| !a)),
        IntOp::Cnot => unsigned!(ty, T => unary(t, |a: T| (a == 0) as T)),
        IntOp::Neg => unsigned!(ty, T => unary(t, |a: T| a.wrapping_neg())),
        IntOp::Abs => signed!(ty, T => unary(t, |a: T| a.wrapping_abs())),
        IntOp::Shl => unsigned!(ty, T => binary(t, |a: T, n: u32| {
            if n < T::BITS { a << (n % T::BITS) } else { 0 }
        })),
        IntOp::Shr => typed!(ty, T => binary(t, |a: T, n: u32| {
            // Arithmetic shifts past the width leave the sign; logical ones nothing.
            let last = a >> (T::BITS - 1) >> (if T::MIN == 0 { 1 } else { 0 });
            if n < T::BITS { a >> (n % T::BITS) } else { last }
        })),
        IntOp::Popc => unsigned!(ty, T => unary(t, |a: T| a.count_ones())),
        IntOp::Clz => unsigned!(ty, T => unary(t, |a: T| a.leading_zeros())),
        IntOp::Brev => unsigned!(ty, T => unary(t, |a: T| a.reverse_bits())),
        IntOp::Bfind | IntOp::BfindShift => return find_bit(op, ty, t),
        IntOp::Fns => ternary(t, find_nth_set),
        IntOp::Bfe => return extract(ty, t),
        IntOp::Bfi => return None,
        IntOp::BmskClamp => binary(t, |a: u32, b: u32| mask(a, b)),
        IntOp::BmskWrap => binary(t, |a: u32, b: u32| mask(a & 31, b & 31)),
        IntOp::SzextClamp | IntOp::SzextWrap => return size_extend(op, ty, t),
        IntOp::Sad => return sum_of_differences(ty, t),
        IntOp::ShfLeftWrap => ternary(t, |a: u32, b: u32, c: u32| funnel_left(a, b, c & 31)),
        IntOp::ShfLeftClamp => ternary(t, |a: u32, b: u32, c: u32| funnel_left(a, b, c.min(32))),
        IntOp::ShfRightWrap => ternary(t, |a: u32, b: u32, c: u32| funnel_right(a, b, c & 31)),
        IntOp::ShfRightClamp => ternary(t, |a: u32, b: u32, c: u32| funnel_right(a, b, c.min(32))),
        IntOp::Add16x2 => binary(t, |a: u32, b: u32| {
            (a.wrapping_add(b) & 0xffff) | ((a >> 16).wrapping_add(b >> 16) << 16)
        }),
        IntOp::Min16x2 if ty.signed() => halves(t, |a, b| (a as i16).min(b as i16) as u16),
        IntOp::Max16x2 if ty.signed() => halves(t, |a, b| (a as i16).max(b as i16) as u16),
        IntOp::Min16x2 => halves(t, |a, b| a.min(b)),
        IntOp::Max16x2 => halves(t, |a, b| a.max(b)),
        IntOp::AddSat16x2 if ty.signed() => {
            halves(t, |a, b| (a as i16).saturating_add(b as i16) as u16)
        }
        IntOp::AddSat16x2 => halves(t, u16::saturating_add),
    })
}

/// `f` on each half of 32-bit lanes.
fn halves<F: Fn(u16, u16) -> u16 + Copy>(t: Target, f: F) -> Handler {
    binary(Rare(t), move |a: u32, b: u32| {
        let low = f(a as u16, b as u16);
        let high = f((a >> 16) as u16, (b >> 16) as u16);
        u32::from(low) | u32::from(high) << 16
    })
}

fn high(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    macro_rules! of {
        ($t:ty, $wide:ty) => {{
            let bits = <$t>::BITS;
            match op {
                IntOp::MulHi => {
                    binary(t, |a: $t, b: $t| ((a as $wide * b as $wide) >> <$t>::BITS) as $t)
                }
                IntOp::MadHi => ternary(t, |a: $t, b: $t, c: $t| {
                    (((a as $wide * b as $wide) >> <$t>::BITS) as $t).wrapping_add(c)
                }),
                // Exists for s32 only.
                _ if bits == 32 => ternary(t, |a: $t, b: $t, c: $t| {
                    (((a as $wide * b as $wide) >> <$t>::BITS) as $t).saturating_add(c)
                }),
                _ => return None,
            }
        }};
    }
    Some(match ty {
        IntType::U16 => of!(u16, u32),
        IntType::S16 => of!(i16, i32),
        IntType::U32 => of!(u32, u64),
        IntType::S32 => of!(i32, i64),
        IntType::U64 => of!(u64, u128),
        IntType::S64 => of!(i64, i128),
    })
}

fn wide(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    macro_rules! of {
        ($t:ty, $wide:ty) => {
            if op == IntOp::MulWide {
                binary(t, |a: $t, b: $t| a as $wide * b as $wide)
            } else {
                ternary(t, |a: $t, b: $t, c: $wide| (a as $wide * b as $wide).wrapping_add(c))
            }
        };
    }
    Some(match ty {
        IntType::U16 => of!(u16, u32),
        IntType::S16 => of!(i16, i32),
        IntType::U32 => of!(u32, u64),
        IntType::S32 => of!(i32, i64),
        IntType::U64 | IntType::S64 => return None,
    })
}

/// Products of the low 24 bits: 48 bits, of which `.lo` takes the low and `.hi` the high 32.
fn low24(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! of {
        ($t:ty, $wide:ty) => {{
            match op {
                IntOp::Mul24Lo => binary(t, |a: $t, b: $t| {
                    ((a << 8 >> 8) as $wide * (b << 8 >> 8) as $wide) as $t
                }),
                IntOp::Mul24Hi => binary(t, |a: $t, b: $t| {
                    (((a << 8 >> 8) as $wide * (b << 8 >> 8) as $wide) >> 16) as $t
                }),
                IntOp::Mad24Lo => ternary(t, |a: $t, b: $t, c: $t| {
                    (((a << 8 >> 8) as $wide * (b << 8 >> 8) as $wide) as $t).wrapping_add(c)
                }),
                _ => ternary(t, |a: $t, b: $t, c: $t| {
                    ((((a << 8 >> 8) as $wide * (b << 8 >> 8) as $wide) >> 16) as $t)
                        .wrapping_add(c)
                }),
            }
        }};
    }
    match ty {
        IntType::U32 => Some(of!(u32, u64)),
        IntType::S32 => Some(of!(i32, i64)),
        _ => None,
    }
}

fn divide(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    macro_rules! of {
        ($t:ty) => {
            if op == IntOp::Div {
                binary(t, |a: $t, b: $t| if b == 0 { !0 } else { a.wrapping_div(b) })
            } else {
                binary(t, |a: $t, b: $t| if b == 0 { !0 } else { a.wrapping_rem(b) })
            }
        };
    }
    // Quotients of 32-bit numbers are exact in double precision once truncated: the next integer
    // is at least 1/b away, farther than half an ulp. That division vectorises.
    let quotient = |a: u32, b: u32| (f64::from(a) / f64::from(b)) as u32;
    Some(match (ty, op) {
        (IntType::U32, IntOp::Div) => {
            binary(t, move |a: u32, b: u32| if b == 0 { !0 } else { quotient(a, b) })
        }
        (IntType::U32, _) => {
            binary(
                t,
                move |a: u32, b: u32| {
                    if b == 0 { !0 } else { a.wrapping_sub(quotient(a, b).wrapping_mul(b)) }
                },
            )
        }
        (IntType::S32, IntOp::Div) => binary(t, move |a: i32, b: i32| {
            let q = quotient(a.unsigned_abs(), b.unsigned_abs()) as i32;
            let q = if (a ^ b) < 0 { q.wrapping_neg() } else { q };
            if b == 0 { !0 } else { q }
        }),
        (IntType::S32, _) => binary(t, move |a: i32, b: i32| {
            let q = quotient(a.unsigned_abs(), b.unsigned_abs());
            let r = a.unsigned_abs().wrapping_sub(q.wrapping_mul(b.unsigned_abs())) as i32;
            let r = if a < 0 { r.wrapping_neg() } else { r };
            if b == 0 { !0 } else { r }
        }),
        (IntType::U16, _) => of!(u16),
        (IntType::S16, _) => of!(i16),
        (IntType::U64, _) => of!(u64),
        (IntType::S64, _) => of!(i64),
    })
}

/// Position of the highest bit that differs from the sign; all ones if there is none.
fn find_bit(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! of {
        ($t:ty, $u:ty) => {{
            if op == IntOp::Bfind {
                unary(t, |a: $t| {
                    let a = (a ^ (a >> (<$t>::BITS - 1)).wrapping_mul(sign_only::<$t>())) as $u;
                    (<$u>::BITS - 1).wrapping_sub(a.leading_zeros())
                })
            } else {
                unary(t, |a: $t| {
                    let a = (a ^ (a >> (<$t>::BITS - 1)).wrapping_mul(sign_only::<$t>())) as $u;
                    if a == 0 { !0 } else { a.leading_zeros() }
                })
            }
        }};
    }
    Some(match ty {
        IntType::U32 => of!(u32, u32),
        IntType::S32 => of!(i32, u32),
        IntType::U64 => of!(u64, u64),
        IntType::S64 => of!(i64, u64),
        IntType::U16 | IntType::S16 => return None,
    })
}

/// 1 for signed types, 0 for unsigned ones.
#[inline(always)]
fn sign_only<T: SignOnly>() -> T {
    T::VALUE
}

trait SignOnly {
    const VALUE: Self;
}
impl SignOnly for u32 {
    const VALUE: Self = 0;
}
impl SignOnly for i32 {
    const VALUE: Self = 1;
}
impl SignOnly for u64 {
    const VALUE: Self = 0;
}
impl SignOnly for i64 {
    const VALUE: Self = 1;
}

/// `fns`: position of the `offset`-th set bit from `base` up (or down), as the manual's code.
#[inline(always)]
fn find_nth_set(mask: u32, base: u32, offset: u32) -> u32 {
    let offset = offset as i32;
    if offset == 0 {
        return if base < 32 && mask >> base & 1 != 0 { base } else { !0 };
    }
    let step = if offset > 0 { 1i64 } else { -1 };
    let mut left = offset.unsigned_abs();
    let mut position = i64::from(base);
    while (0..32).contains(&position) {
        if mask >> position & 1 != 0 {
            left -= 1;
            if left == 0 {
                return position as u32;
            }
        }
        position += step;
    }
    !0
}

fn extract(ty: IntType, t: Target) -> Option<Handler> {
    macro_rules! of {
        ($t:ty, $u:ty) => {
            ternary(t, |a: $t, b: u32, c: u32| {
                let (position, length) = (b & 0xff, c & 0xff);
                let bits = <$u>::BITS;
                let last = (position + length).wrapping_sub(1).min(bits - 1);
                // The field's sign bit fills what lies above it, also where the field leaves the
                // register.
                let sign = length != 0 && sign_only::<$t>() == 1 && (a as $u) >> last & 1 != 0;
                let low = if position < bits { (a as $u) >> (position % bits) } else { 0 };
                let keep = if length >= bits { !0 } else { ((1 as $u) << (length % bits)) - 1 };
                let inside = if position < bits {
                    let room = bits - position;
                    if room >= bits { !0 } else { ((1 as $u) << (room % bits)) - 1 }
                } else {
                    0
                };
                let field = keep & inside;
                let fill: $u = if sign { !field } else { 0 };
                (low & field) | fill
            })
        };
    }
    Some(match ty {
        IntType::U32 => of!(u32, u32),
        IntType::S32 => of!(i32, u32),
        IntType::U64 => of!(u64, u64),
        IntType::S64 => of!(i64, u64),
        IntType::U16 | IntType::S16 => return None,
    })
}

/// `bfi`: `b` with the low bits of `a` in a field of it.
#[inline(always)]
pub(crate) fn insert(a: u64, b: u64, position: u32, length: u32, bits: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= bits || length == 0 {
        return b;
    }
    let length = length.min(bits - position);
    let field = (u64::MAX >> (64 - length)) << position;
    (b & !field) | ((a << position) & field)
}

#[inline(always)]
fn mask(position: u32, width: u32) -> u32 {
    let low = if position > 31 { 0 } else { !0u32 << position };
    let end = u64::from(position) + u64::from(width);
    let high = if end > 31 { !0 } else { !(!0u32 << end) };
    low & high
}

fn size_extend(op: IntOp, ty: IntType, t: Target) -> Option<Handler> {
    let t = Rare(t);
    #[inline(always)]
    fn unsigned(a: u32, n: u32) -> u32 {
        if n >= 32 { a } else { a & !(!0u32 << (n & 31)) }
    }
    #[inline(always)]
    fn signed(a: u32, n: u32) -> u32 {
        match n {
            0 => 0,
            32.. => a,
            _ => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
        }
    }
    Some(match (op, ty) {
        (IntOp::SzextClamp, IntType::U32) => binary(t, unsigned),
        (IntOp::SzextClamp, IntType::S32) => binary(t, signed),
        (_, IntType::U32) => binary(t, |a: u32, n: u32| unsigned(a, n & 31)),
        (_, IntType::S32) => binary(t, |a: u32, n: u32| signed(a, n & 31)),
        _ => return None,
    })
}

fn sum_of_differences(ty: IntType, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! of {
        ($t:ty, $u:ty) => {
            ternary(t, |a: $t, b: $t, c: $u| c.wrapping_add(a.abs_diff(b) as $u))
        };
    }
    Some(match ty {
        IntType::U16 => of!(u16, u16),
        IntType::S16 => of!(i16, u16),
        IntType::U32 => of!(u32, u32),
        IntType::S32 => of!(i32, u32),
        IntType::U64 => of!(u64, u64),
        IntType::S64 => of!(i64, u64),
    })
}

/// The high word of `b:a` shifted left by `n`, 0 to 32.
#[inline(always)]
fn funnel_left(a: u32, b: u32, n: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    ((both << n) >> 32) as u32
}

/// The low word of `b:a` shifted right by `n`, 0 to 32.
#[inline(always)]
fn funnel_right(a: u32, b: u32, n: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    (both >> n) as u32
}

/// The handler of `prmt`.
pub(crate) fn permute(mode: PrmtMode, t: Target) -> Handler {
    #[inline(always)]
    fn bytes(a: u32, b: u32, selector: u32) -> u32 {
        let both = u64::from(b) << 32 | u64::from(a);
        let mut d = 0;
        for i in 0..4 {
            let s = selector >> (4 * i) & 0xf;
            let byte = (both >> (8 * (s & 7))) as u32 & 0xff;
            // The selector's top bit asks for the byte's sign, eight times.
            let byte = if s & 8 != 0 { (byte >> 7) * 0xff } else { byte };
            d |= byte << (8 * i);
        }
        d
    }
    match mode {
        PrmtMode::Index => ternary(t, |a: u32, b: u32, c: u32| bytes(a, b, c)),
        PrmtMode::F4e => ternary(Rare(t), |a: u32, b: u32, c: u32| {
            let c = c & 3;
            bytes(a, b, 0x3210 + 0x1111 * c)
        }),
        PrmtMode::B4e => ternary(Rare(t), |a: u32, b: u32, c: u32| {
            let c = c & 3;
            bytes(a, b, (0x5670 + 0x1111 * c) & 0x7777)
        }),
        PrmtMode::Rc8 => ternary(Rare(t), |a: u32, b: u32, c: u32| bytes(a, b, 0x1111 * (c & 3))),
        PrmtMode::Ecl => ternary(Rare(t), |a: u32, b: u32, c: u32| {
            bytes(a, b, [0x3210, 0x3211, 0x3222, 0x3333][(c & 3) as usize])
        }),
        PrmtMode::Ecr => ternary(Rare(t), |a: u32, b: u32, c: u32| {
            bytes(a, b, [0x0000, 0x1110, 0x2210, 0x3210][(c & 3) as usize])
        }),
        PrmtMode::Rc16 => ternary(Rare(t), |a: u32, b: u32, c: u32| {
            bytes(a, b, if c & 1 == 0 { 0x1010 } else { 0x3232 })
        }),
    }
}

/// The handler of `dp4a`: signedness of `a`, of `b`.
pub(crate) fn dot4(a_signed: bool, b_signed: bool, t: Target) -> Handler {
    #[inline(always)]
    fn byte<const SIGNED: bool>(x: u32, i: u32) -> i32 {
        let b = (x >> (8 * i)) as u8;
        if SIGNED { i32::from(b as i8) } else { i32::from(b) }
    }
    #[inline(always)]
    fn dot<const A: bool, const B: bool>(a: u32, b: u32, c: u32) -> u32 {
        let mut sum = c;
        for i in 0..4 {
            sum = sum.wrapping_add((byte::<A>(a, i) * byte::<B>(b, i)) as u32);
        }
        sum
    }
    match (a_signed, b_signed) {
        (false, false) => ternary(t, dot::<false, false>),
        (false, true) => ternary(t, dot::<false, true>),
        (true, false) => ternary(t, dot::<true, false>),
        (true, true) => ternary(t, dot::<true, true>),
    }
}

/// The handler of `dp2a`: signedness of `a`, of `b`, whether the upper bytes of `b` are taken.
pub(crate) fn dot2(a_signed: bool, b_signed: bool, high: bool, t: Target) -> Handler {
    let t = Rare(t);
    #[inline(always)]
    fn dot<const A: bool, const B: bool, const HIGH: bool>(a: u32, b: u32, c: u32) -> u32 {
        let mut sum = c;
        for i in 0..2 {
            let x = (a >> (16 * i)) as u16;
            let x = if A { i32::from(x as i16) } else { i32::from(x) };
            let y = (b >> (8 * (i + if HIGH { 2 } else { 0 }))) as u8;
            let y = if B { i32::from(y as i8) } else { i32::from(y) };
            sum = sum.wrapping_add((x * y) as u32);
        }
        sum
    }
    match (a_signed, b_signed, high) {
        (false, false, false) => ternary(t, dot::<false, false, false>),
        (false, false, true) => ternary(t, dot::<false, false, true>),
        (false, true, false) => ternary(t, dot::<false, true, false>),
        (false, true, true) => ternary(t, dot::<false, true, true>),
        (true, false, false) => ternary(t, dot::<true, false, false>),
        (true, false, true) => ternary(t, dot::<true, false, true>),
        (true, true, false) => ternary(t, dot::<true, true, false>),
        (true, true, true) => ternary(t, dot::<true, true, true>),
    }
}
