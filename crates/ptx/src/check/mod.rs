//! What ptxas would refuse: modifiers and operands that are not of the instruction table, types
//! and sizes that do not fit, calls that do not fit their function, impossible variables.
//!
//! The rules are compared with ptxas 13.5, form by form, by `tests/ptxas.rs`: what the module's
//! `.version` or `.target` does not have is refused as there. What a device can run is its own
//! question. An instruction whose name is not known passes with a warning.

mod call;
mod directive;
mod instruction;
mod mismatch;
mod operand;
mod target;
mod texture;
mod variable;

use crate::ast::{
    Function, FunctionKind, Instruction, LabelKind, Module, Opcode, Operand, ScalarType, Span,
    Statement, Version,
};
use crate::diagnostic::{Diagnostic, ERRORS_MAX, Errors, Severity};
use crate::limits::{PARAMETER_BYTES_MAX, PARAMETER_BYTES_MAX_OLD};
use instruction::Candidates;
pub use target::{VERSION_MAX, is_target, is_version};

/// Checks a module as a whole.
///
/// # Errors
/// At least one error, with its place and what was expected. Warnings are among the findings.
///
/// Returns the warnings if there is no error.
pub fn check(module: &Module) -> Result<Vec<Diagnostic>, Errors> {
    let mut checker = Checker {
        module,
        diagnostics: Vec::new(),
        truncated: false,
        candidates: Candidates::default(),
    };
    checker.header();
    module.aliases.iter().for_each(|alias| checker.alias(alias));
    for variable in &module.variables {
        checker.variable(variable, None);
    }
    for function in &module.functions {
        if checker.truncated {
            break;
        }
        checker.function(function);
    }
    let Checker { mut diagnostics, truncated, .. } = checker;
    diagnostics.sort_by_key(|diagnostic| diagnostic.position);
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(Errors { diagnostics, truncated });
    }
    Ok(diagnostics)
}

struct Checker<'m> {
    module: &'m Module,
    diagnostics: Vec<Diagnostic>,
    truncated: bool,
    candidates: Candidates<'m>,
}

impl<'m> Checker<'m> {
    fn error(&mut self, span: Span, message: String) {
        self.report(span, Severity::Error, message);
    }

    fn report(&mut self, span: Span, severity: Severity, message: String) {
        if self.diagnostics.len() >= ERRORS_MAX {
            self.truncated = true;
            // A warning must not keep an error out: the file would pass.
            let warning = self.diagnostics.iter().rposition(|d| d.severity == Severity::Warning);
            match warning {
                Some(index) if severity == Severity::Error => self.diagnostics.remove(index),
                _ => return,
            };
        }
        let position = self.module.position(span);
        self.diagnostics.push(Diagnostic { position, severity, message });
    }

    fn function(&mut self, function: &'m Function) {
        for variable in &function.locals {
            self.variable(variable, Some(function));
        }
        self.signature(function);
        self.directives(function);
        self.label_directives(function);
        for label in &function.labels {
            if let LabelKind::BranchTargets(targets) = &label.kind {
                let code = |id| matches!(function.label(id).kind, LabelKind::Code(_));
                if !targets.iter().all(|&target| code(target)) {
                    let message = "a `.branchtargets` list has labels of code only".to_owned();
                    self.error(label.span, message);
                }
            }
        }
        for statement in function.body.iter().flatten() {
            let Statement::Instruction(instruction) = statement else { continue };
            if let Some(guard) = instruction.guard
                && function.register(guard.register).ty != ScalarType::Pred
            {
                let register = function.register(guard.register);
                let message = format!(
                    "Predicate expression expected: '{}' is of type '{}', expected '.pred'",
                    self.module.name(register.name),
                    register.ty
                );
                self.error(instruction.span, message);
            }
            if instruction.opcode == Opcode::Unknown {
                let name = self.module.name(instruction.name);
                let message = format!("Not a name of any known instruction: '{name}'");
                // A later version may have it; and ptxas takes names in capitals, which the parser does not know.
                let capitals = name.bytes().any(|byte| byte.is_ascii_uppercase());
                if self.module.version > VERSION_MAX || capitals {
                    let message = message + "; it traps if it is reached";
                    self.report(instruction.span, Severity::Warning, message);
                } else {
                    self.error(instruction.span, message);
                }
                continue;
            }
            self.instruction(function, instruction);
            self.special_registers(instruction);
        }
    }

    /// Special registers that the module's version or target does not have.
    fn special_registers(&mut self, instruction: &Instruction) {
        for operand in &instruction.operands {
            if let Operand::Special(special, _) = operand {
                self.exists(instruction.span, &format!("%{}", special.text()));
            }
        }
    }

    fn signature(&mut self, function: &Function) {
        if function.kind == FunctionKind::Entry {
            let size = function.parameter_layout().map(|layout| layout.size_bytes);
            let new = self.module.version >= (Version { major: 8, minor: 1 })
                && (self.module.target.sm >= 70 || self.module.target.sm == 0);
            let most = if new { PARAMETER_BYTES_MAX } else { PARAMETER_BYTES_MAX_OLD };
            if size.is_none_or(|size| size > most) {
                let message = format!(
                    "Formal parameter space of '{}' takes {} bytes, expected at most {most} for \
                     this version and target",
                    self.module.name(function.name),
                    size.map_or("too many".to_owned(), |size| size.to_string()),
                );
                self.error(function.span, message);
            }
        }
    }
}
