//! Variables of a module that its kernels may have changed: another server's copy of the module begins
//! with those of its image.
//!
//! Read off the kernels' PTX. Where an image has none, a variable without a first value that code refers
//! to counts as changed; what has a first value are mostly texts and tables, and does not.

use super::effects;
use ptx::ast::StateSpace;
use ptx::bytes::{u16_at, u32_at, u64_at};
use ptx::fatbin::{EntryKind, Fatbin};
use std::collections::BTreeSet;

/// True if one of the kernels that were launched may have changed a variable that lies on the device.
pub(crate) fn may_be_changed<'n>(
    image: &[u8],
    launched: impl IntoIterator<Item = &'n str>,
) -> bool {
    let effects = effects::of_image(image);
    let mut in_ptx = None;
    let mut in_code = None;
    launched.into_iter().any(|kernel| match effects.get(kernel) {
        Some(effects) => {
            effects.writes.iter().any(|write| write.variable)
                || effects.opaque && *in_ptx.get_or_insert_with(|| has_variables_in_ptx(image))
        }
        None => *in_code.get_or_insert_with(|| has_variables_in_code(image)),
    })
}

/// The names of an image's `__constant__` variables.
pub(crate) fn constants(image: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in ptx::embedded::texts(image).unwrap_or_default() {
        let end = text.bytes.iter().position(|byte| *byte == 0).unwrap_or(text.bytes.len());
        let Ok(module) = ptx::parse_bytes(&text.bytes[..end]) else { continue };
        let constants = module.variables.iter().filter(|v| v.space == StateSpace::Const);
        names.extend(constants.map(|variable| module.name(variable.name).to_owned()));
    }
    for cubin in cubins(image) {
        names.extend(constants_of(&cubin).unwrap_or_default());
    }
    names
}

/// The cubins of an image that can be read.
fn cubins(image: &[u8]) -> Vec<Vec<u8>> {
    if image.starts_with(b"\x7fELF") {
        return vec![image.to_vec()];
    }
    let Ok(fatbin) = Fatbin::read(image) else { return Vec::new() };
    let cubins = fatbin.entries.iter().filter(|entry| entry.kind == EntryKind::Elf);
    cubins.filter_map(|entry| entry.payload().ok()).map(|cubin| cubin.into_owned()).collect()
}

/// `None` for a damaged file.
fn constants_of(cubin: &[u8]) -> Option<Vec<String>> {
    let sections = sections(cubin)?;
    let names = sections.get(usize::from(u16_at(cubin, 62)?))?.2;
    let name_at = |table: usize, name: usize| -> Option<&str> {
        let text = cubin.get(table.checked_add(name)?..)?;
        core::str::from_utf8(&text[..text.iter().position(|byte| *byte == 0)?]).ok()
    };
    let is_bank = |number: usize| {
        let section = sections.get(number)?;
        name_at(names, section.0).map(|name| name.starts_with(".nv.constant3"))
    };
    let Some((_, _, symbols, bytes, link)) = sections.iter().find(|s| s.1 == SYMBOLS) else {
        return Some(Vec::new());
    };
    let texts = sections.get(*link)?.2;
    let symbols = cubin.get(*symbols..symbols.checked_add(*bytes)?)?;
    let of_bank = |symbol: &[u8]| -> Option<String> {
        let in_bank = symbol[4] & 15 == OBJECT && is_bank(usize::from(u16_at(symbol, 6)?))?;
        in_bank.then(|| name_at(texts, u32_at(symbol, 0)? as usize).map(str::to_owned))?
    };
    Some(symbols.chunks_exact(24).filter_map(of_bank).collect())
}

/// True if one of an image's texts has a variable that kernels can change.
fn has_variables_in_ptx(image: &[u8]) -> bool {
    let texts = ptx::embedded::texts(image).unwrap_or_default();
    texts.iter().any(|text| {
        let end = text.bytes.iter().position(|byte| *byte == 0).unwrap_or(text.bytes.len());
        let Ok(module) = ptx::parse_bytes(&text.bytes[..end]) else { return true };
        module.variables.iter().any(|variable| {
            let on_device = variable.space == StateSpace::Global && !variable.managed;
            on_device && !is_text(module.name(variable.name))
        })
    })
}

/// True for what compilers call the texts of printf and assert.
fn is_text(name: &str) -> bool {
    let names = ["$str", "_$_str", ".str", "__unnamed_", "__PRETTY_FUNCTION__", "__FUNCTION__"];
    names.iter().any(|beginning| {
        name.trim_start_matches('_').starts_with(beginning.trim_start_matches('_'))
    })
}

/// True if one of an image's cubins has a variable without a first value that its code refers to.
fn has_variables_in_code(image: &[u8]) -> bool {
    if image.starts_with(b"\x7fELF") {
        return refers_to_variables(image).unwrap_or(true);
    }
    let Ok(fatbin) = Fatbin::read(image) else { return false };
    let mut cubins = fatbin.entries.iter().filter(|entry| entry.kind == EntryKind::Elf);
    cubins.any(|entry| match entry.payload() {
        Ok(cubin) => refers_to_variables(&cubin).unwrap_or(true),
        Err(_) => true,
    })
}

/// A section of an ELF file: its name's place, type, offset, bytes, link.
type Section = (usize, u32, usize, usize, usize);

const SYMBOLS: u32 = 2;
const RELOCATIONS_WITH_ADDENDS: u32 = 4;
const NO_BITS: u32 = 8;
const RELOCATIONS: u32 = 9;
const OBJECT: u8 = 1;
/// Of a symbol's `st_other`: the variable is managed.
const MANAGED: u8 = 4;

