//! Module state: whether an image has variables that kernels or a host could change.
//!
//! Code without any can be loaded once and used by several programs at a time; code whose variables
//! are all known by name can be used by one program after the other, if they get their first values
//! again in between. The answer is on the safe side: [`State::Unknown`] where an image cannot be read.
//! Literal strings and the tables of the mathematical functions are variables in form only: compilers
//! emit them, no name of a program's reaches them, and no code writes to them.

use crate::ast::{ScalarType, StateSpace};
use crate::bytes::{bytes_at, string_at, u16_at, u32_at, u64_at};
use crate::cubin::{SECTION_HEADER_BYTES, section_table, sections};

/// What of a loaded image can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    None,
    /// These variables and nothing else.
    Variables(Variables),
    /// It is not known.
    Unknown,
}

/// All variables of an image that can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// The variables.
    pub all: Vec<Variable>,
    /// Lengths of the cubin's sections, by number, bytes; empty for PTX.
    pub section_bytes: Vec<u64>,
}

/// A variable that can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// The number of its section and its offset there, in a cubin.
    pub place: Option<(usize, u64)>,
}

/// What names of functions contain with which kernels launch kernels: the code behind them has state
/// that the driver looks after.
const LAUNCHES_OF_KERNELS: [&str; 3] = ["cudaLaunchDevice", "cudaGetParameterBuffer", "cudaCDP2"];

const SYMBOL_BYTES: usize = 24;
/// Symbol types: a section and a file name no variable; from 10 up are texture, surface and sampler
/// references, which are set by the host.
const TYPE_SECTION: u8 = 3;
const TYPE_FILE: u8 = 4;
const TYPE_REFERENCES: u8 = 10;
const SECTION_SYMBOLS: u32 = 2;
/// Sections of variables in global memory and of `__constant__` ones.
const STATE_SECTIONS: [&str; 2] = [".nv.global", ".nv.constant3"];
/// What the names of constants begin with that compilers and the headers of cuRAND bring along: literal strings,
/// tables of the mathematical functions and of the generators of random numbers.
const CONSTANT_PREFIXES: [&str; 6] =
    ["$str", "__unnamed_", "__cudart_", "__cr_", "precalc_xorwow_", "mrg32k3aM"];
/// Namespaces of NVIDIA's C++ libraries, whose function objects and tags are variables of one byte: of classes
/// without members, so that there is nothing in them to change. Nearly every module of PyTorch has some.
const LIBRARIES: [&str; 4] = ["thrust", "cub", "cute", "cutlass"];
/// The same; with the inline namespace that names its version, for programs have a namespace `cuda` too.
const CUDA: &str = "cuda";
/// What stands in front of a namespace in the names of what is one file's own.
const INTERNAL: [&str; 2] = ["_INTERNAL_", "_GLOBAL__N_"];

/// True for the name of a variable of that length that holds the same in every program.
pub(crate) fn is_constant(name: &str, bytes: u64) -> bool {
    CONSTANT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || bytes == 1 && is_of_library(&namespaces(name))
}

