//! Calls against the signature of what they call.

use super::Checker;
use super::mismatch::Mismatch;
use super::operand::compatible;
use crate::ast::{
    Call, Callee, Function, FunctionKind, Immediate, Instruction, LabelId, LabelKind, Operand,
    Parameter, Prototype, ScalarType, StateSpace, SymbolRef, TypeKind, Variable,
};

/// A formal parameter: in a register of a type, or a number of bytes of `.param`.
#[derive(Clone, Copy, Debug)]
enum Formal {
    Register(ScalarType),
    /// One value, of a type.
    Scalar(ScalarType),
    /// An array: its size and its alignment in bytes.
    Array(Option<u64>, u64),
    /// `.param .b8 x[]`: an array of any size with that alignment in bytes, or nothing.
    Variadic(u64),
}

fn formal_of(variable: &Variable) -> Formal {
    match variable.space {
        StateSpace::Reg => Formal::Register(variable.ty),
        _ if variable.is_unsized() => Formal::Variadic(variable.align_bytes()),
        _ if variable.dims.is_empty() => Formal::Scalar(variable.ty),
        _ => Formal::Array(variable.size_bytes(), variable.align_bytes()),
    }
}

fn formals_of(function: &Function, params: &[Parameter]) -> Vec<Formal> {
    let formal = |param: &Parameter| match *param {
        Parameter::Register(id) => Formal::Register(function.register(id).ty),
        Parameter::Memory(id) => formal_of(function.local(id)),
    };
    params.iter().map(formal).collect()
}

impl<'m> Checker<'m> {
    pub(super) fn call(
        &self,
        function: &'m Function,
        instruction: &'m Instruction,
    ) -> Result<(), Mismatch> {
        let Some(call) = instruction.call() else {
            return Err(Mismatch {
                found: "of a call".to_owned(),
                expected: "`(results), function, (arguments), prototype`, where the function is \
                           declared before, or a register with a prototype"
                    .to_owned(),
            });
        };
        let later = |label: &LabelId| function.label(*label).span.start > instruction.span.start;
        if call.prototype.as_ref().is_some_and(later) {
            return Err(Mismatch {
                found: "the call's prototype, which comes later".to_owned(),
                expected: "one declared before".to_owned(),
            });
        }
        match (call.callee, call.prototype.map(|label| &function.label(label).kind)) {
            (Callee::Direct(id), None) => {
                let callee = self.module.function(id);
                if callee.kind == FunctionKind::Entry {
                    return Err(Mismatch {
                        found: format!("the kernel '{}'", self.module.name(callee.name)),
                        expected: "a `.func`".to_owned(),
                    });
                }
                let formals = |params| formals_of(callee, params);
                self.fits(function, &call, &formals(&callee.returns), &formals(&callee.params))
            }
            (_, Some(LabelKind::Prototype(Prototype { returns, params, .. }))) => {
                let formals = |list: &[Variable]| list.iter().map(formal_of).collect::<Vec<_>>();
                self.fits(function, &call, &formals(returns), &formals(params))
            }
            (_, Some(LabelKind::CallTargets(targets))) => targets.iter().try_for_each(|&id| {
                let callee = self.module.function(id);
                let formals = |params| formals_of(callee, params);
                self.fits(function, &call, &formals(&callee.returns), &formals(&callee.params))
            }),
            _ => Err(Mismatch {
                found: "the call's prototype".to_owned(),
                expected: "a label of `.callprototype` or `.calltargets`".to_owned(),
            }),
        }
    }

    fn fits(
        &self,
        function: &Function,
        call: &Call<'_>,
        returns: &[Formal],
        params: &[Formal],
    ) -> Result<(), Mismatch> {
        self.list_fits(function, "results", call.results, returns)?;
        self.list_fits(function, "arguments", call.arguments, params)
    }

    fn list_fits(
        &self,
        function: &Function,
        what: &str,
        actuals: &[Operand],
        formals: &[Formal],
    ) -> Result<(), Mismatch> {
        let optional = usize::from(matches!(formals, [.., Formal::Variadic(_)]));
        if !(formals.len() - optional..=formals.len()).contains(&actuals.len()) {
            return Err(Mismatch {
                found: format!("{} {what}", actuals.len()),
                expected: format!("{}", formals.len()),
            });
        }
        for (actual, formal) in actuals.iter().zip(formals) {
            let discarded = *actual == Operand::Sink && what == "results";
            if !discarded && !self.actual_fits(function, actual, *formal) {
                let expected = match formal {
                    Formal::Register(ty) | Formal::Scalar(ty) => format!("a value of type '{ty}'"),
                    Formal::Array(Some(size), align) => {
                        format!("{size} bytes of '.param' aligned to {align}")
                    }
                    Formal::Variadic(align) => format!("an array of '.param' aligned to {align}"),
                    Formal::Array(None, _) => "a parameter of a size".to_owned(),
                };
                let found = format!("{} among the {what}", self.describe(function, actual));
                return Err(Mismatch { found, expected });
            }
        }
        Ok(())
    }

    fn actual_fits(&self, function: &Function, actual: &Operand, formal: Formal) -> bool {
        match (actual, formal) {
            (Operand::Register(id), Formal::Register(ty) | Formal::Scalar(ty)) => {
                let register = function.register(*id);
                match register.vector {
                    1 => compatible(register.ty, ty),
                    count => register.ty.size_bytes() * u64::from(count) == ty.size_bytes(),
                }
            }
            (Operand::Symbol(symbol @ SymbolRef::Local(_), 0), _) => {
                let Some(variable) = symbol.variable(self.module, function) else { return false };
                match (formal_of(variable), formal) {
                    _ if variable.space.root() != StateSpace::Param => false,
                    (Formal::Scalar(own), Formal::Scalar(ty) | Formal::Register(ty)) => {
                        compatible(own, ty)
                    }
                    (Formal::Array(own, own_align), Formal::Array(size, align)) => {
                        own.is_some() && own == size && own_align == align
                    }
                    (Formal::Array(_, own_align), Formal::Variadic(align)) => own_align == align,
                    _ => false,
                }
            }
            (Operand::Immediate(value), Formal::Register(ty) | Formal::Scalar(ty)) => {
                let float = !matches!(value, Immediate::Integer { .. });
                if float { ty.is_float() || ty.kind() == TypeKind::Bits } else { !ty.is_float() }
            }
            _ => false,
        }
    }
}
