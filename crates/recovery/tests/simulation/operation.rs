//! Operations of streams: how they are written into a record, what they do to memory, and what a client
//! says of them.

use crate::random::{Random, mix};
use recovery::{Access, Again, Posted};
use std::ops::Range;

/// Allocations of a client, and cells of each.
pub const ALLOCATIONS: u64 = 8;
pub const CELLS: u64 = 4;
/// Slices of staging, each of as many cells as an allocation.
pub const SLICES: u64 = 6;
/// Streams of a client.
pub const STREAMS: usize = 2;

/// What is in a client's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    pub device: Vec<u64>,
    pub staging: Vec<u64>,
}

impl Memory {
    pub fn new() -> Self {
        Self {
            device: vec![7; (ALLOCATIONS * CELLS) as usize],
            staging: vec![3; (SLICES * CELLS) as usize],
        }
    }
}

/// What a kernel does beside its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    Plain,
    /// It is not known what it does.
    Opaque,
    /// It faults.
    Traps,
    /// It never ends.
    Endless,
}

/// One operation. Allocations are sets of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Fence { value: u64 },
    Kernel { number: u64, reads: u64, writes: u64, nature: Nature },
    Fill { number: u64, first: u64, count: u64 },
    DeviceCopy { from: u64, to: u64, count: u64 },
    Upload { slice: u64, allocation: u64 },
    Download { allocation: u64, slice: u64 },
    Record { event: u64 },
    Wait { event: u64 },
}

use Operation::{DeviceCopy, Download, Fence, Fill, Kernel, Record, Upload, Wait};

impl Operation {
    /// As a record in the ring: opcode and words. The first word is the stream.
    pub fn encode(self, slot: u64) -> (u16, Vec<u64>) {
        match self {
            Fence { value } => (1, vec![slot, value]),
            Kernel { number, reads, writes, nature } => {
                (2, vec![slot, number, reads, writes, nature as u64])
            }
            Fill { number, first, count } => (3, vec![slot, number, first, count]),
            DeviceCopy { from, to, count } => (4, vec![slot, from, to, count]),
            Upload { slice, allocation } => (5, vec![slot, slice, allocation]),
            Download { allocation, slice } => (6, vec![slot, allocation, slice]),
            Record { event } => (7, vec![slot, event]),
            Wait { event } => (8, vec![slot, event]),
        }
    }

    /// The stream and the operation of a record.
    pub fn decode(opcode: u16, words: &[u64]) -> (u64, Self) {
        let operation = match (opcode, &words[1..]) {
            (1, [value]) => Fence { value: *value },
            (2, [number, reads, writes, nature]) => {
                let nature = [Nature::Plain, Nature::Opaque, Nature::Traps, Nature::Endless]
                    [*nature as usize];
                Kernel { number: *number, reads: *reads, writes: *writes, nature }
            }
            (3, [number, first, count]) => Fill { number: *number, first: *first, count: *count },
            (4, [from, to, count]) => DeviceCopy { from: *from, to: *to, count: *count },
            (5, [slice, allocation]) => Upload { slice: *slice, allocation: *allocation },
            (6, [allocation, slice]) => Download { allocation: *allocation, slice: *slice },
            (7, [event]) => Record { event: *event },
            (8, [event]) => Wait { event: *event },
            _ => panic!("no record has opcode {opcode} and words {words:?}"),
        };
        (words[0], operation)
    }

    /// Does it. With `partly` only a part of what it writes, as when it is ended in its middle.
    pub fn apply(self, memory: &mut Memory, mut partly: Option<&mut Random>) {
        let mut writes = |memory: &mut Vec<u64>, cell: u64, value: u64| {
            if partly.as_mut().is_none_or(|random| random.permille(500)) {
                memory[cell as usize] = value;
            }
        };
        match self {
            Kernel { number, reads, writes: written, .. } => {
                let read = cells_of(reads).map(|cell| memory.device[cell as usize]);
                let value = read.fold(mix(number), |value, read| mix(value.rotate_left(9) ^ read));
                for cell in cells_of(written).filter(|cell| !mix(value ^ cell).is_multiple_of(4)) {
                    // In place, where it reads what it writes: each cell by what is in it.
                    let old = if contains(reads, cell) { memory.device[cell as usize] } else { 0 };
                    writes(&mut memory.device, cell, mix(old ^ mix(number ^ cell) ^ value));
                }
            }
            Fill { number, first, count } => {
                for cell in first..first + count {
                    writes(&mut memory.device, cell, mix(number ^ cell));
                }
            }
            DeviceCopy { from, to, count } => {
                for index in 0..count {
                    let value = memory.device[(from + index) as usize];
                    writes(&mut memory.device, to + index, value);
                }
            }
            Upload { slice, allocation } => {
                for index in 0..CELLS {
                    let value = memory.staging[(slice * CELLS + index) as usize];
                    writes(&mut memory.device, allocation * CELLS + index, value);
                }
            }
            Download { allocation, slice } => {
                for index in 0..CELLS {
                    let value = memory.device[(allocation * CELLS + index) as usize];
                    writes(&mut memory.staging, slice * CELLS + index, value);
                }
            }
            Fence { .. } | Record { .. } | Wait { .. } => {}
        }
    }

    /// True for kernels.
    pub fn is_kernel(self) -> bool {
        matches!(self, Kernel { .. })
    }
}

fn contains(allocations: u64, cell: u64) -> bool {
    allocations >> (cell / CELLS) & 1 == 1
}

fn cells_of(allocations: u64) -> impl Iterator<Item = u64> {
    (0..ALLOCATIONS * CELLS).filter(move |cell| contains(allocations, *cell))
}

fn ranges_of(allocations: u64) -> Vec<Range<u64>> {
    let all = (0..ALLOCATIONS).filter(|allocation| allocations >> allocation & 1 == 1);
    all.map(|allocation| allocation * CELLS..(allocation + 1) * CELLS).collect()
}

/// What the client says of an operation, as the real one does (`client/src/program/recovery/replay.rs`).
pub fn facts(posted: &Posted) -> (Again, Access) {
    let exact = |reads: Vec<Range<u64>>, writes: Vec<Range<u64>>| Access {
        reads,
        writes,
        exact: true,
        ..Access::default()
    };
    let range = |start: u64, count: u64| std::iter::once(start..start + count).collect::<Vec<_>>();
    match Operation::decode(posted.opcode, &posted.words).1 {
        Kernel { nature: Nature::Opaque, .. } => {
            (Again::Can, Access { opaque: true, ..Access::default() })
        }
        Kernel { reads, writes, .. } => {
            let access =
                Access { reads: ranges_of(reads), writes: ranges_of(writes), ..Access::default() };
            (Again::Can, access)
        }
        Fill { first, count, .. } => (Again::Can, exact(vec![], range(first, count))),
        DeviceCopy { from, to, count } => (Again::Can, exact(range(from, count), range(to, count))),
        Upload { allocation, .. } => {
            (Again::Cannot, exact(vec![], range(allocation * CELLS, CELLS)))
        }
        Download { allocation, .. } => {
            (Again::Idle, exact(range(allocation * CELLS, CELLS), vec![]))
        }
        Fence { .. } => (Again::Can, Access::default()),
        Record { .. } | Wait { .. } => (Again::Order, Access::default()),
    }
}
