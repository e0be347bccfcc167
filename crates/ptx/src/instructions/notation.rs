//! Reading of the table's notation, described in the module above. It is run over constants of
//! this crate only; a mistake in one is found by a test, and at run time drops that form.

use crate::ast::{Instruction, Modifier, Opcode, ScalarType, StateSpace};
use crate::instructions::availability::Since;
use std::fmt;

/// One way to write an instruction.
#[derive(Debug)]
pub(crate) struct Form {
    /// Template as it stands in the table, modifiers and operands.
    pub(crate) text: &'static str,
    pub(crate) opcode: Opcode,
    pub(crate) slots: Vec<Slot>,
    pub(crate) operands: Vec<Pattern>,
    /// Any further modifiers and operands.
    pub(crate) open: bool,
    /// Since when the form exists.
    pub(crate) since: Since,
}

/// Place of one modifier.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) choices: Vec<Choice>,
    pub(crate) optional: bool,
    /// Optional slots of one group are filled together or not at all.
    pub(crate) group: usize,
}

/// A modifier, and since when it may stand there.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) modifier: Modifier,
    pub(crate) since: Since,
}

/// What an operand must be.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) kind: Kind,
    pub(crate) ty: TypeRef,
    pub(crate) count: Count,
    /// The register may be wider than the type.
    pub(crate) relaxed: bool,
    /// An integer constant must be one of these.
    pub(crate) values: Option<Values>,
    /// May be left out (and all after it).
    pub(crate) optional: bool,
    /// Second half of a pair, and whether it may be left out.
    pub(crate) pair: Option<(Box<Pattern>, bool)>,
    /// There if and only if this slot is filled.
    pub(crate) with: Option<usize>,
    /// Since when it may be there.
    pub(crate) since: Since,
}

/// What an integer constant may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// `4/8/16`
    List(Vec<i64>),
    /// `0-255`, `24-256%8`: from, to and a divisor.
    Range(i64, i64, i64),
    /// `0-3+0-1`: of a vector's elements, one behind the other.
    Each(Vec<Values>),
}

/// Role of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A register that is written.
    Destination,
    /// The same, or `_`.
    DestinationOrSink,
    /// A register or a constant.
    Source,
    /// The same, or a special register.
    SourceOrSpecial,
    /// A register that is read.
    Register,
    /// A predicate, perhaps negated.
    Predicate,
    /// An integer constant.
    Constant,
    /// `[a]` in this space; `None`: the instruction's own, generic if it has none.
    Memory(Option<StateSpace>),
    /// Address of a variable or function.
    Address,
    /// `{a, b}` that together are as wide as the type, read.
    Pack,
    /// The same, written.
    Unpack,
    /// Label of a place in the code.
    Label,
    /// Label of `.branchtargets`.
    Targets,
    /// All operands of a call.
    Call,
    /// `[tex, {x, y}]`, `[tensor, {x}]`: a texture, surface or tensor with coordinates.
    Texture,
    /// `[tex]`: a texture or surface alone.
    Handle,
    /// What shifts coordinates: an integer for each dimension.
    Offset,
    /// What shifts the window of `im2col`: halves, one for each dimension of it.
    Window,
    /// How coordinates change from one place to the next: a float for each dimension.
    Gradient,
    /// `_` and nothing else.
    Sink,
    /// A 32-bit operand of a video instruction: integer register, perhaps with a selector of
    /// bytes or halves, or (read only) a constant.
    Video,
    /// The same, a register only.
    VideoRegister,
    /// The same as the first, and a register may have a minus.
    VideoNegatable,
    /// A register with or without a selector, written.
    VideoDestination,
    /// `cache-policy`: there if and only if the instruction has `.L2::cache_hint`.
    Policy,
    /// Not looked at.
    Any,
}

/// Type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeRef {
    Fixed(ScalarType),
    /// What the slot with this index holds.
    Slot(usize),
    /// Twice as wide as what the slot holds.
    Double(usize),
    None,
}

/// Elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// One register.
    One,
    /// A vector of exactly this many.
    Exactly(usize),
    /// As `.v2`, `.v4`, `.v8` say; one register without them.
    Vector,
    /// A vector with the columns of the instruction's tile divided by this.
    Columns(usize),
}

/// What was read, or what was wrong with the table.
type Read<T> = Result<T, String>;

