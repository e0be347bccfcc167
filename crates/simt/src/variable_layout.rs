//! Variable layout: where module variables lie in device memory, and a kernel's in shared memory.
//!
//! `.global` and `.const` variables, also those declared inside functions, are placed and
//! initialised once, when the module is loaded. `.shared` variables are placed per kernel, only
//! those that the kernel or what it calls can name, so that one kernel's arrays do not count
//! against another's occupancy.

use crate::error::CompileError;
use crate::ir::vector::FUNCTION_BASE;
use crate::kernel::{MANAGED_ALIGN, ModuleMemory};
use crate::runtime::heap::DeviceHeap;
use ptx::ast::{
    self, AddressBase, FunctionId, Initializer, Linkage, Operand, SpecialRegister, StateSpace,
    Statement, SymbolRef, Variable,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A variable of a module: at module scope, or of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Module(usize),
    Local(usize, usize),
}

/// Most static shared memory of one kernel, bytes: the block limit of compute capability 8.0.
pub const STATIC_SHARED_BYTES_MAX: u64 = 163 << 10;
/// Dynamic shared memory starts at a multiple of this, the strictest alignment of a PTX type, or of
/// more where a variable asks for it.
const DYNAMIC_SHARED_ALIGN: u64 = 16;

/// Shared memory that is kept for the system's libraries, bytes a block: in a kernel that asks where it
/// is it lies in front of the kernel's own. Cooperative groups of several warps meet there.
pub(super) const KEPT_SHARED_BYTES: u64 = 1 << 10;

/// Where module-scope variables are.
#[derive(Debug, Default)]
pub(super) struct ModuleLayout {
    addresses: HashMap<Key, (u64, u64)>,
    /// Start and end of each constant variable.
    pub(super) const_ranges: Vec<(u64, u64)>,
    /// Present if the module calls `malloc`.
    pub(super) heap: Option<Arc<DeviceHeap>>,
}

/// Where the variables that host and device share lie, one behind the other.
struct ManagedArea {
    next: u64,
}

impl ManagedArea {
    /// An area in which all of a module's have room.
    fn new(module: &ast::Module, memory: &mut dyn ModuleMemory) -> Result<Self, CompileError> {
        let mut measure = Self { next: 0 };
        // Sizes that overflow are refused where each variable is looked at.
        for variable in module.variables.iter().filter(|variable| variable.managed) {
            measure.next(variable);
        }
        match measure.next {
            0 => Ok(measure),
            bytes => match memory.allocate_managed(bytes) {
                Ok(next) => Ok(Self { next }),
                Err(_) => Err(CompileError::out_of_memory(bytes)),
            },
        }
    }

    /// Takes the place of the next variable; its address.
    fn next(&mut self, variable: &Variable) -> u64 {
        let align = variable.align_bytes().clamp(1, MANAGED_ALIGN);
        let address = self.next.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        self.next = address.saturating_add(variable.size_bytes().unwrap_or(u64::MAX).max(1));
        address
    }
}

impl ModuleLayout {
    /// Places and initialises everything of the module that lives in device memory.
    pub(super) fn place(
        module: &ast::Module,
        memory: &mut dyn ModuleMemory,
    ) -> Result<Self, CompileError> {
        let mut layout = Self::default();
        let mut placed: Vec<(u64, &Variable)> = Vec::new();
        let locals = module.functions.iter().enumerate().flat_map(|(f, function)| {
            function
                .locals
                .iter()
                .enumerate()
                .map(move |(l, variable)| (Key::Local(f, l), variable))
        });
        let globals = module.variables.iter().enumerate().map(|(v, var)| (Key::Module(v), var));
        let mut managed = ManagedArea::new(module, memory)?;
        for (key, variable) in globals.chain(locals) {
            let constant = match variable.space {
                StateSpace::Global => false,
                StateSpace::Const => true,
                _ => continue,
            };
            let at = |message: String| CompileError::at(module, variable.span, message);
            let name = module.name(variable.name);
            if variable.linkage == Linkage::Extern {
                return Err(at(format!("Unresolved extern variable '{name}'")));
            }
            let bytes =
                variable.size_bytes().ok_or_else(|| at(format!("size of '{name}' overflows")))?;
            let address = match variable.managed {
                true => managed.next(variable),
                false => memory
                    .allocate(bytes.max(1), variable.align_bytes(), !constant)
                    .map_err(|_| CompileError::out_of_memory(bytes))?,
            };
            layout.addresses.insert(key, (address, bytes));
            if constant {
                layout.const_ranges.push((address, address + bytes));
            }
            placed.push((address, variable));
        }
        for (address, variable) in placed {
            if let Some(init) = &variable.init {
                let bytes = layout.initial_bytes(variable, init);
                if !bytes.is_empty() {
                    memory.write(address, &bytes);
                }
            }
        }
        let calls_malloc = module
            .functions
            .iter()
            .any(|f| f.body.is_none() && matches!(module.name(f.name), "malloc" | "free"));
        if calls_malloc {
            let heap = memory.heap().map_err(|_| CompileError::no_heap())?;
            layout.heap = Some(heap);
        }
        Ok(layout)
    }

