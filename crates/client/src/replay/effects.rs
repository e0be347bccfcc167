//! Effects of a kernel: through which of its parameters it reads and writes global memory.
//!
//! Read off the kernel's PTX, without regard to the order of its instructions: each register may hold
//! what any of its definitions gives it. The answer is on the safe side: what cannot be followed (an
//! address that was itself loaded from memory, calls, textures) makes the kernel *opaque*, and no
//! opaque kernel is repeated.

use ptx::ast::{
    AddressBase, Call, Callee, Function, FunctionId, Instruction, LocalId, Modifier, Module,
    Opcode, Operand, Parameter, RegisterId, ScalarType, StateSpace, Statement, SymbolRef,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Most parameters that an address may come of: beyond that it is not followed.
const SOURCES_MAX: usize = 32;

/// Where an address may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// Offsets in the kernel's parameters of 64-bit values, bytes.
    pub(crate) parameters: BTreeSet<u32>,
    /// A variable of the module.
    pub(crate) variable: bool,
    /// Memory of the thread or its block.
    private: bool,
    /// Something that was loaded from memory, or cannot be followed.
    unknown: bool,
}

impl Provenance {
    fn join(&mut self, other: &Self) -> bool {
        let before = (self.parameters.len(), self.variable, self.private, self.unknown);
        self.parameters.extend(&other.parameters);
        self.variable |= other.variable;
        self.private |= other.private;
        self.unknown |= other.unknown || self.parameters.len() > SOURCES_MAX;
        before != (self.parameters.len(), self.variable, self.private, self.unknown)
    }

    /// True if it is memory of the thread or its block and nothing else.
    fn is_private(&self) -> bool {
        self.private && self.parameters.is_empty() && !self.variable && !self.unknown
    }

    const UNKNOWN: Self =
        Self { parameters: BTreeSet::new(), variable: false, private: false, unknown: true };
}

/// What a kernel does with global memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Where it reads.
    pub(crate) reads: Vec<Provenance>,
    /// Where it writes.
    pub(crate) writes: Vec<Provenance>,
    /// It does more than that, or it is not known where.
    pub(crate) opaque: bool,
}

/// The effects of all kernels of an image, by name. A kernel of an image without PTX is in none.
pub(crate) fn of_image(image: &[u8]) -> HashMap<String, Effects> {
    let mut all = HashMap::new();
    for text in ptx::embedded::texts(image).unwrap_or_default() {
        let end = text.bytes.iter().position(|byte| *byte == 0).unwrap_or(text.bytes.len());
        let Ok(module) = ptx::parse_bytes(&text.bytes[..end]) else { continue };
        for (_, kernel) in module.kernels() {
            let effects = of_kernel(&module, kernel);
            all.entry(module.name(kernel.name).to_owned())
                // Of several architectures' texts one is run, and it is not known which.
                .and_modify(|known: &mut Effects| {
                    if *known != effects {
                        known.reads.extend(effects.reads.clone());
                        known.writes.extend(effects.writes.clone());
                        known.opaque |= effects.opaque;
                    }
                })
                .or_insert(effects);
        }
    }
    all
}

struct Analysis<'a> {
    module: &'a Module,
    function: &'a Function,
    /// Offset of each parameter.
    parameters: HashMap<LocalId, u32>,
    registers: HashMap<RegisterId, Provenance>,
    effects: Effects,
    changed: bool,
    /// Functions that are looked at or were, and nothing was found yet that they must not do.
    callees: HashSet<FunctionId>,
}

fn of_kernel(module: &Module, function: &Function) -> Effects {
    of_function(module, function, offsets(function), &mut HashSet::new())
}

fn of_function(
    module: &Module,
    function: &Function,
    parameters: HashMap<LocalId, u32>,
    callees: &mut HashSet<FunctionId>,
) -> Effects {
    let mut analysis = Analysis {
        callees: std::mem::take(callees),
        module,
        function,
        parameters,
        registers: HashMap::new(),
        effects: Effects::default(),
        changed: true,
    };
    // Sets only grow, so this ends; each pass follows values at least one definition further.
    while analysis.changed {
        analysis.changed = false;
        analysis.effects = Effects::default();
        for statement in function.body.iter().flatten() {
            if let Statement::Instruction(instruction) = statement {
                analysis.instruction(instruction);
            }
        }
        if analysis.effects.opaque {
            break;
        }
    }
    *callees = analysis.callees;
    let mut effects = analysis.effects;
    for accesses in [&mut effects.reads, &mut effects.writes] {
        accesses.retain(|access| !access.is_private());
        accesses.dedup();
        if accesses.iter().any(|access| access.unknown) {
            effects.opaque = true;
        }
    }
    effects
}

