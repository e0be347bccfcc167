//! Instructions made from the table: for each template its spellings, with operands that fit.
//!
//! For tests that compare the table with another reader of PTX, or that want one of everything;
//! what the table does not look into (`*`, `any`) is written in the simplest way, which may be
//! wrong.

use super::notation::{Choice, Count, Form, Kind, Pattern, TypeRef};
use super::{TABLES, VECTOR_BITS_MAX, notation, window};
use crate::ast::{Modifier, Opcode, ScalarType, Shape, StateSpace};

/// One instruction, without its semicolon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The template it is of.
    pub template: &'static str,
    /// Base name and modifiers.
    pub name: String,
    /// Its operands, which the declarations of [`module`] go with.
    pub operands: Vec<String>,
}

/// A module of `bodies`, one instruction each: for each, a line of its own from [`FIRST_LINE`] on,
/// with everything declared that an [`Example`] uses.
pub fn module(version: &str, target: &str, bodies: &[String]) -> String {
    let lines: String = bodies.iter().map(|body| format!("{body};\n")).collect();
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n{DECLARED}{lines}L1: ret;\n}}\n"
    )
}

/// Versions and targets that have every instruction of the table between them.
pub const TARGETS: &[(&str, &str)] = &[
    ("9.5", "sm_90a"),
    ("9.5", "sm_100a"),
    ("9.5", "sm_103a"),
    ("9.5", "sm_107a"),
    ("9.5", "sm_110a"),
    ("9.5", "sm_120a"),
    ("6.3", "sm_72"),
];

/// The line of the first body of [`module`].
pub const FIRST_LINE: u32 = 4 + LINES_DECLARED;

const LINES_DECLARED: u32 = 14;

