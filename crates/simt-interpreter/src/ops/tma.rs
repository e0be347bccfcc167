//! TMA (`cp.async.bulk.tensor`): tensor copies, done at once, row by row.
//!
//! The map and where it leads are a program's word: the map is copied before it is looked at, and
//! of each row what is in device memory is checked before it is touched.

use crate::check::copies;
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::async_copy::Combine;
use crate::ops::atomic::{self, Operation, Visitor};
use crate::ops::map::{Body, Rare, Target, active, versions};
use crate::ops::mbarrier;
use crate::ops::memory::{Checked, SHARED, lanes};
use simt::ir::op::{AtomOp, AtomType, TensorCopy, TensorDirection, TensorMode};
use simt::ir::vector::WINDOW_BYTES;
use simt::kernel::FaultKind;
use simt::runtime::mbarrier::State;
use simt::runtime::tensor_map::rows::{Plan, Row, Start};
use simt::runtime::tensor_map::{BOX_MAX, Element, Extent, MAP_ALIGN, MAP_BYTES, TensorMap};

/// What an address in shared memory is a multiple of, bytes.
const SHARED_ALIGN: u64 = 128;
/// What the first coordinate is a multiple of, bytes.
const ROW_ALIGN: i64 = 16;
/// What is outside of a tensor of floats if it is not zero: a NaN of 16 bits for every type.
const NAN: [u8; 2] = 0x7ff7u16.to_le_bytes();
/// Bytes that stay together however rows are swizzled.
const UNIT_BYTES: usize = 16;
/// Bytes of the longest row.
const ROW_BYTES_MAX: usize = BOX_MAX as usize * 8;

/// The handler of a copy, and what [`Ins::imm`] says of it.
pub(crate) fn handler(copy: TensorCopy) -> (Handler, i64) {
    let rare = Rare(Target::Baseline);
    let run = match copy.direction {
        TensorDirection::Load { .. } => versions::<Copy<LOAD>, Copy<LOAD>>(rare),
        TensorDirection::Store => versions::<Copy<STORE>, Copy<STORE>>(rare),
        TensorDirection::Reduce(_) => versions::<Copy<REDUCE>, Copy<REDUCE>>(rare),
    };
    let mode = match copy.mode {
        TensorMode::Tile => TILE,
        TensorMode::Columns => COLUMNS,
        TensorMode::Rows => ROWS,
    };
    let more = match copy.direction {
        TensorDirection::Load { multicast } => i64::from(multicast),
        TensorDirection::Store => 0,
        TensorDirection::Reduce(op) => {
            REDUCTIONS.iter().position(|other| *other == op).unwrap_or_default() as i64
        }
    };
    (run, i64::from(copy.dims) | mode << MODE_SHIFT | more << MORE_SHIFT)
}

const LOAD: u8 = 0;
const STORE: u8 = 1;
const REDUCE: u8 = 2;

/// [`Ins::imm`]: dimensions, mode, and whether to multicast or which reduction.
const MODE_SHIFT: u32 = 8;
const MORE_SHIFT: u32 = 16;
const TILE: i64 = 0;
const COLUMNS: i64 = 1;
const ROWS: i64 = 2;

/// Reductions by number.
const REDUCTIONS: [AtomOp; 8] = [
    AtomOp::Add,
    AtomOp::Min,
    AtomOp::Max,
    AtomOp::Inc,
    AtomOp::Dec,
    AtomOp::And,
    AtomOp::Or,
    AtomOp::Xor,
];

struct Copy<const DIRECTION: u8>;

/// What one lane asks for.
struct Request {
    copy: TensorCopy,
    map: u64,
    shared: u64,
    start: Start,
    barrier: u64,
    ranks: u32,
}

impl<const DIRECTION: u8> Body for Copy<DIRECTION> {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        for lane in lanes(active(machine, ins)) {
            let request = Request::of::<DIRECTION>(machine, ins, lane);
            if let Err(kind) = request.run(machine, lane) {
                return machine.fail(lane, kind);
            }
        }
        Step::Next
    }
}