/// Where each parameter of a kernel is in its buffer.
fn offsets(function: &Function) -> HashMap<LocalId, u32> {
    let mut end = 0u64;
    let mut offsets = HashMap::new();
    for parameter in &function.params {
        let Parameter::Memory(id) = parameter else { continue };
        let variable = function.local(*id);
        let start = end.next_multiple_of(variable.align_bytes());
        offsets.insert(*id, start as u32);
        end = start + variable.size_bytes().unwrap_or(0);
    }
    offsets
}

impl Analysis<'_> {
    fn instruction(&mut self, i: &Instruction) {
        let operands = &i.operands[..];
        match i.opcode {
            Opcode::Ld | Opcode::Ldu => self.load(i),
            Opcode::St => {
                if let Some(place) = operands.first().and_then(|o| self.address(i, o)) {
                    self.effects.writes.push(place);
                }
            }
            Opcode::Atom | Opcode::Red => {
                let place = operands.iter().find(|o| matches!(o, Operand::Memory(_)));
                if let Some(place) = place.and_then(|o| self.address(i, o)) {
                    self.effects.reads.push(place.clone());
                    self.effects.writes.push(place);
                }
                if i.opcode == Opcode::Atom && is_wide(i.ty()) {
                    self.define(operands.first(), &Provenance::UNKNOWN);
                }
            }
            Opcode::Cp => self.copy(i),
            Opcode::Wmma => {
                for operand in operands {
                    if let Some(place) = self.address(i, operand) {
                        self.effects.reads.push(place.clone());
                        self.effects.writes.push(place);
                    }
                }
            }
            Opcode::Call => {
                let callee = operands.iter().find_map(|operand| match operand {
                    Operand::Symbol(SymbolRef::Function(id), _) => {
                        Some(self.module.name(self.module.function(*id).name))
                    }
                    _ => None,
                });
                // A failed assertion is a fault: its message is given by the kernel that faults.
                self.effects.opaque |= callee != Some("__assertfail") && !self.calls_harmless(i);
            }
            Opcode::Tex
            | Opcode::Tld4
            | Opcode::Suld
            | Opcode::Sust
            | Opcode::Sured
            | Opcode::Tcgen05
            | Opcode::Multimem
            | Opcode::Tensormap
            | Opcode::Discard
            | Opcode::Alloca
            | Opcode::Clusterlaunchcontrol
            | Opcode::Unknown => self.effects.opaque = true,
            _ => self.compute(i),
        }
    }

    /// A value computed of others: an address of any of them, if one is.
    fn compute(&mut self, i: &Instruction) {
        let Some((result, sources)) = i.operands.split_first() else { return };
        let mut from = Provenance::default();
        for source in sources {
            from.join(&self.value(source));
        }
        if i.opcode == Opcode::Cvta
            && matches!(i.space(), Some(StateSpace::Local | StateSpace::Shared))
        {
            from = Provenance { private: true, ..Provenance::default() };
        }
        // Halves of what may be an address that was loaded.
        let halves = sources.iter().any(|source| matches!(source, Operand::Vector(_)));
        if halves && is_wide(i.ty()) && from == Provenance::default() {
            from = Provenance::UNKNOWN;
        }
        self.define(Some(result), &from);
    }

    fn load(&mut self, i: &Instruction) {
        let [result, place] = &i.operands[..] else {
            // With a cache policy the place is the second all the same.
            let (result, place) = (i.operands.first(), i.operands.get(1));
            if let Some(place) = place.and_then(|o| self.address(i, o)) {
                self.effects.reads.push(place);
            }
            return self.define(result, &Provenance::UNKNOWN);
        };
        if let (Operand::Memory(address), Some(StateSpace::Param)) = (place, i.space())
            && let AddressBase::Symbol(SymbolRef::Local(id)) = address.base
            && let Some(start) = self.parameters.get(&id)
        {
            let (first, size) = (i64::from(*start) + address.offset, size_of(i.ty()));
            return self.define_parameters(result, first, size);
        }
        if let Some(place) = self.address(i, place) {
            self.effects.reads.push(place);
        }
        let loaded = if is_wide(i.ty()) { Provenance::UNKNOWN } else { Provenance::default() };
        self.define(Some(result), &loaded);
    }

    /// A parameter's bytes, each 64-bit value of which may be an address.
    fn define_parameters(&mut self, result: &Operand, first: i64, size: i64) {
        let parts: &[Operand] = match result {
            Operand::Vector(parts) => parts,
            one => std::slice::from_ref(one),
        };
        for (index, part) in parts.iter().enumerate() {
            let at = u32::try_from(first + index as i64 * size);
            let from = match (at, size) {
                (Ok(at), 8) => Provenance { parameters: [at].into(), ..Provenance::default() },
                // Halves of an address.
                (Ok(at), 4) if at % 8 == 4 => {
                    Provenance { parameters: [at - 4].into(), ..Provenance::default() }
                }
                (Ok(_), _) => Provenance::default(),
                (Err(_), _) => Provenance::UNKNOWN,
            };
            self.define(Some(part), &from);
        }
    }

    /// True if a function is called that touches no memory but that of its thread or block.
    fn calls_harmless(&mut self, i: &Instruction) -> bool {
        let Some(Call { callee: Callee::Direct(id), .. }) = i.call() else { return false };
        let id = self.module.resolve_alias(id);
        let function = self.module.function(id);
        if function.body.is_none() {
            return false;
        }
        if !self.callees.insert(id) {
            return true;
        }
        let effects = of_function(self.module, function, HashMap::new(), &mut self.callees);
        !effects.opaque && effects.reads.is_empty() && effects.writes.is_empty()
    }

    fn copy(&mut self, i: &Instruction) {
        if i.has(Modifier::Bulk) || i.operands.is_empty() {
            // Waits and commits touch nothing.
            self.effects.opaque |= i.has(Modifier::Bulk);
            return;
        }
        // cp.async.ca.shared.global [shared], [global], ...
        let Some(from) = i.operands.get(1) else { return };
        let Operand::Memory(address) = from else { return };
        let place = self.base(address.base);
        self.effects.reads.push(place);
    }

    /// The place in global memory that an access has; `None` if it is elsewhere.
    fn address(&self, i: &Instruction, operand: &Operand) -> Option<Provenance> {
        let (Operand::Memory(address) | Operand::Indexed(address, _)) = operand else {
            return None;
        };
        match i.space() {
            Some(StateSpace::Global | StateSpace::Const) | None => Some(self.base(address.base)),
            Some(_) => None,
        }
    }

    fn base(&self, base: AddressBase) -> Provenance {
        match base {
            AddressBase::Register(register) => {
                self.registers.get(&register).cloned().unwrap_or_default()
            }
            AddressBase::Symbol(symbol) => self.symbol(symbol),
            AddressBase::Absolute => Provenance::default(),
        }
    }

    fn symbol(&self, symbol: SymbolRef) -> Provenance {
        match symbol.variable(self.module, self.function).map(|variable| variable.space) {
            Some(StateSpace::Global | StateSpace::Const) => {
                Provenance { variable: true, ..Provenance::default() }
            }
            // What is read of a parameter through its address is not followed.
            Some(StateSpace::Param) | None => Provenance::UNKNOWN,
            Some(_) => Provenance { private: true, ..Provenance::default() },
        }
    }

    fn value(&self, operand: &Operand) -> Provenance {
        match operand {
            Operand::Register(register)
            | Operand::Component(register, _)
            | Operand::Selected(register, _)
            | Operand::Not(register)
            | Operand::Negated(register) => {
                self.registers.get(register).cloned().unwrap_or_default()
            }
            Operand::Symbol(symbol, _) => self.symbol(*symbol),
            Operand::Memory(address) | Operand::Indexed(address, _) => self.base(address.base),
            Operand::Vector(parts) | Operand::List(parts) => {
                let mut all = Provenance::default();
                for part in parts {
                    all.join(&self.value(part));
                }
                all
            }
            Operand::Pair(pair) => {
                let mut all = self.value(&pair.0);
                all.join(&self.value(&pair.1));
                all
            }
            Operand::Special(..) | Operand::Immediate(_) | Operand::Sink | Operand::Label(_) => {
                Provenance::default()
            }
        }
    }

    fn define(&mut self, result: Option<&Operand>, from: &Provenance) {
        match result {
            Some(Operand::Register(register) | Operand::Component(register, _)) => {
                self.changed |= self.registers.entry(*register).or_default().join(from);
            }
            Some(Operand::Vector(parts)) => {
                parts.iter().for_each(|part| self.define(Some(part), from));
            }
            Some(Operand::Pair(pair)) => {
                self.define(Some(&pair.0), from);
                self.define(Some(&pair.1), from);
            }
            _ => {}
        }
    }
}

