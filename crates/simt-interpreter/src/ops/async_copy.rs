//! Asynchronous copies, done at once: loads with a count of valid bytes (`cp.async`), and bulk
//! copies.

use crate::check::copies;
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::atomic::{self, Cell, Operation, Visitor};
use crate::ops::map::{Body, Lane, Rare, Target, active, read, versions};
use crate::ops::mbarrier;
use crate::ops::memory::{self, Checked, addresses, lanes, locate_lanes, space_of};
use simt::ir::op::{BulkCopy, BulkPart};
use simt::ir::vector::WINDOW_BYTES;
use simt::kernel::{FaultKind, WARP_LANES};
use simt::runtime::mbarrier::State;
use std::marker::PhantomData;

/// A load of an element of which only the first bytes are read.
struct LoadPrefix<M>(PhantomData<M>);

impl<M: Lane> Body for LoadPrefix<M> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        let full = size_of::<M>();
        let bytes = read::<u32, WARP_LANES>(machine, ins.a[1]);
        let whole = lanes(m)
            .filter(|lane| bytes[*lane as usize] as usize >= full)
            .fold(0, |whole, lane| whole | 1u32 << lane);
        let found = match locate_lanes(machine, ins, whole, full as u64, false) {
            Ok(found) => found,
            Err(step) => return step,
        };
        let from = addresses(machine, ins);
        for lane in lanes(m) {
            let value = match bytes[lane as usize] as usize {
                0 => M::of_bytes(&[0; 16]),
                some if some < full => {
                    match prefix(machine, ins, (lane, from[lane as usize]), some, full) {
                        Ok(bytes) => M::of_bytes(&bytes),
                        Err(kind) => return machine.fail(lane, kind),
                    }
                }
                _ => {
                    let mut value = [0; 16];
                    found.of(lane).copy_to(&mut value);
                    M::of_bytes(&value)
                }
            };
            machine.regs.set_lane(ins.d[0], lane, value);
        }
        Step::Next
    }
}

/// The first bytes of a lane's element, zeros behind them.
fn prefix(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    (lane, address): (u32, u64),
    some: usize,
    full: usize,
) -> Result<[u8; 16], FaultKind> {
    if !address.is_multiple_of(full as u64) {
        return Err(FaultKind::MisalignedAddress { address, bytes: full as u32 });
    }
    let mut value = [0; 16];
    machine.resolve(space_of(ins), lane, address, some as u64, false)?.copy_to(&mut value);
    Ok(value)
}

/// The handler of a load of 4, 8 or 16 bytes that may be cut short.
pub(crate) fn load_prefix(bytes: u8) -> Option<Handler> {
    let t = Rare(Target::Baseline);
    Some(match bytes {
        4 => versions::<LoadPrefix<u32>, LoadPrefix<u32>>(t),
        8 => versions::<LoadPrefix<u64>, LoadPrefix<u64>>(t),
        16 => versions::<LoadPrefix<u128>, LoadPrefix<u128>>(t),
        _ => return None,
    })
}

/// Address and size of a bulk copy are multiples of this, bytes.
const BULK_BYTES: u64 = 16;

/// What a bulk copy does with the bytes.
pub(crate) trait Transfer: 'static {
    /// Makes it, of whole elements: to memory that is aligned to these, from as much.
    fn run(to: Checked, from: Checked);
}

struct Replace;

impl Transfer for Replace {
    fn run(to: Checked, from: Checked) {
        to.copy(from);
    }
}

/// Combines elements.
pub(crate) struct Combine<O>(PhantomData<O>);

impl<O: Operation> Combine<O> {
    /// Combines the elements of `bytes` with those at `to`, which is aligned to these.
    pub(crate) fn with(to: Checked, bytes: &[u8]) {
        let size = size_of::<O::Word>();
        for (i, element) in bytes.chunks_exact(size).enumerate() {
            let Some(to) = Cell::of(to.part(i * size..(i + 1) * size)) else { return };
            let mut value = [0; 16];
            value[..size].copy_from_slice(element);
            let value = O::Word::of_bytes(&value);
            O::run(to, value, value);
        }
    }
}

impl<O: Operation> Transfer for Combine<O> {
    fn run(to: Checked, from: Checked) {
        let size = size_of::<O::Word>();
        for at in (0..to.bytes() / size).map(|i| i * size) {
            let mut value = [0; 16];
            from.part(at..at + size).copy_to(&mut value);
            Self::with(to.part(at..at + size), &value[..size]);
        }
    }
}

struct Bulk<T>(PhantomData<T>);

/// [`Ins::tag`] of a bulk copy.
const FROM_SHIFT: u32 = 8;
const TO_SHIFT: u32 = 16;
const BARRIER: u32 = 1;
const MULTICAST: u32 = 2;
const MASKED: u32 = 4;
const INNER: u32 = 8;