impl Request {
    /// Reads a lane's operands.
    fn of<const DIRECTION: u8>(machine: &HandlerContext<'_>, ins: &Ins, lane: u32) -> Self {
        let more = ins.imm >> MORE_SHIFT;
        let copy = TensorCopy {
            dims: ins.imm as u8,
            mode: match ins.imm >> MODE_SHIFT & 0xff {
                COLUMNS => TensorMode::Columns,
                ROWS => TensorMode::Rows,
                _ => TensorMode::Tile,
            },
            direction: match DIRECTION {
                LOAD => TensorDirection::Load { multicast: more != 0 },
                STORE => TensorDirection::Store,
                _ => TensorDirection::Reduce(REDUCTIONS[more as usize % REDUCTIONS.len()]),
            },
        };
        let mut next = 0;
        let mut place = || {
            next += 1;
            // SAFETY: the decoder made the list, of all operands that the operation has.
            unsafe { ins.a[0].entry(machine.regs, next - 1) }
        };
        let (map, shared) = (machine.regs.lane(place(), lane), machine.regs.lane(place(), lane));
        let mut start = Start::default();
        for at in start.at.iter_mut().take(copy.coordinates()) {
            *at = machine.regs.lane::<u32>(place(), lane) as i32;
        }
        for offset in start.offsets.iter_mut().take(copy.offsets()) {
            *offset = machine.regs.lane::<u32>(place(), lane) as i32;
        }
        let mut request = Self { copy, map, shared, start, barrier: 0, ranks: 1 };
        if let TensorDirection::Load { multicast } = copy.direction {
            request.barrier = machine.regs.lane(place(), lane);
            if multicast {
                request.ranks = machine.regs.lane(place(), lane);
            }
        }
        request
    }

    /// The map, and what it makes of the copy.
    fn map(
        &self,
        machine: &mut HandlerContext<'_>,
        lane: u32,
    ) -> Result<(TensorMap, Plan), FaultKind> {
        let address = self.map;
        if !address.is_multiple_of(MAP_ALIGN) {
            return Err(FaultKind::MisalignedAddress { address, bytes: MAP_ALIGN as u32 });
        }
        let from = machine.resolve_generic(lane, address, MAP_BYTES as u64, false)?;
        let map = TensorMap::decode(&from.read()).ok_or_else(|| self.refuse("it is none"))?;
        let plan = map.plan(self.copy.mode, self.copy.dims);
        let plan = plan.ok_or_else(|| self.refuse("it is for other modes or dimensions"))?;
        let first = i64::from(self.start.at[0]) * i64::from(map.element.bytes());
        if map.interleave == 0 && first % ROW_ALIGN != 0 {
            return Err(self.refuse("rows start at multiples of 16 bytes"));
        }
        self.check_start(&map)?;
        Ok((map, plan))
    }

    /// Refuses places to start at that a GPU does not take.
    fn check_start(&self, map: &TensorMap) -> Result<(), FaultKind> {
        let load = matches!(self.copy.direction, TensorDirection::Load { .. });
        let at = &self.start.at[..self.copy.coordinates()];
        if !load && at.iter().any(|at| *at < 0) {
            return Err(self.refuse("what is stored does not start before the tensor"));
        }
        let Extent::Columns { lower, upper, .. } = map.extent else { return Ok(()) };
        for (axis, (low, high)) in map.spatial().zip(lower.into_iter().zip(upper)) {
            let (low, high) = (i64::from(low), i64::from(high));
            let last = map.dimensions[axis] as i64 - 1 + high;
            if !(low..=last).contains(&i64::from(at[axis])) {
                return Err(self.refuse("pixels start in the bounding box"));
            }
            if !load && low < 0 {
                return Err(self.refuse("what is stored does not start before the tensor"));
            }
        }
        Ok(())
    }

    fn refuse(&self, why: &'static str) -> FaultKind {
        FaultKind::TensorMap { address: self.map, why }
    }