/// `None` for a damaged file.
fn refers_to_variables(cubin: &[u8]) -> Option<bool> {
    let sections = sections(cubin)?;
    let names = sections.get(usize::from(u16_at(cubin, 62)?))?.2;
    let is_variables = |number: usize| {
        sections.get(number).is_some_and(|(name, kind, ..)| {
            let name = names.checked_add(*name).and_then(|at| cubin.get(at..));
            *kind == NO_BITS && name.is_some_and(|name| name.starts_with(b".nv.global"))
        })
    };
    let Some((_, _, symbols, bytes, _)) = sections.iter().find(|s| s.1 == SYMBOLS) else {
        return Some(false);
    };
    let symbols = cubin.get(*symbols..symbols.checked_add(*bytes)?)?;
    let variable = |number: usize| -> Option<bool> {
        let symbol = symbols.get(number.checked_mul(24)?..)?.get(..24)?;
        let (kind, section) = (symbol[4] & 15, usize::from(u16_at(symbol, 6)?));
        // A section's own symbol stands for all that is in it.
        Some((kind == OBJECT || kind == 3) && symbol[5] & MANAGED == 0 && is_variables(section))
    };
    for (_, kind, offset, bytes, _) in &sections {
        let each = match *kind {
            RELOCATIONS => 16,
            RELOCATIONS_WITH_ADDENDS => 24,
            _ => continue,
        };
        for relocation in cubin.get(*offset..offset.checked_add(*bytes)?)?.chunks_exact(each) {
            if variable((u64_at(relocation, 8)? >> 32) as usize)? {
                return Some(true);
            }
        }
    }
    Some(false)
}

fn sections(cubin: &[u8]) -> Option<Vec<Section>> {
    let start = usize::try_from(u64_at(cubin, 40)?).ok()?;
    let (each, count) = (usize::from(u16_at(cubin, 58)?), usize::from(u16_at(cubin, 60)?));
    let word = |header: &[u8], at: usize| usize::try_from(u64_at(header, at)?).ok();
    (0..count)
        .map(|number| {
            let header = cubin.get(start.checked_add(number.checked_mul(each)?)?..)?.get(..64)?;
            let name = u32_at(header, 0)? as usize;
            let link = u32_at(header, 40)? as usize;
            Some((name, u32_at(header, 4)?, word(header, 24)?, word(header, 32)?, link))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.global .u32 counter;\n\
        .visible .entry counts()\n{\n.reg .u32 %r<3>;\natom.global.add.u32 %r1, [counter], 1;\nret;\n}\n\
        .visible .entry looks(.param .u64 a)\n{\n.reg .u32 %r<3>;\n.reg .u64 %rd<3>;\n\
        ld.param.u64 %rd1, [a];\nld.global.u32 %r1, [counter];\nst.global.u32 [%rd1], %r1;\nret;\n}\n\
        .visible .entry chases(.param .u64 a)\n{\n.reg .u64 %rd<3>;\nld.param.u64 %rd1, [a];\n\
        ld.global.u64 %rd2, [%rd1];\nst.global.u64 [%rd2], %rd1;\nret;\n}\n";

    #[test]
    fn kernels_that_were_launched_and_write_variables_change_them() {
        let changed = |kernels: &[&str]| may_be_changed(TEXT.as_bytes(), kernels.iter().copied());
        assert!(!changed(&[]));
        assert!(!changed(&["looks"]));
        assert!(changed(&["looks", "counts"]));
        assert!(changed(&["chases"]), "it may write anywhere");
        let of_texts = TEXT.replace("counter", "$str");
        assert!(!may_be_changed(of_texts.as_bytes(), ["chases"]));
    }

    /// A cubin of sections `.nv.global` and its relocations, with one variable.
    fn cubin(relocated: bool) -> Vec<u8> {
        let mut file = vec![0_u8; 64];
        file[..4].copy_from_slice(b"\x7fELF");
        let names = file.len();
        file.extend(b"\0.nv.global\0.x\0\0\0");
        let symbols = file.len();
        file.extend([0; 24]);
        let mut symbol = [0_u8; 24];
        symbol[4] = OBJECT;
        symbol[6] = 2;
        file.extend(symbol);
        let relocations = file.len();
        if relocated {
            file.extend([0_u8; 8]);
            file.extend((1_u64 << 32 | 2).to_le_bytes());
        }
        let (relocations_bytes, headers) = (file.len() - relocations, file.len());
        let mut section = |name: u32, kind: u32, offset: usize, bytes: usize| {
            let mut header = [0_u8; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
            file.extend(header);
        };
        section(0, 0, 0, 0);
        section(12, 3, names, 16);
        section(1, NO_BITS, 0, 4);
        section(12, SYMBOLS, symbols, 48);
        section(12, RELOCATIONS, relocations, relocations_bytes);
        file[40..48].copy_from_slice(&(headers as u64).to_le_bytes());
        file[58..60].copy_from_slice(&64_u16.to_le_bytes());
        file[60..62].copy_from_slice(&5_u16.to_le_bytes());
        file[62..64].copy_from_slice(&1_u16.to_le_bytes());
        file
    }

    #[test]
    fn code_without_ptx_changes_what_it_refers_to() {
        assert!(may_be_changed(&cubin(true), ["k"]));
        assert!(!may_be_changed(&cubin(false), ["k"]));
        assert!(!may_be_changed(&cubin(true), []));
    }

    proptest! {
        #[test]
        fn no_change_of_a_byte_makes_it_panic(at in 0usize..500, byte: u8) {
            let mut file = cubin(true);
            let at = at % file.len();
            file[at] = byte;
            let _ = may_be_changed(&file, ["k"]);
        }
    }
}
