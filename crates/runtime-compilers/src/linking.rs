//! What nvJitLink was given, linked without making machine code.

use cuda_api::link::Link;
use ptx::fatbin::{EntryKind, Fatbin};
use ptx::image::{ImageKind, kind_of};

/// CUjitInputType: what the driver's linker gets.
const JIT_PTX: u32 = 1;
const JIT_FATBINARY: u32 = 2;
const JIT_OBJECT: u32 = 3;
const JIT_LIBRARY: u32 = 4;

/// What an input is, by its bytes: programs also give PTX where they mean a cubin, since that is what
/// the compiler in front has given them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// PTX text.
    Ptx,
    /// A fat binary with PTX.
    Fatbin,
    /// An object file or program, perhaps with PTX in it.
    Object,
    /// An archive of object files.
    Library,
    /// Machine code alone.
    MachineCode,
    /// Anything else: code for optimisation at link time, which only the real linker reads.
    Other,
}

/// What some bytes are.
pub(crate) fn kind(bytes: &[u8]) -> Kind {
    if bytes.starts_with(ptx::embedded::ARCHIVE_MAGIC) {
        return Kind::Library;
    }
    match kind_of(bytes) {
        Some(ImageKind::Ptx) => Kind::Ptx,
        Some(ImageKind::Fatbin) => match Fatbin::read(bytes) {
            Ok(fatbin) if fatbin.entries.iter().any(|it| it.kind == EntryKind::Ptx) => Kind::Fatbin,
            _ => Kind::Other,
        },
        Some(ImageKind::Elf) => match ptx::cubin::Cubin::read(bytes) {
            Ok(_) => Kind::MachineCode,
            Err(_) => Kind::Object,
        },
        _ => Kind::Other,
    }
}

/// Links inputs: PTX text, or what the driver links when it loads it. The result ends with a NUL or
/// says its length.
///
/// # Errors
/// What is wrong, as a line for the program's log.
pub(crate) fn link(
    inputs: &[(Kind, Vec<u8>)],
    registers_max: Option<u32>,
) -> Result<Vec<u8>, String> {
    let mut link = Link::new(registers_max);
    if inputs.len() > 1 && inputs.iter().all(|(kind, _)| *kind == Kind::Ptx) {
        let texts = inputs.iter().map(|(_, bytes)| {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            str::from_utf8(&bytes[..end]).map_err(|_| "an input is no text".to_owned())
        });
        let linked = ptx::link::link(&texts.collect::<Result<Vec<_>, _>>()?);
        let linked = linked.map_err(|error| format!("error   : {error}"))?;
        add(&mut link, JIT_PTX, linked.as_bytes())?;
    } else {
        for (kind, bytes) in inputs {
            let kind = match kind {
                Kind::Ptx => JIT_PTX,
                Kind::Fatbin => JIT_FATBINARY,
                Kind::Object => JIT_OBJECT,
                Kind::Library => JIT_LIBRARY,
                Kind::MachineCode | Kind::Other => {
                    return Err(
                        "error   : the software GPU runs no machine code, and an input has \
                                nothing else: compile it to PTX (-arch=compute_80, or \
                                -gencode arch=compute_80,code=compute_80)"
                            .to_owned(),
                    );
                }
            };
            add(&mut link, kind, bytes)?;
        }
    }
    let image = link.complete().map_err(|error| format!("error   : {error}"))?;
    Ok(image.to_vec())
}

fn add(link: &mut Link, kind: u32, bytes: &[u8]) -> Result<(), String> {
    link.add(kind, bytes).map_err(|error| format!("error   : {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n\
        .extern .func helper();\n.visible .entry run() { call helper; ret; }\n\0";
    const HELPER: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .func helper() { ret; }\n\0";

    #[test]
    fn texts_become_one() {
        let inputs = [CALLER, HELPER].map(|text| (kind(text), text.to_vec()));
        let image = link(&inputs, None).unwrap();
        assert_eq!(image.last(), Some(&0));
        let text = str::from_utf8(&image[..image.len() - 1]).unwrap();
        assert!(text.contains(".func helper") && text.contains("run"), "{text}");
        assert!(ptx::parse(text).is_ok());
        let twice = [(Kind::Ptx, HELPER.to_vec()), (Kind::Ptx, HELPER.to_vec())];
        assert!(link(&twice, None).unwrap_err().contains("defines helper again"));
    }

    #[test]
    fn one_text_stays_as_it_is_but_for_its_registers() {
        let one = [(Kind::Ptx, CALLER.to_vec())];
        assert_eq!(link(&one, None).unwrap(), CALLER);
        let limited = link(&one, Some(32)).unwrap();
        assert!(str::from_utf8(&limited).unwrap().contains(".maxnreg 32"));
    }

    #[test]
    fn machine_code_is_refused_with_the_way_out() {
        let why = link(&[(Kind::MachineCode, vec![1])], None).unwrap_err();
        assert!(why.contains("-arch=compute_80"), "{why}");
        assert_eq!(kind(b"!<arch>\n"), Kind::Library);
        assert_eq!(kind(b"\x01\x02\x03\x04"), Kind::Other);
        assert!(link(&[], None).is_err());
    }
}