    fn run(&self, machine: &mut HandlerContext<'_>, lane: u32) -> Result<(), FaultKind> {
        let (map, plan) = self.map(machine, lane)?;
        if !self.shared.is_multiple_of(SHARED_ALIGN) {
            let bytes = SHARED_ALIGN as u32;
            return Err(FaultKind::MisalignedAddress { address: self.shared, bytes });
        }
        // Swizzling moves rows that are shorter than its period.
        let bytes = (u64::from(plan.rows) * plan.pitch).next_multiple_of(16 << map.swizzle);
        // What rows lack to their pitch is not counted.
        let counted = plan.rows.wrapping_mul(plan.elements * map.element.bytes());
        let reduction = match self.copy.direction {
            TensorDirection::Reduce(op) => {
                let combination = reduction(op, map.element);
                Some(combination.ok_or_else(|| self.refuse("its elements are not combined so"))?)
            }
            _ => None,
        };
        let TensorDirection::Load { multicast } = self.copy.direction else {
            let from = machine.resolve(SHARED, lane, self.shared, bytes, false)?;
            copies::started(machine, (SHARED, lane), (self.shared, bytes), false, None);
            return self.unload(machine, &map, &plan, from, reduction);
        };
        // Where to and with which mbarrier: once, or for each block in a mask of ranks.
        for rank in lanes(self.ranks) {
            let of_block = |address: u64| match multicast {
                false => address,
                true => address % WINDOW_BYTES + (u64::from(rank) + 1) * WINDOW_BYTES,
            };
            let to = machine.resolve(SHARED, lane, of_block(self.shared), bytes, true)?;
            self.load(machine, &map, &plan, to)?;
            let written = |state: State| state.complete(counted);
            let barrier = of_block(self.barrier);
            let before = mbarrier::change(machine, lane, barrier, written)?;
            let part = (of_block(self.shared), bytes);
            copies::started(machine, (SHARED, lane), part, true, Some((barrier, before)));
        }
        Ok(())
    }

    /// Copies rows to shared memory, where there is room for all from `to` on.
    fn load(
        &self,
        machine: &mut HandlerContext<'_>,
        map: &TensorMap,
        plan: &Plan,
        to: Checked,
    ) -> Result<(), FaultKind> {
        let size = map.element.bytes() as usize;
        let row_bytes = plan.elements as usize * size;
        let mut rows = Rows::new(map, plan, self.shared);
        map.rows(self.copy.mode, &self.start, plan, |row| {
            let mut bytes = [0; ROW_BYTES_MAX];
            if map.fill_nan && row.inside < plan.elements {
                bytes[..row_bytes].chunks_mut(NAN.len()).for_each(|pair| {
                    pair.copy_from_slice(&NAN[..pair.len()]);
                });
            }
            let (first, count) = (row.outside as usize * size, row.inside as usize * size);
            let from = device_memory(machine, &row, map.element, false)?;
            from.copy_to(&mut bytes[first..first + count]);
            convert(map.element, &mut bytes[first..first + count]);
            for (at, unit) in rows.next().zip(bytes[..row_bytes].chunks(UNIT_BYTES)) {
                to.part(at..at + unit.len()).copy_from(unit);
            }
            Ok(())
        })
    }

    /// Copies rows back, or combines them with what is there.
    fn unload(
        &self,
        machine: &mut HandlerContext<'_>,
        map: &TensorMap,
        plan: &Plan,
        from: Checked,
        reduction: Option<Combination>,
    ) -> Result<(), FaultKind> {
        let size = map.element.bytes() as usize;
        let row_bytes = plan.elements as usize * size;
        let mut rows = Rows::new(map, plan, self.shared);
        map.rows(self.copy.mode, &self.start, plan, |row| {
            let mut bytes = [0; ROW_BYTES_MAX];
            for (at, unit) in rows.next().zip(bytes[..row_bytes].chunks_mut(UNIT_BYTES)) {
                from.part(at..at + unit.len()).copy_to(unit);
            }
            let (first, count) = (row.outside as usize * size, row.inside as usize * size);
            let to = device_memory(machine, &row, map.element, true)?;
            let part = &bytes[first..first + count];
            match reduction {
                None => to.copy_from(part),
                Some(combine) => combine(to, part),
            }
            if let Some(checker) = machine.block.program.checker() {
                checker.written(to.pointer() as u64, count as u64);
            }
            Ok(())
        })
    }
}

/// Places in shared memory, row after row.
struct Rows<'a> {
    map: &'a TensorMap,
    plan: &'a Plan,
    /// Address of the first row.
    shared: u64,
    /// Rows so far.
    count: u64,
}

impl<'a> Rows<'a> {
    fn new(map: &'a TensorMap, plan: &'a Plan, shared: u64) -> Self {
        Self { map, plan, shared, count: 0 }
    }

