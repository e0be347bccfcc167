//! Width conversion (extend, pack, unpack), byte permutes, byte dot products and bitwise functions of
//! lanes.

use crate::asm::assembler::X;
use crate::lanewise::codes::{
    ADD, ADD_BYTES, AND, DOWN, DOWN_SIGNED, DOWN_SIGNED_WORDS, DOWN_WORDS, MAX_BYTES, MIN_BYTES,
    MUL, OR, OR_LONG, S64_OF_S32, S64_OF_U32, SHUFFLE_BYTES, SUM_OF_WORDS, UP, UP_LONG, UP_WORDS,
};
use crate::lanewise::isa::VectorIsa;
use iced_x86::Register;
use simt::ir::op::{Op, PrmtMode, Special, Width};
use simt::ir::vector::{Source, VectorInst};

/// Makes an instruction.
pub(crate) type Emitter<I> = fn(&mut I, &VectorInst);

/// What makes an operation, if there is a form for it. Packs of 64-bit lanes from 16-bit ones are made
/// elsewhere.
pub(crate) fn form<I: VectorIsa>(op: &Op) -> Option<Emitter<I>> {
    Some(match *op {
        Op::Extend { from, bits, to, .. } => {
            let narrow = matches!(bits, 8 | 16);
            let formed = match (from, to) {
                (Width::W128, _) | (_, Width::W128) => false,
                (Width::W32, Width::W32) => narrow || bits == 32,
                (Width::W64, Width::W64) => narrow || matches!(bits, 32 | 64),
                (Width::W16, _) | (_, Width::W16) => narrow,
                _ => narrow || bits == 32,
            };
            formed.then_some(extend)?
        }
        Op::Pack { part: Width::W32, whole: Width::W64 } => pack_long,
        Op::Pack { part: Width::W16, whole: Width::W32 } => pack,
        Op::Unpack { part: Width::W32, whole: Width::W64 } => unpack_long,
        Op::Unpack { part: Width::W16, whole: Width::W32 } => unpack,
        Op::Special(special) => {
            lane_mask(special, 0)?;
            special_mask
        }
        Op::Lop3(_) => |i, inst| {
            let Op::Lop3(table) = inst.op else { return i.unsupported() };
            each_piece(i, inst, |i, piece| i.lookup(inst, piece, table));
        },
        Op::Prmt(_) => |i, inst| {
            let Op::Prmt(mode) = inst.op else { return i.unsupported() };
            each_piece(i, inst, |i, piece| match plain_selector(inst, mode) {
                Some(selector) => permute_by_constant(i, inst, selector, piece),
                None => permute(i, inst, mode, piece),
            });
        },
        Op::Dp4a(..) => |i, inst| {
            let Op::Dp4a(a, b) = inst.op else { return i.unsupported() };
            each_piece(i, inst, |i, piece| dot_of_bytes(i, inst, [a, b], piece));
        },
        Op::Dp2a(..) => |i, inst| {
            let Op::Dp2a(a, b, high) = inst.op else { return i.unsupported() };
            each_piece(i, inst, |i, piece| dot_of_halves(i, inst, [a, b], high, piece));
        },
        _ => return None,
    })
}

/// Puts what `make` makes of each piece of 32-bit lanes.
fn each_piece<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    make: impl Fn(&mut I, usize) -> Register,
) {
    for piece in 0..i.pieces(Width::W32) {
        let made = make(i, piece);
        i.put(inst, 0, piece, made);
    }
}

fn pack_long<I: VectorIsa>(i: &mut I, inst: &VectorInst) {
    for piece in 0..i.pieces(Width::W64) {
        let [low, high] = [0, 1].map(|n| i.widened(inst.src[n], piece, false));
        i.op(UP_LONG, &[high.into(), high.into(), X::I(32)]);
        i.put_by(inst, 0, piece, OR_LONG, &[low.into(), high.into()]);
    }
}

fn pack<I: VectorIsa>(i: &mut I, inst: &VectorInst) {
    for piece in 0..i.pieces(Width::W32) {
        let [low, high] = [0, 1].map(|n| i.words(inst.src[n], piece, false));
        i.op(UP, &[high.into(), high.into(), X::I(16)]);
        i.put_by(inst, 0, piece, OR, &[low.into(), high.into()]);
    }
}

fn unpack_long<I: VectorIsa>(i: &mut I, inst: &VectorInst) {
    for n in 0..inst.dst.len() {
        for piece in 0..i.pieces(Width::W32) {
            let made = i.halves(inst.src[0], piece, n == 1);
            i.put(inst, n, piece, made);
        }
    }
}

