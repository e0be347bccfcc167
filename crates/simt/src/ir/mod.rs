//! The SIMT IR: what one thread does, as a control-flow graph over mutable registers.
//!
//! It is deliberately not SSA. A register keeps its old value in the lanes that do not execute a
//! definition, which is what masked execution does anyway, and the analyses that matter here
//! (liveness, shapes) are flow-insensitive per register and lose little: compilers emit PTX from
//! SSA, so nearly every register has one definition.
//!
//! Invariants: an instruction that may suspend a thread (barrier, call, pause) is a terminator, so
//! that a warp's position is always the start of a block; an instruction that needs lanes together
//! ([`Op::is_sync`]) is the first of its block, or behind one that brought all lanes of the warp
//! together.

pub mod address;
pub mod matrix;
pub mod op;
pub(crate) mod op_display;
pub mod sparse;
pub mod text;
pub mod vector;
pub mod width;

use crate::ir::op::{BarrierOp, Class, Op};
use std::fmt;

/// A register of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// A block of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A variable in the function's frame of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

impl Reg {
    /// Index into [`Function::regs`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl BlockId {
    /// Index into [`Function::blocks`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A source of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant, in the low bits; 0 or 1 for predicates.
    Imm(u64),
    /// Address of a slot in the local space.
    Slot(SlotId),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

/// Runs the instruction only where the predicate is true (or false, if `negated`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// A predicate register.
    pub reg: Reg,
    /// `@!p`.
    pub negated: bool,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// Where it does it.
    pub guard: Option<Guard>,
    /// Results.
    pub dst: Vec<Reg>,
    /// Sources in the order [`Op`] gives.
    pub src: Vec<Operand>,
    /// Line of the PTX, 1-based.
    pub line: u32,
}

/// Where control goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// To a block.
    Block(BlockId),
    /// Back to the caller; out of the kernel in an entry.
    Return,
    /// The thread ends.
    Exit,
}

impl Target {
    /// The block, if it is one.
    pub fn block(self) -> Option<BlockId> {
        match self {
            Self::Block(id) => Some(id),
            Self::Return | Self::Exit => None,
        }
    }
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Goes to the target.
    Jump(Target),
    /// Two ways.
    Branch {
        /// The condition.
        guard: Guard,
        /// Where it holds.
        taken: Target,
        /// Where it does not.
        other: Target,
    },
    /// `brx.idx`: an index outside of the table is undefined in PTX and faults here.
    Table {
        /// 32-bit index.
        index: Operand,
        /// The table.
        targets: Vec<Target>,
    },
    /// Calls [`Function::calls`]`[site]`, then goes on at `next`.
    Call {
        /// Index of the call site.
        site: u32,
        /// Where execution goes on.
        next: BlockId,
    },
    /// Arrives at a barrier of the block and, unless it only arrives, waits there.
    Barrier {
        /// What happens there.
        op: BarrierOp,
        /// Number of the barrier, 0 to 15.
        barrier: Operand,
        /// Threads expected; 0 is the whole block.
        count: Operand,
        /// The predicate of the reductions.
        predicate: Option<Operand>,
        /// The predicate is inverted before it is reduced.
        negated: bool,
        /// The result of the reductions.
        dst: Option<Reg>,
        /// Where execution goes on.
        next: BlockId,
    },
    /// Lets other warps run.
    Pause {
        /// Where execution goes on.
        next: BlockId,
    },
}

impl Term {
    /// Targets, in order.
    pub fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        let (few, table) = match self {
            Self::Jump(t) => ([Some(*t), None], &[][..]),
            Self::Branch { taken, other, .. } => ([Some(*taken), Some(*other)], &[][..]),
            Self::Table { targets, .. } => ([None; 2], &targets[..]),
            Self::Call { next, .. } | Self::Barrier { next, .. } | Self::Pause { next } => {
                ([Some(Target::Block(*next)), None], &[][..])
            }
        };
        few.into_iter().flatten().chain(table.iter().copied())
    }

    /// Blocks it can go to.
    pub fn successors(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.targets().filter_map(Target::block)
    }

    /// Applies `f` to every target. What comes back, as a call does, comes back to a block: it keeps
    /// its own where `f` leads to none.
    pub fn map_targets(&mut self, mut f: impl FnMut(Target) -> Target) {
        let block = |next: &mut BlockId, f: &mut dyn FnMut(Target) -> Target| {
            if let Target::Block(id) = f(Target::Block(*next)) {
                *next = id;
            }
        };
        match self {
            Self::Jump(t) => *t = f(*t),
            Self::Branch { taken, other, .. } => {
                *taken = f(*taken);
                *other = f(*other);
            }
            Self::Table { targets, .. } => targets.iter_mut().for_each(|t| *t = f(*t)),
            Self::Call { next, .. } | Self::Barrier { next, .. } | Self::Pause { next } => {
                block(next, &mut f);
            }
        }
    }

    /// Registers read.
    pub fn uses(&self) -> impl Iterator<Item = Reg> + use<> {
        let of = |operand: &Operand| match operand {
            Operand::Reg(r) => Some(*r),
            _ => None,
        };
        let registers = match self {
            Self::Branch { guard, .. } => [Some(guard.reg), None, None],
            Self::Table { index, .. } => [of(index), None, None],
            Self::Barrier { barrier, count, predicate, .. } => {
                [of(barrier), of(count), predicate.as_ref().and_then(of)]
            }
            Self::Jump(_) | Self::Call { .. } | Self::Pause { .. } => [None; 3],
        };
        registers.into_iter().flatten()
    }

    /// The register written, if any.
    pub fn def(&self) -> Option<Reg> {
        match self {
            Self::Barrier { dst, .. } => *dst,
            _ => None,
        }
    }
}