/// The tag of a bulk copy.
pub(crate) fn bulk_tag(copy: BulkCopy) -> u32 {
    memory::space_code(copy.from) << FROM_SHIFT
        | memory::space_code(copy.to) << TO_SHIFT
        | if copy.barrier { BARRIER } else { 0 }
        | if copy.multicast { MULTICAST } else { 0 }
        | match copy.part {
            BulkPart::Whole => 0,
            BulkPart::Masked => MASKED,
            BulkPart::Inner => INNER,
        }
}

/// Which of the bytes of a copy are moved: how many at its start are not, how many behind them, and
/// of each 16 a mask.
fn moved(tag: u32, given: u32, bytes: u64) -> (u64, u64, u32) {
    match tag & (MASKED | INNER) {
        MASKED => (0, bytes, given & 0xffff),
        INNER => {
            let (left, right) = (u64::from(given & 0xff), u64::from(given >> 8 & 0xff));
            (left.min(bytes), bytes.saturating_sub(left + right), 0xffff)
        }
        _ => (0, bytes, 0xffff),
    }
}

impl<T: Transfer> Body for Bulk<T> {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        for lane in lanes(active(machine, ins)) {
            let i = lane as usize;
            let target = read::<u64, WARP_LANES>(machine, ins.a[0])[i];
            let from = read::<u64, WARP_LANES>(machine, ins.a[1])[i];
            let bytes = u64::from(read::<u32, WARP_LANES>(machine, ins.a[2])[i]);
            if bytes == 0 {
                continue;
            }
            let given = match ins.tag & (MASKED | INNER) {
                0 => 0,
                _ => read::<u32, WARP_LANES>(machine, ins.a[4])[i],
            };
            // Only what is moved must be there.
            let (skipped, moved, mask) = moved(ins.tag, given, bytes);
            let place =
                |machine: &mut HandlerContext<'_>, shift: u32, address: u64, write: bool| {
                    if !(address | bytes).is_multiple_of(BULK_BYTES) {
                        let bytes = BULK_BYTES as u32;
                        return Err(FaultKind::MisalignedAddress { address, bytes });
                    }
                    if moved == 0 {
                        return Ok(Checked::NONE);
                    }
                    let first = address.wrapping_add(skipped);
                    let space = ins.tag >> shift & 0xff;
                    machine.resolve(space, lane, first, moved, write)
                };
            let source = from;
            let from = match place(machine, FROM_SHIFT, source, false) {
                Ok(from) => from,
                Err(kind) => return machine.fail(lane, kind),
            };
            // Where to and with which mbarrier: once, or for each block in a mask of ranks.
            let ranks = match ins.tag & MULTICAST {
                0 => 1,
                _ => read::<u32, WARP_LANES>(machine, ins.a[4])[i],
            };
            for rank in lanes(ranks) {
                let of_block = |address: u64| match ins.tag & MULTICAST {
                    0 => address,
                    _ => address % WINDOW_BYTES + (u64::from(rank) + 1) * WINDOW_BYTES,
                };
                let to = match place(machine, TO_SHIFT, of_block(target), true) {
                    Ok(to) => to,
                    Err(kind) => return machine.fail(lane, kind),
                };
                if mask == 0xffff {
                    T::run(to, from);
                } else {
                    for at in (0..moved as usize).filter(|at| mask >> (at % 16) & 1 != 0) {
                        T::run(to.part(at..at + 1), from.part(at..at + 1));
                    }
                }
                let mut notified = None;
                if ins.tag & BARRIER != 0 {
                    let address = read::<u64, WARP_LANES>(machine, ins.a[3])[i];
                    let written = |state: State| state.complete(bytes as u32);
                    let address = of_block(address);
                    match mbarrier::change(machine, lane, address, written) {
                        Ok(before) => notified = Some((address, before)),
                        Err(kind) => return machine.fail(lane, kind),
                    }
                }
                for (shift, address, writes) in
                    [(FROM_SHIFT, source, false), (TO_SHIFT, of_block(target), true)]
                {
                    let space = ins.tag >> shift & 0xff;
                    copies::started(machine, (space, lane), (address, bytes), writes, notified);
                }
            }
            machine.counters.global_bytes += bytes;
        }
        Step::Next
    }
}

/// The handler of a bulk copy; `None` for reductions that do not exist.
pub(crate) fn bulk(copy: BulkCopy) -> Option<Handler> {
    struct Reductions;
    impl Visitor for Reductions {
        type Made = Handler;
        fn visit<O: Operation>(self) -> Handler {
            versions::<Bulk<Combine<O>>, Bulk<Combine<O>>>(Rare(Target::Baseline))
        }
    }
    match copy.reduction {
        None => Some(versions::<Bulk<Replace>, Bulk<Replace>>(Rare(Target::Baseline))),
        Some(reduction) => atomic::visit(reduction.op, reduction.ty, Reductions),
    }
}