fn unpack<I: VectorIsa>(i: &mut I, inst: &VectorInst) {
    for n in 0..inst.dst.len() {
        i.put_words(inst, n, |i, piece| {
            let pairs = i.source_in(inst.src[0], Width::W32, piece);
            let by = X::I(16 * n as i32);
            if n == 0 { i.copied(pairs.into(), Width::W32) } else { i.made(DOWN, pairs, by) }
        });
    }
}

fn special_mask<I: VectorIsa>(i: &mut I, inst: &VectorInst) {
    let Op::Special(special) = inst.op else { return i.unsupported() };
    each_piece(i, inst, |i, piece| {
        let mask = |lane: usize| lane_mask(special, lane).unwrap_or(0);
        let first = i.first_lane(piece);
        let masks: Vec<u8> =
            (first..first + I::BYTES / 4).flat_map(|n| mask(n).to_le_bytes()).collect();
        let masks = i.bytes(|at| masks[usize::from(at)]);
        i.copied(masks, Width::W32)
    });
}

fn extend<I: VectorIsa>(i: &mut I, inst: &VectorInst) {
    let Op::Extend { from, bits, signed, to } = inst.op else { return i.unsupported() };
    let source = inst.src[0];
    // The low bits of a piece of 32-bit lanes, extended to 32 bits.
    let narrow = move |i: &mut I, piece: usize| {
        let (a, of) = match from {
            Width::W16 => (i.words(source, piece, signed), 16),
            Width::W32 => (i.source_in(source, from, piece), 32),
            _ => (i.halves(source, piece, false), 32),
        };
        if bits >= of && from != Width::W32 {
            return a;
        }
        if bits == 16 && to == Width::W16 {
            return i.copied(a.into(), Width::W32);
        }
        let made = i.extended(a, Width::W32, bits.min(32), signed);
        i.free(a);
        made
    };
    match (from, to) {
        (_, Width::W16) => i.put_words(inst, 0, narrow),
        (_, Width::W32) => {
            for piece in 0..i.pieces(to) {
                let made = narrow(i, piece);
                i.put(inst, 0, piece, made);
            }
        }
        (Width::W32, _) if bits == 32 => {
            for piece in 0..i.pieces(to) {
                let made = i.widened(source, piece, signed);
                i.put(inst, 0, piece, made);
            }
        }
        (Width::W64, _) => {
            for piece in 0..i.pieces(to) {
                let a = i.source_in(source, from, piece);
                let made = i.extended(a, to, bits, signed);
                i.put(inst, 0, piece, made);
            }
        }
        _ => {
            for piece in 0..i.pieces(to) {
                let a = narrow(i, piece / 2);
                let made = i.by_half_of(a, piece % 2, if signed { S64_OF_S32 } else { S64_OF_U32 });
                i.free(a);
                i.put(inst, 0, piece, made);
            }
        }
    }
}

/// What a special register that is a mask of lanes is in a lane.
fn lane_mask(special: Special, lane: usize) -> Option<u32> {
    let own = 1u32 << lane;
    Some(match special {
        Special::LanemaskEq => own,
        Special::LanemaskLt => own - 1,
        Special::LanemaskLe => own | (own - 1),
        Special::LanemaskGt => !(own | (own - 1)),
        Special::LanemaskGe => !(own - 1),
        _ => return None,
    })
}

/// What a `prmt` by a constant takes, if that is bytes as they are.
fn plain_selector(inst: &VectorInst, mode: PrmtMode) -> Option<u32> {
    match inst.src[2] {
        Source::Imm(selector) if mode == PrmtMode::Index && selector & 0x8888 == 0 => {
            Some(selector as u32)
        }
        _ => None,
    }
}

/// `prmt` by a constant that takes bytes as they are: from inside of 16 bytes, or nowhere, which gives
/// 0.
fn permute_by_constant<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    selector: u32,
    piece: usize,
) -> Register {
    let [low, high] = [0, 1].map(|n| {
        let order = i.bytes(|at| {
            let (lane, byte) = (at / 4 % 4, at % 4);
            let taken = (selector >> (4 * byte) & 7) as u8;
            if usize::from(taken / 4) == n { 4 * lane + taken % 4 } else { 0x80 }
        });
        let from = i.source_in(inst.src[n], Width::W32, piece);
        let to = i.made(SHUFFLE_BYTES, from, order);
        i.free(from);
        to
    });
    i.op(OR, &[low.into(), low.into(), high.into()]);
    i.free(high);
    low
}