fn size_of(ty: Option<ScalarType>) -> i64 {
    ty.map_or(0, |ty| ty.size_bytes() as i64)
}

/// True for types in which an address fits.
fn is_wide(ty: Option<ScalarType>) -> bool {
    size_of(ty) >= 8 && ty != Some(ScalarType::F64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(parameters: &str, body: &str) -> Effects {
        let text = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.global .u32 counter;\n\
             .visible .entry k({parameters})\n{{\n.reg .u64 %rd<9>;\n.reg .u32 %r<9>;\n{body}\nret;\n}}\n"
        );
        of_image(text.as_bytes()).remove("k").expect("a kernel")
    }

    fn offsets(accesses: &[Provenance]) -> Vec<Vec<u32>> {
        accesses.iter().map(|access| access.parameters.iter().copied().collect()).collect()
    }

    #[test]
    fn addresses_are_followed_to_their_parameters() {
        let effects = kernel(
            ".param .u64 a, .param .u32 n, .param .u64 b",
            "ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; ld.param.u64 %rd2, [b];
             cvta.to.global.u64 %rd3, %rd1; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;
             ld.global.u32 %r2, [%rd5+4]; mul.wide.u32 %rd6, %r2, 4; add.s64 %rd7, %rd2, %rd6;
             st.global.u32 [%rd7], %r2;",
        );
        assert_eq!(offsets(&effects.reads), [[0]]);
        assert_eq!(offsets(&effects.writes), [[16]], "an index that was loaded is an index");
        assert!(!effects.opaque);
    }

    #[test]
    fn an_atomic_reads_what_it_writes_and_variables_are_named() {
        let effects = kernel(
            ".param .u64 a",
            "ld.param.u64 %rd1, [a]; atom.global.add.u32 %r1, [%rd1], 1; ld.global.u32 %r2, [counter];",
        );
        assert_eq!(
            (offsets(&effects.reads)[0].as_slice(), offsets(&effects.writes)),
            ([0].as_slice(), vec![vec![0]])
        );
        assert!(effects.reads.iter().any(|access| access.variable) && !effects.opaque);
    }

    #[test]
    fn what_cannot_be_followed_is_opaque() {
        let chased = "ld.param.u64 %rd1, [a]; ld.global.u64 %rd2, [%rd1]; st.global.u32 [%rd2], 1;";
        assert!(kernel(".param .u64 a", chased).opaque);
        let inside = "mov.b64 %rd1, a; ld.param.u64 %rd2, [%rd1+8]; st.global.u32 [%rd2], 1;";
        assert!(kernel(".param .align 8 .b8 a[64]", inside).opaque);
    }

    #[test]
    fn what_may_be_an_address_from_memory_is_opaque_beside_what_may_not() {
        let choices = [
            // Shared memory, or what a pointer in memory leads to.
            "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; selp.u64 %rd5, %rd4, %rd2, %p1;",
            "mov.u64 %rd3, s; cvta.shared.u64 %rd5, %rd3; @%p1 mov.u64 %rd5, %rd2;",
            // A parameter, or a pointer that was loaded in halves.
            "ld.global.v2.u32 {%r1, %r2}, [%rd1+8]; mov.b64 %rd4, {%r1, %r2}; selp.u64 %rd5, %rd1, %rd4, %p1;",
        ];
        for choice in choices {
            let body = format!(
                ".shared .u32 s[8]; .reg .pred %p<2>; setp.eq.u32 %p1, %r0, 0;
                 ld.param.u64 %rd1, [a]; ld.global.u64 %rd2, [%rd1]; {choice} st.u32 [%rd5], 1;"
            );
            assert!(kernel(".param .u64 a", &body).opaque, "{choice}");
        }
        // Halves of a parameter are an address of that.
        let halves = "ld.param.u32 %r1, [a]; ld.param.u32 %r2, [a+4]; mov.b64 %rd1, {%r1, %r2};
                      st.global.u32 [%rd1], 1;";
        let effects = kernel(".param .u64 a", halves);
        assert_eq!((offsets(&effects.writes), effects.opaque), (vec![vec![0]], false));
    }

    #[test]
    fn a_part_of_a_structure_is_a_parameter_and_private_memory_is_of_no_parameter() {
        let effects = kernel(
            ".param .align 8 .b8 a[64]",
            ".shared .u32 s[8]; ld.param.v2.u64 {%rd1, %rd2}, [a+16]; mov.u64 %rd3, s;
             st.shared.u32 [%rd3], 1; selp.u64 %rd4, %rd1, %rd2, 1; st.global.u32 [%rd2], 5;",
        );
        assert_eq!((effects.reads.len(), offsets(&effects.writes)), (0, vec![vec![24]]));
    }

    #[test]
    fn an_image_without_ptx_says_nothing() {
        assert!(of_image(b"\x7fELF").is_empty());
    }
}
