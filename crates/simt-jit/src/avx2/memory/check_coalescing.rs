//! Loads and stores of a segment whose addresses are formulas: those that start at one number, or at
//! one for each half of the warp, share a pointer and are checked together.
//!
//! Where one comparison cannot allow them all, each is looked at alone, behind the function; only
//! what that does not allow either runs by its decoded form.
//!
//! Quarters run one behind the other, so what one lane of a segment stores no lane of another
//! quarter may load or store. Of accesses that start at one number that is known beforehand; others
//! are looked at.

use crate::asm::assembler::{Label, X, at};
use crate::avx2::memory::address_mode::Reach;
use crate::avx2::partition::Segment;
use crate::avx2::{POINTERS, QUARTER_LANES, QUARTERS};
use crate::frame::layout::{A, C};
use crate::frame::out_of_line::Cold;
use crate::function::Compiler;
use crate::memory::access::Plan;
use crate::memory::check_coalescing::{REACH_MAX, bases};
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};
use simt::launch_shape::HALF_LANES;
use std::rc::Rc;

/// An access whose addresses are a formula.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The instruction's number in its block.
    index: usize,
    plan: Plan,
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
pub(crate) struct Group {
    key: Key,
    /// Number of the pointer, or of the first of two: where the addresses start.
    pub(crate) pointer: usize,
    spans: Vec<Span>,
}

/// True if lanes that do not run an access are left out by a mask.
pub(crate) fn is_exact(plan: Plan, stride: i32, halves: bool) -> bool {
    let access = plan.access;
    stride == plan.total
        && access.count == 1
        && u32::from(access.bytes) == access.width.bytes()
        && access.width != Width::W16
        && !halves
}

impl Span {
    /// The access that an instruction makes, if its addresses are a formula, and what it has in
    /// common with others.
    pub(crate) fn of(
        (index, inst): (usize, &VectorInst),
        plan: Plan,
        reach: Reach,
        masked: bool,
    ) -> Option<(Key, Self)> {
        let Reach::Formula { stride, halves, .. } = reach else { return None };
        let guard = inst.guard.map(|g| (g.reg, g.negated));
        let some = (masked || guard.is_some()) && is_exact(plan, stride, halves);
        let key = Key {
            shared: plan.shared,
            wide: plan.wide,
            bases: bases(inst.src[0]),
            shift: if plan.offset % plan.total == 0 { 0 } else { plan.offset },
            some: some.then_some((stride, guard)),
        };
        Some((key, Self { index, plan, stride, halves }))
    }

    fn lanes(&self) -> i32 {
        if self.halves { HALF_LANES as i32 } else { (QUARTERS * QUARTER_LANES) as i32 }
    }

    /// The first byte of lane 0, from where addresses start.
    fn first(&self, key: &Key) -> i64 {
        i64::from(self.plan.offset - key.shift)
    }

    /// The first byte that lanes access and the one behind the last.
    fn reach(&self, key: &Key) -> (i64, i64) {
        let (first, last) = (self.first(key), i64::from(self.stride) * i64::from(self.lanes() - 1));
        (first + last.min(0), first + last.max(0) + i64::from(self.plan.total))
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
            a < b + i64::from(other.plan.total) && b < a + i64::from(self.plan.total)
        };
        let lanes = i64::from(self.lanes());
        if self.stride == other.stride {
            return (1..lanes).all(|n| !meet(0, n) && !meet(n, 0));
        }
        (0..lanes).all(|i| (0..lanes).all(|j| i == j || !meet(i, j)))
    }
}

impl Group {
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
        let (low, high) = self.reach();
        let (from, to) = span.reach(key);
        let (low, high) = (low.min(from), high.max(to));
        self.key == *key && high - low < REACH_MAX && low.abs() < REACH_MAX
    }

    /// An access can be in a segment with this group's: they are apart, or it can be looked at
    /// whether they are. `own` if it would be one of the group.
    pub(crate) fn bears(&self, span: &Span, own: bool) -> bool {
        let mut meeting = self.spans.iter().filter(|s| s.plan.write || span.plan.write);
        !own || meeting.all(|s| s.is_apart(span, &self.key))
    }

    fn reach(&self) -> (i64, i64) {
        let spans = self.spans.iter().map(|s| s.reach(&self.key));
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default()
    }

    fn writes(&self) -> bool {
        self.spans.iter().any(|s| s.plan.write)
    }

    /// What one check of all looks at: alignment to the largest, and whether it may be written.
    fn plan(&self) -> Plan {
        let total = self.spans.iter().map(|s| s.plan.total).max().unwrap_or(1);
        Plan { total, write: self.writes(), ..self.spans[0].plan }
    }
}