/// Every template of a table.
pub(super) fn read_table(table: &'static str) -> Vec<Read<Form>> {
    let mut forms = Vec::new();
    for block in table.split("\n\n") {
        let lines = || block.lines().filter(|line| !line.trim().is_empty());
        let choices: Vec<Variable> =
            lines().filter(|line| line.starts_with(' ')).map(read_choices).collect();
        for line in lines().filter(|line| !line.starts_with([' ', '#'])) {
            forms.push(read_template(line, &choices));
        }
    }
    forms
}

/// A variable and what it may be.
struct Variable {
    name: &'static str,
    words: Vec<&'static str>,
}

fn read_choices(line: &'static str) -> Variable {
    let (name, words) = line.split_once('=').unwrap_or((line, ""));
    let words = words.split_whitespace().filter_map(|word| word.strip_prefix('.')).collect();
    Variable { name: name.trim().trim_start_matches('.'), words }
}

fn read_template(line: &'static str, variables: &[Variable]) -> Read<Form> {
    let complain = |what: &str| format!("{what} in `{line}`");
    let (line, since) = match line.split_once(" @") {
        Some((line, since)) => (line.trim_end(), since),
        None => (line, ""),
    };
    let (template, operands) = line.split_once(' ').unwrap_or((line, ""));
    let (base, mut rest) =
        template.split_at(template.find(['.', '{', '*']).unwrap_or(template.len()));
    let opcode = Opcode::from_text(base);
    if opcode == Opcode::Unknown {
        return Err(complain("unknown base name"));
    }
    let since = read_since(since).ok_or_else(|| complain(since))?;
    let (slots, operands_read) = (Vec::new(), Vec::new());
    let mut form = Form { text: line, opcode, slots, operands: operands_read, open: false, since };
    let (mut optional, mut group) = (false, 0);
    while !rest.is_empty() {
        if matches!(rest, "*" | ".*") {
            form.open = true;
            break;
        }
        if let Some(inside) = rest.strip_prefix('{') {
            optional = true;
            group += 1;
            rest = inside;
        }
        rest = rest.strip_prefix('.').ok_or_else(|| complain(rest))?;
        let end = rest.find(['.', '{', '}', '*']).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        let in_group = (optional, group);
        if let Some(outside) = rest.strip_prefix('}') {
            optional = false;
            rest = outside;
        }
        let known = variables.iter().find(|variable| variable.name == name);
        let words = known.map_or(vec![name], |variable| variable.words.clone());
        let mut choices = Vec::new();
        for word in words {
            choices.extend(read_choice(word).ok_or_else(|| complain(word))?);
        }
        if choices.is_empty() {
            return Err(complain("no choice"));
        }
        form.slots.push(Slot { name, choices, optional: in_group.0, group: in_group.1 });
    }
    for (optional, piece) in split_operands(operands) {
        let mut pattern = read_pattern(piece, &form.slots).ok_or_else(|| complain(piece))?;
        pattern.optional |= optional;
        form.operands.push(pattern);
    }
    Ok(form)
}

/// The modifiers that a word stands for: one, or with `n*` a tile of each width that `wgmma` has.
pub(super) fn read_choice(word: &str) -> Option<Vec<Choice>> {
    let (word, since) = word.split_once('@').unwrap_or((word, ""));
    let since = read_since(since)?;
    let choice =
        |text: &str| Some(Choice { modifier: Modifier::from_text(text)?, since: since.clone() });
    match word.split_once("n*k") {
        None => Some(vec![choice(word)?]),
        Some((rows, rest)) => {
            (8..=256).step_by(8).map(|n| choice(&format!("{rows}n{n}k{rest}"))).collect()
        }
    }
}

fn read_since(text: &str) -> Option<Since> {
    if text.is_empty() { Some(Since::default()) } else { Since::read(text) }
}

/// The pieces between commas, and whether each is inside `{, ...}`.
fn split_operands(text: &'static str) -> Vec<(bool, &'static str)> {
    let mut pieces = Vec::new();
    let mut optional = false;
    for piece in text.split(',') {
        // `a{, b}` splits into `a{` and ` b}`; `d{|p}` and `{!}c` are left alone.
        let piece = piece.trim();
        let opens = piece.ends_with('{');
        let piece = piece.trim_end_matches('{').trim_end();
        let closes = piece.matches('}').count() > piece.matches('{').count();
        let piece = if closes { piece.strip_suffix('}').unwrap_or(piece) } else { piece };
        if !piece.is_empty() {
            pieces.push((optional, piece));
        }
        optional |= opens;
    }
    pieces
}

