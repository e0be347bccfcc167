//! The spaces of memory, and where variables are in them.

use ptx::ast::{
    Function, FunctionId, InitialAddress, Initializer, Module, StateSpace, SymbolRef, Variable,
};
use std::collections::HashMap;

/// Where the first buffer is; each has 4 GiB of addresses to itself.
pub const GLOBAL_BASE: u64 = 0x100_0000_0000;
const BUFFER_STRIDE: u64 = 1 << 32;
const SHARED_WINDOW: u64 = 1 << 56;
const LOCAL_WINDOW: u64 = 1 << 57;
const WINDOW_BYTES: u64 = 1 << 24;
/// Addresses of functions.
const FUNCTION_BASE: u64 = 1 << 58;

/// Device memory of a launch: what a pointer parameter leads to.
pub type Buffer = Vec<u8>;

/// A space that an access reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    /// Kernel parameters.
    Param,
    Generic,
}

/// A variable by its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Module(usize),
    Function(usize, usize),
}

/// Addresses that all threads agree on.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) addresses: HashMap<Key, u64>,
    pub(crate) shared_bytes: u64,
}

/// The reference address of buffer number `index`.
pub(crate) fn buffer_address(index: usize) -> u64 {
    GLOBAL_BASE + index as u64 * BUFFER_STRIDE
}

/// The address of a function.
pub(crate) fn function_address(id: FunctionId) -> u64 {
    FUNCTION_BASE + 16 * id.index() as u64
}

/// The function at an address.
pub(crate) fn function_at(module: &Module, address: u64) -> Option<usize> {
    let index = address.checked_sub(FUNCTION_BASE)?;
    (index % 16 == 0 && index / 16 < module.functions.len() as u64).then_some(index as usize / 16)
}

/// A generic address of something in a space.
pub(crate) fn to_generic(space: Space, address: u64) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW.wrapping_add(address),
        Space::Local => LOCAL_WINDOW.wrapping_add(address),
        _ => address,
    }
}

/// The space and the address in it of a generic address.
pub(crate) fn from_generic(address: u64) -> (Space, u64) {
    if address.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES {
        (Space::Shared, address - SHARED_WINDOW)
    } else if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES {
        (Space::Local, address - LOCAL_WINDOW)
    } else {
        (Space::Global, address)
    }
}

/// The bytes of global memory at an address.
pub(crate) fn global(buffers: &mut [Buffer], address: u64, bytes: usize) -> Option<&mut [u8]> {
    let from = address.checked_sub(GLOBAL_BASE)?;
    let buffer = buffers.get_mut((from / BUFFER_STRIDE) as usize)?;
    let at = (from % BUFFER_STRIDE) as usize;
    buffer.get_mut(at..at.checked_add(bytes)?)
}

/// Places the module's variables: global and constant ones in new buffers, shared ones one behind
/// the other, the one without a size last.
pub(crate) fn place(module: &Module, buffers: &mut Vec<Buffer>) -> Places {
    let mut places = Places::default();
    let of_functions = module.functions.iter().enumerate().flat_map(|(f, function)| {
        function.locals.iter().enumerate().map(move |(l, v)| (Key::Function(f, l), v))
    });
    let of_module =
        module.variables.iter().enumerate().map(|(v, variable)| (Key::Module(v), variable));
    let all: Vec<(Key, &Variable)> = of_module.chain(of_functions).collect();
    for (key, variable) in &all {
        let bytes = variable.size_bytes().unwrap_or(0);
        match variable.space.root() {
            StateSpace::Global | StateSpace::Const => {
                places.addresses.insert(*key, buffer_address(buffers.len()));
                buffers.push(vec![0; bytes as usize]);
            }
            StateSpace::Shared if !variable.is_unsized() => {
                let at = places.shared_bytes.next_multiple_of(variable.align_bytes());
                places.addresses.insert(*key, at);
                places.shared_bytes = at + bytes;
            }
            _ => {}
        }
    }
    places.shared_bytes = places.shared_bytes.next_multiple_of(16);
    for (key, variable) in &all {
        if variable.space.root() == StateSpace::Shared && variable.is_unsized() {
            places.addresses.insert(*key, places.shared_bytes);
        }
        if let (Some(init), Some(&address)) = (&variable.init, places.addresses.get(key))
            && variable.space.root() != StateSpace::Shared
        {
            let mut values = Vec::new();
            flatten(init, &places, variable, &variable.dims, &mut values);
            let size = variable.ty.size_bytes() as usize;
            for (i, value) in values.iter().enumerate() {
                let at = address + (i * size) as u64;
                if let Some(bytes) = global(buffers, at, size) {
                    bytes.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
        }
    }
    places
}

/// The elements of an initialiser in order; missing ones of inner rows are zero.
fn flatten(
    init: &Initializer,
    places: &Places,
    variable: &Variable,
    dims: &[u64],
    values: &mut Vec<u64>,
) {
    match init {
        Initializer::Value(value) => values.push(value.bits_as(variable.ty).unwrap_or(0)),
        Initializer::Address(address) => values.push(initial_address(address, places)),
        Initializer::List(list) => {
            let inner = dims.get(1..).unwrap_or(&[]);
            let row = inner.iter().product::<u64>() as usize;
            for item in list {
                let start = values.len();
                flatten(item, places, variable, inner, values);
                if !inner.is_empty() {
                    values.resize(start + row, 0);
                }
            }
        }
        Initializer::Properties(_) => {}
    }
}

fn initial_address(address: &InitialAddress, places: &Places) -> u64 {
    let base = match address.symbol {
        SymbolRef::Function(id) => function_address(id),
        SymbolRef::Module(id) => {
            places.addresses.get(&Key::Module(id.index())).copied().unwrap_or(0)
        }
        SymbolRef::Local(_) => 0,
    };
    let value = base.wrapping_add(address.offset as u64);
    match address.mask {
        Some(mask) if mask != 0 => (value & mask) >> mask.trailing_zeros(),
        _ => value,
    }
}

/// Offsets of a function's own variables in its frame by their number, and the frame's size: local
/// ones, and parameters (a kernel's are in a space of their own, and do not use theirs).
pub(crate) fn frame(function: &Function) -> (Vec<u64>, u64) {
    let mut offsets = Vec::new();
    let mut size = 0u64;
    for variable in &function.locals {
        size = size.next_multiple_of(variable.align_bytes().max(8));
        offsets.push(size);
        if matches!(variable.space.root(), StateSpace::Local | StateSpace::Param) {
            size += variable.size_bytes().unwrap_or(0);
        }
    }
    (offsets, size.next_multiple_of(16))
}
