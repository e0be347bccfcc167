//! An instruction against the forms of its table.

use super::Checker;
use super::operand::Mismatch;
use crate::ast::{Function, Instruction, Modifier, Opcode, Operand, ScalarType};
use crate::instructions::{Count, Form, Kind, Pattern, TypeRef, forms};
use std::collections::HashMap;
use std::rc::Rc;

/// A form whose modifiers fit, and the modifier in each of its slots.
pub(super) struct Candidate {
    pub(super) form: &'static Form,
    pub(super) filled: Vec<Option<Modifier>>,
}

/// Opcode and modifiers as written.
type Spelling<'m> = (Opcode, &'m [Modifier]);

/// Forms that fit each spelling met so far: real files repeat a few hundred spellings.
#[derive(Default)]
pub(super) struct Candidates<'m>(HashMap<Spelling<'m>, Rc<[Candidate]>>);

impl Candidate {
    /// Type that the pattern asks for; `None` when an optional type is not written.
    pub(super) fn type_of(&self, pattern: &Pattern) -> Option<ScalarType> {
        let slot = |index: usize| match self.filled.get(index) {
            Some(Some(Modifier::Type(ty))) => Some(*ty),
            _ => None,
        };
        match pattern.ty {
            TypeRef::Fixed(ty) => Some(ty),
            TypeRef::Slot(index) => slot(index),
            TypeRef::Double(index) => slot(index).map(double),
            TypeRef::None => None,
        }
    }
}

fn double(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::U16 => ScalarType::U32,
        ScalarType::S16 => ScalarType::S32,
        ScalarType::U32 => ScalarType::U64,
        ScalarType::S32 => ScalarType::S64,
        other => other,
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
        for candidate in candidates.iter() {
            match self.operands(function, instruction, candidate) {
                Ok(()) => return,
                Err(failure) => {
                    if best.as_ref().is_none_or(|best| best.rank() < failure.rank()) {
                        best = Some(failure);
                    }
                }
            }
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
        let patterns =
            || form.operands.iter().filter(move |pattern| pattern.kind != Kind::Policy || hinted);
        let least =
            patterns().filter(|pattern| !pattern.optional || pattern.kind == Kind::Policy).count();
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