impl Compiler<'_> {
    /// Makes the pointers of a segment's groups, and all checks of what they lead to.
    pub(in crate::avx2) fn check_groups(&mut self, segment: &Rc<Segment>, slow: Label) {
        let groups = &segment.groups;
        let ready = self.a.label();
        let otherwise = if groups.iter().any(|g| g.spans.len() > 1) {
            let label = self.a.label();
            let (block, masked, segment) = (self.block, self.masked, segment.clone());
            self.cold.push(Cold::Alone { label, ready, slow, block, masked, segment });
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
                            .all(|t| !(s.plan.write || t.plan.write) || s.is_apart(t, &a.key))
                });
                self.keep_apart((a, a.reach()), (b, b.reach()), same, otherwise);
            }
        }
        self.a.bind(ready);
    }

    /// Looks at the accesses of all groups one by one, and makes their pointers.
    pub(crate) fn check_alone(&mut self, segment: &Segment, slow: Label) {
        let groups = &segment.groups;
        for group in groups {
            for span in &group.spans {
                self.check_span(group, span, slow);
            }
            for (half, base) in group.key.bases.iter().enumerate() {
                let low = group.reach().0;
                self.start_of(group, *base, low);
                self.point(group.spans[0].plan);
                self.set_pointer(group, half, low);
            }
        }
        for (n, b) in groups.iter().enumerate() {
            for a in groups[..n].iter().filter(|a| meets(a, b)) {
                for s in &a.spans {
                    for t in b.spans.iter().filter(|t| t.plan.write || s.plan.write) {
                        let same = a.key.shift == b.key.shift && s.is_apart(t, &a.key);
                        self.keep_apart((a, s.reach(&a.key)), (b, t.reach(&b.key)), same, slow);
                    }
                }
            }
        }
    }

    /// A number of a group's bases and so many bytes, in RCX.
    fn start_of(&mut self, group: &Group, base: Source, more: i64) {
        let plan = group.spans[0].plan;
        self.number_in(base, plan, C);
        self.add_to_address(plan, i64::from(group.key.shift) + more);
    }

    /// The pointer that is so many bytes in front of RCX.
    fn set_pointer(&mut self, group: &Group, half: usize, low: i64) {
        let start = at(C, -low as i32);
        self.a.op(Code::Lea_r64_m, &[POINTERS[group.pointer + half].into(), start.into()]);
    }

    fn check_together(&mut self, group: &Group, otherwise: Label) {
        let (low, high) = group.reach();
        let plan = group.plan();
        let inst = &self.f.blocks[self.block].insts[group.spans[0].index];
        for (half, base) in group.key.bases.iter().enumerate() {
            if group.key.some.is_some() {
                let first = group.spans.iter().map(|s| s.first(&group.key)).min().unwrap_or(0);
                let last = group.spans.iter().map(|s| s.first(&group.key)).max().unwrap_or(0);
                let checked = self.a.label();
                self.start_of(group, *base, first);
                self.check_some(inst, plan, (last - first) as i32, otherwise, checked);
                self.a.bind(checked);
                self.set_pointer(group, half, first);
                continue;
            }
            self.start_of(group, *base, 0);
            self.aligned_or(plan, otherwise);
            self.add_to_address(plan, low);
            self.check(Plan { total: 1, ..plan }, (high - low) as i32, otherwise);
            self.set_pointer(group, half, low);
        }
    }

    /// Goes to `otherwise` if the address in RCX is not aligned.
    fn aligned_or(&mut self, plan: Plan, otherwise: Label) {
        if plan.total > 1 && !self.without.bounds {
            self.a.op(Code::Test_rm8_imm8, &[Register::CL.into(), X::I(plan.total - 1)]);
            self.a.jump(Code::Jne_rel32_64, otherwise);
        }
    }

    /// Checks one access.
    fn check_span(&mut self, group: &Group, span: &Span, slow: Label) {
        let inst = &self.f.blocks[self.block].insts[span.index];
        let (low, high) = span.reach(&group.key);
        for base in &group.key.bases {
            if group.key.some.is_some() {
                let checked = self.a.label();
                self.start_of(group, *base, span.first(&group.key));
                self.check_some(inst, span.plan, 0, slow, checked);
                self.a.bind(checked);
            } else {
                self.start_of(group, *base, low);
                self.check(span.plan, (high - low) as i32, slow);
            }
        }
    }

    /// Goes to `otherwise` if what two groups access may meet; `same` if it may not where they
    /// start at one place.
    fn keep_apart(
        &mut self,
        (a, of_a): (&Group, (i64, i64)),
        (b, of_b): (&Group, (i64, i64)),
        same: bool,
        otherwise: Label,
    ) {
        let pointers = |g: &Group| (g.pointer..g.pointer + g.key.bases.len()).map(|n| POINTERS[n]);
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
fn meets(a: &Group, b: &Group) -> bool {
    a.key.shared == b.key.shared && (a.writes() || b.writes())
}