    /// Address and size of the module-scope variable number `index`.
    pub(super) fn module_variable(&self, index: usize) -> Option<(u64, u64)> {
        self.addresses.get(&Key::Module(index)).copied()
    }

    fn initial_bytes(&self, variable: &Variable, init: &Initializer) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Rows may be shorter than their extent: each level starts at a multiple of its size.
        let strides: Vec<u64> = (0..variable.dims.len())
            .map(|level| {
                variable.dims[level + 1..].iter().product::<u64>() * variable.element_size_bytes()
            })
            .collect();
        self.initialise(variable, init, &strides, 0, &mut bytes);
        bytes
    }

    fn initialise(
        &self,
        variable: &Variable,
        init: &Initializer,
        strides: &[u64],
        at: u64,
        bytes: &mut Vec<u8>,
    ) {
        let element = variable.ty.size_bytes();
        let mut put = |value: u64| {
            let at = at as usize;
            let end = at + element as usize;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            let raw = u128::from(value).to_le_bytes();
            bytes[at..end].copy_from_slice(&raw[..element as usize]);
        };
        match init {
            Initializer::Value(value) => put(value.bits_as(variable.ty).unwrap_or(0)),
            Initializer::Address(address) => {
                let base = match address.symbol {
                    SymbolRef::Function(id) => FUNCTION_BASE + 16 * id.index() as u64,
                    SymbolRef::Module(id) => self.module_variable(id.index()).map_or(0, |v| v.0),
                    SymbolRef::Local(_) => 0,
                };
                let value = base.wrapping_add(address.offset as u64);
                put(match address.mask {
                    Some(mask) if mask != 0 => (value & mask) >> mask.trailing_zeros(),
                    _ => value,
                });
            }
            // Of opaque handles, which have no bytes.
            Initializer::Properties(_) => {}
            Initializer::List(list) => {
                let (stride, rest) = match strides {
                    [] => (element, &[][..]),
                    [first, rest @ ..] => (*first, rest),
                };
                for (index, item) in list.iter().enumerate() {
                    self.initialise(variable, item, rest, at + stride * index as u64, bytes);
                }
            }
        }
    }
}

/// Where the variables that one kernel can name are.
#[derive(Debug)]
pub(super) struct KernelLayout<'a> {
    module: &'a ModuleLayout,
    shared: HashMap<Key, u64>,
    /// Static shared memory and what is kept in front of it, bytes.
    pub(super) shared_bytes: u64,
    /// Of these what is kept for the system's libraries.
    pub(super) kept_shared_bytes: u64,
    /// Constant banks that the kernel names, bytes.
    pub(super) const_bytes: u64,
}

