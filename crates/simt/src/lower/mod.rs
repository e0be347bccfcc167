//! Lowering: from the syntax tree to the SIMT IR, one function at a time.
//!
//! Each family of instructions has a file. A rule returns `None` when it does not know the form
//! in front of it; the instruction then becomes one that faults with its own text when, and only
//! when, it is reached. What is lowered here is already resolved and parsed; nothing here reports
//! syntax errors.

pub(super) mod alloca;
mod async_copy;
mod clmad;
mod cluster;
mod control;
mod convert;
mod cvt_fp8;
mod cvt_scaled;
mod cvt_stochastic;
mod float;
mod fragment;
mod integer;
mod ldmatrix_b8;
mod matrix;
mod memory;
mod mma_block_scale;
mod mma_m8n8k4;
mod mov_setp_selp;
mod packed_integer;
mod sparse;
mod tensor_map;
mod texture;
mod video;
mod warp_collectives;
mod wgmma;

use super::ir::{Block, BlockId, Function, Guard, Inst, Operand, Reg, SlotId, Target, Term};
use crate::ir::op::{Class, Compare, CompareType, IntType, Op, Special, Width};
use crate::variable_layout::KernelLayout;
use ptx::ast::{self, ScalarType, StateSpace, Statement, TypeKind};
use std::collections::HashMap;

/// What the functions of one kernel share while they are lowered.
pub(super) struct Environment<'a> {
    /// The syntax tree.
    pub(super) module: &'a ast::Module,
    /// Where the module's and the kernel's variables are.
    pub(super) layout: &'a KernelLayout<'a>,
    /// The kernel takes memory from a stack.
    pub(super) stack: bool,
    /// Asynchronous copies are accounted for (checks).
    pub(super) copy_notes: bool,
}

/// Where a name declared in the function lives.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A constant address in the space.
    At(StateSpace, u64),
    /// The function's frame.
    Slot(SlotId),
    /// No place: an opaque or unsupported variable.
    Nowhere,
}

/// A function on its way.
struct Lowering<'a> {
    env: &'a Environment<'a>,
    ast: &'a ast::Function,
    /// Line numbers by the instructions' order.
    line: u32,
    f: Function,
    /// Registers of the AST, a run of elements each.
    regs: Vec<Vec<Reg>>,
    /// Registers from here on are temporaries of ours.
    first_temporary: u32,
    places: Vec<Place>,
    labels: HashMap<ast::LabelId, BlockId>,
    /// Instructions of the block being built.
    insts: Vec<Inst>,
    /// The block being built.
    current: BlockId,
    guard: Option<Guard>,
    /// The carry flag and its opposite.
    carry: Option<[Reg; 2]>,
}

/// Lowers a function that has a body.
pub(super) fn lower(env: &Environment<'_>, id: ast::FunctionId) -> Function {
    let ast = env.module.function(id);
    let mut l = Lowering {
        env,
        ast,
        line: 0,
        f: Function { name: env.module.name(ast.name).to_owned(), ..Function::default() },
        regs: Vec::new(),
        first_temporary: 0,
        places: Vec::new(),
        labels: HashMap::new(),
        insts: Vec::new(),
        current: BlockId(0),
        guard: None,
        carry: None,
    };
    l.declare(id);
    l.body();
    l.f
}

/// The class of a register of that type.
pub(super) fn class_of(ty: ScalarType) -> Class {
    match ty.kind() {
        TypeKind::Predicate => Class::Pred,
        _ => Class::Lane(Width::for_bits(ty.bits())),
    }
}

/// The arithmetic type; plain bits count as unsigned. 8-bit types have none.
fn int_type(ty: ScalarType) -> Option<IntType> {
    use ScalarType as T;
    Some(match ty {
        T::U16 | T::B16 => IntType::U16,
        T::S16 => IntType::S16,
        T::U32 | T::B32 => IntType::U32,
        T::S32 => IntType::S32,
        T::U64 | T::B64 => IntType::U64,
        T::S64 => IntType::S64,
        _ => return None,
    })
}

