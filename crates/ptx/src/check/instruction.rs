//! An instruction against the forms of its table.

use super::Checker;
use super::mismatch::Mismatch;
use crate::ast::{Function, Instruction, Modifier, Module, Opcode, Operand, ScalarType};
use crate::instructions::{
    self, Choice, Count, Form, Kind, Lack, Pattern, Since, TypeRef, common_words, forms,
};
use std::collections::HashMap;
use std::rc::Rc;

/// A form whose modifiers fit, and the modifier in each of its slots.
pub(super) struct Candidate {
    pub(super) form: &'static Form,
    pub(super) filled: Vec<Option<&'static Choice>>,
}

/// Opcode and modifiers as written.
type Spelling<'m> = (Opcode, &'m [Modifier]);

/// Forms that fit each spelling met so far: real files repeat a few hundred spellings.
#[derive(Default)]
pub(super) struct Candidates<'m>(HashMap<Spelling<'m>, Rc<[Candidate]>>);

impl Candidate {
    /// Type that the pattern asks for; `None` when an optional type is not written.
    pub(super) fn type_of(&self, pattern: &Pattern) -> Option<ScalarType> {
        let slot = |index: usize| match self.filled.get(index)?.map(|choice| choice.modifier) {
            Some(Modifier::Type(ty)) => Some(ty),
            _ => None,
        };
        match pattern.ty {
            TypeRef::Fixed(ty) => Some(ty),
            TypeRef::Slot(index) => slot(index),
            TypeRef::Double(index) => slot(index).map(instructions::double),
            TypeRef::None => None,
        }
    }
}

impl Candidate {
    /// What the module lacks for the form or for one of the words in it, and that word.
    fn lack(&self, module: &Module, operands: &[Operand]) -> Option<(Option<Modifier>, Lack)> {
        let lacks = |since: &Since| since.lack(module.version, &module.target);
        let own = || lacks(&self.form.since).map(|lack| (None, lack));
        let words = || {
            self.filled.iter().flatten().find_map(|choice| {
                let general =
                    || common_words::since_in(self.form.opcode, choice.modifier).and_then(lacks);
                Some((Some(choice.modifier), lacks(&choice.since).or_else(general)?))
            })
        };
        let patterns = || {
            self.form.operands.iter().zip(operands).find_map(|(pattern, operand)| {
                let second = match (&pattern.pair, operand) {
                    (Some((second, _)), Operand::Pair(_)) => lacks(&second.since),
                    _ => None,
                };
                Some((None, lacks(&pattern.since).or(second)?))
            })
        };
        own().or_else(words).or_else(patterns)
    }
}

/// How far a candidate got before it failed: the further, the likelier it was meant.
struct Failure {
    /// Operand that did not fit; `None`: their number is wrong.
    operand: Option<usize>,
    /// That operand is a vector where one is asked for, or neither.
    shaped: bool,
    mismatch: Mismatch,
    form: &'static Form,
}

impl Failure {
    fn rank(&self) -> (Option<usize>, bool) {
        (self.operand, self.shaped)
    }
}

impl<'m> Checker<'m> {
    fn candidates(&mut self, instruction: &'m Instruction) -> Rc<[Candidate]> {
        let spelling = (instruction.opcode, &instruction.modifiers[..]);
        let known = self.candidates.0.entry(spelling).or_insert_with(|| {
            forms(instruction.opcode)
                .iter()
                .filter_map(|form| {
                    form.place(instruction).ok().map(|filled| Candidate { form, filled })
                })
                .collect()
        });
        Rc::clone(known)
    }

    pub(super) fn instruction(&mut self, function: &'m Function, instruction: &'m Instruction) {
        let candidates = self.candidates(instruction);
        if candidates.is_empty() {
            return self.bad_modifiers(instruction);
        }
        let mut best: Option<Failure> = None;
        let mut lack = None;
        for candidate in candidates.iter() {
            match self.operands(function, instruction, candidate) {
                Ok(()) => match candidate.lack(self.module, &instruction.operands) {
                    Some(lacks) => lack = lack.or(Some(lacks)),
                    None => return,
                },
                Err(failure) => {
                    if best.as_ref().is_none_or(|best| best.rank() < failure.rank()) {
                        best = Some(failure);
                    }
                }
            }
        }
        if let Some((word, lack)) = lack {
            return self.lacking(instruction, word, &lack);
        }
        let Some(failure) = best else { return };
        let name = instruction.form(self.module);
        let message = match failure.operand {
            None => format!(
                "Arguments mismatch for instruction '{name}': found {} operands, expected `{}`",
                instruction.operands.len(),
                squeeze_template(failure.form.text)
            ),
            Some(index) => format!(
                "Arguments mismatch for instruction '{name}': operand {}, {}, expected {}",
                index + 1,
                failure.mismatch.found,
                failure.mismatch.expected
            ),
        };
        self.error(instruction.span, message);
    }