/// `prmt` by any selector: a byte for each of the result's, of which the lowest two bits say
/// which byte, the third of which source, and the fourth whether its sign takes all of it.
fn permute<I: VectorIsa>(i: &mut I, inst: &VectorInst, mode: PrmtMode, piece: usize) -> Register {
    let w = Width::W32;
    let selector = i.source_in(inst.src[2], w, piece);
    let numbers = selected_bytes(i, mode, selector);
    i.free(selector);
    let lane = i.bytes(|at| at & 0x0c);
    let three = i.number(0x0303_0303, w);
    let other = i.made(AND, numbers, three);
    i.op(OR, &[other.into(), other.into(), lane]);
    let [first, second] = [0, 1].map(|n| {
        let from = i.source_in(inst.src[n], w, piece);
        let to = i.made(SHUFFLE_BYTES, from, other);
        i.free(from);
        to
    });
    // The bit that chooses becomes the highest of its byte.
    i.op(UP_WORDS, &[other.into(), numbers.into(), X::I(5)]);
    i.blend_bytes(first, second, other);
    i.free(second);
    i.op(UP_WORDS, &[other.into(), numbers.into(), X::I(4)]);
    i.free(numbers);
    let signs = i.byte_signs(first);
    i.blend_bytes(first, signs, other);
    i.free_all([other, signs]);
    first
}

/// What a selector means, a byte for each of the result's, in a register of its own.
fn selected_bytes<I: VectorIsa>(i: &mut I, mode: PrmtMode, selector: Register) -> Register {
    let w = Width::W32;
    let (most, first) = match mode {
        PrmtMode::Index => (0xffff, 0),
        PrmtMode::Rc16 => (1, 0x0100_0100),
        PrmtMode::F4e | PrmtMode::Ecl | PrmtMode::Ecr => (3, 0x0302_0100),
        PrmtMode::B4e => (3, 0x0506_0700),
        PrmtMode::Rc8 => (3, 0),
    };
    let most = i.number(most, w);
    let to = i.made(AND, selector, most);
    if mode == PrmtMode::Index {
        // A byte for each of the four numbers in the lower half.
        for (up, kept) in [(8, 0x00ff_00ff), (4, 0x0f0f_0f0f)] {
            let moved = i.made(UP, to, X::I(up));
            i.op(OR, &[to.into(), to.into(), moved.into()]);
            i.free(moved);
            let kept = i.number(kept, w);
            i.op(AND, &[to.into(), to.into(), kept]);
        }
        return to;
    }
    let every = i.number(if mode == PrmtMode::Rc16 { 0x0202_0202 } else { 0x0101_0101 }, w);
    i.op(MUL, &[to.into(), to.into(), every]);
    let first = i.splat(first, w);
    let combine = match mode {
        PrmtMode::Ecl => MAX_BYTES,
        PrmtMode::Ecr => MIN_BYTES,
        _ => ADD_BYTES,
    };
    i.op(combine, &[to.into(), to.into(), first.into()]);
    i.free(first);
    let seven = i.number(0x0707_0707, w);
    i.op(AND, &[to.into(), to.into(), seven]);
    to
}

/// `dp4a`: bytes at even places, then those at odd ones, as products of words that are added in pairs.
fn dot_of_bytes<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    signed: [bool; 2],
    piece: usize,
) -> Register {
    let w = Width::W32;
    let [to, odd] = [false, true].map(|odd| {
        let [a, b] = [0, 1].map(|n| {
            let from = i.source_in(inst.src[n], w, piece);
            let down = if signed[n] { DOWN_SIGNED_WORDS } else { DOWN_WORDS };
            let to =
                if odd { i.made(down, from, X::I(8)) } else { i.made(UP_WORDS, from, X::I(8)) };
            i.free(from);
            if !odd {
                i.op(down, &[to.into(), to.into(), X::I(8)]);
            }
            to
        });
        i.op(SUM_OF_WORDS, &[a.into(), a.into(), b.into()]);
        i.free(b);
        a
    });
    i.op(ADD, &[to.into(), to.into(), odd.into()]);
    i.free(odd);
    let c = i.source(inst.src[2], w, piece);
    i.op(ADD, &[to.into(), to.into(), c]);
    to
}

/// `dp2a`: two halves of the first source times two bytes of the second, the upper ones if `high`.
fn dot_of_halves<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    signed: [bool; 2],
    high: bool,
    piece: usize,
) -> Register {
    let w = Width::W32;
    let c = i.source(inst.src[2], w, piece);
    let to = i.copied(c, w);
    for half in 0..2 {
        let byte = half + if high { 2 } else { 0 };
        let ups = [16 * (1 - half), 8 * (3 - byte)];
        let [a, b] = [0, 1].map(|n| {
            let from = i.source_in(inst.src[n], w, piece);
            let to = i.made(UP, from, X::I(ups[n]));
            i.free(from);
            let down = if signed[n] { DOWN_SIGNED } else { DOWN };
            i.op(down, &[to.into(), to.into(), X::I([16, 24][n])]);
            to
        });
        i.op(MUL, &[a.into(), a.into(), b.into()]);
        i.op(ADD, &[to.into(), to.into(), a.into()]);
        i.free_all([a, b]);
    }
    to
}
