//! One thread: its registers, its calls, and what each instruction does to them.

use crate::collective::{Collective, is_product, mask_operand};
use crate::grid::{Grid, Memory};
use crate::integer;
use crate::memory::{self, Key};
use ptx::ast::{
    BoolOp, Callee, Component, Function, FunctionId, FunctionKind, Instruction, LabelKind,
    Modifier as M, Opcode, Operand, Parameter, ScalarType as T, SpecialRegister, Statement,
    SymbolRef,
};

/// Nested calls of a thread.
const CALLS_MAX: usize = 200;

/// What a step led to.
pub(crate) enum Flow {
    /// The next statement.
    Next,
    /// The thread must wait, at the instruction.
    Wait(Collective),
    /// It arrived at a barrier and goes on.
    Arrive(u32),
}

/// A function that a thread is in.
pub(crate) struct Activation {
    function: usize,
    /// Index of the statement that comes next.
    at: usize,
    /// Elements of each register, bits in the low end; predicates are 0 or 1.
    pub(crate) registers: Vec<Vec<u64>>,
    pub(crate) carry: bool,
    /// Where its frame starts in local memory, and its variables in it.
    frame: u64,
    offsets: Vec<u64>,
}

/// A thread.
pub(crate) struct Thread {
    block: [u32; 3],
    index: [u32; 3],
    number: u32,
    stack: Vec<Activation>,
    pub(crate) local: Vec<u8>,
    /// What it waits for.
    pub(crate) waiting: Option<Collective>,
}

impl Thread {
    /// A thread at the start of a kernel.
    pub(crate) fn new(
        grid: &Grid<'_>,
        kernel: FunctionId,
        block: [u32; 3],
        number: u32,
        index: [u32; 3],
    ) -> Self {
        let mut thread =
            Self { block, index, number, stack: Vec::new(), local: Vec::new(), waiting: None };
        thread.enter(grid, kernel.index());
        thread
    }

    fn enter(&mut self, grid: &Grid<'_>, function: usize) {
        let f = &grid.module.functions[function];
        let (offsets, bytes) = memory::frame(f);
        let frame = self.local.len() as u64;
        self.local.resize(self.local.len() + bytes as usize, 0);
        let registers = f.registers.iter().map(|r| vec![0; usize::from(r.vector.max(1))]).collect();
        self.stack.push(Activation { function, at: 0, registers, carry: false, frame, offsets });
    }

    /// True if it has ended.
    pub(crate) fn done(&self) -> bool {
        self.stack.is_empty()
    }

    /// Who it is, for messages.
    pub(crate) fn place(&self) -> String {
        format!("thread {:?} of block {:?}", self.index, self.block)
    }

    /// Function and statement.
    pub(crate) fn position(&self) -> Option<(usize, usize)> {
        self.stack.last().map(|top| (top.function, top.at))
    }

