//! The device runtime library, by which kernels launch kernels: PTX of our own that is linked to modules
//! which name a function of it.

use ptx::ast;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The library: what all functions need, then functions, each after an empty line.
const TEXT: &str = include_str!("device_runtime.ptx");
/// What its functions ask the device with.
pub(crate) const DEVICE_CALL: &str = "__openmps_device_call";
/// How functions of the library are called in programs: of CUDA 12 and 13, and before.
const PREFIXES: [&str; 2] = ["__cudaCDP2", "cuda"];
/// Variants of functions for programs whose NULL stream is a thread's own; a block's, here.
const SUFFIX: &str = "_ptsz";
/// What begins a function.
const FUNCTION: &str = "\n.visible .func";

/// The text before the functions, and each function's text behind [`FUNCTION`] by its name.
static PARTS: LazyLock<(&str, BTreeMap<&str, &str>)> = LazyLock::new(|| {
    let mut parts = TEXT.split(FUNCTION);
    let head = parts.next().unwrap_or_default();
    let name = |text: &'static str| {
        let (_, behind) = text.split_once(") ")?;
        Some((behind.split_once('(')?.0, text))
    };
    (head, parts.filter_map(name).collect())
});

/// A function of the library, by the name that it has in a program.
fn function(name: &str) -> Option<(&'static str, &'static str)> {
    let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let bare = bare.strip_suffix(SUFFIX).unwrap_or(bare);
    PARTS.1.get_key_value(bare).map(|(name, text)| (*name, *text))
}

/// The part of the library that a module names and does not define; `None` if it names nothing of it.
pub(crate) fn needed_by(module: &ast::Module) -> Option<String> {
    let missing = module.functions.iter().filter(|function| function.body.is_none());
    let mut text = String::new();
    for name in missing.map(|function| module.name(function.name)) {
        if let Some((bare, found)) = function(name) {
            text += FUNCTION;
            text += &found.replacen(&format!(" {bare}("), &format!(" {name}("), 1);
        }
    }
    (!text.is_empty()).then(|| format!("{}{text}", PARTS.0))
}

/// The whole library, under all names.
pub fn whole() -> String {
    let mut text = PARTS.0.to_owned();
    for (bare, function) in &PARTS.1 {
        for (prefix, suffix) in PREFIXES.iter().flat_map(|prefix| [(prefix, ""), (prefix, SUFFIX)])
        {
            text += FUNCTION;
            let name = format!(" {prefix}{bare}{suffix}(");
            text += &function.replacen(&format!(" {bare}("), &name, 1);
        }
    }
    text
}

/// The request of a call: its number, and its arguments.
pub mod number {
    /// Bytes of the parameters of a kernel; all ones if there is no such kernel.
    pub const PARAMETER_BYTES: u32 = 0;
    /// Launches what a buffer describes, in a stream.
    pub const LAUNCH: u32 = 1;
    /// Copies: to, from, bytes, stream.
    pub const COPY: u32 = 2;
    /// Fills: where, value, bytes, stream.
    pub const FILL: u32 = 3;
    /// A device attribute; all ones if there is none of that number.
    pub const ATTRIBUTE: u32 = 4;
    /// A limit; all ones if there is none of that number.
    pub const LIMIT: u32 = 5;
    /// The thread's last error; forgets it unless the argument is 0.
    pub const LAST_ERROR: u32 = 6;
    /// Notes an error as the thread's last one.
    pub const NOTE_ERROR: u32 = 7;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_each_of_its_names() {
        assert!(PARTS.1.len() >= 20, "{:?}", PARTS.1.keys());
        for name in ["__cudaCDP2LaunchDeviceV2", "cudaLaunchDeviceV2_ptsz", "cudaMalloc"] {
            assert!(function(name).is_some(), "{name}");
        }
        for name in ["LaunchDeviceV2", "cudaGraphLaunch", "vprintf", "cudaDeviceSynchronize"] {
            assert!(function(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_module_gets_what_it_names_and_it_is_good_ptx() {
        let all: String = PARTS.1.values().map(|text| format!("{FUNCTION}{text}")).collect();
        let whole = format!("{}{all}", PARTS.0);
        let module = ptx::parse(&whole).unwrap();
        ptx::check(&module).unwrap();
        let user = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .extern .func (.param .b32 r) __cudaCDP2GetDevice(.param .b64 p);\n";
        let needed = needed_by(&ptx::parse(user).unwrap()).unwrap();
        assert!(needed.contains(" __cudaCDP2GetDevice(") && !needed.contains("LaunchDevice"));
        assert!(ptx::parse(&needed).is_ok());
        assert!(needed_by(&module).is_none());
    }
}
