//! Demangling: kernels' names as their C++ or Rust sources have them.

use cpp_demangle::{DemangleOptions, Symbol};

/// The name as C++ or Rust has it, Rust's without its hash; other names stay as they are, but for characters that a terminal would
/// take for more than text.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return control::log::printable(&format!("{rust:#}"));
    }
    let symbol = Symbol::new(name).ok().filter(|_| name.starts_with("_Z"));
    let text = symbol.and_then(|symbol| symbol.demangle(&DemangleOptions::default()).ok());
    control::log::printable(&text.unwrap_or_else(|| name.to_owned()))
}

/// The name without its parameters, template's arguments and return type: for narrow columns.
pub fn short(name: &str) -> String {
    let full = demangled(name);
    let (mut text, mut depth) = (String::new(), 0u32);
    for character in full.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // "(anonymous namespace)::" is a part of the name.
            '(' if depth == 0
                && !text.is_empty()
                && !text.ends_with(':')
                && !text.ends_with(' ') =>
            {
                break;
            }
            other if depth == 0 => text.push(other),
            _ => {}
        }
    }
    // Rust has "::" before a function's types.
    let text = text.trim().trim_end_matches("::");
    let last = text.rsplit(' ').next().filter(|last| !last.is_empty() && !text.contains('('));
    last.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_are_read_and_others_stay() {
        assert_eq!(demangled("_Z9add_arrayPfi"), "add_array(float*, int)");
        assert_eq!(demangled("vector_add"), "vector_add");
        assert_eq!(short("_Z9add_arrayPfi"), "add_array");
        assert_eq!(demangled("_ZN7kernels3add17h05af221e174051e9E"), "kernels::add");
        assert_eq!(demangled("_RNvCs15kBYyAo9fc_7mycrate7example"), "mycrate::example");
        assert_eq!(short("_RINvNtC3std3mem8align_ofdE"), "std::mem::align_of");
        assert_eq!(short("_ZN2at6native6kernelILi4EfEEvT0_"), "at::native::kernel");
        assert_eq!(short("(graphs)"), "(graphs)");
        assert_eq!(short("\x1b]0;x\x07k"), "?]0;x?k");
    }
}
