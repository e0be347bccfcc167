//! Bounds-check coalescing in a region: affine accesses that start at one number (or at one for
//! each half warp) share a pointer and one check.
//!
//! Where one comparison cannot allow them all, each is looked at alone, behind the function; only
//! what that does not allow either runs by the interpreter.
//!
//! Slices run one behind the other, so what one lane of a region stores no lane of another
//! slice may load or store. Of accesses that start at one number that is known beforehand; others
//! are looked at.

use crate::asm::assembler::{Label, X, at};
use crate::avx2::layout::{POINTERS, SLICE_LANES, SLICES};
use crate::avx2::memory::address_mode::AddressMode;
use crate::avx2::partition::VectorRegion;
use crate::frame_layout::{A, C};
use crate::function::Compiler;
use crate::memory::access::MemAccess;
use crate::memory::check_coalescing::{REACH_MAX, bases};
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};
use simt::launch_shape::HALF_LANES;
use std::rc::Rc;

/// An access whose addresses are an affine value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The instruction's number in its block.
    index: usize,
    mem: MemAccess,
    /// Bytes between lanes.
    stride: i32,
    /// The halves of the warp start apart.
    halves: bool,
}

/// What accesses of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    shared: bool,
    /// Addresses have 64 bits.
    wide: bool,
    /// Where they start: one number, or one for each half.
    bases: Vec<Source>,
    /// Added to it first: an offset to which nothing else is aligned.
    shift: i32,
    /// Only lanes that run the instruction are looked at: bytes between them, and its guard.
    some: Option<(i32, Option<(Reg, bool)>)>,
}

/// Accesses that share a pointer.
#[derive(Clone, Debug)]
pub(crate) struct CheckGroup {
    key: Key,
    /// Number of the pointer, or of the first of two: where the addresses start.
    pub(crate) pointer: usize,
    spans: Vec<Span>,
}

/// True if lanes that do not run an access are left out by a mask.
pub(crate) fn is_exact(mem: MemAccess, stride: i32, halves: bool) -> bool {
    let access = mem.access;
    stride == mem.total
        && access.count == 1
        && u32::from(access.bytes) == access.width.bytes()
        && access.width != Width::W16
        && !halves
}

impl Span {
    /// The access that an instruction makes, if its addresses are an affine value, and what it has in
    /// common with others.
    pub(crate) fn of(
        (index, inst): (usize, &VectorInst),
        mem: MemAccess,
        address_mode: AddressMode,
        masked: bool,
    ) -> Option<(Key, Self)> {
        let AddressMode::Formula { stride, halves, .. } = address_mode else { return None };
        let guard = inst.guard.map(|g| (g.reg, g.negated));
        let some = (masked || guard.is_some()) && is_exact(mem, stride, halves);
        let key = Key {
            shared: mem.shared,
            wide: mem.wide,
            bases: bases(inst.src[0]),
            shift: if mem.offset % mem.total == 0 { 0 } else { mem.offset },
            some: some.then_some((stride, guard)),
        };
        Some((key, Self { index, mem, stride, halves }))
    }

    fn lanes(&self) -> i32 {
        if self.halves { HALF_LANES as i32 } else { (SLICES * SLICE_LANES) as i32 }
    }

    /// The first byte of lane 0, from where addresses start.
    fn first(&self, key: &Key) -> i64 {
        i64::from(self.mem.offset - key.shift)
    }

    /// The first byte that lanes access and the one behind the last.
    fn address_mode(&self, key: &Key) -> (i64, i64) {
        let (first, last) = (self.first(key), i64::from(self.stride) * i64::from(self.lanes() - 1));
        (first + last.min(0), first + last.max(0) + i64::from(self.mem.total))
    }

    /// No lane touches what another lane does by the other access, if both start at one number.
    fn is_apart(&self, other: &Self, key: &Key) -> bool {
        if self.halves || other.halves {
            // Lanes of one half may be where those of the other are.
            return false;
        }
        let meet = |i: i64, j: i64| {
            let a = self.first(key) + i * i64::from(self.stride);
            let b = other.first(key) + j * i64::from(other.stride);
            a < b + i64::from(other.mem.total) && b < a + i64::from(self.mem.total)
        };
        let lanes = i64::from(self.lanes());
        if self.stride == other.stride {
            return (1..lanes).all(|n| !meet(0, n) && !meet(n, 0));
        }
        (0..lanes).all(|i| (0..lanes).all(|j| i == j || !meet(i, j)))
    }
}