/// Instructions that run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The instructions.
    pub insts: Vec<Inst>,
    /// The end.
    pub term: Term,
    /// Line of the terminator.
    pub line: u32,
}

impl Inst {
    /// Registers read, the guard's included. A guarded definition also keeps the old value.
    pub fn uses(&self) -> impl Iterator<Item = Reg> + '_ {
        let sources = self.src.iter().filter_map(|s| match s {
            Operand::Reg(r) => Some(*r),
            _ => None,
        });
        sources.chain(self.guard.map(|g| g.reg))
    }
}

/// A variable in local memory: `.local`, or a `.param` of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Bytes.
    pub bytes: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// What a call calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A function by its number in the module.
    Direct(u32),
    /// By the address that the register holds.
    Indirect(Reg),
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSite {
    /// Whom.
    pub callee: Callee,
    /// Slots that hold the arguments.
    pub args: Vec<SlotId>,
    /// Slots that receive the results.
    pub results: Vec<SlotId>,
}

/// A kernel or a device function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Class of each register.
    pub regs: Vec<Class>,
    /// Variables in local memory.
    pub slots: Vec<Slot>,
    /// Slots of the formal parameters (functions only).
    pub params: Vec<SlotId>,
    /// Slots of the results (functions only).
    pub results: Vec<SlotId>,
    /// Blocks; the first is the entry.
    pub blocks: Vec<Block>,
    /// Call sites.
    pub calls: Vec<CallSite>,
    /// Texts of unsupported instructions.
    pub texts: Vec<String>,
}

impl Function {
    /// A new register.
    pub fn new_reg(&mut self, class: Class) -> Reg {
        self.regs.push(class);
        Reg(self.regs.len() as u32 - 1)
    }

    /// A new slot.
    pub fn new_slot(&mut self, bytes: u32, align: u32) -> SlotId {
        self.slots.push(Slot { bytes, align });
        SlotId(self.slots.len() as u32 - 1)
    }

    /// Successors of each block, by index.
    pub fn successors(&self) -> Vec<Vec<usize>> {
        let of = |block: &Block| block.term.successors().map(BlockId::index).collect();
        self.blocks.iter().map(of).collect()
    }

    /// Predecessors of each block.
    pub fn predecessors(&self) -> Vec<Vec<BlockId>> {
        let mut predecessors = vec![Vec::new(); self.blocks.len()];
        for (index, block) in self.blocks.iter().enumerate() {
            for successor in block.term.successors() {
                let list: &mut Vec<BlockId> = &mut predecessors[successor.index()];
                // A block's ways to one other follow each other.
                if list.last() != Some(&BlockId(index as u32)) {
                    list.push(BlockId(index as u32));
                }
            }
        }
        predecessors
    }

    /// Instructions, terminators included.
    pub fn size(&self) -> usize {
        self.blocks.iter().map(|b| b.insts.len() + 1).sum()
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(r) => write!(f, "r{}", r.0),
            Self::Imm(v) if *v < 1 << 16 => write!(f, "{v}"),
            Self::Imm(v) => write!(f, "{v:#x}"),
            Self::Slot(s) => write!(f, "&slot{}", s.0),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(id) => write!(f, "b{}", id.0),
            Self::Return => f.write_str("return"),
            Self::Exit => f.write_str("exit"),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}r{}", if self.negated { "!" } else { "" }, self.reg.0)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks.iter().enumerate() {
            writeln!(f, "b{index}:")?;
            block.insts.iter().try_for_each(|inst| writeln!(f, "    {inst}"))?;
            write!(f, "    ")?;
            match &block.term {
                Term::Jump(target) => write!(f, "jump {target}")?,
                Term::Branch { guard, taken, other } => {
                    write!(f, "branch {guard} ? {taken} : {other}")?;
                }
                Term::Table { index, targets } => {
                    write!(f, "table {index} [")?;
                    for (i, target) in targets.iter().enumerate() {
                        write!(f, "{}{target}", if i > 0 { ", " } else { "" })?;
                    }
                    write!(f, "]")?;
                }
                Term::Call { site, next } => {
                    match self.calls[*site as usize].callee {
                        Callee::Direct(number) => write!(f, "call function {number}")?,
                        Callee::Indirect(reg) => write!(f, "call [r{}]", reg.0)?,
                    }
                    write!(f, " then b{}", next.0)?;
                }
                Term::Barrier { op, barrier, count, predicate, negated, dst, next } => {
                    if let Some(dst) = dst {
                        write!(f, "r{} = ", dst.0)?;
                    }
                    write!(f, "barrier {op:?} {barrier}, {count}")?;
                    if let Some(predicate) = predicate {
                        write!(f, ", {}{predicate}", if *negated { "!" } else { "" })?;
                    }
                    write!(f, " then b{}", next.0)?;
                }
                Term::Pause { next } => write!(f, "pause then b{}", next.0)?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(guard) = self.guard {
            write!(f, "{guard} ")?;
        }
        for (i, d) in self.dst.iter().enumerate() {
            write!(f, "{}r{}", if i > 0 { ", " } else { "" }, d.0)?;
        }
        if !self.dst.is_empty() {
            f.write_str(" = ")?;
        }
        write!(f, "{}", self.op)?;
        for (i, s) in self.src.iter().enumerate() {
            write!(f, "{} {s}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
