//! Address modes: how the loads and stores of a region address memory. `check_coalescing` checks
//! affine addresses in front of the region, `lane_addresses` all others.

use crate::asm::assembler::{Label, at};
use crate::avx2::layout::{POINTERS, SLICE_LANES};
use crate::avx2::memory::check_coalescing::is_exact;
use crate::frame_layout::{A, FILE};
use crate::function::Compiler;
use crate::memory::access::MemAccess;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};
use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;

/// How an access finds its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddressMode {
    /// Lanes follow each other at a stride; `pointer` is lane 0's, and lane 16's in the next one
    /// if the halves of the warp start apart.
    Formula {
        /// Number of the first pointer.
        pointer: usize,
        /// Bytes between lanes.
        stride: i32,
        /// There are two pointers.
        halves: bool,
        /// Bytes from the pointer to lane 0's first element.
        offset: i32,
    },
    /// Every lane has its address in the register file.
    File(Reg),
    /// Every lane has its address in a list on the stack; those of lanes that do not take part
    /// lead to scratch memory.
    Table {
        /// Where the addresses come from.
        from: Reg,
        /// Number of the list.
        table: usize,
    },
}

impl AddressMode {
    /// Consecutive lanes are at a constant distance.
    pub(crate) fn is_formula(&self) -> bool {
        matches!(self, Self::Formula { .. })
    }

    /// Pointers that it needs.
    pub(crate) fn pointers(&self) -> usize {
        match self {
            Self::Formula { halves, .. } => 1 + usize::from(*halves),
            _ => 0,
        }
    }

    /// Lists that it needs.
    pub(crate) fn tables(&self) -> usize {
        usize::from(matches!(self, Self::Table { .. }))
    }

    /// Gives an affine value its pointer, and how far behind that lane 0's first element is.
    pub(crate) fn set_pointer(&mut self, number: usize, from_there: i32) {
        if let Self::Formula { pointer, offset, .. } = self {
            (*pointer, *offset) = (number, from_there);
        }
    }

    /// Gives it the next list, if it needs one.
    pub(crate) fn set_table(&mut self, tables: &mut usize) {
        if let Self::Table { table, .. } = self {
            *table = *tables;
            *tables += 1;
        }
    }
}

