//! Display of operations, for dumps of the IRs.
//!
//! For people and for diffs: the names follow PTX where it has one, but this is no PTX. Tests read
//! it back (`ir::text`).

use crate::ir::op::{Access, CompareType, Convert, FloatMode, Op, Round, Special};
use std::fmt;

/// `{value:?}` in lower case: the names of the values are the words of PTX.
fn word(value: impl fmt::Debug) -> String {
    format!("{value:?}").to_ascii_lowercase()
}

impl fmt::Display for FloatMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.round {
            Round::Near => "",
            Round::Zero => ".rz",
            Round::Down => ".rm",
            Round::Up => ".rp",
            Round::NearAway => ".rna",
        })?;
        f.write_str(if self.ftz { ".ftz" } else { "" })?;
        f.write_str(if self.sat { ".sat" } else { "" })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.signed { "s" } else { "b" };
        write!(f, ".{}.{sign}{}", word(self.space), u32::from(self.bytes) * 8)?;
        if self.count > 1 {
            write!(f, ".v{}", self.count)?;
        }
        if u32::from(self.bytes) != self.width.bytes() {
            write!(f, ".to{}", self.width.bits())?;
        }
        f.write_str(if self.volatile { ".volatile" } else { "" })
    }
}

impl fmt::Display for Convert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float { from, to, mode, relu } => {
                let relu = if *relu { ".relu" } else { "" };
                write!(f, ".{}.{}{mode}{relu}", word(to), word(from))
            }
            Self::ToEight { to, round, finite } => {
                let finite = if *finite { ".finite" } else { "" };
                write!(f, ".{}.f32.{}{finite}", word(to), word(round))
            }
            Self::FromEight(format) => write!(f, ".f32.{}", word(format)),
            Self::Tf32(round) => write!(f, ".tf32.f32.{}", word(round)),
            Self::Integral { ty, mode } => {
                write!(f, ".{0}.{0}.integral.{1}{mode}", word(ty), word(mode.round))
            }
            Self::ToInt { from, bits, signed, round, ftz } => {
                let (sign, ftz) = (if *signed { "s" } else { "u" }, if *ftz { ".ftz" } else { "" });
                write!(f, ".{sign}{bits}.{}.{}{ftz}", word(from), word(round))
            }
            Self::FromInt { from, to, mode } => write!(f, ".{}.{}{mode}", word(to), word(from)),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mov(w) => write!(f, "mov.b{}", w.bits()),
            Self::Int(op, ty) => write!(f, "{}.{}", word(op), word(ty)),
            Self::Float(op, ty, mode) => write!(f, "{}.{}{mode}", word(op), word(ty)),
            Self::Convert(convert) => write!(f, "convert{convert}"),
            Self::Setp(op, CompareType::Int(ty)) => write!(f, "setp.{}.{}", word(op), word(ty)),
            Self::Setp(op, CompareType::Float(ty, ftz)) => {
                let ftz = if *ftz { ".ftz" } else { "" };
                write!(f, "setp.{}.{}{ftz}", word(op), word(ty))
            }
            Self::Select(w) => write!(f, "select.b{}", w.bits()),
            Self::Load(access) => write!(f, "load{access}"),
            Self::Store(access) => write!(f, "store{access}"),
            Self::Atom { space, op, ty, returns } => {
                let name = if *returns { "atom" } else { "red" };
                write!(f, "{name}.{}.{}.{}", word(space), word(op), word(ty))
            }
            Self::Extend { from, bits, signed, to } => {
                let sign = if *signed { "s" } else { "u" };
                write!(f, "extend.{sign}{bits}.b{}.b{}", to.bits(), from.bits())
            }
            Self::Special(Special::Tid(axis)) => write!(f, "special.tid.{axis}"),
            // The structure of the value is its name: `shfl.bfly.true`.
            other => {
                let text = word(other);
                let words = text.split(|c: char| !c.is_ascii_alphanumeric());
                let words: Vec<&str> = words.filter(|w| !w.is_empty()).collect();
                f.write_str(&words.join("."))
            }
        }
    }
}
