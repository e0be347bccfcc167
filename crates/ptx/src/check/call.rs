//! Calls against the signature of what they call.

use super::Checker;
use super::operand::{Mismatch, compatible};
use crate::ast::{
    Call, Callee, Function, FunctionKind, Immediate, Instruction, LabelKind, Operand, Parameter,
    Prototype, ScalarType, StateSpace, SymbolRef, Variable,
};

/// A formal parameter: in a register of a type, or so many bytes of `.param`.
#[derive(Clone, Copy, Debug)]
enum Formal {
    Register(ScalarType),
    Memory(Option<u64>),
    /// `.param .b8 x[]`: whatever is left, or nothing.
    Variadic,
}

fn formal_of(variable: &Variable) -> Formal {
    match variable.space {
        StateSpace::Reg => Formal::Register(variable.ty),
        _ if variable.is_unsized() => Formal::Variadic,
        _ => Formal::Memory(variable.size_bytes()),
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
        let (formals, variadic) = match formals.split_last() {
            Some((Formal::Variadic, rest)) => (rest, true),
            _ => (formals, false),
        };
        if actuals.len() < formals.len() || (actuals.len() > formals.len() && !variadic) {
            return Err(Mismatch {
                found: format!("{} {what}", actuals.len()),
                expected: format!("{}", formals.len()),
            });
        }
        for (actual, formal) in actuals.iter().zip(formals) {
            if !self.actual_fits(function, actual, *formal) {
                let expected = match formal {
                    Formal::Register(ty) => format!("a value of type '{ty}'"),
                    Formal::Memory(Some(size)) => format!("{size} bytes of '.param'"),
                    _ => "a parameter of a size".to_owned(),
                };
                let found = format!("{} among the {what}", self.describe(function, actual));
                return Err(Mismatch { found, expected });
            }
        }
        Ok(())
    }

    fn actual_fits(&self, function: &Function, actual: &Operand, formal: Formal) -> bool {
        let size_bytes = match actual {
            Operand::Register(id) => {
                let register = function.register(*id);
                if let Formal::Register(ty) = formal {
                    return compatible(register.ty, ty);
                }
                Some(register.ty.size_bytes() * u64::from(register.vector))
            }
            Operand::Symbol(symbol @ SymbolRef::Local(_), 0) => {
                let variable = symbol.variable(self.module, function);
                if variable.is_none_or(|variable| variable.space.root() != StateSpace::Param) {
                    return false;
                }
                variable.and_then(Variable::size_bytes)
            }
            Operand::Immediate(Immediate::Integer { .. }) => return true,
            Operand::Immediate(_) => {
                return matches!(formal, Formal::Register(ty) if ty.is_float())
                    || matches!(formal, Formal::Memory(_));
            }
            Operand::Sink => return true,
            _ => return false,
        };
        match formal {
            Formal::Register(ty) => size_bytes == Some(ty.size_bytes()),
            Formal::Memory(formal) => size_bytes.is_some() && size_bytes == formal,
            Formal::Variadic => true,
        }
    }
}
