//! The vector IR: what one warp does, 32 lanes at a time, under a mask.
//!
//! It is the contract between the front half (PTX to here) and the tiers. Against the SIMT IR:
//!
//! - Each register has a home: a *vector* (a value a lane), a *scalar* (one value that is right
//!   for every lane that can read it), an *affine* scalar (lane 0's value; lane `i` has that plus
//!   `i` times a constant), two of these for the *halves* of a warp, or a *mask* (a predicate, one
//!   bit a lane). A scalar whose value vector instructions need as well has a copy in all lanes
//!   ([`Dest::splat`]); where they need an affine one or halves, a `mov` from [`Source::Affine`] or
//!   [`Source::HalfAffine`] to a vector register follows its definition.
//! - A result says whether lanes that do not run the instruction must keep their value
//!   ([`Dest::keep`]); where no lane can look, a tier need not blend.
//! - Blocks are in the order in which they run. A warp always runs its lowest pending block,
//!   with all lanes that wait there ([`Mode::Lockstep`]); under that rule the lanes that diverged
//!   at a branch meet again at its post-dominator.
//! - A tier that must break that rule, so that lanes that spin do not starve those they wait for,
//!   first moves the warp to the same function in [`Mode::Independent`]: same blocks, same
//!   registers, but every register a vector or a mask and every result kept. A warp is moved as
//!   well when a check of a block that it is about to run fails ([`VectorBlock::checks`]). Lane
//!   `i`'s value of a register is then its scalar, plus `i` strides if it is affine.
//!
//! What tiers may rely on:
//!
//! - Affine arithmetic is ordinary arithmetic: an instruction with [`VectorInst::uniform`] set is
//!   computed once, from and to scalars, and need not know whether these are affine. It is right
//!   for lane 0 even where lane 0 does not run (it may have ended, or the warp may lack it).
//!   Half-affine values are two scalar registers and their arithmetic is two such instructions; the upper one
//!   follows the lower one, or an addition makes it of an affine register.
//! - [`Source::Affine`] and [`Source::HalfAffine`] appear in three places only: as the address of a
//!   load, store or atomic outside of local memory, as operands of an integer `Op::Setp` that is
//!   not uniform (all of them are such or constant then; a stride of 0 is a plain scalar, and two
//!   equal halves are one scalar), and as the source of a `mov` to a vector. Strides of the first
//!   two are small: [`ADDRESS_STRIDE_BITS`], [`COMPARED_STRIDE_BITS`].
//! - Registers beyond those of the SIMT IR (upper halves, and the vectors that such `mov`s fill)
//!   exist in [`Mode::Lockstep`] only and are in no `live_in`: see [`VectorFunction::companions`].
//!
//! Deliberately absent: frames of registers, machine types, everything that only one tier needs.

use crate::ir::address::{AddressShape, BlockAddresses};
use crate::ir::op::{BarrierOp, Class, FloatOp, FloatType, Op};
use crate::ir::{Callee, Guard, Reg, Target};
use crate::kernel::KernelInfo;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Which rule a function's code relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The lowest pending block runs first, always.
    Lockstep,
    /// Any pending block may run at any time.
    Independent,
}

/// Where a register lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageClass {
    /// One bit a lane.
    Mask,
    /// A value a lane.
    Vector,
    /// One value.
    Scalar,
    /// One value, and a copy of it in every lane.
    ScalarAndVector,
    /// Lane 0's value; lane `i` has that plus `i` strides, modulo the register's width. Never in
    /// [`Mode::Independent`].
    Affine {
        /// Not 0.
        stride: i64,
    },
    /// Lane 0's value; lane `i` below 16 has that plus `i` strides, lane `16 + i` has what `high`
    /// holds plus `i` strides, modulo the register's width. Never in [`Mode::Independent`].
    HalfAffine {
        /// Lane 16's value, a [`StorageClass::Scalar`] that only this register uses.
        high: Reg,
        /// May be 0.
        stride: i64,
    },
    /// Nothing reads or writes it.
    None,
}

/// A source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The register's value a lane (or its copies).
    Vector(Reg),
    /// The register's one value: lane 0's, if it is affine.
    Scalar(Reg),
    /// Lane `i` has the register's one value plus `i` times this, modulo the register's width.
    Affine(Reg, i64),
    /// Lane `i` below 16 has the first register's one value plus `i` times this, lane `16 + i`
    /// the second's plus `i` times this, modulo the register's width.
    HalfAffine(Reg, Reg, i64),
    /// A predicate.
    Mask(Reg),
    /// A constant for all lanes.
    Imm(u64),
}