impl Compiler<'_> {
    /// How the access of a load or store on lanes is made; `None` if there is no form.
    pub(crate) fn address_mode(&self, inst: &VectorInst, mem: MemAccess) -> Option<AddressMode> {
        let MemAccess { access, write, offset, total, wide, shared, .. } = mem;
        let count = usize::from(access.count);
        let values = if write { inst.src.len() - 2 } else { inst.dst.len() };
        if access.width == Width::W128 || values != count {
            return None;
        }
        let some = self.masked || inst.guard.is_some();
        let formula = |stride: i64, halves: bool| {
            let stride = i32::try_from(stride).ok()?;
            Some(AddressMode::Formula { pointer: 0, stride, halves, offset: 0 })
        };
        // Lanes that do not take part are left out by a mask.
        let contiguous =
            |stride: i64| i32::try_from(stride).is_ok_and(|stride| is_exact(mem, stride, false));
        match inst.src[0] {
            _ if inst.uniform => {
                // One value for all lanes.
                (!write && inst.guard.is_none()).then_some(())?;
                formula(0, false)
            }
            Source::Affine(_, stride) => {
                let aligned = stride % i64::from(total) == 0 && stride != 0;
                (aligned && (!write || !some || contiguous(stride))).then_some(())?;
                formula(stride, false)
            }
            Source::HalfAffine(_, _, stride) => {
                let aligned = stride % i64::from(total) == 0;
                (aligned && !(write && (some || stride == 0))).then_some(())?;
                formula(stride, true)
            }
            Source::Vector(r) => {
                // Addresses of one result must not fall to another.
                let apart = count == 1 || inst.dst.iter().all(|d| d.reg != r);
                let plain = wide != shared && offset % total == 0 && apart;
                plain.then_some(())?;
                Some(if some {
                    AddressMode::Table { from: r, table: 0 }
                } else {
                    AddressMode::File(r)
                })
            }
            _ => None,
        }
    }

    /// Checks addresses of a region's access of a number that are no affine value; goes to `slow` if it
    /// may not be made.
    pub(crate) fn check_reach(
        &mut self,
        accesses: &[(&VectorInst, MemAccess, AddressMode)],
        number: usize,
        slow: Label,
    ) {
        let (inst, mem, address_mode) = accesses[number];
        match address_mode {
            AddressMode::Formula { .. } => {}
            AddressMode::File(r) if mem.shared => {
                let alike = |(_, other, address_mode): &&(&VectorInst, MemAccess, AddressMode)| {
                    let same = matches!(address_mode, AddressMode::File(s) if *s == r);
                    same && other.shared && other.total == mem.total
                };
                // Those that start at one number are checked with the first of them.
                if accesses[..number].iter().any(|access| alike(&access)) {
                    return;
                }
                let offsets = || accesses.iter().filter(alike).map(|(_, other, _)| other.offset);
                let first = offsets().min().unwrap_or(mem.offset);
                let more = offsets().max().map_or(0, |last| last.saturating_sub(first));
                let mem = MemAccess { offset: first, ..mem };
                self.check_addresses(inst, (mem, more), r, None, slow);
            }
            AddressMode::File(r) => self.check_addresses(inst, (mem, 0), r, None, slow),
            AddressMode::Table { from, table } => {
                self.check_addresses(inst, (mem, 0), from, Some(table), slow);
            }
        }
    }

    /// Counts the bytes of accesses that will be made.
    pub(crate) fn count_accesses(&mut self, accesses: &[(&VectorInst, MemAccess)]) {
        let (mut all, mut each) = (None, None);
        for (inst, mem) in accesses.iter().filter(|(_, mem)| !mem.shared) {
            if inst.guard.is_some() {
                self.count_some(inst, *mem);
            } else if inst.uniform {
                let (_, bytes) = all.unwrap_or((*mem, 0));
                all = Some((*mem, bytes + mem.total));
            } else if self.masked {
                let (_, _, bytes) = each.unwrap_or((*inst, *mem, 0));
                each = Some((*inst, *mem, bytes + mem.total));
            } else {
                let (_, bytes) = all.unwrap_or((*mem, 0));
                all = Some((*mem, bytes + WARP_LANES as i32 * mem.total));
            }
        }
        if let Some((mem, bytes)) = all {
            self.count(mem, bytes);
        }
        if let Some((inst, mem, total)) = each {
            self.count_some(inst, MemAccess { total, ..mem });
        }
    }

    /// Makes the copies of a scalar that all lanes need.
    pub(crate) fn flush_copies(&mut self, r: usize) {
        let place = self.layout.place(r);
        let (Some(width), Some(scalar), Some(vector)) =
            (self.f.classes[r].width(), place.scalar, place.vector)
        else {
            return;
        };
        let code = match width {
            Width::W16 => Code::VEX_Vpbroadcastw_ymm_xmmm16,
            Width::W32 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
            Width::W64 => Code::VEX_Vpbroadcastq_ymm_xmmm64,
            Width::W128 => Code::VEX_Vbroadcasti128_ymm_m128,
        };
        let copies = Register::YMM0.into();
        self.a.op(code, &[copies, at(FILE, scalar as i32).into()]);
        for n in 0..width.bytes() as i32 {
            let to = at(FILE, vector as i32 + 32 * n);
            self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), copies]);
        }
    }
}

/// The memory of an element of a lane of a slice; its address is in RAX if it is not an affine value.
pub(crate) fn memory_of(
    address_mode: AddressMode,
    slice: usize,
    lane: usize,
    offset: i32,
) -> MemoryOperand {
    match address_mode {
        AddressMode::Formula { pointer, stride, halves, offset: first } => {
            let lane = slice * SLICE_LANES + lane;
            let (pointer, lane) = if halves && lane >= HALF_LANES {
                (pointer + 1, lane - HALF_LANES)
            } else {
                (pointer, lane)
            };
            at(POINTERS[pointer], first + stride * lane as i32 + offset)
        }
        AddressMode::File(_) | AddressMode::Table { .. } => at(A, offset),
    }
}
