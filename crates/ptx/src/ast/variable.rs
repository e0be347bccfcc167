//! Variables of every addressable state space, and what they are initialised with.

use super::function::Linkage;
use super::instruction::{Immediate, SymbolRef};
use super::module::{Name, Span};
use super::types::{ScalarType, StateSpace};

/// `.ptr .global .align 8` on a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttribute {
    /// Where it points to; `None` generic.
    pub space: Option<StateSpace>,
    /// Alignment of what it points to, in bytes.
    pub align_bytes: u32,
}

/// A variable or a `.param` parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: Name,
    /// The name's place.
    pub span: Span,
    /// Where it lives.
    pub space: StateSpace,
    /// Who sees it; internal inside functions.
    pub linkage: Linkage,
    /// Element type.
    pub ty: ScalarType,
    /// Elements of a vector type: 1, 2, 4 or 8.
    pub vector: u8,
    /// `.align`, in bytes, a power of two; `None` when not written.
    pub align: Option<u32>,
    /// Array extents from the outermost; 0 is an unsized `[]`. Empty for a scalar.
    pub dims: Vec<u64>,
    /// `.ptr` of a kernel parameter.
    pub pointer: Option<PointerAttribute>,
    /// `.attribute(.managed)`
    pub managed: bool,
    /// Initial value.
    pub init: Option<Initializer>,
}

/// Initial value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initializer {
    /// A number.
    Value(Immediate),
    /// The address of a symbol.
    Address(InitialAddress),
    /// `{ ... }`; missing elements are zero.
    List(Vec<Initializer>),
    /// `{ filter_mode = linear, ... }` of a texture, sampler or surface: name and value as
    /// written.
    Properties(Vec<(Name, Name)>),
}

/// An address in an initialiser: `sym`, `sym+8`, `generic(sym)+8`, `0xff00(generic(sym))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialAddress {
    /// The variable or function.
    pub symbol: SymbolRef,
    /// Added to its address, in bytes.
    pub offset: i64,
    /// `generic(...)`: the generic address instead of the one in the symbol's space.
    pub generic: bool,
    /// `mask(...)`: the byte of the address that this element takes, as a mask of eight ones.
    pub mask: Option<u64>,
}

impl Variable {
    /// Size of one element (a whole vector), in bytes.
    pub fn element_size_bytes(&self) -> u64 {
        self.ty.size_bytes() * u64::from(self.vector)
    }

    /// Number of elements: the product of the extents; an unsized array counts what its
    /// initialiser has, else 0. `None` on overflow.
    pub fn element_count(&self) -> Option<u64> {
        let listed = match &self.init {
            Some(Initializer::List(list)) => list.len() as u64,
            _ => 0,
        };
        self.dims.iter().enumerate().try_fold(1u64, |count, (index, &extent)| {
            let extent = if extent == 0 && index == 0 { listed } else { extent };
            count.checked_mul(extent)
        })
    }

    /// Size in bytes; 0 for an unsized array without initialiser. `None` on overflow.
    pub fn size_bytes(&self) -> Option<u64> {
        self.element_count()?.checked_mul(self.element_size_bytes())
    }

    /// Alignment in bytes: as written, else that of an element.
    pub fn align_bytes(&self) -> u64 {
        self.align.map_or(self.element_size_bytes(), u64::from).max(1)
    }

    /// An array without an extent: dynamic shared memory when `.extern .shared`.
    pub fn is_unsized(&self) -> bool {
        self.dims.first() == Some(&0) && self.init.is_none()
    }
}