    /// The operands against one candidate.
    fn operands(
        &mut self,
        function: &'m Function,
        instruction: &'m Instruction,
        candidate: &Candidate,
    ) -> Result<(), Failure> {
        let form = candidate.form;
        if form.open {
            return Ok(());
        }
        if let [Pattern { kind: Kind::Call, .. }] = form.operands[..] {
            return self.call(function, instruction).map_err(|mismatch| Failure {
                operand: Some(0),
                shaped: true,
                mismatch,
                form,
            });
        }
        let hinted = instruction.has(Modifier::L2CacheHint);
        let patterns = || {
            form.operands
                .iter()
                .filter(move |pattern| pattern.kind != Kind::Policy || hinted)
                .filter(|pattern| pattern.with.is_none_or(|slot| candidate.filled[slot].is_some()))
        };
        let optional = |pattern: &&Pattern| {
            pattern.optional && pattern.with.is_none() && pattern.kind != Kind::Policy
        };
        let least = patterns().take_while(|pattern| !optional(pattern)).count();
        let count = instruction.operands.len();
        if count < least || count > patterns().count() {
            return Err(Failure {
                operand: None,
                shaped: true,
                mismatch: Mismatch::default(),
                form,
            });
        }
        for (index, (operand, pattern)) in instruction.operands.iter().zip(patterns()).enumerate() {
            self.operand(function, instruction, candidate, pattern, operand).map_err(
                |mismatch| {
                    let vector = matches!(pattern.kind, Kind::Pack | Kind::Unpack)
                        || pattern.count != Count::One;
                    let shaped = vector == matches!(operand, Operand::Vector(_));
                    Failure { operand: Some(index), shaped, mismatch, form }
                },
            )?;
        }
        Ok(())
    }

    /// The form is known, but not to the module's version or target.
    fn lacking(&mut self, instruction: &Instruction, word: Option<Modifier>, lack: &Lack) {
        let name = instruction.form(self.module);
        let message = match word.and_then(Modifier::text) {
            Some(word) => format!("Modifier '.{word}' of '{name}' {lack}"),
            None => format!("Feature '{name}' {lack}"),
        };
        self.error(instruction.span, message);
    }

    /// No form takes these modifiers: say which one is to blame, as far as that can be told.
    fn bad_modifiers(&mut self, instruction: &Instruction) {
        let name = self.module.name(instruction.name);
        let forms = forms(instruction.opcode);
        let furthest = forms
            .iter()
            .filter_map(|form| Some((form.place(instruction).err()?, form)))
            .max_by_key(|((placed, culprit), _)| (*placed, culprit.is_none()));
        let Some(((_, culprit), _)) = furthest else { return };
        let what = match culprit {
            Some(Modifier::Other(word)) => {
                format!("Unknown modifier '.{}' for instruction '{name}'", self.module.name(word))
            }
            Some(Modifier::Type(ty)) => {
                format!("Unexpected instruction type '{ty}' specified for '{name}'")
            }
            Some(modifier) => format!(
                "Illegal modifier '.{}' for instruction '{name}'",
                modifier.text().unwrap_or("")
            ),
            None => format!("A modifier is missing for instruction '{name}'"),
        };
        const FORMS_SHOWN_MAX: usize = 6;
        let mut shown: Vec<String> = Vec::new();
        for form in forms {
            let template = form.text.split(' ').next().unwrap_or("").to_owned();
            if !shown.contains(&template) && shown.len() < FORMS_SHOWN_MAX {
                shown.push(template);
            }
        }
        let message = format!(
            "{what}: '{}', expected one of `{}`",
            instruction.form(self.module),
            shown.join("`, `")
        );
        self.error(instruction.span, message);
    }
}

/// A template on one line with single blanks.
fn squeeze_template(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
