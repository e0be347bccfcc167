//! The instruction table: what each instruction may look like, written as the manual writes it.
//!
//! A table is text in a small notation close to the manual's syntax sections, so that a form can
//! be compared with the manual by eye; it is read once, at first use. One block, separated by
//! empty lines, holds the templates of one instruction and the choices of their variables:
//!
//! ```text
//! add.type                    d, a, b
//! add{.rnd}{.ftz}{.sat}.f32   d, a, b
//!   .type = .u16 .u32 .u64 .s16 .s32 .s64
//!   .rnd = .rn .rz .rm .rp
//! ```
//!
//! A dotted word that a choice line defines stands for one of its choices, any other for itself;
//! braces make it optional, and two words in one pair of braces stand together or not at all. Order
//! of modifiers is free, as it is for ptxas, but several types stand in the order of the template,
//! and a few words are parts of the instruction's name and stand first. A template ending in `*` takes any further modifiers and
//! any operands: such forms are known by name only and are not checked.
//!
//! An operand is `name`, with an optional type after a colon; without one its type is the
//! template's `.type`, or its last type. What a name means:
//!
//! | written | means |
//! |---|---|
//! | `d`, `d...` | destination: a register |
//! | `_d` | destination that may be `_` |
//! | `a` and other names | source: register or constant |
//! | `s` | source, also a special register |
//! | `reg` | source: a register only |
//! | `imm` | integer constant |
//! | `[a]`, `[a]:.shared` | address; in the given space, else in the space of the instruction |
//! | `{!}c:.pred` | predicate that may be negated |
//! | `d\|p:.pred`, `d{\|p:.pred}` | pair, optional pair |
//! | `{, x}` | optional operand, at the end |
//! | `address` | address of a variable or function |
//! | `pack`, `dpack` | `{a, b}` whose elements together are as wide as the type |
//! | `_` | `_` and nothing else |
//! | `label`, `targets`, `call`, `texture`, `handle`, `offset`, `gradient`, `window`, `video`, `lanes`, `policy`, `any` | see [`Kind`] |
//!
//! and a type: `.u32` itself, `dtype` a variable of the template, `dtype*2` twice as wide,
//! `~dtype` a register at least as wide (the relaxed rule of loads, stores and conversions),
//! `4x.b32` a vector of exactly four, `vec type` a vector as `.v2` or `.v4` says. `=0-15`,
//! `=4/8/16` and `=24-256%8` bound the value of a constant, `=0-3+0-1` those of two elements; `?word` says that the operand is there if
//! and only if the slot of that name is filled; `n/2x.f32` is a vector with half as many elements as the tile of the
//! instruction has columns. In a choice, `.m64n*k16` stands for all widths from 8 to 256.
//!
//! ` @7.8/sm_90` after a template, and `@...` at the end of a choice or an operand, say since when it
//! exists: see the module `availability`. What means the same everywhere stands in `common_words` once.

mod async_copy;
mod atomic;
mod availability;
mod bits;
pub(crate) mod common_words;
mod compare;
mod control;
mod convert;
pub mod examples;
mod float;
mod half;
mod integer;
mod matrix;
mod memory;
mod notation;
mod texture;
mod video;
mod warp;

pub(crate) use crate::instructions::availability::{Lack, Since};
pub(crate) use notation::{Choice, Count, Form, Kind, Pattern, TypeRef};

use crate::ast::{Modifier, Opcode, ScalarType};
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLES: &[&str] = &[
    integer::TABLE,
    float::TABLE,
    half::TABLE,
    bits::TABLE,
    compare::TABLE,
    convert::TABLE,
    memory::TABLE,
    atomic::TABLE,
    control::TABLE,
    warp::TABLE,
    matrix::TABLE,
    async_copy::TABLE,
    texture::TABLE,
    video::TABLE,
];

/// The forms of an instruction, in the order of the table. None for one that the table does not
/// have.
pub(crate) fn forms(opcode: Opcode) -> &'static [Form] {
    static FORMS: LazyLock<HashMap<Opcode, Vec<Form>>> = LazyLock::new(|| {
        let mut forms: HashMap<Opcode, Vec<Form>> = HashMap::new();
        for table in TABLES {
            for form in notation::read_table(table).into_iter().flatten() {
                forms.entry(form.opcode).or_default().push(form);
            }
        }
        forms
    });
    FORMS.get(&opcode).map_or(&[], Vec::as_slice)
}

/// Bits of a vector that `.v2`, `.v4` or `.v8` asks for; the few instructions that move 256 bits
/// have templates of their own.
pub(crate) const VECTOR_BITS_MAX: usize = 128;

/// Dimensions of the window of `im2col`: all that are not the batch and the channel; of its forms
/// along the width, the two numbers that say where along it and how far.
pub(crate) fn window(modifiers: &[Modifier]) -> Option<usize> {
    match modifiers.contains(&Modifier::Im2col) {
        true => modifiers.iter().find_map(|word| Some(word.coordinates(Opcode::Cp)? - 2)),
        false => Some(2),
    }
}

/// The type twice as wide.
pub(crate) fn double(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::U16 => ScalarType::U32,
        ScalarType::S16 => ScalarType::S32,
        ScalarType::U32 => ScalarType::U64,
        ScalarType::S32 => ScalarType::S64,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_well_formed() {
        for table in TABLES {
            for form in notation::read_table(table) {
                form.unwrap();
            }
        }
    }

    #[test]
    fn every_opcode_has_a_form() {
        for &opcode in Opcode::ALL {
            assert!(!forms(opcode).is_empty(), "{opcode}");
        }
    }
}