impl Source {
    /// The registers it reads.
    pub fn registers(self) -> impl Iterator<Item = Reg> {
        let (first, second) = match self {
            Self::Vector(r) | Self::Scalar(r) | Self::Affine(r, _) | Self::Mask(r) => {
                (Some(r), None)
            }
            Self::HalfAffine(low, high, _) => (Some(low), Some(high)),
            Self::Imm(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dest {
    /// The register.
    pub reg: Reg,
    /// Copies the scalar result to all lanes as well.
    pub splat: bool,
    /// Lanes that do not run this keep the old value.
    pub keep: bool,
}

/// One instruction.
#[derive(Clone, Debug, Hash)]
pub struct VectorInst {
    /// What it does.
    pub op: Op,
    /// Runs only where this holds.
    pub guard: Option<Guard>,
    /// Computed once for all lanes: results are scalars (affine ones too), masks of all or none,
    /// or, for loads, vectors that get the one value in every lane.
    pub uniform: bool,
    /// Results.
    pub dst: Vec<Dest>,
    /// Sources.
    pub src: Vec<Source>,
    /// Line of the PTX.
    pub line: u32,
}

/// How a block ends; blocks are numbered in the order of [`VectorFunction::blocks`].
#[derive(Clone, Debug, Hash)]
pub enum VectorTerm {
    /// Goes to the target.
    Jump(Target),
    /// Two ways.
    Branch {
        /// The condition.
        guard: Guard,
        /// All lanes agree.
        uniform: bool,
        /// Where it holds.
        taken: Target,
        /// Where it does not.
        other: Target,
    },
    /// As in the SIMT IR.
    Table {
        /// 32-bit index.
        index: Source,
        /// The table.
        targets: Vec<Target>,
    },
    /// As in the SIMT IR.
    Call {
        /// Index into [`VectorFunction::calls`].
        site: u32,
        /// Block to go on at.
        next: u32,
    },
    /// As in the SIMT IR.
    Barrier {
        /// What happens there.
        op: BarrierOp,
        /// Number of the barrier.
        barrier: Source,
        /// Threads expected; 0 is the whole block.
        count: Source,
        /// Predicate of the reductions.
        predicate: Option<Source>,
        /// It is inverted first.
        negated: bool,
        /// Result of the reductions.
        dst: Option<Dest>,
        /// Block to go on at.
        next: u32,
    },
    /// Lets other warps run.
    Pause {
        /// Block to go on at.
        next: u32,
    },
}

/// A 32-bit register that must not wrap: its one value plus `i` strides, computed without limit,
/// is a 32-bit number of that signedness for every lane `i` up to `last` that runs. A tier may ask
/// it of all lanes up to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoWrap {
    /// The register.
    pub reg: Reg,
    /// Its stride.
    pub stride: i64,
    /// 31, or 15 for one half of a warp.
    pub last: u32,
    /// As a signed number.
    pub signed: bool,
}

/// Instructions that run one after the other under one mask.
#[derive(Clone, Debug, Hash)]
pub struct VectorBlock {
    /// To be made before anything else, each time: if one fails, the warp goes on from the start
    /// of this block in the form for [`Mode::Independent`]. Always empty there.
    pub checks: Vec<NoWrap>,
    /// The instructions.
    pub insts: Vec<VectorInst>,
    /// What is known of their addresses.
    pub addresses: BlockAddresses,
    /// The end.
    pub term: VectorTerm,
    /// Line of the terminator.
    pub line: u32,
    /// All live lanes run it together (in [`Mode::Lockstep`]).
    pub convergent: bool,
    /// A back-edge from here closes a loop that may wait for other threads: it touches memory
    /// that they can change.
    pub spins: bool,
    /// Registers that are live when a lane stands at the start of this block.
    pub live_in: Vec<Reg>,
}

/// A call that was not inlined. Offsets are bytes in the frames of caller and callee.
#[derive(Clone, Debug, Hash)]
pub struct VectorCall {
    /// Whom: the number of a function of the module, or its address.
    pub callee: Callee,
    /// Caller's offset and size of each argument.
    pub args: Vec<(u32, u32)>,
    /// Caller's offset and size of each result.
    pub results: Vec<(u32, u32)>,
}

/// A kernel or device function.
#[derive(Clone, Debug, Hash)]
pub struct VectorFunction {
    /// Its name.
    pub name: String,
    /// Which rule its code relies on.
    pub mode: Mode,
    /// Class of each register.
    pub classes: Vec<Class>,
    /// Storage class of each register.
    pub storage: Vec<StorageClass>,
    /// Registers that hold something of another one, and that one: written where it is written, in
    /// no `live_in`, and live where it is.
    pub companions: Vec<(Reg, Reg)>,
    /// What is the same for all threads of a block of the grid, computed from nothing but the
    /// launch and the block's index. To run before the first block; once for all warps that have
    /// these registers in common.
    pub prologue: Vec<VectorInst>,
    /// Blocks in the order in which they run.
    pub blocks: Vec<VectorBlock>,
    /// Call sites.
    pub calls: Vec<VectorCall>,
    /// Texts of unsupported instructions.
    pub texts: Vec<String>,
    /// Frame offset and size of each parameter.
    pub params: Vec<(u32, u32)>,
    /// Frame offset and size of each result.
    pub results: Vec<(u32, u32)>,
    /// Bytes of local memory, parameters and results included.
    pub frame_bytes: u32,
}

/// A kernel with all that it can call.
#[derive(Clone, Debug)]
pub struct VectorKernel {
    /// What it needs and is.
    pub info: KernelInfo,
    /// The kernel itself.
    pub entry: VectorFunction,
    /// The kernel, ready for any order.
    pub entry_independent: VectorFunction,
    /// Callees, in [`Mode::Independent`], by their number in the module.
    pub functions: HashMap<u32, VectorFunction>,
    /// Where the module's constant banks lie.
    pub const_ranges: Vec<(u64, u64)>,
    /// The device heap, if the module allocates.
    pub heap: Option<Arc<crate::runtime::heap::DeviceHeap>>,
}

impl VectorFunction {
    /// Takes estimates of the processor's where `rsqrt.approx` is a root and a quotient: faster with
    /// AVX-512, slower without. Which of the two a kernel has decides its results' last bits.
    #[must_use]
    pub fn by_estimates(mut self) -> Self {
        let blocks = self.blocks.iter_mut().flat_map(|b| &mut b.insts);
        for inst in self.prologue.iter_mut().chain(blocks) {
            if let Op::Float(op @ FloatOp::RsqrtApprox, FloatType::F32, _) = &mut inst.op {
                *op = FloatOp::RsqrtEstimate;
            }
        }
        self
    }
}

impl VectorKernel {
    /// As [`VectorFunction::by_estimates`], of all its functions.
    #[must_use]
    pub fn by_estimates(self) -> Self {
        let functions = self.functions.into_iter().map(|(n, f)| (n, f.by_estimates())).collect();
        Self {
            entry: self.entry.by_estimates(),
            entry_independent: self.entry_independent.by_estimates(),
            functions,
            ..self
        }
    }
}

/// Bits of the signed strides between addresses in [`Source::Affine`].
pub const ADDRESS_STRIDE_BITS: u32 = 16;
/// Bits of the signed strides of comparisons in [`Source::Affine`].
pub const COMPARED_STRIDE_BITS: u32 = 32;

/// Base of the addresses that stand for functions: function `n` of a module is at
/// `FUNCTION_BASE + 16 n`. Not canonical, so never an address of memory.
pub const FUNCTION_BASE: u64 = 0x0200_0000_0000_0000;
/// Generic addresses of shared memory start here, [`CLUSTER_WINDOW_BYTES`] of them; not canonical.
/// The first [`WINDOW_BYTES`] are the block's own; those of the block with rank `r` of the cluster
/// are `r + 1` times as many further.
pub const SHARED_WINDOW: u64 = 0x0100_0000_0000_0000;
/// Generic addresses of the thread's local memory start here; not canonical.
pub const LOCAL_WINDOW: u64 = SHARED_WINDOW + CLUSTER_WINDOW_BYTES;
/// Generic addresses of the parameter buffer start here; not canonical.
pub const PARAM_WINDOW: u64 = LOCAL_WINDOW + WINDOW_BYTES;
/// Behind the last window.
pub const WINDOWS_END: u64 = PARAM_WINDOW + WINDOW_BYTES;
/// Bits of an address in a window.
pub const WINDOW_BITS: u32 = 24;
/// Bytes a window spans: more than any SM has shared, any thread local memory.
pub const WINDOW_BYTES: u64 = 1 << WINDOW_BITS;
/// Bytes of the windows of all blocks of a cluster: all that 32 bits can distinguish.
pub const CLUSTER_WINDOW_BYTES: u64 = 1 << 32;

/// A way of running vector IR.
pub trait Tier: Send + Sync {
    /// Makes a kernel runnable.
    fn compile(&self, kernel: VectorKernel) -> Arc<dyn crate::kernel::Kernel>;

    /// Whether kernels shall say what becomes of their asynchronous copies: [`Op::CopyNote`].
    fn wants_copy_notes(&self) -> bool {
        false
    }
}

/// Stands in front of the shape of an instruction's addresses in the IR's text.
pub(crate) const SHAPE_MARK: &str = "  # ";

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(r) => write!(f, "v{}", r.0),
            Self::Scalar(r) => write!(f, "s{}", r.0),
            Self::Affine(r, stride) => write!(f, "s{}{stride:+}*lane", r.0),
            Self::HalfAffine(low, high, stride) => {
                write!(f, "s{}|s{}{stride:+}*lane", low.0, high.0)
            }
            Self::Mask(r) => write!(f, "m{}", r.0),
            Self::Imm(v) if *v < 1 << 16 => write!(f, "{v}"),
            Self::Imm(v) => write!(f, "{v:#x}"),
        }
    }
}