    /// The instruction that comes next.
    pub(crate) fn instruction<'a>(&self, grid: &Grid<'a>) -> Option<&'a Instruction> {
        let (function, at) = self.position()?;
        match grid.module.functions[function].body.as_ref()?.get(at)? {
            Statement::Instruction(inst) => Some(inst),
            _ => None,
        }
    }

    pub(crate) fn top(&mut self) -> &mut Activation {
        self.stack.last_mut().expect("a running thread is in a function")
    }

    /// The function it is in.
    pub(crate) fn function<'a>(&self, grid: &Grid<'a>) -> &'a Function {
        let top = self.stack.last().expect("a running thread is in a function");
        &grid.module.functions[top.function]
    }

    /// Runs the next statement.
    pub(crate) fn step(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
    ) -> Result<Flow, String> {
        let body = self.function(grid).body.as_ref().ok_or("a call of nothing")?;
        let at = self.top().at;
        let inst = match body.get(at) {
            None => {
                self.ret(grid);
                return Ok(Flow::Next);
            }
            Some(Statement::Instruction(inst)) => inst,
            Some(_) => {
                self.top().at += 1;
                return Ok(Flow::Next);
            }
        };
        if let Some(guard) = inst.guard {
            let holds = self.top().registers[guard.register.index()][0] != 0;
            if holds == guard.negated {
                self.top().at += 1;
                return Ok(Flow::Next);
            }
        }
        self.execute(grid, memory, inst).ok_or_else(|| {
            let line = grid.module.position(inst.span).line;
            format!("{}, line {line}: {}", self.place(), grid.module.text_line(inst.span))
        })
    }

    /// Runs an instruction; `None` if it has no meaning, or its access is outside of memory.
    fn execute(
        &mut self,
        grid: &Grid<'_>,
        memory: &mut Memory<'_>,
        inst: &Instruction,
    ) -> Option<Flow> {
        if is_product(inst) {
            return Some(Flow::Wait(Collective::Warp { mask: u32::MAX }));
        }
        if let Some(mask) = mask_operand(inst) {
            let mask = self.source(grid, mask, T::U32)? as u32;
            return Some(Flow::Wait(Collective::Warp { mask }));
        }
        match inst.opcode {
            Opcode::Bar | Opcode::Barrier => return self.barrier(grid, inst),
            Opcode::Bra => {
                let Operand::Label(label) = inst.operands[0] else { return None };
                return self.jump(grid, label.index());
            }
            Opcode::Brx => {
                let [index, Operand::Label(table)] = &inst.operands[..] else { return None };
                let index = self.source(grid, index, T::U32)?;
                let function = self.function(grid);
                let LabelKind::BranchTargets(targets) = &function.labels[table.index()].kind else {
                    return None;
                };
                return self.jump(grid, targets.get(index as usize)?.index());
            }
            Opcode::Ret => {
                self.ret(grid);
                return Some(Flow::Next);
            }
            Opcode::Exit => {
                self.stack.clear();
                return Some(Flow::Next);
            }
            Opcode::Call => return self.call(grid, inst),
            Opcode::Ld | Opcode::Ldu => self.load(grid, memory, inst)?,
            Opcode::St => self.store(grid, memory, inst)?,
            Opcode::Atom | Opcode::Red => self.atomic(grid, memory, inst)?,
            Opcode::Mbarrier => self.mbarrier(grid, memory, inst)?,
            Opcode::Membar | Opcode::Fence | Opcode::Nanosleep | Opcode::Prefetch => {}
            _ => self.compute(grid, inst)?,
        }
        self.top().at += 1;
        Some(Flow::Next)
    }

    // Control.

    fn jump(&mut self, grid: &Grid<'_>, label: usize) -> Option<Flow> {
        let LabelKind::Code(at) = self.function(grid).labels[label].kind else { return None };
        self.top().at = at;
        Some(Flow::Next)
    }

    fn barrier(&mut self, grid: &Grid<'_>, inst: &Instruction) -> Option<Flow> {
        let mut operands = &inst.operands[..];
        let mut vote = false;
        if inst.has(M::Red) {
            operands = &operands[1..];
            let (last, rest) = operands.split_last()?;
            vote = self.predicate(grid, last)?;
            operands = rest;
        }
        let barrier = self.source(grid, operands.first()?, T::U32)? as u32;
        let count = match operands.get(1) {
            Some(count) => self.source(grid, count, T::U32)? as u32,
            None => 0,
        };
        if inst.has(M::Arrive) {
            self.top().at += 1;
            return Some(Flow::Arrive(barrier));
        }
        Some(Flow::Wait(Collective::Barrier { barrier, count, vote }))
    }

    /// The barrier has opened: takes the result of a reduction, and goes on.
    pub(crate) fn leave_barrier(
        &mut self,
        grid: &Grid<'_>,
        votes: usize,
        all: usize,
    ) -> Result<(), String> {
        let inst = self.instruction(grid).ok_or("no barrier")?;
        if inst.has(M::Red) {
            let value = match inst.bool_op() {
                Some(BoolOp::And) => u64::from(votes == all),
                Some(BoolOp::Or) => u64::from(votes > 0),
                _ => votes as u64,
            };
            self.write(grid, &inst.operands[0], value, T::U32).ok_or("no result")?;
        }
        self.top().at += 1;
        Ok(())
    }

    fn call(&mut self, grid: &Grid<'_>, inst: &Instruction) -> Option<Flow> {
        let call = inst.call()?;
        let callee = match call.callee {
            Callee::Direct(id) => grid.module.resolve_alias(id).index(),
            Callee::Indirect(register) => {
                let address = self.top().registers[register.index()][0];
                memory::function_at(grid.module, address)?
            }
        };
        let target = &grid.module.functions[callee];
        if self.stack.len() >= CALLS_MAX || target.kind != FunctionKind::Func {
            return None;
        }
        let arguments = call
            .arguments
            .iter()
            .map(|argument| self.passed(grid, argument))
            .collect::<Option<Vec<_>>>()?;
        self.enter(grid, callee);
        for (param, bytes) in target.params.iter().zip(arguments) {
            self.put_parameter(grid, *param, &bytes);
        }
        Some(Flow::Next)
    }

    /// The bytes of an argument: of a `.param` variable, or of a register or constant.
    fn passed(&mut self, grid: &Grid<'_>, argument: &Operand) -> Option<Vec<u8>> {
        if let Operand::Symbol(SymbolRef::Local(id), 0) = argument {
            let bytes = self.function(grid).local(*id).size_bytes()? as usize;
            let top = self.top();
            let at = (top.frame + top.offsets[id.index()]) as usize;
            return Some(self.local[at..at + bytes].to_vec());
        }
        Some(self.source(grid, argument, T::B64)?.to_le_bytes().to_vec())
    }

    fn put_parameter(&mut self, grid: &Grid<'_>, param: Parameter, bytes: &[u8]) {
        match param {
            Parameter::Memory(id) => {
                let room = self.function(grid).local(id).size_bytes().unwrap_or(0) as usize;
                let top = self.top();
                let at = (top.frame + top.offsets[id.index()]) as usize;
                let size = bytes.len().min(room);
                self.local[at..at + size].copy_from_slice(&bytes[..size]);
            }
            Parameter::Register(id) => {
                let mut word = [0; 8];
                let size = bytes.len().min(8);
                word[..size].copy_from_slice(&bytes[..size]);
                let ty = self.function(grid).register(id).ty;
                let value = integer::unsigned(u64::from_le_bytes(word), ty.bits());
                self.top().registers[id.index()][0] = value;
            }
        }
    }

    /// Leaves the function: results go where the caller's instruction says.
    fn ret(&mut self, grid: &Grid<'_>) {
        let function = self.function(grid);
        let results: Vec<Vec<u8>> = function
            .returns
            .iter()
            .map(|result| match *result {
                Parameter::Memory(id) => {
                    let bytes = function.local(id).size_bytes().unwrap_or(0) as usize;
                    let top = self.top();
                    let at = (top.frame + top.offsets[id.index()]) as usize;
                    self.local[at..at + bytes].to_vec()
                }
                Parameter::Register(id) => {
                    self.top().registers[id.index()][0].to_le_bytes().to_vec()
                }
            })
            .collect();
        let frame = self.top().frame;
        self.local.truncate(frame as usize);
        self.stack.pop();
        if self.stack.is_empty() {
            return;
        }
        let inst = self.instruction(grid).expect("a caller stands at its call");
        let places = inst.call().map_or(&[][..], |call| call.results);
        for (place, bytes) in places.iter().zip(results) {
            match place {
                Operand::Symbol(SymbolRef::Local(id), _) => {
                    self.put_parameter(grid, Parameter::Memory(*id), &bytes);
                }
                Operand::Register(id) => {
                    self.put_parameter(grid, Parameter::Register(*id), &bytes);
                }
                _ => {}
            }
        }
        self.top().at += 1;
    }

    // Operands.

    /// A source as bits of `ty`.
    pub(crate) fn source(&mut self, grid: &Grid<'_>, operand: &Operand, ty: T) -> Option<u64> {
        let value = match operand {
            Operand::Register(id) => match self.top().registers[id.index()][..] {
                [value] => value,
                _ => return None,
            },
            Operand::Component(id, part) => *self.top().registers[id.index()].get(part.index()?)?,
            Operand::Immediate(value) => value.bits_as(ty)?,
            Operand::Special(register, part) => self.special(grid, *register, *part)?,
            Operand::Symbol(symbol, offset) => {
                self.symbol(grid, *symbol)?.wrapping_add(*offset as u64)
            }
            _ => return None,
        };
        Some(integer::unsigned(value, ty.bits().max(8)))
    }

    pub(crate) fn predicate(&mut self, grid: &Grid<'_>, operand: &Operand) -> Option<bool> {
        match operand {
            Operand::Not(id) => Some(self.top().registers[id.index()][0] == 0),
            Operand::Immediate(value) => Some(value.as_i64()? != 0),
            other => Some(self.source(grid, other, T::B8)? != 0),
        }
    }

    fn special(
        &self,
        grid: &Grid<'_>,
        register: SpecialRegister,
        part: Option<Component>,
    ) -> Option<u64> {
        use SpecialRegister as S;
        let axis = |of: [u32; 3]| part?.index().map(|i| of.get(i).copied().unwrap_or(0));
        let lane = self.number % 32;
        Some(u64::from(match register {
            S::Tid => axis(self.index)?,
            S::Ntid => axis(grid.launch.block)?,
            S::Ctaid => axis(self.block)?,
            S::Nctaid => axis(grid.launch.grid)?,
            S::Laneid => lane,
            S::LanemaskEq => 1 << lane,
            S::LanemaskLt => (1 << lane) - 1,
            S::LanemaskLe => u32::MAX >> (31 - lane),
            S::LanemaskGt => !(u32::MAX >> (31 - lane)),
            S::LanemaskGe => u32::MAX << lane,
            S::DynamicSmemSize => grid.launch.shared_bytes,
            _ => return None,
        }))
    }

    /// A symbol's address in its own space.
    pub(crate) fn symbol(&mut self, grid: &Grid<'_>, symbol: SymbolRef) -> Option<u64> {
        let function = self.top().function;
        match symbol {
            SymbolRef::Function(id) => {
                Some(memory::function_address(grid.module.resolve_alias(id)))
            }
            SymbolRef::Module(id) => grid.places.addresses.get(&Key::Module(id.index())).copied(),
            SymbolRef::Local(id) => {
                let of_grid = grid.places.addresses.get(&Key::Function(function, id.index()));
                if let Some(address) = of_grid {
                    return Some(*address);
                }
                if self.kernel_parameter(grid, symbol) {
                    return Some(grid.param_offsets[id.index()]);
                }
                let top = self.top();
                Some(top.frame + top.offsets[id.index()])
            }
        }
    }

    pub(crate) fn kernel_parameter(&self, grid: &Grid<'_>, symbol: SymbolRef) -> bool {
        let function = self.function(grid);
        function.kind == FunctionKind::Entry
            && function.params.iter().any(
                |p| matches!((p, symbol), (Parameter::Memory(a), SymbolRef::Local(b)) if *a == b),
            )
    }

    /// Writes a result of type `ty`: extended to a wider register as the type says.
    pub(crate) fn write(
        &mut self,
        grid: &Grid<'_>,
        operand: &Operand,
        value: u64,
        ty: T,
    ) -> Option<()> {
        let (id, element) = match operand {
            Operand::Register(id) => (*id, 0),
            Operand::Component(id, part) => (*id, part.index()?),
            Operand::Sink => return Some(()),
            _ => return None,
        };
        let have = self.function(grid).register(id).ty;
        let extended = integer::value(value, ty) as u64;
        let bits = if have == T::Pred { extended & 1 } else { extended };
        *self.top().registers[id.index()].get_mut(element)? =
            integer::unsigned(bits, have.bits().max(8));
        Some(())
    }

    pub(crate) fn write_predicate(
        &mut self,
        grid: &Grid<'_>,
        operand: &Operand,
        value: bool,
    ) -> Option<()> {
        self.write(grid, operand, u64::from(value), T::U8)
    }

    // Together with others.

    /// What this thread brings to an instruction of its warp: all sources but the mask.
    pub(crate) fn collective_sources(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
    ) -> Option<Vec<u64>> {
        if inst.opcode == Opcode::Bar {
            return Some(Vec::new());
        }
        let ty = inst.ty()?;
        let sources = &inst.operands[1..inst.operands.len() - 1];
        if inst.opcode == Opcode::Vote {
            return Some(vec![u64::from(self.predicate(grid, &sources[0])?)]);
        }
        let of = |i: usize| if i == 0 { ty } else { T::U32 };
        sources.iter().enumerate().map(|(i, s)| self.source(grid, s, of(i))).collect()
    }

    /// Takes the result of an instruction of the warp, and goes on.
    pub(crate) fn finish_collective(
        &mut self,
        grid: &Grid<'_>,
        inst: &Instruction,
        value: u64,
        predicate: bool,
    ) -> Option<()> {
        if inst.opcode != Opcode::Bar {
            match &inst.operands[0] {
                Operand::Pair(pair) => {
                    self.write(grid, &pair.0, value, T::U32)?;
                    self.write_predicate(grid, &pair.1, predicate)?;
                }
                single => self.write(grid, single, value, T::U32)?,
            }
        }
        self.step_over();
        Some(())
    }

    /// Goes on behind an instruction of the warp.
    pub(crate) fn step_over(&mut self) {
        self.waiting = None;
        self.top().at += 1;
    }
}
