//! Fragments of matrices: the addresses of the lanes' elements in a tile, which loads and stores are then made at.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Rare, Target, each, read, versions, write};
use simt::ir::op::fragment::{Layout, Tile};
use simt::kernel::WARP_LANES;

/// Where the fields of a tag begin, above what others take for an access's number: a line, from one lane's
/// line to the next one's, from one lane's place to the next one's; and flags.
const LINE: u32 = 8;
const STEP: u32 = 16;
const PLACE: u32 = 20;
const FOUR_PLACES: u32 = 1 << 25;

struct Addresses<const BASES: usize, const DISTANCES: usize>;

impl<const BASES: usize, const DISTANCES: usize> Body for Addresses<BASES, DISTANCES> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let [first, step, place] = [(LINE, 0xff), (STEP, 0xf), (PLACE, 0x1f)]
            .map(|(shift, mask)| u64::from(ins.tag >> shift & mask));
        let four_places = ins.tag & FOUR_PLACES != 0;
        let base = read::<u64, BASES>(machine, ins.a[0]);
        let distance = read::<u64, DISTANCES>(machine, ins.a[1]);
        let d = each(|lane| {
            let (high, low) = (lane as u64 / 4, lane as u64 % 4);
            let (line, at) = if four_places { (high, low) } else { (low, high) };
            let lines = distance[lane % DISTANCES].wrapping_mul(first + step * line);
            let start = base[lane % BASES].wrapping_add(ins.imm as u64);
            start.wrapping_add(lines).wrapping_add(place * at)
        });
        write::<u64, WARP_LANES>(machine, ins.d[0], d);
        Step::Next
    }
}

/// The handler for the addresses of a piece of a tile, and its tag; whether the base and the distance of lines
/// are one value for all lanes.
pub(crate) fn addresses(
    layout: &Layout,
    tile: &Tile,
    piece: u32,
    one: [bool; 2],
) -> (Handler, u32) {
    const N: usize = WARP_LANES;
    let t = Rare(Target::Baseline);
    let run = match one {
        [true, true] => versions::<Addresses<1, 1>, Addresses<1, 1>>(t),
        [true, false] => versions::<Addresses<1, N>, Addresses<1, N>>(t),
        [false, true] => versions::<Addresses<N, 1>, Addresses<N, 1>>(t),
        [false, false] => versions::<Addresses<N, N>, Addresses<N, N>>(t),
    };
    let four_places = if layout.four_places { FOUR_PLACES } else { 0 };
    let fields =
        (tile.line + piece) << LINE | layout.line_step << STEP | layout.place_bytes << PLACE;
    (run, fields | four_places)
}