/// True for what is in these namespaces.
fn is_of_library(namespaces: &[&str]) -> bool {
    let is_version = |name: &&str| name.strip_prefix("__").is_some_and(is_number);
    let named = |name: &&&str| !INTERNAL.iter().any(|internal| name.starts_with(internal));
    match namespaces.iter().find(named) {
        Some(&first) if first == CUDA => namespaces.iter().any(is_version),
        Some(first) => LIBRARIES.contains(first),
        None => false,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The namespaces of a mangled name, from outside; none if it is in none.
fn namespaces(name: &str) -> Vec<&str> {
    let mut components = Vec::new();
    let mut rest = name.strip_prefix("_ZN").unwrap_or_default();
    while let Some(digits) = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0)
        && let Ok(bytes) = rest[..digits].parse::<usize>()
        && let Some((component, behind)) = rest[digits..].split_at_checked(bytes)
    {
        components.push(component);
        rest = behind;
    }
    // The last one is the variable itself.
    components.pop();
    components
}

fn launches_kernels(name: &str) -> bool {
    LAUNCHES_OF_KERNELS.iter().any(|part| name.contains(part))
}

/// What of a cubin can change.
pub fn cubin_state(cubin: &[u8]) -> State {
    find_state(cubin).unwrap_or(State::Unknown)
}

/// Bytes of the variables of a cubin, in global and in constant memory; 0 for what is no cubin, or
/// is one that cannot be read.
pub fn variable_bytes(image: &[u8]) -> u64 {
    let (Some(table), Ok(all)) = (section_table(image), sections(image)) else { return 0 };
    let bytes = |index: usize| {
        let at = table.offset.checked_add(index.checked_mul(table.each)?)?;
        // Sections that are all zeros have a size and nothing in the file.
        u64_at(bytes_at(image, at, SECTION_HEADER_BYTES)?, 32)
    };
    let holds_state = |name: &str| STATE_SECTIONS.iter().any(|state| name.starts_with(state));
    let of_variables = all.iter().enumerate().filter(|(_, section)| holds_state(section.name));
    of_variables.filter_map(|(index, _)| bytes(index)).fold(0, u64::saturating_add)
}

fn find_state(cubin: &[u8]) -> Option<State> {
    let table = section_table(cubin)?;
    let all = sections(cubin).ok()?;
    let header_of = |index: usize| {
        let at = table.offset.checked_add(index.checked_mul(table.each)?)?;
        bytes_at(cubin, at, SECTION_HEADER_BYTES)
    };
    let holds_state = |name: &str| STATE_SECTIONS.iter().any(|state| name.starts_with(state));
    let mut unexplained: Vec<bool> = all.iter().map(|section| holds_state(section.name)).collect();
    let mut variables = Variables::default();
    for (index, section) in all.iter().enumerate() {
        let header = header_of(index)?;
        variables.section_bytes.push(u64_at(header, 32)?);
        if u32_at(header, 4)? != SECTION_SYMBOLS {
            continue;
        }
        let names = all.get(u32_at(header, 40)? as usize)?.content;
        for symbol in section.content.chunks_exact(SYMBOL_BYTES) {
            let (kind, section) = (symbol[4] & 15, usize::from(u16_at(symbol, 6)?));
            let name = string_at(names, u32_at(symbol, 0)? as usize)?;
            if kind >= TYPE_REFERENCES || launches_kernels(name) {
                return Some(State::Unknown);
            }
            let in_state = all.get(section).is_some_and(|section| holds_state(section.name));
            if kind == TYPE_SECTION || kind == TYPE_FILE || !in_state {
                continue;
            }
            unexplained[section] = false;
            let bytes = u64_at(symbol, 16)?;
            if !is_constant(name, bytes) {
                let name = name.to_owned();
                // A symbol's value counts from its section's address, where that has one.
                let offset = u64_at(symbol, 8)?.checked_sub(u64_at(header_of(section)?, 16)?)?;
                let place = Some((section, offset));
                variables.all.push(Variable { name, bytes, place });
            }
        }
    }
    Some(match (unexplained.contains(&true), variables.all.is_empty()) {
        // A section of variables whose symbols were stripped holds unknown data.
        (true, _) => State::Unknown,
        (false, true) => State::None,
        (false, false) => State::Variables(variables),
    })
}

/// What of PTX can change. Only a text with variables is read whole.
pub fn ptx_state(text: &str) -> State {
    if !ptx_has_state(text) {
        return State::None;
    }
    let Ok(module) = crate::parse(text) else { return State::Unknown };
    let mut variables = Variables::default();
    for variable in &module.variables {
        let name = module.name(variable.name);
        let in_memory = matches!(variable.space, StateSpace::Global | StateSpace::Const);
        if !in_memory || is_constant(name, variable.size_bytes().unwrap_or(0)) {
            continue;
        }
        let is_reference = matches!(
            variable.ty,
            ScalarType::Texref | ScalarType::Samplerref | ScalarType::Surfref
        );
        let Some(bytes) = variable.size_bytes().filter(|_| !variable.managed && !is_reference)
        else {
            return State::Unknown;
        };
        variables.all.push(Variable { name: name.to_owned(), bytes, place: None });
    }
    let mut functions = module.functions.iter().map(|function| module.name(function.name));
    match (functions.any(launches_kernels) || module.variables.is_empty(), variables.all.is_empty())
    {
        (true, _) => State::Unknown,
        (false, true) => State::None,
        (false, false) => State::Variables(variables),
    }
}

/// True if PTX declares variables that could change.
fn ptx_has_state(text: &str) -> bool {
    let mut tokens = Tokens { rest: text };
    let mut before = "";
    while let Some(token) = tokens.next() {
        // A parameter may say of its pointer that it is one to global memory: `.ptr .global`.
        if matches!(token, ".global" | ".const") && before != ".ptr" {
            let name = tokens.by_ref().find(|token| is_name(token));
            // What is constant by its length too is found by reading the text whole.
            if !name.is_some_and(|name| is_constant(name, 0)) {
                return true;
            }
        }
        before = token;
    }
    false
}

fn is_name(token: &str) -> bool {
    !token.starts_with(|c: char| c == '.' || c.is_ascii_digit())
}

/// Words of PTX, without comments and punctuation.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            if let Some(comment) = self.rest.strip_prefix("//") {
                self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else if let Some(string) = self.rest.strip_prefix('"') {
                self.rest = string.split_once('"').map_or("", |(_, rest)| rest);
            } else {
                let separates =
                    |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '%'));
                let length = self.rest.find(separates).unwrap_or(self.rest.len());
                if length > 0 {
                    let (token, rest) = self.rest.split_at(length);
                    self.rest = rest;
                    return Some(token);
                }
                self.rest = &self.rest[self.rest.chars().next()?.len_utf8()..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_ptx_are_state() {
        let kernel = ".version 8.0\n.target sm_80\n.entry k(.param .u64 .ptr .global .align 4 p) {\n\
                      .shared .b8 s[16]; ld.global.u32 %r1, [%rd1]; ld.const.u32 %r2, [c]; ret; }\n";
        assert!(!ptx_has_state(kernel));
        for state in [
            ".global .u32 counter;",
            ".visible .global .align 4 .b8 table[64];",
            ".const .align 8 .f64 pi = 3.0;",
            ".global .texref t;",
            "/* one */ .global/* two */.u32 counter;",
            ".global",
        ] {
            assert!(ptx_has_state(&format!("{kernel}{state}")), "{state}");
        }
        for constant in [
            ".global .align 1 .b8 $str$1[4] = {97, 98, 99, 0};",
            ".global .align 4 .b8 __cudart_i2opi_f[24] = {65};",
            "// .global .u32 counter;\n",
            ".file 1 \"a .global b\"",
        ] {
            assert!(!ptx_has_state(&format!("{kernel}{constant}")), "{constant}");
        }
    }

    #[test]
    fn variables_of_ptx_are_known_by_name() {
        let text = |state: &str| {
            ptx_state(&format!(".version 8.0\n.target sm_80\n.address_size 64\n{state}"))
        };
        let variable = |name: &str, bytes| Variable { name: name.to_owned(), bytes, place: None };
        let two = ".global .u32 counter;\n.visible .const .align 8 .f64 table[4];\n\
                   .global .align 1 .b8 $str[2] = {97, 0};\n.shared .u32 other;\n";
        let State::Variables(variables) = text(two) else { panic!("variables are known") };
        assert_eq!(variables.all, [variable("counter", 4), variable("table", 32)]);
        assert_eq!(text(".shared .u32 other;"), State::None);
        for unknown in [
            ".global .u32",
            ".global .attribute(.managed) .u32 counter;",
            ".global .u32 counter;\n.extern .func (.param .b64 r) cudaGetParameterBufferV2 ();",
            ".global .texref t;",
        ] {
            assert_eq!(text(unknown), State::Unknown, "{unknown}");
        }
    }

    #[test]
    fn variables_of_cubins_are_known_by_name_and_place() {
        let cubin_of = include_bytes!("../tests/data/managed_sm_90.cubin");
        assert!(matches!(cubin_state(cubin_of), State::Variables(_)));
        assert_eq!(cubin_state(b"no cubin"), State::Unknown);
        assert_eq!(cubin_state(&cubin_of[..cubin_of.len() / 2]), State::Unknown);
        let mut image = cubin(".nv.global", Some(("table", 1)));
        // The symbol's value and length, and its section's length.
        let symbol = 64 + ".nv.global".len() + "table".len() + 3 + SYMBOL_BYTES;
        image[symbol + 8] = 16;
        image[symbol + 16] = 8;
        let header = image.len() - 3 * 64;
        image[header + 32..header + 40].copy_from_slice(&4096u64.to_le_bytes());
        image[header + 4..header + 8].copy_from_slice(&8u32.to_le_bytes());
        let State::Variables(variables) = cubin_state(&image) else { panic!("they are known") };
        let table = Variable { name: "table".into(), bytes: 8, place: Some((1, 16)) };
        assert_eq!((variables.all, variables.section_bytes[1]), (vec![table], 4096));
        // A section's address counts.
        image[header + 16] = 17;
        assert_eq!(cubin_state(&image), State::Unknown);
        image[header + 16] = 16;
        let State::Variables(variables) = cubin_state(&image) else { panic!("they are known") };
        assert_eq!(variables.all[0].place, Some((1, 0)));
        let launches = cubin(".nv.global", Some(("__cudaCDP2LaunchDeviceV2", 1)));
        assert_eq!(cubin_state(&launches), State::Unknown);
    }

    /// An ELF file with a section of that name and, if one is said, a symbol in it.
    fn cubin(section: &str, symbol: Option<(&str, u8)>) -> Vec<u8> {
        let mut strings = vec![0];
        let mut string = |text: &str| {
            let at = strings.len() as u32;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let (section_name, symbol_name) = (string(section), symbol.map(|(name, _)| string(name)));
        let mut symbols = vec![0u8; SYMBOL_BYTES];
        if let (Some((_, kind)), Some(name)) = (symbol, symbol_name) {
            symbols.extend_from_slice(&name.to_le_bytes());
            symbols.extend_from_slice(&[kind, 0, 1, 0]);
            symbols.resize(2 * SYMBOL_BYTES, 0);
        }
        let (strings_at, symbols_at) = (64, 64 + strings.len());
        let headers_at = symbols_at + symbols.len();
        let mut file = vec![0u8; 64];
        file[..4].copy_from_slice(b"\x7fELF");
        file[40..48].copy_from_slice(&(headers_at as u64).to_le_bytes());
        file[58..64].copy_from_slice(&[64, 0, 4, 0, 2, 0]);
        let header = |name: u32, kind: u32, offset: usize, bytes: usize| {
            let mut header = [0u8; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
            header[40..44].copy_from_slice(&2u32.to_le_bytes());
            header
        };
        let headers = [
            header(0, 0, 0, 0),
            header(section_name, 1, 0, 0),
            header(0, 3, strings_at, strings.len()),
            header(0, SECTION_SYMBOLS, symbols_at, symbols.len()),
        ];
        [file, strings, symbols, headers.concat()].concat()
    }

    #[test]
    fn variables_of_cubins_have_a_size() {
        assert_eq!(variable_bytes(&cubin(".text.k", Some(("k", 2)))), 0);
        assert_eq!(variable_bytes(b"no cubin"), 0);
        let mut image = cubin(".nv.global", Some(("table", 1)));
        let second = image.len() - 3 * 64;
        image[second + 32..second + 40].copy_from_slice(&4096u64.to_le_bytes());
        image[second + 4..second + 8].copy_from_slice(&8u32.to_le_bytes());
        assert_eq!(variable_bytes(&image), 4096);
    }

    #[test]
    fn empty_objects_of_libraries_are_constants() {
        let of_file = "_ZN67_INTERNAL_c9e65b9b_30_flash_bwd_hdim128_bf16_sm80_cu_53efa926_86195";
        for name in [
            "4cuda3std3__45__cpo5beginE",
            "4cuda3std6ranges3__45__cpo4swapE",
            "4cuda3__413in_place_fromE",
            "6thrust12placeholders2_1E",
            "4cute7productE",
        ] {
            for name in [format!("_ZN{name}"), format!("{of_file}{name}")] {
                assert!(is_constant(&name, 1), "{name}");
                assert!(!is_constant(&name, 4), "{name}: something is in it");
            }
        }
        // Programs' own, also in a namespace of that name, and what is no name of a namespace's.
        for name in [
            "flag",
            "_ZN4cuda4flagE",
            "_ZN2at4cuda4flagE",
            "_ZN6thrustE",
            "_ZN4cuda3std4flagE",
            "_ZZN4cute4mainEvE4flag",
            "_ZN99thrust1xE",
            "_ZN",
            "_ZN67_INTERNAL_",
            "",
        ] {
            assert!(!is_constant(name, 1), "{name}");
        }
        let text = |size: &str| {
            ptx_state(&format!(
                ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 1 .b8 _ZN4cute7productE{size};\n"
            ))
        };
        assert_eq!(text("[1]"), State::None);
        assert!(matches!(text("[2]"), State::Variables(_)));
    }

    #[test]
    fn constants_of_compilers_are_none() {
        let state = |section, symbol| cubin_state(&cubin(section, symbol));
        assert_eq!(state(".text.k", Some(("k", 2))), State::None);
        assert_eq!(state(".nv.global.init", Some(("$str", 1))), State::None);
        assert_eq!(state(".nv.global.init", Some(("__cudart_i2opi_f", 1))), State::None);
        assert_eq!(state(".nv.global.init", Some(("mrg32k3aM1SubSeq", 1))), State::None);
        let is_known = |state| matches!(state, State::Variables(_));
        assert!(is_known(state(".nv.global.init", Some(("table", 1)))));
        assert!(is_known(state(".nv.constant3", Some(("weights", 1)))));
        // Nothing says what is in it.
        assert_eq!(state(".nv.global", None), State::Unknown);
        assert_eq!(state(".nv.global", Some((".nv.global", TYPE_SECTION))), State::Unknown);
        assert_eq!(state(".text.k", Some(("texture", TYPE_REFERENCES))), State::Unknown);
    }
}
