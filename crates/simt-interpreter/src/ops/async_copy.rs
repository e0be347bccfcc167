//! Asynchronous copies, done at once: loads with a count of valid bytes (`cp.async`), and bulk
//! copies.

use crate::check::copies;
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::atomic::{self, Operation, Visitor};
use crate::ops::map::{Body, Lane, Rare, Target, active, read, versions};
use crate::ops::mbarrier;
use crate::ops::memory::{self, addresses, lanes, locate, space_of};
use simt::ir::op::{BulkCopy, BulkPart};
use simt::ir::vector::WINDOW_BYTES;
use simt::kernel::{FaultKind, WARP_LANES};
use simt::runtime::mbarrier::State;
use std::marker::PhantomData;

/// A load of an element of which only the first bytes are read.
struct LoadPrefix<M>(PhantomData<M>);

impl<M: Lane> Body for LoadPrefix<M> {
    #[inline(always)]
    unsafe fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave an address register, a 32-bit register and a result of `M`.
        // Only bytes that `locate` or `resolve` checked are read.
        unsafe {
            let m = active(machine, ins);
            let full = size_of::<M>();
            let bytes = read::<u32, WARP_LANES>(machine, ins.a[1]).0;
            let whole = lanes(m)
                .filter(|lane| bytes[*lane as usize] as usize >= full)
                .fold(0, |whole, lane| whole | 1u32 << lane);
            let mut pointers = [0u64; WARP_LANES];
            if whole != 0 {
                match locate(machine, ins, whole, full as u64, false, &mut pointers) {
                    Ok(found) => found.point(&mut pointers, full),
                    Err(step) => return step,
                }
            }
            let from = addresses(machine, ins);
            for lane in lanes(m) {
                let mut value = [0u8; 16];
                let some = (bytes[lane as usize] as usize).min(full);
                if some > 0 {
                    let mut pointer = pointers[lane as usize] as *const u8;
                    if some < full {
                        let address = from[lane as usize];
                        let found = if address.is_multiple_of(full as u64) {
                            machine.resolve(space_of(ins), lane, address, some as u64, false)
                        } else {
                            Err(FaultKind::MisalignedAddress { address, bytes: full as u32 })
                        };
                        match found {
                            Ok(p) => pointer = p,
                            Err(kind) => return machine.fail(lane, kind),
                        }
                    }
                    std::ptr::copy_nonoverlapping(pointer, value.as_mut_ptr(), some);
                }
                let register = machine.regs.add(ins.d[0] as usize).cast::<M>();
                register.add(lane as usize).write(value.as_ptr().cast::<M>().read_unaligned());
            }
        }
        Step::Next
    }
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
    /// # Safety
    /// Both pointers are good for `bytes`, whole elements, and the first is aligned to these.
    unsafe fn run(to: *mut u8, from: *const u8, bytes: usize);
}

struct Replace;

impl Transfer for Replace {
    unsafe fn run(to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: by contract; they may overlap.
        unsafe { std::ptr::copy(from, to, bytes) }
    }
}

/// Combines elements.
pub(crate) struct Combine<O>(PhantomData<O>);

impl<O: Operation> Transfer for Combine<O> {
    unsafe fn run(to: *mut u8, from: *const u8, bytes: usize) {
        let size = size_of::<O::Word>();
        for at in (0..bytes).step_by(size) {
            // SAFETY: by contract.
            unsafe {
                let value = from.add(at).cast::<O::Word>().read_unaligned();
                O::run(to.add(at), value, value);
            }
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
    unsafe fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave two 64-bit registers, one of 32 bits and, if the tag says so,
        // another of 64 and one of 32. All memory touched was checked by `resolve`.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let i = lane as usize;
                let target = read::<u64, WARP_LANES>(machine, ins.a[0]).0[i];
                let from = read::<u64, WARP_LANES>(machine, ins.a[1]).0[i];
                let bytes = u64::from(read::<u32, WARP_LANES>(machine, ins.a[2]).0[i]);
                if bytes == 0 {
                    continue;
                }
                let given = match ins.tag & (MASKED | INNER) {
                    0 => 0,
                    _ => read::<u32, WARP_LANES>(machine, ins.a[4]).0[i],
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
                            return Ok(std::ptr::dangling_mut());
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
                    _ => read::<u32, WARP_LANES>(machine, ins.a[4]).0[i],
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
                        T::run(to, from, moved as usize);
                    } else {
                        for at in (0..moved as usize).filter(|at| mask >> (at % 16) & 1 != 0) {
                            T::run(to.add(at), from.add(at), 1);
                        }
                    }
                    let mut told = None;
                    if ins.tag & BARRIER != 0 {
                        let address = read::<u64, WARP_LANES>(machine, ins.a[3]).0[i];
                        let written = |state: State| state.complete(bytes as u32);
                        let address = of_block(address);
                        match mbarrier::change(machine, lane, address, written) {
                            Ok(before) => told = Some((address, before)),
                            Err(kind) => return machine.fail(lane, kind),
                        }
                    }
                    for (shift, address, writes) in
                        [(FROM_SHIFT, source, false), (TO_SHIFT, of_block(target), true)]
                    {
                        let space = ins.tag >> shift & 0xff;
                        copies::started(machine, (space, lane), (address, bytes), writes, told);
                    }
                }
                machine.counters.global_bytes += bytes;
            }
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
