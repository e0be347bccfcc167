//! Variables: sizes that exist, initial values that fit.

use super::Checker;
use crate::ast::{
    Function, Immediate, InitialAddress, Initializer, Linkage, Modifier, Parameter, ScalarType,
    StateSpace, TypeKind, Variable,
};
use crate::instructions::words;
use crate::limits::VARIABLE_BYTES_MAX;

impl Checker<'_> {
    pub(super) fn variable(&mut self, variable: &Variable, function: Option<&Function>) {
        let name = self.module.name(variable.name);
        if variable.size_bytes().is_none_or(|size| size > VARIABLE_BYTES_MAX) {
            let message =
                format!("'{name}' is too large, expected at most {VARIABLE_BYTES_MAX} bytes");
            return self.error(variable.span, message);
        }
        if variable.ty == ScalarType::Pred {
            let message = format!("'{name}' of type '.pred', expected it in a register");
            return self.error(variable.span, message);
        }
        if variable.dims.iter().skip(1).any(|&extent| extent == 0) {
            let message = format!("array '{name}' has no extent, expected one of at least 1");
            return self.error(variable.span, message);
        }
        let is_param = variable.space.root() == StateSpace::Param;
        if variable.is_unsized() && variable.linkage != Linkage::Extern && !is_param {
            let message = format!(
                "Non-external variable '{name}' has incomplete type, expected an extent or `.extern`"
            );
            return self.error(variable.span, message);
        }
        if is_param && variable.is_unsized() && !self.is_last_parameter(variable, function) {
            let message =
                format!("'{name}' has no extent, expected that of the last parameter only");
            return self.error(variable.span, message);
        }
        if let Some(lack) = words::since(Modifier::Type(variable.ty))
            .and_then(|since| since.lack(self.module.version, &self.module.target))
        {
            return self.error(variable.span, format!("Feature 'Type {}' {lack}", variable.ty));
        }
        if variable.managed {
            self.exists(variable.span, ".attribute(.managed)");
            if variable.space != StateSpace::Global {
                let message = format!("Illegal attribute '.managed' for symbol '{name}'");
                return self.error(variable.span, message);
            }
        }
        if variable.linkage == Linkage::Common {
            self.exists(variable.span, ".common");
            if variable.space != StateSpace::Global {
                let message = ".common variables must be declared in .global space".to_owned();
                return self.error(variable.span, message);
            }
        }
        if function.is_none() && variable.space == StateSpace::Local {
            let message = "Module-scoped variables in .local state space are not allowed with ABI";
            return self.error(variable.span, message.to_owned());
        }
        let Some(init) = &variable.init else { return };
        if variable.linkage == Linkage::Extern {
            let message = format!("No initial value is allowed for external symbol '{name}'");
            return self.error(variable.span, message);
        }
        if matches!(variable.ty, ScalarType::F16 | ScalarType::F16x2) {
            let message = format!("No initial value is allowed for {} type", variable.ty);
            return self.error(variable.span, message);
        }
        if !matches!(variable.space, StateSpace::Global | StateSpace::Const) {
            let message = format!(
                "No initial value is allowed for '{name}' in this state space, expected '.global' \
                 or '.const'"
            );
            return self.error(variable.span, message);
        }
        let vector = (variable.vector > 1).then_some(u64::from(variable.vector));
        let extents: Vec<u64> = variable.dims.iter().copied().chain(vector).collect();
        if let Err(problem) = fits(init, &extents, variable.ty) {
            let message = format!("Initial value of '{name}': {problem}");
            self.error(variable.span, message);
        }
    }

    fn is_last_parameter(&self, variable: &Variable, function: Option<&Function>) -> bool {
        let Some(function) = function else { return false };
        match function.params.last() {
            Some(Parameter::Memory(id)) => function.local(*id).span == variable.span,
            _ => false,
        }
    }
}

/// An initial value against extents (from the outermost; 0 for as many as there are) and type.
fn fits(init: &Initializer, extents: &[u64], ty: ScalarType) -> Result<(), String> {
    match (init, extents.split_first()) {
        (Initializer::Properties(_), _) if ty.kind() == crate::ast::TypeKind::Opaque => Ok(()),
        (Initializer::Properties(_), _) => Err(format!("properties, expected type '{ty}'")),
        (Initializer::List(list), Some((&extent, inner))) => {
            if extent != 0 && list.len() as u64 > extent {
                return Err(format!(
                    "greater number of elements in array initializer, found {}, expected {extent}",
                    list.len()
                ));
            }
            list.iter().try_for_each(|element| fits(element, inner, ty))
        }
        (Initializer::List(_), None) => Err("a list, expected a single value".to_owned()),
        (Initializer::Value(_) | Initializer::Address(_), Some(_)) => {
            Err("a single value, expected a list in braces for each extent".to_owned())
        }
        (Initializer::Value(value), None) => {
            let fits = match value {
                Immediate::Integer { .. } => !ty.is_float(),
                Immediate::F32(_) | Immediate::F64(_) => value.bits_as(ty).is_some(),
            };
            if fits { Ok(()) } else { Err(format!("type mismatch, expected type '{ty}'")) }
        }
        (Initializer::Address(InitialAddress { mask: Some(mask), .. }), None)
            if !(0..8).any(|byte| *mask == 0xff << (8 * byte)) =>
        {
            Err(format!("Invalid mask value '{mask:#x}', expected that of one byte"))
        }
        (Initializer::Address(address), None) => {
            // Of plain bits and signed integers an address is no value, but its bytes are.
            let wide = ty.kind() == TypeKind::Unsigned && (ty.bits() == 32 || ty.bits() == 64);
            let masked = address.mask.is_some() && ty.bits() <= 64;
            let fits = !ty.is_float() && (wide || masked);
            if fits { Ok(()) } else { Err(format!("an address, expected type '{ty}'")) }
        }
    }
}
