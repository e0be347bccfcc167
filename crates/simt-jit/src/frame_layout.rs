//! Frame layout: machine registers with a fixed meaning, stack slots, and fields of the tier-1
//! frame.

use iced_x86::{MemoryOperand, Register};
use simt::ir::address::TERMS_MAX;
use simt_interpreter::tier1_abi::Frame;
use std::mem::offset_of;

use crate::asm::assembler::at;

/// Fragments that are remembered of each kind, at most.
pub(crate) const FRAGMENTS_MAX: usize = 32;

/// The register file.
pub(crate) const FILE: Register = Register::RBX;
/// The frame.
pub(crate) const FRAME: Register = Register::RBP;
/// Lanes that run.
pub(crate) const MASK: Register = Register::R15D;
/// Instructions run by full warps.
pub(crate) const COUNT: Register = Register::R14;

/// Scratch of any instruction.
pub(crate) const A: Register = Register::RAX;
/// Scratch of any instruction.
pub(crate) const C: Register = Register::RCX;
/// Scratch of any instruction.
pub(crate) const D: Register = Register::RDX;

/// Scratch of any instruction.
pub(crate) const Z0: Register = Register::ZMM28;
/// Scratch of any instruction.
pub(crate) const Z1: Register = Register::ZMM29;
/// Scratch of any instruction.
pub(crate) const Z2: Register = Register::ZMM30;
/// Scratch of any instruction.
pub(crate) const Z3: Register = Register::ZMM31;

/// Scratch masks of any instruction.
pub(crate) const K1: Register = Register::K1;
/// Scratch masks of any instruction.
pub(crate) const K2: Register = Register::K2;
/// Scratch masks of any instruction.
pub(crate) const K3: Register = Register::K3;
/// A predicate, 16 lanes each.
pub(crate) const PREDICATE: [Register; 2] = [Register::K4, Register::K5];
/// The lanes that run the instruction, 16 each.
pub(crate) const ACTIVE: [Register; 2] = [Register::K6, Register::K7];

/// Where the stub saves vector registers, bytes from the stack pointer of the function.
pub(crate) const SAVED_VECTORS: i32 = 0;
/// Where it saves masks.
pub(crate) const SAVED_MASKS: i32 = SAVED_VECTORS + 32 * 64;
/// Where it saves general registers.
pub(crate) const SAVED_SCALARS: i32 = SAVED_MASKS + 64;
/// Eight bytes for code that has no scratch register left.
pub(crate) const SAVED_SCRATCH: i32 = SAVED_SCALARS + 48;
/// Where the caller's stack pointer is.
pub(crate) const SAVED_STACK: i32 = SAVED_SCALARS + 64;
/// IntervalTable for a vector register.
pub(crate) const SAVED_VECTOR: i32 = SAVED_STACK + 64;
/// Where instructions that go lane by lane keep the lanes' addresses, values, other values and
/// results: 32 of 8 bytes each.
pub(crate) const LANE_ADDRESSES: i32 = SAVED_VECTOR + 64;
pub(crate) const LANE_VALUES: i32 = LANE_ADDRESSES + 256;
pub(crate) const LANE_SECONDS: i32 = LANE_VALUES + 256;
pub(crate) const LANE_RESULTS: i32 = LANE_SECONDS + 256;
/// Where they keep two general registers that they use.
pub(crate) const SAVED_PAIR: i32 = LANE_RESULTS + 256;
/// Where single values of 16 bits are repeated for lanes, 64 bytes each, and how many fit.
pub(crate) const BROADCAST: i32 = SAVED_PAIR + 64;
pub(crate) const BROADCAST_SLOTS: i32 = 4;
/// Where products of matrices keep fragments of B that are ready, and how much they may keep.
pub(crate) const PACKED_B: i32 = BROADCAST + 64 * BROADCAST_SLOTS;
pub(crate) const PACKED_B_BYTES: i32 = 8192;
/// Where they say of each fragment of A, then of B, whether it is refused: 4 bytes each.
pub(crate) const UNPACKABLE: i32 = PACKED_B + PACKED_B_BYTES;
/// Where they say, in 4 bytes, whether one may be refused, or sums be subnormal.
pub(crate) const PAIR_CHECK: i32 = UNPACKABLE + 2 * 4 * FRAGMENTS_MAX as i32;
/// Where fragments are as programs have them, 128 bytes a register, and how many fit.
pub(crate) const FRAGMENT_LANES: i32 = PAIR_CHECK + 64;
pub(crate) const FRAGMENT_SLOTS: usize = 64;
/// Where products keep fragments of A that are ready, and how much they may keep.
pub(crate) const PACKED_A: i32 = FRAGMENT_LANES + 128 * FRAGMENT_SLOTS as i32;
pub(crate) const PACKED_A_BYTES: i32 = 8192;
/// Where patterns of addresses are kept, and how many fit.
pub(crate) const LANE_OFFSETS: i32 = PACKED_A + PACKED_A_BYTES;
pub(crate) const LANE_OFFSET_BYTES: i32 = 192;
pub(crate) const LANE_OFFSET_SLOTS: usize = 32;
/// Where matrices are whose loads are late, as pointers; zero if they have been loaded.
pub(crate) const DEFERRED: i32 = LANE_OFFSETS + LANE_OFFSET_SLOTS as i32 * LANE_OFFSET_BYTES;
pub(crate) const DEFERRED_SLOTS: usize = 16;
const _: () = assert!(DEFERRED_SLOTS < LANE_OFFSET_SLOTS, "a pattern can be measured");
/// Where values are kept that addresses are made of, 8 bytes each.
pub(crate) const SUMS: i32 = DEFERRED + 8 * DEFERRED_SLOTS as i32;
/// Bytes of the function's stack, a multiple of 64.
pub(crate) const STACK_BYTES: i32 = SUMS + 8 * TERMS_MAX as i32;
const _: () = assert!(STACK_BYTES % 64 == 0 && PACKED_B % 64 == 0 && PACKED_A % 64 == 0);
const _: () = assert!(LANE_OFFSETS % 64 == 0 && LANE_OFFSET_BYTES % 64 == 0);