    /// Where the units of the next row are, bytes behind the first row's start.
    fn next(&mut self) -> impl Iterator<Item = usize> + use<'a> {
        let (map, shared) = (self.map, self.shared);
        let start = shared + self.count * self.plan.pitch;
        self.count += 1;
        (start..).step_by(UNIT_BYTES).map(move |at| (map.swizzled(at) - shared) as usize)
    }
}

/// What a row has in device memory, checked.
fn device_memory(
    machine: &mut HandlerContext<'_>,
    row: &Row,
    element: Element,
    write: bool,
) -> Result<Checked, FaultKind> {
    if row.inside == 0 {
        return Ok(Checked::NONE);
    }
    let (address, bytes) = (row.address, u64::from(row.inside * element.bytes()));
    if !address.is_multiple_of(element.bytes().into()) {
        return Err(FaultKind::MisalignedAddress { address, bytes: element.bytes() });
    }
    let Some(found) = machine.device_memory(None, address, bytes, write) else {
        return Err(FaultKind::IllegalAddress { address, bytes: bytes as u32, write });
    };
    machine.counters.global_bytes += bytes;
    Ok(found)
}

/// What types do to numbers on their way to shared memory: those of tf32 are rounded to nearest
/// even, and there is one NaN. (`.ftz` is for sums.)
fn convert(element: Element, bytes: &mut [u8]) {
    if !matches!(element, Element::TF32 | Element::TF32Ftz) {
        return;
    }
    for number in bytes.chunks_exact_mut(4) {
        let bits = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
        let rounded = match f32::from_bits(bits).is_nan() {
            true => 0x7fff_e000,
            false => (bits + 0xfff + (bits >> 13 & 1)) & 0xffff_e000,
        };
        number.copy_from_slice(&rounded.to_le_bytes());
    }
}

/// Combines elements in device memory with others; as [`Combine::with`].
type Combination = fn(Checked, &[u8]);

/// What combines elements of a type; `None` if nothing does on an H200.
fn reduction(op: AtomOp, element: Element) -> Option<Combination> {
    let exists = match op {
        AtomOp::Add => element != Element::S64,
        AtomOp::Min | AtomOp::Max => {
            !element.is_float() || matches!(element, Element::F16 | Element::BF16)
        }
        AtomOp::Inc | AtomOp::Dec => element == Element::U32,
        _ => matches!(element, Element::U32 | Element::S32 | Element::U64),
    };
    if !exists {
        return None;
    }
    struct Combinations;
    impl Visitor for Combinations {
        type Made = Combination;
        fn visit<O: Operation>(self) -> Combination {
            Combine::<O>::with
        }
    }
    let ty = match element {
        Element::U32 => AtomType::U32,
        Element::S32 if matches!(op, AtomOp::And | AtomOp::Or | AtomOp::Xor) => AtomType::U32,
        Element::S32 => AtomType::S32,
        Element::U64 => AtomType::U64,
        Element::S64 => AtomType::S64,
        Element::F16 => AtomType::F16,
        Element::BF16 => AtomType::BF16,
        Element::F32 | Element::TF32 => AtomType::F32,
        Element::F32Ftz | Element::TF32Ftz => AtomType::F32Ftz,
        Element::F64 => AtomType::F64,
        Element::U8 | Element::U16 => return None,
    };
    atomic::visit(op, ty, Combinations)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a GPU said of tensors in general; here, of which it combines.
    const CASES: &str = include_str!("../../../soft-gpu/src/api/tests/tensor_maps.txt");

    #[test]
    fn what_a_gpu_combines_is_combined() {
        let mut seen = 0;
        for line in CASES.lines() {
            let Some((case, answer)) = line.split_once("=>") else { continue };
            let number = |name: &str| -> Option<usize> {
                case.split_whitespace().find_map(|word| word.strip_prefix(name))?.parse().ok()
            };
            let (Some(mode), Some(ty)) = (number("mode="), number("type=")) else { continue };
            // By mode from 40 on, as in the PTX of the cases.
            let Some(op) = mode.checked_sub(40).and_then(|i| REDUCTIONS.get(i)) else { continue };
            // A start before the tensor is a fault of its own.
            if case.contains('-') {
                continue;
            }
            let element = Element::from_number(ty as u32).unwrap();
            let combined = reduction(*op, element).is_some();
            assert_eq!(combined, !answer.contains("fault"), "{line}");
            seen += 1;
        }
        assert!(seen >= 100, "{seen}");
    }
}
