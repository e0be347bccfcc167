//! Sparse operands made dense by their metadata.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Rare, Target, read, versions};
use crate::ops::mma::{W, together, write_lanes};
use simt::ir::sparse::Sparse;

/// Rows of A.
const ROWS: usize = 16;
/// Units that a group keeps, and has.
const KEPT: usize = 2;
const UNITS: usize = 4;

/// The handler, and [`Ins::imm`]: the bits of a unit, and from bit 8 the lane.
pub(crate) fn expand(sparse: Sparse) -> (Handler, i64) {
    let imm = i64::from(sparse.unit_bits) | i64::from(sparse.lane) << 8;
    (versions::<Expand, Expand>(Rare(Target::Baseline)), imm)
}

struct Expand;

impl Body for Expand {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match together(machine, ins) {
            Ok(m) => m,
            Err(step) => return step,
        };
        let kept = [read::<u32, W>(machine, ins.a[0]), read::<u32, W>(machine, ins.a[1])];
        let metadata = read::<u32, W>(machine, ins.a[2]);
        let sparse = Sparse { unit_bits: ins.imm as u8, lane: (ins.imm >> 8) as u8 };
        for (i, register) in whole(sparse, &kept, &metadata).into_iter().enumerate() {
            write_lanes(machine, ins.d[i], m, register);
        }
        Step::Next
    }
}

/// The registers of the whole operand.
fn whole(sparse: Sparse, kept: &[[u32; W]; 2], metadata: &[u32; W]) -> [[u32; W]; 4] {
    let (packed, bits) = (sparse.packed(), u32::from(sparse.unit_bits));
    let mut whole = [[0; W]; 4];
    // Four lanes side by side have a row's units.
    for (row, unit) in (0..ROWS).flat_map(|row| (0..4 * packed).map(move |unit| (row, unit))) {
        let quad = 4 * (row % 8);
        let (lane, shift) = (quad + unit / packed, unit % packed);
        let value = kept[row / 8][lane] >> (bits * shift as u32) & ((1 << bits) - 1);
        let (holder, bit) = sparse.place(row, unit / KEPT);
        let place = metadata[holder] >> (bit + 2 * (unit % KEPT) as u32) & 3;
        let at = unit / KEPT * UNITS + place as usize;
        let register = row / 8 + 2 * (at / (4 * packed));
        whole[register][quad + at / packed % 4] |= value << (bits * (at % packed) as u32);
    }
    whole
}