impl Lowering<'_> {
    fn declare(&mut self, id: ast::FunctionId) {
        for register in &self.ast.registers {
            let class = class_of(register.ty);
            let run = (0..register.vector.max(1)).map(|_| self.f.new_reg(class)).collect();
            self.regs.push(run);
        }
        self.first_temporary = self.f.regs.len() as u32;
        self.new_block();
        let entry = self.ast.kind == ast::FunctionKind::Entry;
        if entry && self.env.stack {
            self.make_stack();
        }
        let mut params = HashMap::new();
        if entry && let Some(layout) = self.ast.parameter_layout() {
            params.extend(layout.params.iter().map(|slot| (slot.local, slot.offset_bytes)));
        }
        for (index, variable) in self.ast.locals.iter().enumerate() {
            let local = self.ast.params.iter().chain(&self.ast.returns).find_map(|p| match p {
                ast::Parameter::Memory(local) if local.index() == index => Some(*local),
                _ => None,
            });
            let bytes = u32::try_from(variable.size_bytes().unwrap_or(0)).unwrap_or(0);
            let place = match variable.space.root() {
                StateSpace::Param => match local.and_then(|local| params.get(&local)) {
                    Some(&offset) => Place::At(StateSpace::Param, offset),
                    None => Place::Slot(self.f.new_slot(bytes, variable.align_bytes() as u32)),
                },
                StateSpace::Local => {
                    Place::Slot(self.f.new_slot(bytes, variable.align_bytes() as u32))
                }
                space => match self.env.layout.function_variable(id, index) {
                    Some(address) => Place::At(space, address),
                    None => Place::Nowhere,
                },
            };
            self.places.push(place);
        }
        for param in if entry { &[][..] } else { &self.ast.params } {
            let slot = self.formal(*param);
            self.f.params.push(slot);
            if let ast::Parameter::Register(register) = param {
                self.load_slot(self.regs[register.index()][0], slot);
            }
        }
        for result in &self.ast.returns {
            let slot = self.formal(*result);
            self.f.results.push(slot);
        }
    }

    fn formal(&mut self, param: ast::Parameter) -> SlotId {
        match param {
            ast::Parameter::Memory(local) => match self.places[local.index()] {
                Place::Slot(slot) => slot,
                _ => self.f.new_slot(8, 8),
            },
            ast::Parameter::Register(register) => {
                let class = class_of(self.ast.register(register).ty);
                let bytes = class.width().map_or(4, Width::bytes);
                self.f.new_slot(bytes, bytes)
            }
        }
    }

    fn body(&mut self) {
        let Some(body) = &self.ast.body else { return };
        for statement in body {
            match statement {
                Statement::Label(label) => {
                    if matches!(self.ast.label(*label).kind, ast::LabelKind::Code(_)) {
                        let block = self.block_of(*label);
                        self.finish(Term::Jump(Target::Block(block)), block);
                    }
                }
                Statement::Instruction(inst) => self.instruction(inst),
                _ => {}
            }
        }
        // Falling off the end is a return, as ptxas has it.
        self.store_results();
        let block = self.new_block();
        self.finish(Term::Jump(Target::Return), block);
        self.f.blocks.truncate(self.f.blocks.len().max(1));
    }

    fn instruction(&mut self, inst: &ast::Instruction) {
        self.line = self.env.module.position(inst.span).line;
        self.guard =
            inst.guard.map(|g| Guard { reg: self.regs[g.register.index()][0], negated: g.negated });
        // Two predicates are written one after the other: the guard must outlive the first.
        if let (Some(guard), Some(g), Some(ast::Operand::Pair(pair))) =
            (&mut self.guard, inst.guard, inst.operands.first())
            && [&pair.0, &pair.1].contains(&&ast::Operand::Register(g.register))
        {
            let copy = self.f.new_reg(Class::Pred);
            let (op, src) = (Op::PredMov, vec![guard.reg.into()]);
            guard.reg = copy;
            self.insts.push(Inst { op, guard: None, dst: vec![copy], src, line: self.line });
        }
        if self.dispatch(inst).is_none() {
            let text = self.f.texts.len() as u32;
            self.f.texts.push(self.env.module.text_line(inst.span));
            self.effect(Op::Unsupported(text), vec![]);
        }
        self.guard = None;
    }

    fn dispatch(&mut self, inst: &ast::Instruction) -> Option<()> {
        self.control(inst)
            .or_else(|| self.moves(inst))
            .or_else(|| self.memory(inst))
            .or_else(|| self.stack(inst))
            .or_else(|| self.cluster(inst))
            .or_else(|| self.narrow(inst))
            .or_else(|| self.convert(inst))
            .or_else(|| self.float(inst))
            .or_else(|| self.packed(inst))
            .or_else(|| self.carryless(inst))
            .or_else(|| self.integer(inst))
            .or_else(|| self.warp(inst))
            .or_else(|| self.matrix(inst))
            .or_else(|| self.async_copy(inst))
            .or_else(|| self.texture(inst))
            .or_else(|| self.video(inst))
    }

    // Blocks.

    /// Reserves a block; it is empty until it becomes current.
    fn new_block(&mut self) -> BlockId {
        let line = self.line;
        self.f.blocks.push(Block { insts: vec![], term: Term::Jump(Target::Exit), line });
        BlockId(self.f.blocks.len() as u32 - 1)
    }

    /// Ends the current block and goes on with `next`.
    fn finish(&mut self, term: Term, next: BlockId) {
        let line = self.line;
        let insts = std::mem::take(&mut self.insts);
        self.f.blocks[self.current.index()] = Block { insts, term, line };
        self.current = next;
    }

    fn block_of(&mut self, label: ast::LabelId) -> BlockId {
        if let Some(&block) = self.labels.get(&label) {
            return block;
        }
        let block = self.new_block();
        self.labels.insert(label, block);
        block
    }

    /// Starts a new block here, unless this one is empty.
    fn split(&mut self) {
        if !self.insts.is_empty() {
            let next = self.new_block();
            self.finish(Term::Jump(Target::Block(next)), next);
        }
    }

    /// Ends the block with a terminator that only runs where the guard holds; `make` gets the
    /// block to go on at.
    fn guarded_term(&mut self, make: impl FnOnce(BlockId) -> Term) {
        let next = match self.guard.take() {
            Some(guard) => {
                let body = self.new_block();
                let next = self.new_block();
                let (taken, other) = (Target::Block(body), Target::Block(next));
                self.finish(Term::Branch { guard, taken, other }, body);
                next
            }
            None => self.new_block(),
        };
        self.finish(make(next), next);
    }

    // Instructions.

    fn temporary(&mut self, class: Class) -> Reg {
        self.f.new_reg(class)
    }

    fn temp(&mut self, width: Width) -> Reg {
        self.f.new_reg(Class::Lane(width))
    }

    /// Appends an instruction. The guard applies unless all that it changes are temporaries.
    fn emit(&mut self, op: Op, dst: Vec<Reg>, src: Vec<Operand>) {
        let private = !dst.is_empty() && dst.iter().all(|r| r.0 >= self.first_temporary);
        let guard = if private && !op.has_effect() { None } else { self.guard };
        // Behind an instruction that all lanes of the warp run together they still are.
        let together = op.is_aligned()
            && self.insts.first().is_some_and(|i| i.op.is_aligned() && i.guard.is_none());
        if op.is_sync() && !together {
            self.split();
        }
        self.insts.push(Inst { op, guard, dst, src, line: self.line });
    }

    fn effect(&mut self, op: Op, src: Vec<Operand>) {
        self.emit(op, vec![], src);
    }

    /// Emits an operation with one result into a temporary.
    fn value(&mut self, op: Op, width: Width, src: Vec<Operand>) -> Operand {
        let d = self.temp(width);
        self.emit(op, vec![d], src);
        Operand::Reg(d)
    }

    // Operands.

    fn reg_class(&self, reg: Reg) -> Class {
        self.f.regs[reg.index()]
    }

    fn register(&self, id: ast::RegisterId) -> Option<Reg> {
        match self.regs[id.index()][..] {
            [reg] => Some(reg),
            _ => None,
        }
    }

    /// A source of `ty`, in a register of the type's width or a constant.
    fn source(&mut self, operand: &ast::Operand, ty: ScalarType) -> Option<Operand> {
        let raw = self.raw_source(operand, ty)?;
        let want = class_of(ty).width()?;
        Some(self.fit(raw, want))
    }

    /// Makes a source as wide as `want`: wider registers are cut, narrower zero-extended.
    fn fit(&mut self, operand: Operand, want: Width) -> Operand {
        let Operand::Reg(reg) = operand else { return operand };
        let Some(have) = self.reg_class(reg).width() else { return operand };
        if have == want {
            return operand;
        }
        let bits = have.bits().min(want.bits()) as u8;
        self.value(Op::Extend { from: have, bits, signed: false, to: want }, want, vec![operand])
    }

    /// A source as it is written, in any register.
    fn raw_source(&mut self, operand: &ast::Operand, ty: ScalarType) -> Option<Operand> {
        Some(match operand {
            ast::Operand::Register(id) => Operand::Reg(self.register(*id)?),
            ast::Operand::Component(id, part) => {
                Operand::Reg(*self.regs[id.index()].get(part.index()?)?)
            }
            ast::Operand::Immediate(value) => Operand::Imm(value.bits_as(ty)?),
            ast::Operand::Special(special, part) => {
                return self.special(*special, *part, class_of(ty).width()?);
            }
            ast::Operand::Symbol(symbol, offset) => {
                match (self.symbol_address(*symbol, *offset)?, ty.bits()) {
                    // The low half of an address, if a program asks for it.
                    (Operand::Imm(address), 16) => Operand::Imm(address & 0xffff),
                    (address, _) => address,
                }
            }
            _ => return None,
        })
    }

    /// A predicate source; `!p` is computed.
    fn predicate(&mut self, operand: &ast::Operand) -> Option<Operand> {
        match operand {
            ast::Operand::Register(id) => {
                let reg = self.register(*id)?;
                (self.reg_class(reg) == Class::Pred).then_some(Operand::Reg(reg))
            }
            ast::Operand::Not(id) => {
                let reg = self.register(*id)?;
                let d = self.temporary(Class::Pred);
                self.emit(Op::PredNot, vec![d], vec![Operand::Reg(reg)]);
                Some(Operand::Reg(d))
            }
            ast::Operand::Immediate(value) => Some(Operand::Imm(u64::from(value.as_i64()? != 0))),
            ast::Operand::Special(ast::SpecialRegister::IsExplicitCluster, None) => {
                let read = Op::Special(Special::ExplicitCluster);
                let value = self.value(read, Width::W32, vec![]);
                let d = self.temporary(Class::Pred);
                let some = Op::Setp(Compare::Ne, CompareType::Int(IntType::U32));
                self.emit(some, vec![d], vec![value, Operand::Imm(0)]);
                Some(Operand::Reg(d))
            }
            _ => None,
        }
    }

    fn dest_reg(&mut self, operand: &ast::Operand) -> Option<Option<Reg>> {
        Some(match operand {
            ast::Operand::Register(id) => Some(self.register(*id)?),
            ast::Operand::Component(id, part) => Some(*self.regs[id.index()].get(part.index()?)?),
            ast::Operand::Sink => None,
            _ => return None,
        })
    }

    /// Emits `op` with its result in `operand`, whose register may be wider or narrower than
    /// `width`: the result is then extended (by `signed`) or cut.
    fn emit_to(
        &mut self,
        op: Op,
        operand: &ast::Operand,
        width: Width,
        signed: bool,
        src: Vec<Operand>,
    ) -> Option<()> {
        match self.dest_reg(operand)? {
            Some(reg) if self.reg_class(reg) == Class::Lane(width) => {
                self.emit(op, vec![reg], src);
            }
            Some(reg) => {
                let to = self.reg_class(reg).width()?;
                let value = self.value(op, width, src);
                let bits = width.bits().min(to.bits()) as u8;
                self.emit(Op::Extend { from: width, bits, signed, to }, vec![reg], vec![value]);
            }
            None => {
                self.value(op, width, src);
            }
        }
        Some(())
    }

    /// A predicate destination; `_` is a temporary.
    fn predicate_dest(&mut self, operand: &ast::Operand) -> Option<Reg> {
        match self.dest_reg(operand)? {
            Some(reg) => (self.reg_class(reg) == Class::Pred).then_some(reg),
            None => Some(self.temporary(Class::Pred)),
        }
    }
}