impl CheckGroup {
    /// A group of one.
    pub(crate) fn new(key: Key, pointer: usize, span: Span) -> Self {
        Self { key, pointer, spans: vec![span] }
    }

    /// Takes an access in.
    pub(crate) fn add(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// What is added to where the addresses start before anything else.
    pub(crate) fn shift(&self) -> i32 {
        self.key.shift
    }

    /// True for an access that is one of the group's kind and near enough.
    pub(crate) fn is_for(&self, key: &Key, span: &Span) -> bool {
        let (low, high) = self.address_mode();
        let (from, to) = span.address_mode(key);
        let (low, high) = (low.min(from), high.max(to));
        self.key == *key && high - low < REACH_MAX && low.abs() < REACH_MAX
    }

    /// An access can be in a region with this group's: they are apart, or it can be looked at
    /// whether they are. `own` if it would be one of the group.
    pub(crate) fn bears(&self, span: &Span, own: bool) -> bool {
        let mut meeting = self.spans.iter().filter(|s| s.mem.write || span.mem.write);
        !own || meeting.all(|s| s.is_apart(span, &self.key))
    }

    fn address_mode(&self) -> (i64, i64) {
        let spans = self.spans.iter().map(|s| s.address_mode(&self.key));
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default()
    }

    fn writes(&self) -> bool {
        self.spans.iter().any(|s| s.mem.write)
    }

    /// What one check of all looks at: alignment to the largest, and whether it may be written.
    fn mem(&self) -> MemAccess {
        let total = self.spans.iter().map(|s| s.mem.total).max().unwrap_or(1);
        MemAccess { total, write: self.writes(), ..self.spans[0].mem }
    }
}

impl Compiler<'_> {
    /// Makes the pointers of a region's groups, and all checks of what they lead to.
    pub(in crate::avx2) fn check_groups(&mut self, region: &Rc<VectorRegion>, slow: Label) {
        let groups = &region.groups;
        let ready = self.a.label();
        let otherwise = if groups.iter().any(|g| g.spans.len() > 1) {
            let label = self.a.label();
            let region = region.clone();
            self.slow_path_to(label, ready, move |c| c.check_alone(&region, slow));
            label
        } else {
            slow
        };
        for group in groups {
            self.check_together(group, otherwise);
        }
        for (n, b) in groups.iter().enumerate() {
            for a in groups[..n].iter().filter(|a| meets(a, b)) {
                let same = a.spans.iter().all(|s| {
                    a.key.shift == b.key.shift
                        && b.spans
                            .iter()
                            .all(|t| !(s.mem.write || t.mem.write) || s.is_apart(t, &a.key))
                });
                self.keep_apart((a, a.address_mode()), (b, b.address_mode()), same, otherwise);
            }
        }
        self.a.bind(ready);
    }

    /// Looks at the accesses of all groups one by one, and makes their pointers.
    pub(crate) fn check_alone(&mut self, region: &VectorRegion, slow: Label) {
        let groups = &region.groups;
        for group in groups {
            for span in &group.spans {
                self.check_span(group, span, slow);
            }
            for (half, base) in group.key.bases.iter().enumerate() {
                let low = group.address_mode().0;
                self.start_of(group, *base, low);
                self.point(group.spans[0].mem);
                self.set_pointer(group, half, low);
            }
        }
        for (n, b) in groups.iter().enumerate() {
            for a in groups[..n].iter().filter(|a| meets(a, b)) {
                for s in &a.spans {
                    for t in b.spans.iter().filter(|t| t.mem.write || s.mem.write) {
                        let same = a.key.shift == b.key.shift && s.is_apart(t, &a.key);
                        self.keep_apart(
                            (a, s.address_mode(&a.key)),
                            (b, t.address_mode(&b.key)),
                            same,
                            slow,
                        );
                    }
                }
            }
        }
    }

