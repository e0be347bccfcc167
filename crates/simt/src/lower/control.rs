//! Branches, calls, returns, barriers and traps.

use super::{Lowering, Place, class_of};
use crate::ir::op::{Access, BarrierOp, Class, Op, Runtime, Space, Width};
use crate::ir::{CallSite, Callee, Operand, SlotId, Target, Term};
use crate::runtime::device_runtime::DEVICE_CALL;
use ptx::ast::{
    self, BoolOp, LabelKind, Modifier as M, Opcode, Operand as AstOperand, ScalarType as T,
    SymbolRef,
};

impl Lowering<'_> {
    pub(super) fn control(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Bra => {
                let [AstOperand::Label(label)] = inst.operands[..] else { return None };
                let target = Target::Block(self.block_of(label));
                self.jump(target);
                Some(())
            }
            Opcode::Brx => self.table(inst),
            Opcode::Ret => {
                self.results_then_return();
                Some(())
            }
            Opcode::Exit => {
                self.jump(Target::Exit);
                Some(())
            }
            Opcode::Call => self.call(inst),
            Opcode::Bar | Opcode::Barrier => self.barrier(inst),
            Opcode::Nanosleep => {
                self.guarded_term(|next| Term::Pause { next });
                Some(())
            }
            Opcode::Trap => {
                self.effect(Op::Trap, vec![]);
                Some(())
            }
            Opcode::Brkpt => {
                self.effect(Op::Breakpoint, vec![]);
                Some(())
            }
            // Registers are not dealt out here.
            Opcode::Setmaxnreg => Some(()),
            // Counts an event for a profiler that is not there.
            Opcode::Pmevent => Some(()),
            // Programmatic dependent launch: grids here start after those they depend on.
            Opcode::Griddepcontrol => Some(()),
            _ => None,
        }
    }

    /// Goes to `target` where the guard holds, on otherwise.
    fn jump(&mut self, target: Target) {
        let next = self.new_block();
        let term = match self.guard.take() {
            Some(guard) => Term::Branch { guard, taken: target, other: Target::Block(next) },
            None => Term::Jump(target),
        };
        self.finish(term, next);
    }

    fn results_then_return(&mut self) {
        let in_registers =
            self.ast.returns.iter().any(|r| matches!(r, ast::Parameter::Register(_)));
        if in_registers {
            self.store_results();
        }
        self.jump(Target::Return);
    }

    /// Copies results that the function has in registers to where the caller looks.
    pub(super) fn store_results(&mut self) {
        for (index, result) in self.ast.returns.iter().enumerate() {
            let (ast::Parameter::Register(register), Some(&slot)) =
                (result, self.f.results.get(index))
            else {
                continue;
            };
            let reg = self.regs[register.index()][0];
            if let Class::Lane(width) = self.reg_class(reg) {
                self.store_slot(slot, reg.into(), width);
            }
        }
    }

    fn table(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [index, AstOperand::Label(label)] = &inst.operands[..] else { return None };
        let LabelKind::BranchTargets(labels) = &self.ast.label(*label).kind else { return None };
        let index = self.source(index, T::U32)?;
        let targets: Vec<Target> =
            labels.iter().map(|l| Target::Block(self.block_of(*l))).collect();
        self.guarded_term(|_| Term::Table { index, targets });
        Some(())
    }

    /// Types of a callee's parameters, as far as the text says them.
    fn formal_types(&self, call: &ast::Call<'_>) -> Vec<T> {
        let prototype = call.prototype.map(|label| &self.ast.label(label).kind);
        match (call.callee, prototype) {
            (ast::Callee::Direct(id), _) => {
                let function = self.env.module.function(self.env.module.resolve_alias(id));
                let ty = |parameter: &ast::Parameter| match *parameter {
                    ast::Parameter::Register(register) => function.register(register).ty,
                    ast::Parameter::Memory(local) => function.local(local).ty,
                };
                function.params.iter().map(ty).collect()
            }
            (_, Some(LabelKind::Prototype(prototype))) => {
                prototype.params.iter().map(|parameter| parameter.ty).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where an argument is passed. An immediate has no type but the parameter's.
    fn argument(&mut self, operand: &AstOperand, formal: Option<T>) -> Option<SlotId> {
        if let AstOperand::Symbol(SymbolRef::Local(id), 0) = operand {
            return match self.places[id.index()] {
                Place::Slot(slot) => Some(slot),
                _ => None,
            };
        }
        let (value, width) = match (operand, formal) {
            (AstOperand::Immediate(value), Some(ty)) => {
                (Operand::Imm(value.bits_as(ty)?), class_of(ty).width()?)
            }
            _ => self.passed(operand)?,
        };
        let slot = self.f.new_slot(width.bytes(), width.bytes());
        self.store_slot(slot, value, width);
        Some(slot)
    }

    fn call(&mut self, inst: &ast::Instruction) -> Option<()> {
        let call = inst.call()?;
        let formals = self.formal_types(&call);
        let types = formals.into_iter().map(Some).chain(std::iter::repeat(None));
        let args = call.arguments.iter().zip(types);
        let args = args.map(|(a, ty)| self.argument(a, ty)).collect::<Option<Vec<_>>>()?;
        let mut results = Vec::new();
        let mut loads = Vec::new();
        for result in call.results {
            match result {
                AstOperand::Symbol(SymbolRef::Local(id), 0) => match self.places[id.index()] {
                    Place::Slot(slot) => results.push(slot),
                    _ => return None,
                },
                other => {
                    let (value, width) = self.passed(other)?;
                    let slot = self.f.new_slot(width.bytes(), width.bytes());
                    results.push(slot);
                    if let Operand::Reg(reg) = value {
                        loads.push((reg, slot));
                    }
                }
            }
        }
        let callee = match call.callee {
            ast::Callee::Direct(id) => {
                let id = self.env.module.resolve_alias(id);
                let function = self.env.module.function(id);
                if function.body.is_none() {
                    let name = self.env.module.name(function.name);
                    if crate::launches_kernels(name) {
                        // Named where people ask what is not supported.
                        self.f.texts.push(self.env.module.text_line(inst.span));
                        self.effect(Op::Runtime(Runtime::DynamicParallelism), vec![]);
                        return Some(());
                    }
                    return self.runtime(name, &args, &results);
                }
                Callee::Direct(id.index() as u32)
            }
            ast::Callee::Indirect(register) => Callee::Indirect(self.register(register)?),
        };
        let site = self.f.calls.len() as u32;
        self.f.calls.push(CallSite { callee, args, results });
        if matches!(callee, Callee::Indirect(_)) {
            self.split();
        }
        let guard = self.guard;
        self.guarded_term(|next| Term::Call { site, next });
        self.guard = guard;
        for (reg, slot) in loads {
            self.load_slot(reg, slot);
        }
        Some(())
    }

    /// A function that the device runtime provides.
    fn runtime(&mut self, name: &str, args: &[SlotId], results: &[SlotId]) -> Option<()> {
        if name == "cudaGraphSetConditional" {
            return self.set_conditional(args);
        }
        let (runtime, widths, result): (_, &[Width], Option<Width>) = match name {
            "vprintf" => (Runtime::Vprintf, &[Width::W64, Width::W64], Some(Width::W32)),
            "__assertfail" => {
                (Runtime::AssertFail, &[Width::W64, Width::W64, Width::W32, Width::W64], None)
            }
            "malloc" => (Runtime::Malloc, &[Width::W64], Some(Width::W64)),
            "free" => (Runtime::Free, &[Width::W64], None),
            DEVICE_CALL => (Runtime::DeviceCall, &[Width::W64; 5], Some(Width::W64)),
            _ => return None,
        };
        (args.len() >= widths.len()).then_some(())?;
        let mut src = Vec::new();
        for (slot, width) in args.iter().zip(widths) {
            let reg = self.temp(*width);
            self.load_slot(reg, *slot);
            src.push(reg.into());
        }
        match (result, results.first()) {
            (Some(width), Some(&slot)) => {
                let value = self.value(Op::Runtime(runtime), width, src);
                self.store_slot(slot, value, width);
            }
            (Some(width), None) => {
                self.value(Op::Runtime(runtime), width, src);
            }
            (None, _) => self.effect(Op::Runtime(runtime), src),
        }
        Some(())
    }

    /// `void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned)`: a handle is the
    /// address of the word that the graph looks at.
    fn set_conditional(&mut self, args: &[SlotId]) -> Option<()> {
        let [handle, value] = args else { return None };
        let (address, word) = (self.temp(Width::W64), self.temp(Width::W32));
        self.load_slot(address, *handle);
        self.load_slot(word, *value);
        let access = Access {
            space: Space::Global,
            bytes: Width::W32.bytes() as u8,
            signed: false,
            count: 1,
            width: Width::W32,
            volatile: true,
        };
        self.emit(Op::Store(access), vec![], vec![address.into(), Operand::Imm(0), word.into()]);
        Some(())
    }

    fn barrier(&mut self, inst: &ast::Instruction) -> Option<()> {
        let operands = &inst.operands[..];
        if inst.has(M::Warp) {
            let [mask] = operands else { return None };
            let mask = self.source(mask, T::B32)?;
            self.effect(Op::WarpSync, vec![mask]);
            return Some(());
        }
        if inst.modifiers.iter().any(|m| matches!(m, M::Scope(ast::Scope::Cluster))) {
            return self.cluster_barrier(inst);
        }
        if inst.has(M::Red) {
            return self.reduction(inst);
        }
        let op = if inst.has(M::Arrive) { BarrierOp::Arrive } else { BarrierOp::Sync };
        let (barrier, count) = match operands {
            [barrier] => (barrier, None),
            [barrier, count] => (barrier, Some(count)),
            _ => return None,
        };
        let barrier = self.source(barrier, T::U32)?;
        let count = match count {
            Some(count) => self.source(count, T::U32)?,
            None => Operand::Imm(0),
        };
        self.guarded_term(|next| Term::Barrier {
            op,
            barrier,
            count,
            predicate: None,
            negated: false,
            dst: None,
            next,
        });
        Some(())
    }

    fn cluster_barrier(&mut self, inst: &ast::Instruction) -> Option<()> {
        let op = match () {
            () if inst.has(M::Wait) => BarrierOp::ClusterWait,
            () if inst.has(M::Arrive) => BarrierOp::ClusterArrive,
            () => return None,
        };
        self.guarded_term(|next| Term::Barrier {
            op,
            barrier: Operand::Imm(0),
            count: Operand::Imm(0),
            predicate: None,
            negated: false,
            dst: None,
            next,
        });
        Some(())
    }

    fn reduction(&mut self, inst: &ast::Instruction) -> Option<()> {
        let op = match inst.bool_op()? {
            BoolOp::And => BarrierOp::RedAnd,
            BoolOp::Or => BarrierOp::RedOr,
            BoolOp::Popc => BarrierOp::RedPopc,
            BoolOp::Xor => return None,
        };
        let (d, barrier, count, p) = match &inst.operands[..] {
            [d, barrier, p] => (d, barrier, None, p),
            [d, barrier, count, p] => (d, barrier, Some(count), p),
            _ => return None,
        };
        let (p, negated) = match p {
            AstOperand::Not(id) => (Operand::Reg(self.register(*id)?), true),
            other => (self.predicate(other)?, false),
        };
        let barrier = self.source(barrier, T::U32)?;
        let count = match count {
            Some(count) => self.source(count, T::U32)?,
            None => Operand::Imm(0),
        };
        let dst = match op {
            BarrierOp::RedPopc => self.dest_reg(d)?,
            _ => Some(self.predicate_dest(d)?),
        };
        self.guarded_term(|next| Term::Barrier {
            op,
            barrier,
            count,
            predicate: Some(p),
            negated,
            dst,
            next,
        });
        Some(())
    }
}