impl<'a> KernelLayout<'a> {
    /// Places the shared variables that `functions` name.
    pub(super) fn place(
        ast: &ast::Module,
        module: &'a ModuleLayout,
        functions: &[FunctionId],
    ) -> Result<Self, CompileError> {
        let kept = functions.iter().any(|id| asks_for_kept_shared(ast.function(*id)));
        let kept_shared_bytes = if kept { KEPT_SHARED_BYTES } else { 0 };
        let mut layout = Self {
            module,
            shared: HashMap::new(),
            shared_bytes: kept_shared_bytes,
            kept_shared_bytes,
            const_bytes: 0,
        };
        let mut dynamic = Vec::new();
        let mut dynamic_align = DYNAMIC_SHARED_ALIGN;
        let mut banks = std::collections::HashSet::new();
        for &id in functions {
            let function = ast.function(id);
            each_symbol(function, &mut |symbol| {
                let key = match symbol {
                    SymbolRef::Module(v) => Key::Module(v.index()),
                    SymbolRef::Local(l) => Key::Local(id.index(), l.index()),
                    SymbolRef::Function(_) => return,
                };
                let Some(variable) = symbol.variable(ast, function) else { return };
                match variable.space.root() {
                    StateSpace::Const if banks.insert(key) => {
                        layout.const_bytes += variable.size_bytes().unwrap_or(0);
                    }
                    StateSpace::Shared if variable.is_unsized() => {
                        dynamic.push(key);
                        dynamic_align = dynamic_align.max(variable.align_bytes());
                    }
                    StateSpace::Shared if !layout.shared.contains_key(&key) => {
                        let align = variable.align_bytes();
                        let at = layout.shared_bytes.next_multiple_of(align);
                        layout.shared.insert(key, at);
                        layout.shared_bytes =
                            at.saturating_add(variable.size_bytes().unwrap_or(u64::MAX / 2));
                    }
                    _ => {}
                }
            });
        }
        let own_bytes = layout.shared_bytes - kept_shared_bytes;
        if own_bytes > STATIC_SHARED_BYTES_MAX {
            return Err(CompileError::plain(format!(
                "ptxas error   : uses too much shared data ({own_bytes:#x} bytes, \
                 {STATIC_SHARED_BYTES_MAX:#x} max)"
            )));
        }
        if !dynamic.is_empty() {
            layout.shared_bytes = layout.shared_bytes.next_multiple_of(dynamic_align);
        }
        for key in dynamic {
            layout.shared.insert(key, layout.shared_bytes);
        }
        Ok(layout)
    }

    /// Address of a module-scope variable, in its own space.
    pub(super) fn module_variable(&self, id: ast::VariableId) -> Option<u64> {
        self.find(Key::Module(id.index()))
    }

    /// Address of a `.global`, `.const` or `.shared` variable declared in a function.
    pub(super) fn function_variable(&self, id: FunctionId, local: usize) -> Option<u64> {
        self.find(Key::Local(id.index(), local))
    }

    fn find(&self, key: Key) -> Option<u64> {
        let global = self.module.addresses.get(&key).map(|(address, _)| *address);
        global.or_else(|| self.shared.get(&key).copied())
    }
}

/// True if the function asks where the shared memory is that is kept for the system's libraries.
fn asks_for_kept_shared(function: &ast::Function) -> bool {
    function.body.iter().flatten().any(|statement| {
        matches!(statement, Statement::Instruction(inst) if inst.operands.iter().any(
            |operand| matches!(operand, Operand::Special(register, _) if kept_shared(*register).is_some())
        ))
    })
}

/// What a special register says of the shared memory that is kept for the system's libraries: bytes
/// from the start of the block's shared memory, as on an H200. Cooperative groups want 288.
pub(super) fn kept_shared(register: SpecialRegister) -> Option<u64> {
    use SpecialRegister as S;
    Some(match register {
        S::ReservedSmemOffsetBegin | S::ReservedSmemOffset0 | S::ReservedSmemOffset1 => 0,
        S::ReservedSmemOffsetEnd => 288,
        S::ReservedSmemOffsetCap => KEPT_SHARED_BYTES,
        _ => return None,
    })
}

/// Calls `f` with every symbol that the function's instructions name.
pub(super) fn each_symbol(function: &ast::Function, f: &mut dyn FnMut(SymbolRef)) {
    for statement in function.body.iter().flatten() {
        if let Statement::Instruction(inst) = statement {
            inst.operands.iter().for_each(|operand| operand_symbols(operand, f));
        }
    }
}

fn operand_symbols(operand: &Operand, f: &mut dyn FnMut(SymbolRef)) {
    match operand {
        Operand::Symbol(symbol, _) => f(*symbol),
        Operand::Memory(address) => {
            if let AddressBase::Symbol(symbol) = address.base {
                f(symbol);
            }
        }
        Operand::Indexed(address, list) => {
            if let AddressBase::Symbol(symbol) = address.base {
                f(symbol);
            }
            list.iter().for_each(|o| operand_symbols(o, f));
        }
        Operand::Vector(list) | Operand::List(list) => {
            list.iter().for_each(|o| operand_symbols(o, f));
        }
        Operand::Pair(pair) => {
            operand_symbols(&pair.0, f);
            operand_symbols(&pair.1, f);
        }
        _ => {}
    }
}