impl VectorFunction {
    fn write_dest(&self, f: &mut fmt::Formatter<'_>, dest: &Dest) -> fmt::Result {
        let letter = match self.storage[dest.reg.index()] {
            StorageClass::Mask => "m",
            StorageClass::Scalar
            | StorageClass::ScalarAndVector
            | StorageClass::Affine { .. }
            | StorageClass::HalfAffine { .. } => "s",
            StorageClass::Vector | StorageClass::None => "v",
        };
        write!(f, "{letter}{}", dest.reg.0)?;
        if dest.splat {
            write!(f, "/v{}", dest.reg.0)?;
        }
        if dest.keep { f.write_str(" keep") } else { Ok(()) }
    }

    fn write_inst(
        &self,
        f: &mut fmt::Formatter<'_>,
        inst: &VectorInst,
        shape: Option<&AddressShape>,
    ) -> fmt::Result {
        f.write_str("    ")?;
        if let Some(g) = inst.guard {
            write!(f, "@{}m{} ", if g.negated { "!" } else { "" }, g.reg.0)?;
        }
        for (i, dest) in inst.dst.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            self.write_dest(f, dest)?;
        }
        f.write_str(if inst.dst.is_empty() { "" } else { " = " })?;
        write!(f, "{}{}", if inst.uniform { "uniform " } else { "" }, inst.op)?;
        for (i, source) in inst.src.iter().enumerate() {
            write!(f, "{} {source}", if i > 0 { "," } else { "" })?;
        }
        if let Some(shape) = shape {
            write!(f, "{SHAPE_MARK}{shape}")?;
        }
        writeln!(f)
    }

    fn write_term(&self, f: &mut fmt::Formatter<'_>, term: &VectorTerm) -> fmt::Result {
        f.write_str("    ")?;
        match term {
            VectorTerm::Jump(t) => writeln!(f, "jump {t}"),
            VectorTerm::Branch { guard, uniform, taken, other } => writeln!(
                f,
                "branch{} {}m{} ? {taken} : {other}",
                if *uniform { " uniform" } else { "" },
                if guard.negated { "!" } else { "" },
                guard.reg.0
            ),
            VectorTerm::Table { index, targets } => {
                write!(f, "table {index} [")?;
                for (i, t) in targets.iter().enumerate() {
                    write!(f, "{}{t}", if i > 0 { ", " } else { "" })?;
                }
                writeln!(f, "]")
            }
            VectorTerm::Call { site, next } => {
                let call = &self.calls[*site as usize];
                match call.callee {
                    Callee::Direct(n) => write!(f, "call function {n}")?,
                    Callee::Indirect(r) => write!(f, "call [v{}]", r.0)?,
                }
                writeln!(f, " args {:?} results {:?} then b{next}", call.args, call.results)
            }
            VectorTerm::Barrier { op, barrier, count, predicate, negated, dst, next } => {
                if let Some(dest) = dst {
                    self.write_dest(f, dest)?;
                    f.write_str(" = ")?;
                }
                write!(f, "barrier {op:?} {barrier}, {count}")?;
                if let Some(p) = predicate {
                    write!(f, ", {}{p}", if *negated { "!" } else { "" })?;
                }
                writeln!(f, " then b{next}")
            }
            VectorTerm::Pause { next } => writeln!(f, "pause then b{next}"),
        }
    }
}