fn read_pattern(piece: &'static str, slots: &[Slot]) -> Option<Pattern> {
    if let Some((first, second)) = piece.split_once('|') {
        let (first, optional) = match first.strip_suffix('{') {
            Some(first) => (first, true),
            None => (first, false),
        };
        let mut pattern = read_pattern(first, slots)?;
        let second = read_pattern(second.trim_end_matches('}'), slots)?;
        pattern.pair = Some((Box::new(second), optional));
        return Some(pattern);
    }
    let (piece, since) = piece.split_once('@').unwrap_or((piece, ""));
    let since = read_since(since)?;
    let (piece, with) = match piece.split_once('?') {
        Some((piece, name)) => (piece, Some(slots.iter().position(|slot| slot.name == name)?)),
        None => (piece, None),
    };
    let (piece, values) = match piece.split_once('=') {
        Some((piece, values)) => (piece, Some(Values::read(values)?)),
        None => (piece, None),
    };
    let (name, spec) = piece.split_once(':').unwrap_or((piece, ""));
    let mut pattern = Pattern {
        kind: Kind::Source,
        ty: TypeRef::None,
        count: Count::One,
        relaxed: false,
        values,
        optional: false,
        pair: None,
        with,
        since,
    };
    if name.starts_with('[') {
        let space = match spec.strip_prefix('.') {
            Some(word) => match Modifier::from_text(word)? {
                Modifier::Space(space) => Some(space),
                _ => return None,
            },
            None => None,
        };
        pattern.kind = Kind::Memory(space);
        return Some(pattern);
    }
    pattern.kind = match name {
        "s" => Kind::SourceOrSpecial,
        "reg" => Kind::Register,
        "imm" => Kind::Constant,
        "address" => Kind::Address,
        "pack" => Kind::Pack,
        "dpack" => Kind::Unpack,
        "label" => Kind::Label,
        "targets" => Kind::Targets,
        "call" => Kind::Call,
        "texture" => Kind::Texture,
        "handle" => Kind::Handle,
        "offset" => Kind::Offset,
        "gradient" => Kind::Gradient,
        "window" => Kind::Window,
        "lanes" => Kind::VideoRegister,
        "video" => Kind::Video,
        "dvideo" => Kind::VideoDestination,
        "{-}video" => Kind::VideoNegatable,
        "policy" => Kind::Policy,
        "any" => Kind::Any,
        "_" => Kind::Sink,
        _ if name.starts_with("{!}") => Kind::Predicate,
        _ if name.starts_with("_d") => Kind::DestinationOrSink,
        _ if name.starts_with('d') || name == "p" => Kind::Destination,
        _ => Kind::Source,
    };
    if matches!(pattern.kind, Kind::Constant | Kind::Label | Kind::Targets | Kind::Call)
        || matches!(pattern.kind, Kind::Texture | Kind::Handle | Kind::Offset | Kind::Gradient)
        || matches!(pattern.kind, Kind::Window | Kind::VideoRegister)
        || matches!(pattern.kind, Kind::Any | Kind::Sink | Kind::Video)
        || matches!(pattern.kind, Kind::VideoNegatable | Kind::VideoDestination)
    {
        return spec.is_empty().then_some(pattern);
    }
    if pattern.kind == Kind::Policy {
        pattern.ty = TypeRef::Fixed(ScalarType::U64);
        pattern.optional = true;
        return Some(pattern);
    }
    let mut spec = spec;
    if let Some(rest) = spec.strip_prefix("vec") {
        pattern.count = Count::Vector;
        spec = rest.trim_start();
    } else if let Some((divisor, rest)) =
        spec.strip_prefix("n/").and_then(|spec| spec.split_once('x'))
    {
        pattern.count = Count::Columns(divisor.parse().ok()?);
        spec = rest;
    } else if let Some((count, rest)) = spec.split_once('x')
        && let Ok(count) = count.parse()
    {
        pattern.count = Count::Exactly(count);
        spec = rest;
    }
    if let Some(rest) = spec.strip_prefix('~') {
        pattern.relaxed = true;
        spec = rest;
    }
    let slot_of = |name: &str| slots.iter().position(|slot| slot.name == name);
    pattern.ty = if let Some(word) = spec.strip_prefix('.') {
        TypeRef::Fixed(ScalarType::ALL.iter().copied().find(|ty| ty.text() == word)?)
    } else if spec.is_empty() {
        let is_type = |slot: &Slot| matches!(slot.choices[0].modifier, Modifier::Type(_));
        TypeRef::Slot(slot_of("type").or_else(|| slots.iter().rposition(is_type))?)
    } else if let Some(name) = spec.strip_suffix("*2") {
        TypeRef::Double(slot_of(name)?)
    } else {
        TypeRef::Slot(slot_of(spec)?)
    };
    Some(pattern)
}