    /// A number of a group's bases plus an offset in bytes, in RCX.
    fn start_of(&mut self, group: &CheckGroup, base: Source, more: i64) {
        let mem = group.spans[0].mem;
        self.number_in(base, mem, C);
        self.add_to_address(mem, i64::from(group.key.shift) + more);
    }

    /// The pointer that is an offset in bytes in front of RCX.
    fn set_pointer(&mut self, group: &CheckGroup, half: usize, low: i64) {
        let start = at(C, -low as i32);
        self.a.op(Code::Lea_r64_m, &[POINTERS[group.pointer + half].into(), start.into()]);
    }

    fn check_together(&mut self, group: &CheckGroup, otherwise: Label) {
        let (low, high) = group.address_mode();
        let mem = group.mem();
        let inst = &self.f.blocks[self.block].insts[group.spans[0].index];
        for (half, base) in group.key.bases.iter().enumerate() {
            if group.key.some.is_some() {
                let first = group.spans.iter().map(|s| s.first(&group.key)).min().unwrap_or(0);
                let last = group.spans.iter().map(|s| s.first(&group.key)).max().unwrap_or(0);
                let checked = self.a.label();
                self.start_of(group, *base, first);
                self.check_some(inst, mem, (last - first) as i32, otherwise, checked);
                self.a.bind(checked);
                self.set_pointer(group, half, first);
                continue;
            }
            self.start_of(group, *base, 0);
            self.aligned_or(mem, otherwise);
            self.add_to_address(mem, low);
            self.check(MemAccess { total: 1, ..mem }, (high - low) as i32, otherwise);
            self.set_pointer(group, half, low);
        }
    }

    /// Goes to `otherwise` if the address in RCX is not aligned.
    fn aligned_or(&mut self, mem: MemAccess, otherwise: Label) {
        if mem.total > 1 && !self.ablation.bounds {
            self.a.op(Code::Test_rm8_imm8, &[Register::CL.into(), X::I(mem.total - 1)]);
            self.a.jump(Code::Jne_rel32_64, otherwise);
        }
    }

    /// Checks one access.
    fn check_span(&mut self, group: &CheckGroup, span: &Span, slow: Label) {
        let inst = &self.f.blocks[self.block].insts[span.index];
        let (low, high) = span.address_mode(&group.key);
        for base in &group.key.bases {
            if group.key.some.is_some() {
                let checked = self.a.label();
                self.start_of(group, *base, span.first(&group.key));
                self.check_some(inst, span.mem, 0, slow, checked);
                self.a.bind(checked);
            } else {
                self.start_of(group, *base, low);
                self.check(span.mem, (high - low) as i32, slow);
            }
        }
    }

    /// Goes to `otherwise` if what two groups access may meet; `same` if it may not where they
    /// start at one place.
    fn keep_apart(
        &mut self,
        (a, of_a): (&CheckGroup, (i64, i64)),
        (b, of_b): (&CheckGroup, (i64, i64)),
        same: bool,
        otherwise: Label,
    ) {
        let pointers =
            |g: &CheckGroup| (g.pointer..g.pointer + g.key.bases.len()).map(|n| POINTERS[n]);
        for from in pointers(a) {
            for to in pointers(b) {
                let fine = self.a.label();
                self.a.op(Code::Mov_r64_rm64, &[A.into(), to.into()]);
                self.a.op(Code::Sub_r64_rm64, &[A.into(), from.into()]);
                if same {
                    self.a.jump(Code::Je_rel32_64, fine);
                }
                // to + its end - 1 - (from + its start) in [0, bytes of both - 1): they meet.
                let bytes = of_a.1 - of_a.0 + of_b.1 - of_b.0 - 1;
                let shift = of_b.1 - 1 - of_a.0;
                self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(shift as i32)]);
                self.a.op(Code::Cmp_rm64_imm32, &[A.into(), X::I(bytes as i32)]);
                self.a.jump(Code::Jb_rel32_64, otherwise);
                self.a.bind(fine);
            }
        }
    }
}

/// True if it is to be looked at whether two groups' accesses are apart.
fn meets(a: &CheckGroup, b: &CheckGroup) -> bool {
    a.key.shared == b.key.shared && (a.writes() || b.writes())
}