impl fmt::Display for VectorFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Lockstep => "lockstep",
            Mode::Independent => "independent",
        };
        writeln!(f, "function {} ({mode}, frame {} bytes)", self.name, self.frame_bytes)?;
        if !self.prologue.is_empty() {
            writeln!(f, "prologue:")?;
        }
        self.prologue.iter().try_for_each(|inst| self.write_inst(f, inst, None))?;
        for (index, block) in self.blocks.iter().enumerate() {
            let convergent = if block.convergent { " convergent" } else { "" };
            let spins = if block.spins { " spins" } else { "" };
            writeln!(f, "b{index}:{convergent}{spins}")?;
            for check in &block.checks {
                let signed = if check.signed { "signed" } else { "unsigned" };
                let value = Source::Affine(check.reg, check.stride);
                writeln!(f, "    check {value} to {} {signed}", check.last)?;
            }
            for (index, inst) in block.insts.iter().enumerate() {
                self.write_inst(f, inst, block.addresses.shapes.get(&index))?;
            }
            self.write_term(f, &block.term)?;
        }
        Ok(())
    }
}

impl fmt::Display for VectorKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.entry)?;
        let mut numbers: Vec<_> = self.functions.keys().copied().collect();
        numbers.sort_unstable();
        numbers.iter().try_for_each(|n| write!(f, "\n# function {n}\n{}", self.functions[n]))
    }
}