impl Values {
    fn read(text: &str) -> Option<Values> {
        if text.contains('+') {
            return Some(Values::Each(text.split('+').map(Values::read).collect::<Option<_>>()?));
        }
        match text.split_once('-').filter(|(from, _)| !from.is_empty() && !text.contains('/')) {
            None => Some(Values::List(
                text.split('/').map(|value| value.parse().ok()).collect::<Option<_>>()?,
            )),
            Some((from, to)) => {
                let (to, step) = to.split_once('%').unwrap_or((to, "1"));
                Some(Values::Range(from.parse().ok()?, to.parse().ok()?, step.parse().ok()?))
            }
        }
    }

    /// What an element of a vector may be, or a scalar.
    pub(crate) fn of(&self, element: usize) -> Option<&Values> {
        match self {
            Values::Each(values) => values.get(element),
            one => Some(one),
        }
    }

    /// The constant may be `value`.
    pub(crate) fn contains(&self, value: i64) -> bool {
        match self {
            Values::Each(each) => each.iter().all(|values| values.contains(value)),
            Values::List(list) => list.contains(&value),
            Values::Range(from, to, step) => (*from..=*to).contains(&value) && value % step == 0,
        }
    }

    /// One of them.
    pub(super) fn first(&self) -> i64 {
        match self {
            Values::List(list) => list[0],
            Values::Range(from, ..) => *from,
            Values::Each(values) => values[0].first(),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::List(list) => {
                let list: Vec<String> = list.iter().map(i64::to_string).collect();
                f.write_str(&list.join(" or "))
            }
            Values::Range(from, to, 1) => write!(f, "a value in range [{from}..{to}]"),
            Values::Range(from, to, step) => {
                write!(f, "a multiple of {step} in range [{from}..{to}]")
            }
            Values::Each(values) => {
                let values: Vec<String> = values.iter().map(Values::to_string).collect();
                f.write_str(&values.join(", "))
            }
        }
    }
}

/// Words that ptxas takes twice for once.
const REPEATABLE: &[Modifier] =
    &[Modifier::Sat, Modifier::Cc, Modifier::Sync, Modifier::Approx, Modifier::Relu];

impl Form {
    /// Puts each modifier of the instruction into a slot: the choice of each slot. On failure,
    /// how many modifiers found a place, and the first that did not (`None`: a slot that must be
    /// filled is empty).
    pub(crate) fn place(
        &self,
        instruction: &Instruction,
    ) -> Result<Vec<Option<&Choice>>, (usize, Option<Modifier>)> {
        let mut filled: Vec<Option<&Choice>> = vec![None; self.slots.len()];
        // Types stand in the order of the template.
        let mut types_from = 0;
        for (count, &modifier) in instruction.modifiers.iter().enumerate() {
            let before = &instruction.modifiers[..count];
            if modifier.is_of_name(self.opcode)
                && !before.iter().all(|word| word.is_of_name(self.opcode))
            {
                return Err((count, Some(modifier)));
            }
            if REPEATABLE.contains(&modifier) && before.contains(&modifier) {
                continue;
            }
            let is_type = matches!(modifier, Modifier::Type(_));
            let from = if is_type { types_from } else { 0 };
            let free =
                self.slots.iter().zip(&filled).enumerate().skip(from).find_map(|(index, place)| {
                    let (slot, held) = place;
                    let choice = slot.choices.iter().find(|choice| choice.modifier == modifier)?;
                    held.is_none().then_some((index, choice))
                });
            match free {
                Some((index, choice)) => {
                    filled[index] = Some(choice);
                    if is_type {
                        types_from = index + 1;
                    }
                }
                None if self.open => {}
                None => return Err((count, Some(modifier))),
            }
        }
        let missing = self.slots.iter().zip(&filled).any(|(slot, held)| {
            let mut group =
                self.slots.iter().zip(&filled).filter(|(own, _)| own.group == slot.group);
            held.is_none()
                && (!slot.optional || group.any(|(own, held)| own.optional && held.is_some()))
        });
        if missing { Err((instruction.modifiers.len(), None)) } else { Ok(filled) }
    }
}
