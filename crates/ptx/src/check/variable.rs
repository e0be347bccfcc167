//! Variables: sizes that exist, initial values that fit.

use super::Checker;
use crate::ast::{
    Function, FunctionKind, Immediate, InitialAddress, Initializer, Linkage, Modifier, Parameter,
    ScalarType, StateSpace, SymbolRef, TypeKind, Variable, Version,
};
use crate::instructions::common_words;
use crate::limits::{PARAMETER_ALIGN_BYTES_MAX, VARIABLE_BYTES_MAX};

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
        if let Some(lack) = common_words::since(Modifier::Type(variable.ty))
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
        if let Some(message) = self.misplaced_variable(variable, function) {
            return self.error(variable.span, message);
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
        if let Err(problem) = self.initial_fits(init, &extents, variable.ty) {
            let message = format!("Initial value of '{name}': {problem}");
            self.error(variable.span, message);
        }
    }

    /// Why a variable cannot stand in its space or at its place.
    fn misplaced_variable(
        &self,
        variable: &Variable,
        function: Option<&Function>,
    ) -> Option<String> {
        let name = self.module.name(variable.name);
        let of_kernel = function.is_some_and(|function| {
            function.kind == FunctionKind::Entry && is_parameter(variable, function)
        });
        match (variable.space.root(), function) {
            (StateSpace::Param, None) => {
                return Some("Parameter variables may not be declared at module scope".to_owned());
            }
            (StateSpace::Local, None) => {
                let message =
                    "Module-scoped variables in .local state space are not allowed with ABI";
                return Some(message.to_owned());
            }
            (StateSpace::Tex, _) if self.module.version >= (Version { major: 1, minor: 5 }) => {
                let message = "Deprecated feature: '.tex' is not supported as of PTX version 1.5, expected \
                     a variable of type '.texref'";
                return Some(message.to_owned());
            }
            (StateSpace::Param, Some(_)) if variable.vector > 1 => {
                return Some(format!(
                    "Variable '{name}' cannot be allocated in .param state space"
                ));
            }
            (StateSpace::Param, Some(_))
                if !of_kernel && variable.align_bytes() > PARAMETER_ALIGN_BYTES_MAX =>
            {
                return Some(format!(
                    "Parameter '{name}' has illegal alignment {}, expected at most \
                     {PARAMETER_ALIGN_BYTES_MAX}",
                    variable.align_bytes()
                ));
            }
            _ => {}
        }
        if variable.ty.kind() != TypeKind::Opaque {
            return None;
        }
        let independent =
            self.module.target.options.iter().any(|word| word == "texmode_independent");
        if variable.ty == ScalarType::Samplerref && !independent {
            return Some(format!(
                "'{name}' of type '.samplerref', expected `.target texmode_independent`"
            ));
        }
        match (variable.space.root(), function) {
            (StateSpace::Global, None) => None,
            (_, None) => {
                Some("Texture and surface variables must be declared in .global space".to_owned())
            }
            (StateSpace::Param, Some(_)) if of_kernel => None,
            _ => {
                let message = "Texture/surface variable must be at module or entry parameter scope";
                Some(message.to_owned())
            }
        }
    }

    fn is_last_parameter(&self, variable: &Variable, function: Option<&Function>) -> bool {
        let Some(function) = function.filter(|function| function.kind == FunctionKind::Func) else {
            return false;
        };
        match function.params.last() {
            Some(Parameter::Memory(id)) => function.local(*id).span == variable.span,
            _ => false,
        }
    }

    /// An initial value against extents (from the outermost; 0 for as many as there are) and type.
    fn initial_fits(
        &self,
        init: &Initializer,
        extents: &[u64],
        ty: ScalarType,
    ) -> Result<(), String> {
        match (init, extents.split_first()) {
            (Initializer::Properties(list), None) if ty.kind() == TypeKind::Opaque => {
                list.iter().try_for_each(|&(name, value)| {
                    property_fits(ty, self.module.name(name), self.module.name(value))
                })
            }
            (Initializer::Value(_) | Initializer::Address(_), _)
                if ty.kind() == TypeKind::Opaque =>
            {
                Err("a value, expected properties in braces".to_owned())
            }
            (Initializer::Properties(_), _) => Err(format!("properties, expected type '{ty}'")),
            (Initializer::List(list), Some((&extent, inner))) => {
                if extent != 0 && list.len() as u64 > extent {
                    return Err(format!(
                        "greater number of elements in array initializer, found {}, expected {extent}",
                        list.len()
                    ));
                }
                list.iter().try_for_each(|element| self.initial_fits(element, inner, ty))
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
                let space = match address.symbol {
                    SymbolRef::Module(id) => Some(self.module.variable(id).space.root()),
                    SymbolRef::Local(_) => None,
                    SymbolRef::Function(_) if address.generic => {
                        return Err("the generic address of a function".to_owned());
                    }
                    SymbolRef::Function(_) => None,
                };
                if space.is_some_and(|own| !matches!(own, StateSpace::Global | StateSpace::Const)) {
                    return Err("an address, expected one in .global or .const".to_owned());
                }
                // Of plain bits and signed integers an address is no value, nor are its bytes.
                let bits = ty.bits();
                let wide = bits == 32 || bits == 64 || (bits == 8 && address.mask.is_some());
                let fits = ty.kind() == TypeKind::Unsigned && wide;
                if fits { Ok(()) } else { Err(format!("an address, expected type '{ty}'")) }
            }
        }
    }
}

fn is_parameter(variable: &Variable, function: &Function) -> bool {
    function.params.iter().any(|parameter| match *parameter {
        Parameter::Memory(id) => std::ptr::eq(function.local(id), variable),
        Parameter::Register(_) => false,
    })
}

/// A property of a texture, sampler or surface and its value.
fn property_fits(ty: ScalarType, name: &str, value: &str) -> Result<(), String> {
    let numbers =
        ["width", "height", "depth", "channel_data_type", "channel_order", "normalized_coords"];
    let modes = ["wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];
    let number = value.starts_with(|first: char| first.is_ascii_digit());
    let fits = match name {
        "filter_mode" if ty != ScalarType::Surfref => matches!(value, "nearest" | "linear"),
        "addr_mode_0" | "addr_mode_1" | "addr_mode_2" if ty != ScalarType::Surfref => {
            modes.contains(&value)
        }
        "force_unnormalized_coords" if ty == ScalarType::Samplerref => number,
        _ if numbers.contains(&name) && ty != ScalarType::Samplerref => {
            number || name.starts_with("channel")
        }
        _ => return Err(format!("Unrecognized field name '{name}' for type '{ty}'")),
    };
    if fits { Ok(()) } else { Err(format!("Unrecognized initial value symbol '{value}'")) }
}