/// In which order the lanes of a fragment register are on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentOrder {
    /// As programs have them.
    Lanes,
    /// As products want B where an element is a unit: the quads of even columns, then odd ones.
    Columns,
}

impl FragmentOrder {
    /// The lane whose 32 bits are in a place.
    pub(crate) fn lane(self, place: usize) -> usize {
        match self {
            Self::Lanes => place,
            // Lane `l` of a quad has the columns `2 l` and `2 l + 1`; a column is four lanes.
            Self::Columns => 8 * (place % 4) + 4 * (place / 16) + place / 4 % 4,
        }
    }

    /// The place where a lane's 32 bits are.
    pub(crate) fn place(self, lane: usize) -> usize {
        match self {
            Self::Lanes => lane,
            Self::Columns => 16 * (lane / 4 % 2) + 4 * (lane % 4) + lane / 8,
        }
    }

    /// The lanes of a part.
    pub(crate) fn lanes(self, part: usize) -> impl Iterator<Item = usize> {
        (16 * part..16 * (part + 1)).map(move |place| self.lane(place))
    }
}

/// A field of the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    Regs,
    Pending,
    Control,
    Ranges,
    Shared,
    SharedBytes,
    Own,
    Run,
    Fuel,
    WarpInstructions,
    ThreadInstructions,
    GlobalBytes,
    Mask,
    Live,
    Lowest,
    Limit,
    Lanes,
    Block,
    Warp,
    Following,
    LastLanes,
    Threads(u8),
    Grid(u8),
    Index(u8),
    More,
    Warps,
    Fresh,
    Arrived,
    Params,
    Slots,
    Local,
    LocalBytes,
    SlowPaths,
}

/// A field as an operand.
pub(crate) fn field(field: Field) -> MemoryOperand {
    let offset = match field {
        Field::Regs => offset_of!(Frame, regs),
        Field::Pending => offset_of!(Frame, pending),
        Field::Control => offset_of!(Frame, control),
        Field::Ranges => offset_of!(Frame, ranges),
        Field::Shared => offset_of!(Frame, shared),
        Field::SharedBytes => offset_of!(Frame, shared_bytes),
        Field::Own => offset_of!(Frame, own),
        Field::Run => offset_of!(Frame, run),
        Field::Fuel => offset_of!(Frame, fuel),
        Field::WarpInstructions => offset_of!(Frame, warp_instructions),
        Field::ThreadInstructions => offset_of!(Frame, thread_instructions),
        Field::GlobalBytes => offset_of!(Frame, global_bytes),
        Field::Mask => offset_of!(Frame, mask),
        Field::Live => offset_of!(Frame, live),
        Field::Lowest => offset_of!(Frame, lowest),
        Field::Limit => offset_of!(Frame, limit),
        Field::Lanes => offset_of!(Frame, lanes),
        Field::Block => offset_of!(Frame, block),
        Field::Warp => offset_of!(Frame, warp),
        Field::Following => offset_of!(Frame, following),
        Field::LastLanes => offset_of!(Frame, last_lanes),
        Field::Threads(axis) => offset_of!(Frame, threads) + 4 * usize::from(axis),
        Field::Grid(axis) => offset_of!(Frame, grid) + 4 * usize::from(axis),
        Field::Index(axis) => offset_of!(Frame, index) + 4 * usize::from(axis),
        Field::More => offset_of!(Frame, more),
        Field::Warps => offset_of!(Frame, warps),
        Field::Fresh => offset_of!(Frame, fresh),
        Field::Arrived => offset_of!(Frame, arrived),
        Field::Params => offset_of!(Frame, params),
        Field::Slots => offset_of!(Frame, slots),
        Field::Local => offset_of!(Frame, local),
        Field::LocalBytes => offset_of!(Frame, local_bytes),
        Field::SlowPaths => offset_of!(Frame, slow_paths),
    };
    at(FRAME, offset as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn orders_have_each_lane_once() {
        for order in [FragmentOrder::Lanes, FragmentOrder::Columns] {
            assert!((0..32).all(|lane| order.lane(order.place(lane)) == lane));
            let lanes: BTreeSet<usize> = order.lanes(0).chain(order.lanes(1)).collect();
            assert_eq!(lanes.len(), 32);
        }
        // Two quads of column 2: its lanes are 8 to 11.
        assert_eq!([1, 5, 9, 13].map(|place| FragmentOrder::Columns.lane(place)), [8, 9, 10, 11]);
    }
}
