//! Reading of the table's notation, described in the module above. It is run over constants of
//! this crate only; a mistake in one is found by a test, and at run time drops that form.

use crate::ast::{Instruction, Modifier, Opcode, ScalarType, StateSpace};

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
}

/// Place of one modifier.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) choices: Vec<Modifier>,
    pub(crate) optional: bool,
}

/// What an operand must be.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) kind: Kind,
    pub(crate) ty: TypeRef,
    pub(crate) count: Count,
    /// The register may be wider than the type.
    pub(crate) relaxed: bool,
    /// An integer constant must be less than this.
    pub(crate) below: Option<u64>,
    /// May be left out (and all after it).
    pub(crate) optional: bool,
    /// Second half of a pair, and whether it may be left out.
    pub(crate) pair: Option<(Box<Pattern>, bool)>,
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
    /// `[tex, {x, y}]`, `[tensor, {x}]`: an address with coordinates; not looked into.
    Texture,
    /// A 32-bit operand of a video instruction: integer register, perhaps with a selector of
    /// bytes or halves, or (read only) a constant.
    Video,
    /// The same, and a register may have a minus.
    VideoNegatable,
    /// The same, written.
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
    /// A vector of exactly so many.
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
        let choices: Vec<Choices> =
            lines().filter(|line| line.starts_with(' ')).map(read_choices).collect();
        for line in lines().filter(|line| !line.starts_with([' ', '#'])) {
            forms.push(read_template(line, &choices));
        }
    }
    forms
}

/// A variable and what it may be.
struct Choices {
    name: &'static str,
    words: Vec<&'static str>,
}

fn read_choices(line: &'static str) -> Choices {
    let (name, words) = line.split_once('=').unwrap_or((line, ""));
    let words = words.split_whitespace().filter_map(|word| word.strip_prefix('.')).collect();
    Choices { name: name.trim().trim_start_matches('.'), words }
}

fn read_template(line: &'static str, choices: &[Choices]) -> Read<Form> {
    let complain = |what: &str| format!("{what} in `{line}`");
    let (template, operands) = line.split_once(' ').unwrap_or((line, ""));
    let (base, mut rest) =
        template.split_at(template.find(['.', '{', '*']).unwrap_or(template.len()));
    let opcode = Opcode::from_text(base);
    if opcode == Opcode::Unknown {
        return Err(complain("unknown base name"));
    }
    let mut form =
        Form { text: line, opcode, slots: Vec::new(), operands: Vec::new(), open: false };
    while !rest.is_empty() {
        if matches!(rest, "*" | ".*") {
            form.open = true;
            break;
        }
        let optional = rest.starts_with('{');
        rest = rest.trim_start_matches(['{', '.']);
        let end = rest.find(['.', '{', '}', '*']).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = rest[end..].trim_start_matches('}');
        let known = choices.iter().find(|choice| choice.name == name);
        let words = known.map_or(vec![name], |choice| choice.words.clone());
        let mut choices = Vec::new();
        for word in words {
            choices.extend(read_choice(word).ok_or_else(|| complain(word))?);
        }
        if choices.is_empty() {
            return Err(complain("no choice"));
        }
        form.slots.push(Slot { name, choices, optional });
    }
    for (optional, piece) in split_operands(operands) {
        let mut pattern = read_pattern(piece, &form.slots).ok_or_else(|| complain(piece))?;
        pattern.optional |= optional;
        form.operands.push(pattern);
    }
    Ok(form)
}

/// The modifiers that a word stands for: one, or with `n*` a tile of each width that `wgmma` has.
fn read_choice(word: &str) -> Option<Vec<Modifier>> {
    let Some((rows, rest)) = word.split_once("n*k") else {
        return Some(vec![Modifier::from_text(word)?]);
    };
    (8..=256).step_by(8).map(|n| Modifier::from_text(&format!("{rows}n{n}k{rest}"))).collect()
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
    let (name, spec) = piece.split_once(':').unwrap_or((piece, ""));
    let mut pattern = Pattern {
        kind: Kind::Source,
        ty: TypeRef::None,
        count: Count::One,
        relaxed: false,
        below: None,
        optional: false,
        pair: None,
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
        "imm" => Kind::Constant,
        "address" => Kind::Address,
        "pack" => Kind::Pack,
        "dpack" => Kind::Unpack,
        "label" => Kind::Label,
        "targets" => Kind::Targets,
        "call" => Kind::Call,
        "texture" => Kind::Texture,
        "video" => Kind::Video,
        "dvideo" => Kind::VideoDestination,
        "{-}video" => Kind::VideoNegatable,
        "policy" => Kind::Policy,
        "any" => Kind::Any,
        _ if name.starts_with("{!}") => Kind::Predicate,
        _ if name.starts_with("_d") => Kind::DestinationOrSink,
        _ if name.starts_with('d') || name == "p" => Kind::Destination,
        _ => Kind::Source,
    };
    if matches!(pattern.kind, Kind::Constant | Kind::Label | Kind::Targets | Kind::Call)
        || matches!(pattern.kind, Kind::Texture | Kind::Any | Kind::Video)
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
    if let Some((rest, below)) = spec.split_once('<') {
        pattern.below = Some(below.parse().ok()?);
        spec = rest;
    }
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
        let is_type = |slot: &Slot| matches!(slot.choices[0], Modifier::Type(_));
        TypeRef::Slot(slot_of("type").or_else(|| slots.iter().rposition(is_type))?)
    } else if let Some(name) = spec.strip_suffix("*2") {
        TypeRef::Double(slot_of(name)?)
    } else {
        TypeRef::Slot(slot_of(spec)?)
    };
    Some(pattern)
}

impl Form {
    /// Puts each modifier of the instruction into a slot: the modifier of each slot. On failure,
    /// how many modifiers found a place, and the first that did not (`None`: a slot that must be
    /// filled is empty).
    pub(crate) fn place(
        &self,
        instruction: &Instruction,
    ) -> Result<Vec<Option<Modifier>>, (usize, Option<Modifier>)> {
        let mut filled: Vec<Option<Modifier>> = vec![None; self.slots.len()];
        for (count, &modifier) in instruction.modifiers.iter().enumerate() {
            let free = self
                .slots
                .iter()
                .zip(&filled)
                .position(|(slot, held)| held.is_none() && slot.choices.contains(&modifier));
            match free {
                Some(index) => filled[index] = Some(modifier),
                None if self.open => {}
                None => return Err((count, Some(modifier))),
            }
        }
        let missing =
            self.slots.iter().zip(&filled).any(|(slot, held)| !slot.optional && held.is_none());
        if missing { Err((instruction.modifiers.len(), None)) } else { Ok(filled) }
    }
}
