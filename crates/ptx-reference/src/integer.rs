//! Integer instructions on the bits of one element.

use ptx::ast::{Comparison, Instruction, Modifier as M, Opcode, ScalarType as T};

/// The low `bits` as an unsigned number.
pub(crate) fn unsigned(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// The low `bits` as a signed number.
pub(crate) fn signed(value: u64, bits: u32) -> i64 {
    if bits >= 64 { value as i64 } else { ((value << (64 - bits)) as i64) >> (64 - bits) }
}

/// The value that the bits of a type stand for.
pub(crate) fn value(bits: u64, ty: T) -> i128 {
    if ty.is_signed() {
        i128::from(signed(bits, ty.bits()))
    } else {
        i128::from(unsigned(bits, ty.bits()))
    }
}

fn range(ty: T) -> (i128, i128) {
    if ty.is_signed() {
        (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1)
    } else {
        (0, (1 << ty.bits()) - 1)
    }
}

/// An instruction whose sources have the instruction's type, but for shift amounts and positions,
/// which are 32 bits, and the last source of a widening one. The result is cut to its width by
/// the caller. `None` if it is not one of these.
pub(crate) fn arithmetic(inst: &Instruction, ty: T, sources: &[u64]) -> Option<u64> {
    if ty.is_packed() {
        return packed(inst, ty, sources);
    }
    let bits = ty.bits();
    let v = |i: usize| value(sources[i], ty);
    let u = |i: usize| unsigned(sources[i], bits);
    // An amount or a position.
    let n = |i: usize| sources[i] as u32;
    let saturate = |x: i128| {
        let (least, most) = range(ty);
        if inst.has(M::Sat) { x.clamp(least, most) } else { x }
    };
    let product = |a: i128, b: i128| {
        let whole = a.wrapping_mul(b);
        if inst.has(M::Hi) { whole >> bits } else { whole }
    };
    let result: i128 = match inst.opcode {
        Opcode::Add => saturate(v(0) + v(1)),
        Opcode::Sub => saturate(v(0) - v(1)),
        Opcode::Mul if bits == 64 && inst.has(M::Hi) && !ty.is_signed() => {
            // The product needs all of 128 bits.
            ((u128::from(u(0)) * u128::from(u(1))) >> 64) as i128
        }
        Opcode::Mul => product(v(0), v(1)),
        Opcode::Mad if inst.has(M::Wide) => {
            let wide = if ty.is_signed() {
                i128::from(signed(sources[2], 2 * bits))
            } else {
                i128::from(unsigned(sources[2], 2 * bits))
            };
            v(0) * v(1) + wide
        }
        Opcode::Mad if bits == 64 && inst.has(M::Hi) && !ty.is_signed() => {
            ((u128::from(u(0)) * u128::from(u(1))) >> 64) as i128 + v(2)
        }
        Opcode::Mad => saturate(product(v(0), v(1)).wrapping_add(v(2))),
        Opcode::Mul24 | Opcode::Mad24 => {
            let low = |i: usize| {
                if ty.is_signed() {
                    i128::from(signed(sources[i], 24))
                } else {
                    i128::from(unsigned(sources[i], 24))
                }
            };
            let whole = low(0) * low(1);
            let part = if inst.has(M::Hi) { whole >> 16 } else { whole };
            let part = value(part as u64, ty);
            if inst.opcode == Opcode::Mad24 { saturate(part + v(2)) } else { part }
        }
        Opcode::Sad => v(2) + (v(0) - v(1)).abs(),
        // Without a divisor the manual promises nothing; an H200 gives ones.
        Opcode::Div | Opcode::Rem if v(1) == 0 => -1,
        Opcode::Div => v(0) / v(1),
        Opcode::Rem => v(0) % v(1),
        Opcode::Min => v(0).min(v(1)).max(if inst.has(M::Relu) { 0 } else { i128::MIN }),
        Opcode::Max => v(0).max(v(1)).max(if inst.has(M::Relu) { 0 } else { i128::MIN }),
        Opcode::Abs => v(0).abs(),
        Opcode::Neg => -v(0),
        Opcode::And => i128::from(sources[0] & sources[1]),
        Opcode::Or => i128::from(sources[0] | sources[1]),
        Opcode::Xor => i128::from(sources[0] ^ sources[1]),
        Opcode::Not => i128::from(!sources[0]),
        Opcode::Cnot => i128::from(u(0) == 0),
        Opcode::Shl if n(1) >= bits => 0,
        Opcode::Shl => i128::from(u(0) << n(1)),
        Opcode::Shr => v(0) >> n(1).min(100),
        Opcode::Popc => i128::from(u(0).count_ones()),
        Opcode::Clz => i128::from(u(0).leading_zeros() - (64 - bits)),
        Opcode::Brev => i128::from(u(0).reverse_bits() >> (64 - bits)),
        Opcode::Bfind => {
            let magnitude = if ty.is_signed() && v(0) < 0 { !sources[0] } else { sources[0] };
            match unsigned(magnitude, bits).checked_ilog2() {
                None => -1,
                Some(at) if inst.has(M::Shiftamt) => i128::from(bits - 1 - at),
                Some(at) => i128::from(at),
            }
        }
        Opcode::Bfe => {
            let (at, length) = (n(1) & 255, n(2) & 255);
            let bit = |i: u32| if i < bits { u(0) >> i & 1 } else { 0 };
            // What lies above the field is its sign, which stands still at the top of the source.
            let sign = if !ty.is_signed() || length == 0 {
                0
            } else {
                bit((at + length - 1).min(bits - 1))
            };
            (0..bits).fold(0, |field, i| {
                let one = if i < length && at + i < bits { bit(at + i) } else { sign };
                field | i128::from(one) << i
            })
        }
        Opcode::Bfi => {
            let (at, length) = (n(2) & 255, n(3) & 255);
            (0..bits).fold(0, |whole, i| {
                let inserted = i >= at && i - at < length;
                let one = if inserted { u(0) >> (i - at) & 1 } else { u(1) >> i & 1 };
                whole | i128::from(one) << i
            })
        }
        Opcode::Bmsk | Opcode::Szext => {
            let wrap = |amount: u32| if inst.has(M::Wrap) { amount & 31 } else { amount.min(32) };
            if inst.opcode == Opcode::Bmsk {
                let (at, width) = (wrap(n(0)), wrap(n(1)));
                (at..32).take(width as usize).fold(0, |mask, i| mask | 1 << i)
            } else {
                let width = wrap(n(1));
                match (width, ty.is_signed()) {
                    (0, _) => 0,
                    (width, true) => i128::from(signed(sources[0], width)),
                    (width, false) => i128::from(unsigned(sources[0], width)),
                }
            }
        }
        Opcode::Fns => i128::from(find_nth(sources[0] as u32, n(1), sources[2] as i32)),
        Opcode::Shf => {
            let amount = if inst.has(M::Wrap) { n(2) & 31 } else { n(2).min(32) };
            // The first source is the low half.
            let both = unsigned(sources[1], 32) << 32 | unsigned(sources[0], 32);
            if inst.has(M::L) {
                i128::from((u128::from(both) << amount >> 32) as u32)
            } else {
                i128::from((both >> amount) as u32)
            }
        }
        Opcode::Lop3 => (0..32).fold(0, |result, i| {
            let bit = |s: usize| sources[s] >> i & 1;
            let row = bit(0) << 2 | bit(1) << 1 | bit(2);
            result | i128::from(sources[3] >> row & 1) << i
        }),
        Opcode::Prmt => i128::from(permute(inst, sources)),
        Opcode::Set => {
            let holds = compare(inst.comparison()?, ty, sources[0], sources[1])?;
            if holds { -1 } else { 0 }
        }
        Opcode::Clmad => i128::from(carryless(inst, sources)),
        _ => return None,
    };
    Some(result as u64)
}

/// Two halves or four bytes of a register, each its own number.
fn packed(inst: &Instruction, ty: T, sources: &[u64]) -> Option<u64> {
    let part = match ty {
        T::S16x2 => T::S16,
        T::U16x2 => T::U16,
        T::S8x4 => T::S8,
        T::U8x4 => T::U8,
        _ => return None,
    };
    let bits = part.bits();
    (0..32).step_by(bits as usize).try_fold(0, |whole, at| {
        let parts: Vec<u64> = sources.iter().map(|s| unsigned(s >> at, bits)).collect();
        Some(whole | unsigned(arithmetic(inst, part, &parts)?, bits) << at)
    })
}

/// A half of the product of two polynomials over GF(2), and a third added without carries.
fn carryless(inst: &Instruction, sources: &[u64]) -> u64 {
    let product = (0..64)
        .filter(|i| sources[1] >> i & 1 == 1)
        .fold(0u128, |product, i| product ^ u128::from(sources[0]) << i);
    let half = if inst.has(M::Hi) { product >> 64 } else { product };
    half as u64 ^ sources[2]
}

/// The n-th set bit from a place on: up for positive, down for negative; 0 asks for the place.
fn find_nth(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |i: &i64| (0..32).contains(i) && mask >> i & 1 == 1;
    let base = i64::from(base);
    let found = match offset {
        0 => Some(base).filter(set),
        n if n > 0 => (base..32).filter(set).nth(n as usize - 1),
        n => (0..=base)
            .rev()
            .take_while(|_| base < 32)
            .filter(set)
            .nth(n.unsigned_abs() as usize - 1),
    };
    found.map_or(u32::MAX, |i| i as u32)
}

fn permute(inst: &Instruction, sources: &[u64]) -> u64 {
    let both = unsigned(sources[1], 32) << 32 | unsigned(sources[0], 32);
    let c = sources[2] as u32;
    let byte = |i: u32| both >> (8 * (i & 7)) & 0xff;
    let from =
        |places: [u32; 4]| places.iter().rev().fold(0, |word, place| word << 8 | byte(*place));
    let n = c & 3;
    for modifier in &inst.modifiers {
        return match modifier {
            M::F4e => from([n, n + 1, n + 2, n + 3]),
            M::B4e => from([n, n.wrapping_sub(1), n.wrapping_sub(2), n.wrapping_sub(3)]),
            M::Rc8 => from([n; 4]),
            M::Ecl => from([n, n.max(1), n.max(2), 3]),
            M::Ecr => from([0, n.min(1), n.min(2), n]),
            M::Rc16 => from([2 * (n & 1), 2 * (n & 1) + 1, 2 * (n & 1), 2 * (n & 1) + 1]),
            _ => continue,
        };
    }
    (0..4).fold(0, |word, i| {
        let selector = c >> (4 * i) & 15;
        let chosen = byte(selector);
        let chosen = if selector & 8 != 0 { 0xff * (chosen >> 7) } else { chosen };
        word | chosen << (8 * i)
    })
}

/// `dp4a` and `dp2a`: the types of a and b, then a, b, c.
pub(crate) fn dot(inst: &Instruction, sources: &[u64]) -> Option<u64> {
    let mut types = inst.types();
    let (a, b) = (types.next()?.is_signed(), types.next()?.is_signed());
    let part = |value: u64, at: u32, bits: u32, sign: bool| {
        let field = value >> at;
        if sign { signed(field, bits) } else { unsigned(field, bits) as i64 }
    };
    let sum: i64 = if inst.opcode == Opcode::Dp4a {
        (0..4).map(|i| part(sources[0], 8 * i, 8, a) * part(sources[1], 8 * i, 8, b)).sum()
    } else {
        let upper = if inst.has(M::Hi) { 16 } else { 0 };
        (0..2)
            .map(|i| part(sources[0], 16 * i, 16, a) * part(sources[1], upper + 8 * i, 8, b))
            .sum()
    };
    Some((sum as u64).wrapping_add(sources[2]))
}

/// Addition or subtraction with the carry flag: the result and the new flag. A difference is the
/// sum with the complement, so that its flag says that nothing was borrowed. Without a flag that
/// goes in, a difference borrows nothing.
pub(crate) fn carry(subtract: bool, bits: u32, a: u64, b: u64, flag: Option<bool>) -> (u64, bool) {
    let b = if subtract { !b } else { b };
    let (a, b) = (u128::from(unsigned(a, bits)), u128::from(unsigned(b, bits)));
    let whole = a + b + u128::from(flag.unwrap_or(subtract));
    (whole as u64, whole >> bits & 1 == 1)
}

/// A comparison of integers.
pub(crate) fn compare(comparison: Comparison, ty: T, a: u64, b: u64) -> Option<bool> {
    use Comparison as C;
    let (a, b) = (value(a, ty), value(b, ty));
    Some(match comparison {
        C::Eq => a == b,
        C::Ne => a != b,
        C::Lt | C::Lo => a < b,
        C::Le | C::Ls => a <= b,
        C::Gt | C::Hi => a > b,
        C::Ge | C::Hs => a >= b,
        _ => return None,
    })
}

/// `cvt` between integers.
pub(crate) fn convert(saturate: bool, to: T, from: T, bits: u64) -> u64 {
    let x = value(bits, from);
    let (least, most) = range(to);
    (if saturate { x.clamp(least, most) } else { value(x as u64, to) }) as u64
}
