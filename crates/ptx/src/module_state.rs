//! Module state: whether an image has variables that kernels or a host could change.
//!
//! Code without any can be loaded once and used by several programs. The answer is on the safe side:
//! "has state" where an image cannot be read. Literal strings and the tables of the mathematical
//! functions are variables in form only: compilers emit them, no name of a program's reaches them,
//! and no code writes to them.

use crate::bytes::{bytes_at, string_at, u16_at, u32_at, u64_at};
use crate::cubin::{SECTION_HEADER_BYTES, section_table, sections};

const SYMBOL_BYTES: usize = 24;
/// Symbol types: a section and a file name no variable; from 10 up are texture, surface and sampler
/// references, which are set by the host.
const TYPE_SECTION: u8 = 3;
const TYPE_FILE: u8 = 4;
const TYPE_REFERENCES: u8 = 10;
const SECTION_SYMBOLS: u32 = 2;
/// Sections of variables in global memory and of `__constant__` ones.
const STATE_SECTIONS: [&str; 2] = [".nv.global", ".nv.constant3"];
/// What the names of compilers' own constants begin with: literal strings, tables of the
/// mathematical functions.
const CONSTANT_PREFIXES: [&str; 3] = ["$str", "__unnamed_", "__cudart_"];

fn is_constant(name: &str) -> bool {
    CONSTANT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// True if a cubin has variables that could change, or cannot be read.
pub fn cubin_has_state(cubin: &[u8]) -> bool {
    find_state(cubin).unwrap_or(true)
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

fn find_state(cubin: &[u8]) -> Option<bool> {
    let table = section_table(cubin)?;
    let all = sections(cubin).ok()?;
    let holds_state = |name: &str| STATE_SECTIONS.iter().any(|state| name.starts_with(state));
    let mut unexplained: Vec<bool> = all.iter().map(|section| holds_state(section.name)).collect();
    for index in 0..all.len() {
        let at = table.offset.checked_add(index.checked_mul(table.each)?)?;
        let header = bytes_at(cubin, at, SECTION_HEADER_BYTES)?;
        if u32_at(header, 4)? != SECTION_SYMBOLS {
            continue;
        }
        let names = all.get(u32_at(header, 40)? as usize)?.content;
        for symbol in all[index].content.chunks_exact(SYMBOL_BYTES) {
            let (kind, section) = (symbol[4] & 15, usize::from(u16_at(symbol, 6)?));
            if kind >= TYPE_REFERENCES {
                return Some(true);
            }
            let in_state = all.get(section).is_some_and(|section| holds_state(section.name));
            if kind == TYPE_SECTION || kind == TYPE_FILE || !in_state {
                continue;
            }
            if !is_constant(string_at(names, u32_at(symbol, 0)? as usize)?) {
                return Some(true);
            }
            unexplained[section] = false;
        }
    }
    // A section of variables whose symbols were stripped holds unknown data.
    Some(unexplained.contains(&true))
}

/// True if PTX declares variables that could change.
pub fn ptx_has_state(text: &str) -> bool {
    let mut tokens = Tokens { rest: text };
    let mut before = "";
    while let Some(token) = tokens.next() {
        // A parameter may say of its pointer that it is one to global memory: `.ptr .global`.
        if matches!(token, ".global" | ".const") && before != ".ptr" {
            let name = tokens.by_ref().find(|token| is_name(token));
            if !name.is_some_and(is_constant) {
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
    fn variables_of_cubins_are_state() {
        let cubin = include_bytes!("../tests/data/managed_sm_90.cubin");
        assert!(cubin_has_state(cubin));
        assert!(cubin_has_state(b"no cubin"));
        assert!(cubin_has_state(&cubin[..cubin.len() / 2]));
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
    fn constants_of_compilers_are_none() {
        assert!(!cubin_has_state(&cubin(".text.k", Some(("k", 2)))));
        assert!(!cubin_has_state(&cubin(".nv.global.init", Some(("$str", 1)))));
        assert!(!cubin_has_state(&cubin(".nv.global.init", Some(("__cudart_i2opi_f", 1)))));
        assert!(cubin_has_state(&cubin(".nv.global.init", Some(("table", 1)))));
        assert!(cubin_has_state(&cubin(".nv.constant3", Some(("weights", 1)))));
        // Nothing says what is in it.
        assert!(cubin_has_state(&cubin(".nv.global", None)));
        assert!(cubin_has_state(&cubin(".nv.global", Some((".nv.global", TYPE_SECTION)))));
        assert!(cubin_has_state(&cubin(".text.k", Some(("texture", TYPE_REFERENCES)))));
    }
}
