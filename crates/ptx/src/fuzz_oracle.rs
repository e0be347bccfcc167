//! What must hold for any input, in one place for tests and fuzzers: nothing panics, positions lie
//! in the text, and what is accepted can be printed and read back to the same text.

use crate::cubin::Cubin;
use crate::fatbin::{EntryKind, Fatbin, Wrapper};
use crate::image::{kind_of, measure};
use crate::managed::Managed;

/// Reads `bytes` as PTX.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn text(bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
    let module = match crate::parse_bytes(bytes) {
        Ok(module) => module,
        Err(errors) => {
            assert!(!errors.diagnostics.is_empty());
            for diagnostic in &errors.diagnostics {
                assert!(diagnostic.position.line as usize <= lines, "{diagnostic}");
            }
            let _ = errors.to_string();
            return;
        }
    };
    let checked = crate::check(&module);
    for function in &module.functions {
        let _ = function.parameter_layout();
        for instruction in function.instructions() {
            let _ = (module.text_line(instruction.span), instruction.form(&module));
            let _ = (instruction.call(), instruction.comparison());
        }
    }
    let printed = module.to_string();
    let again = match crate::parse(&printed) {
        Ok(again) => again,
        Err(errors) => panic!("printed text is refused:\n{errors}\n{printed}"),
    };
    assert_eq!(printed, again.to_string());
    assert_eq!(checked.is_ok(), crate::check(&again).is_ok(), "{printed}");
}

/// Reads `bytes` as every kind of image, and the PTX in it.
///
/// # Panics
/// If a promise is broken; that is what it is for.
pub fn image(bytes: &[u8]) {
    let _ = (kind_of(bytes), measure(&mut &bytes[..]), Wrapper::read(bytes), Cubin::read(bytes));
    let _ = crate::embedded::texts(bytes);
    place_managed(bytes);
    let Ok(fatbin) = Fatbin::read(bytes) else { return };
    let _ = fatbin.architectures();
    for entry in &fatbin.entries {
        let Ok(payload) = entry.payload() else { continue };
        match entry.kind {
            EntryKind::Ptx => {
                let _ = crate::parse_bytes(&payload);
            }
            EntryKind::Elf => {
                let _ = (Cubin::read(&payload), measure(&mut &payload[..]));
                place_managed(&payload);
            }
            _ => {}
        }
    }
}

/// Places managed variables: nothing is written beside the file.
fn place_managed(bytes: &[u8]) {
    let Ok(managed) = Managed::find(bytes) else { return };
    let mut cubin = bytes.to_vec();
    managed.place(&mut cubin, 1 << 32);
    if !managed.is_empty() {
        assert_eq!(cubin.len(), bytes.len());
    }
}