const DECLARED: &str = "\
.global .align 128 .b8 global_data[256]; .const .align 16 .b8 const_data[64];
.shared .align 128 .b8 shared_data[1024]; .global .texref tex; .global .surfref surf;
.global .align 8 .b8 more_data[64];
.func device_function() { ret; }
.visible .entry examples(.param .align 16 .b8 param_data[64])
{
.reg .pred %p<8>; .reg .b8 %c<8>; .reg .u8 %uc<8>; .reg .b16 %h<40>; .reg .u16 %w<8>; .reg .s16 %sw<8>;
.reg .b32 %r<260>; .reg .u32 %u<40>; .reg .s32 %i<260>; .reg .f32 %f<260>;
.reg .b64 %d<40>; .reg .u64 %ud<8>; .reg .s64 %sd<8>; .reg .f64 %e<40>;
.reg .b128 %q<8>; .reg .f16 %hf<8>; .reg .f16x2 %hx<8>;
.local .align 16 .b8 local_data[64];
.param .align 16 .b8 call_data[64];
targets: .branchtargets L1;
prototype: .callprototype _;
";

impl Example {
    /// The instruction as text.
    pub fn text(&self) -> String {
        let Example { name, operands, .. } = self;
        if operands.is_empty() { name.clone() } else { format!("{name} {}", operands.join(", ")) }
    }
}

/// Each template with no optional modifier, with each modifier in its turn and with each pair of
/// two; each optional operand there and not.
pub fn all() -> Vec<Example> {
    spellings(true)
}

/// As [`all`], without pairs.
pub fn single() -> Vec<Example> {
    spellings(false)
}

fn spellings(pairs: bool) -> Vec<Example> {
    let forms = TABLES.iter().flat_map(|table| notation::read_table(table)).flatten();
    let mut examples: Vec<Example> =
        forms.filter(|form| !form.open).flat_map(|form| of_form(&form, pairs)).collect();
    let mut seen = std::collections::HashSet::new();
    examples.retain(|example| seen.insert(example.text()));
    examples
}

/// Every dotted word that a template of `opcode` has.
pub fn words(opcode: &str) -> Vec<String> {
    let mut words = Vec::new();
    for form in super::forms(Opcode::from_text(opcode)) {
        for choice in form.slots.iter().flat_map(|slot| &slot.choices) {
            let word = spelling(choice.modifier);
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    words
}

fn of_form(form: &Form, pairs: bool) -> Vec<Example> {
    let base: Vec<Option<&Choice>> =
        form.slots.iter().map(|slot| slot.choices.first().filter(|_| !slot.optional)).collect();
    let mut spellings = vec![base.clone()];
    for (first, slot) in form.slots.iter().enumerate() {
        for choice in &slot.choices {
            let mut one = base.clone();
            one[first] = Some(choice);
            spellings.push(one.clone());
            for (second, other) in form.slots.iter().enumerate().skip(first + 1).filter(|_| pairs) {
                for other in &other.choices {
                    let mut two = one.clone();
                    two[second] = Some(other);
                    spellings.push(two);
                }
            }
        }
    }
    spellings.iter_mut().for_each(|spelling| fill_groups(form, spelling));
    spellings.iter().flat_map(|spelling| of_spelling(form, spelling)).collect()
}

/// Fills what must be there because another word of its group is.
fn fill_groups<'a>(form: &'a Form, spelling: &mut [Option<&'a Choice>]) {
    for (at, slot) in form.slots.iter().enumerate() {
        let mut group =
            form.slots.iter().zip(&*spelling).filter(|(own, _)| own.group == slot.group);
        if slot.optional
            && spelling[at].is_none()
            && group.any(|(own, held)| own.optional && held.is_some())
        {
            spelling[at] = slot.choices.first();
        }
    }
}

fn of_spelling(form: &Form, spelling: &[Option<&Choice>]) -> Vec<Example> {
    let modifiers: Vec<Modifier> =
        spelling.iter().flatten().map(|choice| choice.modifier).collect();
    let mut name = form.opcode.text().to_owned();
    modifiers.iter().for_each(|modifier| name += &format!(".{}", spelling_of(*modifier)));
    let hinted = modifiers.contains(&Modifier::L2CacheHint);
    let here: Vec<&Pattern> = form
        .operands
        .iter()
        .filter(|own| own.kind != Kind::Policy || hinted)
        .filter(|own| own.with.is_none_or(|slot| spelling[slot].is_some()))
        .collect();
    let writer = Writer { form, spelling, modifiers: &modifiers };
    if here.iter().any(|own| own.count == Count::Vector && writer.is_too_wide(own)) {
        return Vec::new();
    }
    let all: Vec<String> =
        here.iter().enumerate().map(|(at, own)| writer.operand(own, at as u32 + 1)).collect();
    let least = here
        .iter()
        .take_while(|own| !own.optional || own.with.is_some() || own.kind == Kind::Policy)
        .count();
    (least..=all.len())
        .map(|count| Example {
            template: form.text,
            name: name.clone(),
            operands: all[..count].to_vec(),
        })
        .collect()
}

fn spelling(modifier: Modifier) -> String {
    spelling_of(modifier)
}

fn spelling_of(modifier: Modifier) -> String {
    match (modifier, modifier.text()) {
        (_, Some(text)) => text.to_owned(),
        (Modifier::Shape(shape), _) => shape.to_string().trim_start_matches('.').to_owned(),
        _ => String::new(),
    }
}

/// Writes the operands of one spelling.
struct Writer<'a> {
    form: &'a Form,
    spelling: &'a [Option<&'a Choice>],
    modifiers: &'a [Modifier],
}

impl Writer<'_> {
    fn operand(&self, pattern: &Pattern, at: u32) -> String {
        let first = self.single(pattern, at);
        match &pattern.pair {
            Some((second, _)) => format!("{first}|{}", self.single(second, at + 1)),
            None => first,
        }
    }

    fn single(&self, pattern: &Pattern, at: u32) -> String {
        let space = || {
            self.modifiers.iter().find_map(|modifier| match modifier {
                Modifier::Space(space) => Some(*space),
                _ => None,
            })
        };
        match pattern.kind {
            Kind::Memory(own) => self.address(own.or_else(space)),
            Kind::Address => self.symbol(space()).to_owned(),
            Kind::Constant => {
                pattern.values.as_ref().map_or(1, |values| values.first()).to_string()
            }
            Kind::Label => "L1".to_owned(),
            Kind::Targets => "targets".to_owned(),
            Kind::Call => "device_function".to_owned(),
            Kind::Texture => format!("[{}, {}]", self.handle(), self.coordinates()),
            Kind::Handle => format!("[{}]", self.handle()),
            Kind::Offset => vector("%r", self.modifiers.iter().find_map(|word| word.offsets())),
            Kind::Gradient => vector("%r", self.modifiers.iter().find_map(|word| word.offsets())),
            Kind::Video | Kind::VideoRegister | Kind::VideoNegatable | Kind::VideoDestination => {
                format!("%r{at}")
            }
            Kind::Window => vector("%h", window(self.modifiers)),
            Kind::Policy => format!("%d{at}"),
            Kind::Any => String::new(),
            Kind::Sink => "_".to_owned(),
            Kind::Pack | Kind::Unpack => match self.type_of(pattern).map(ScalarType::bits) {
                Some(16) => "{%c1, %c2}".to_owned(),
                Some(32) => "{%h1, %h2}".to_owned(),
                Some(128) => "{%d1, %d2}".to_owned(),
                _ => "{%r1, %r2}".to_owned(),
            },
            _ => {
                let ty = self.type_of(pattern).unwrap_or(ScalarType::B32);
                let count = match pattern.count {
                    Count::One => return register(ty, at, pattern.relaxed),
                    Count::Exactly(count) => count,
                    Count::Columns(divisor) => usize::from(self.shape().n) / divisor,
                    Count::Vector => match self.vector() {
                        Some(count) => count,
                        None => return register(ty, at, pattern.relaxed),
                    },
                };
                let from = if count > 8 { 0 } else { at };
                let elements = (from..).take(count).map(|at| register(ty, at, pattern.relaxed));
                format!("{{{}}}", elements.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn vector(&self) -> Option<usize> {
        self.modifiers.iter().find_map(|word| match word {
            Modifier::V2 => Some(2),
            Modifier::V4 => Some(4),
            Modifier::V8 => Some(8),
            _ => None,
        })
    }

    fn is_too_wide(&self, pattern: &Pattern) -> bool {
        let bits = self.type_of(pattern).map_or(0, ScalarType::bits) as usize;
        bits * self.vector().unwrap_or(1) > VECTOR_BITS_MAX
    }

    fn handle(&self) -> &'static str {
        match self.form.opcode {
            Opcode::Tex | Opcode::Tld4 | Opcode::Txq => "tex",
            Opcode::Cp => "global_data",
            _ => "surf",
        }
    }

    fn coordinates(&self) -> String {
        let gathered = [Modifier::TileGather4, Modifier::TileScatter4];
        let count = match self.modifiers.iter().any(|word| gathered.contains(word)) {
            true => Some(5),
            false => self.modifiers.iter().find_map(|word| word.coordinates(self.form.opcode)),
        };
        vector("%r", count)
    }

    fn type_of(&self, pattern: &Pattern) -> Option<ScalarType> {
        let slot = |index: usize| match self.spelling.get(index)?.map(|choice| choice.modifier) {
            Some(Modifier::Type(ty)) => Some(ty),
            _ => None,
        };
        match pattern.ty {
            TypeRef::Fixed(ty) => Some(ty),
            TypeRef::Slot(index) => slot(index),
            TypeRef::Double(index) => slot(index).map(super::double),
            TypeRef::None => None,
        }
    }

    fn shape(&self) -> Shape {
        let shape = self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Shape(shape) => Some(*shape),
            _ => None,
        });
        shape.unwrap_or(Shape { m: 0, n: 0, k: 0 })
    }

    fn address(&self, space: Option<StateSpace>) -> String {
        match space.map(StateSpace::root) {
            None | Some(StateSpace::Global) => "[%d9]".to_owned(),
            Some(StateSpace::Param) if self.form.opcode == Opcode::St => "[call_data]".to_owned(),
            _ => format!("[{}]", self.symbol(space)),
        }
    }

    fn symbol(&self, space: Option<StateSpace>) -> &'static str {
        match space.map(StateSpace::root) {
            None if matches!(self.form.opcode, Opcode::Mapa | Opcode::Getctarank) => "shared_data",
            Some(StateSpace::Shared) => "shared_data",
            Some(StateSpace::Const) => "const_data",
            Some(StateSpace::Local) => "local_data",
            Some(StateSpace::Param)
                if self.modifiers.contains(&Modifier::Space(StateSpace::ParamFunc)) =>
            {
                "call_data"
            }
            Some(StateSpace::Param) => "param_data",
            _ => "global_data",
        }
    }
}

/// That many registers in braces.
fn vector(prefix: &str, count: Option<usize>) -> String {
    let registers: Vec<String> =
        (1..=count.unwrap_or(1)).map(|at| format!("{prefix}{at}")).collect();
    format!("{{{}}}", registers.join(", "))
}

/// A register that [`module`] declares, that can stand for `ty`.
fn register(ty: ScalarType, at: u32, relaxed: bool) -> String {
    let prefix = match (ty, ty.bits()) {
        (ScalarType::Pred, _) => "p",
        (ScalarType::F32, _) => "f",
        (ScalarType::F64, _) => "e",
        (_, ..=8) if !relaxed => "c",
        (_, ..=16) => "h",
        (_, 32) => "r",
        (_, 128) => "q",
        _ => "d",
    };
    format!("%{prefix}{at}")
}
