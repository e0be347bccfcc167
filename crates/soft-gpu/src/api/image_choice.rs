//! Which PTX text of an image the device takes: PTX itself, one of a fat binary, or several linked.
//!
//! The software GPU runs no machine code. Where a compute capability was asked for, what would not
//! run on it is refused as there; else texts for later devices are taken too, and what is in them
//! that is not known here traps when it is reached.

use std::ffi::c_void;

use cuda_api::extension::NO_PTX;
use cuda_api::link::LINK_INPUT_ENTRY;
use cuda_api::pointer::In;
use driver_common::image::ProgramMemory;
use ptx::embedded::{self, ARCHIVE_MAGIC, EmbeddedError};
use ptx::fatbin::{EntryKind, Fatbin, PtxChoice, Wrapper};
use ptx::image::{self, Image, ImageKind};

use crate::device::settings::Settings;
use crate::error::Error;

/// What NVIDIA's driver has for the device runtime library of programs that are linked.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// Why an image cannot be loaded.
pub(super) struct Refusal {
    pub(super) error: Error,
    pub(super) why: String,
}

impl Refusal {
    fn of_ptx(why: String) -> Self {
        Self { error: Error::INVALID_PTX, why }
    }
}

/// The choice among images for a device.
#[derive(Clone, Copy)]
pub(super) struct Choice<'a>(pub(super) &'a Settings);

impl Choice<'_> {
    /// PTX text from a pointer to an image.
    pub(super) fn read_image(self, image: In<c_void>) -> std::result::Result<String, Refusal> {
        let at: In<u8> = image.cast();
        if at.address() == 0 {
            return Err(Refusal { error: Error::INVALID_VALUE, why: "the image is NULL".into() });
        }
        // SAFETY: an image is there, by the program's word, and does not change during the call, which
        // nothing made of the bytes outlives.
        let mut memory = unsafe { ProgramMemory::new(at) };
        match image::measure(&mut memory) {
            Ok(Image::Whole { bytes, .. }) => match memory.bytes(bytes) {
                Ok(bytes) => self.ptx_of(bytes),
                Err(error) => Err(Refusal { error, why: "the image cannot be read".into() }),
            },
            Ok(Image::Indirect(wrapper)) => self.read_wrapped(&memory, &wrapper),
            Err(error) => Err(invalid(&error)),
        }
    }

    /// PTX text from what a wrapper leads to: a fat binary, or those that were linked to make it.
    fn read_wrapped(
        self,
        memory: &ProgramMemory<'_>,
        wrapper: &Wrapper,
    ) -> std::result::Result<String, Refusal> {
        const LINKED: u32 = 2;
        let damaged = |_| invalid(&"a wrapper leads to what is no fat binary");
        let whole = memory.fatbin_at(wrapper.data).map_err(damaged)?;
        let has_ptx =
            Fatbin::read(whole).is_ok_and(|f| f.entries.iter().any(|e| e.kind == EntryKind::Ptx));
        if wrapper.version != LINKED || wrapper.second == 0 || has_ptx {
            return self.ptx_of(whole);
        }
        let parts = memory.linked_fatbins(wrapper.second);
        self.link(&parts.map_err(|_| invalid(&"what the fat binaries are linked of is damaged"))?)
    }

    /// PTX text from the bytes of an image.
    pub(super) fn ptx_of(self, bytes: &[u8]) -> std::result::Result<String, Refusal> {
        match image::kind_of(bytes) {
            Some(ImageKind::Ptx) => self.taken(text_of(bytes)?),
            Some(ImageKind::Fatbin) => {
                let fatbin = Fatbin::read(bytes).map_err(|error| invalid(&error))?;
                let to_link: Vec<&[u8]> = fatbin
                    .entries
                    .iter()
                    .filter(|entry| entry.kind == EntryKind::Other(LINK_INPUT_ENTRY))
                    .map(|entry| entry.stored)
                    .collect();
                if to_link.is_empty() { self.ptx_in(&fatbin) } else { self.link(&to_link) }
            }
            Some(ImageKind::Elf) => Err(self.no_binary("machine code only")),
            Some(ImageKind::Wrapper) | None => Err(Refusal {
                error: Error::INVALID_IMAGE,
                why: "the image is neither PTX text nor a fat binary".into(),
            }),
        }
    }

    /// The PTX text of a fat binary that suits the device best.
    fn ptx_in(self, fatbin: &Fatbin<'_>) -> std::result::Result<String, Refusal> {
        // PTX for later devices may be taken too: what is in it that we lack traps when reached.
        let choice = if self.0.strict { PtxChoice::UpToDevice } else { PtxChoice::Any };
        match fatbin.ptx_for(self.0.capability.number(), choice) {
            Some(entry) => text_of(&entry.payload().map_err(|error| invalid(&error))?),
            None => Err(self.no_binary(&fatbin.architectures())),
        }
    }

    /// One PTX text of several images: PTX, or what has some in it; and of our part of the device
    /// runtime, of which nothing stays that is not called.
    fn link(self, images: &[&[u8]]) -> std::result::Result<String, Refusal> {
        let mut texts = Vec::new();
        for image in images {
            match image::kind_of(image) {
                Some(ImageKind::Ptx) => texts.push(text_of(image)?),
                Some(ImageKind::Fatbin) => {
                    let fatbin = Fatbin::read(image).map_err(|error| invalid(&error))?;
                    texts.push(self.ptx_in(&fatbin)?);
                }
                Some(ImageKind::Elf) => texts.push(self.ptx_in_object(image)?),
                _ if image.starts_with(ARCHIVE_MAGIC) => {
                    for member in embedded::archive_members(image) {
                        texts.push(self.ptx_in_object(member)?);
                    }
                }
                _ => return Err(invalid(&"what is to be linked is of no known kind")),
            }
        }
        // NVIDIA's own device runtime library may be among them, which asks its driver for launches.
        let library = simt::runtime::device_runtime::whole();
        let ours = [DEVICE_RUNTIME, &library];
        let texts: Vec<&str> = texts.iter().map(String::as_str).chain(ours).collect();
        let linked = ptx::link::link_over(&texts);
        self.taken(linked.map_err(|error| Refusal::of_ptx(error.to_string()))?)
    }

    /// The PTX text of an object file, which is of one source, that suits the device best: the
    /// latest that is not later, else the earliest.
    fn ptx_in_object(self, object: &[u8]) -> std::result::Result<String, Refusal> {
        let texts = embedded::texts(object).map_err(|error| match error {
            EmbeddedError::NoPtx(_) => {
                self.no_binary("machine code only among what is to be linked")
            }
            error => invalid(&error),
        })?;
        let sm = |text: &embedded::Text| -> u32 {
            let name = text.architecture.as_deref().unwrap_or_default();
            name.trim_start_matches("compute_").parse().unwrap_or(u32::MAX)
        };
        let own = self.0.capability.number();
        let best = texts.iter().filter(|text| sm(text) <= own).max_by_key(|text| sm(text));
        match best.or_else(|| texts.iter().min_by_key(|text| sm(text))) {
            Some(text) => text_of(&text.bytes),
            None => Err(self.no_binary("nothing")),
        }
    }

    /// A text that the device takes; what is no PTX at all is for the compiler to say.
    fn taken(self, text: String) -> std::result::Result<String, Refusal> {
        if !ptx::starts_a_module(&text) {
            return Err(invalid(&"the text does not start with `.version`: it is no PTX"));
        }
        let Ok((version, target)) = ptx::header(&text) else { return Ok(text) };
        // Later minor versions only add words, which are unknown where they stand.
        if !ptx::is_version(version) || (self.0.strict && version > ptx::VERSION_MAX) {
            let (last, ptx::ast::Version { major, minor }) = (ptx::VERSION_MAX, version);
            return Err(Refusal {
                error: Error::UNSUPPORTED_PTX_VERSION,
                why: format!(
                    "Unsupported .version {major}.{minor}; current version is '{}.{}'",
                    last.major, last.minor
                ),
            });
        }
        let number = self.0.capability.number();
        if self.0.strict && !target.runs_on(number) {
            let suffix = target.suffix.map(String::from).unwrap_or_default();
            return Err(Refusal::of_ptx(format!(
                "PTX for sm_{}{suffix} does not run on sm_{number}, which OPENMPS_SOFT_CC asks for",
                target.sm
            )));
        }
        Ok(text)
    }

    fn no_binary(self, what: &str) -> Refusal {
        let number = self.0.capability.number();
        Refusal {
            error: Error::NO_BINARY_FOR_GPU,
            why: format!(
                "{NO_PTX} for this device (it has {what}), and the software GPU runs no machine \
                 code; compile with -gencode arch=compute_{number},code=compute_{number}, or take a \
                 version of the library that has PTX"
            ),
        }
    }
}

fn text_of(bytes: &[u8]) -> std::result::Result<String, Refusal> {
    // Text in fat binaries and files may have NULs at its end.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end])
        .map(str::to_owned)
        .map_err(|error| Refusal::of_ptx(format!("the PTX is not UTF-8 text: {error}")))
}

fn invalid(error: &dyn std::fmt::Display) -> Refusal {
    Refusal { error: Error::INVALID_IMAGE, why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(bytes: &[u8]) -> std::result::Result<String, Refusal> {
        Choice(&Settings::from_environment()).ptx_of(bytes)
    }

    const HEADER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

    #[test]
    fn several_inputs_become_one_text() {
        let caller = format!("{HEADER}.extern .func f();\n.visible .entry k() {{ call f; ret; }}");
        let callee = format!("{HEADER}.visible .func f() {{ ret; }}");
        let inputs = [caller.as_bytes(), callee.as_bytes()];
        let packed = cuda_api::link::pack(inputs.into_iter());
        let Ok(text) = choose(&packed) else { panic!("not linked") };
        let module = ptx::parse(&text).unwrap();
        let callee = module.find_function("f").unwrap();
        assert!(module.function(callee).body.is_some());
        assert_eq!(module.kernels().count(), 1);
    }

    #[test]
    fn text_without_a_version_is_no_image() {
        let error = |text: &str| choose(text.as_bytes()).err().map(|refusal| refusal.error);
        assert_eq!(error(".target sm_70\n.entry k() { ret; }"), Some(Error::INVALID_IMAGE));
        assert_eq!(error("// nothing"), Some(Error::INVALID_IMAGE));
        assert_eq!(error("// all\n.version 7.0\n.target sm_70"), None);
        for unknown in ["0.9", "7.9", "10.0", "99.0"] {
            let text = format!(".version {unknown}\n.target sm_70");
            assert_eq!(error(&text), Some(Error::UNSUPPORTED_PTX_VERSION), "{unknown}");
        }
    }

    #[test]
    fn what_cannot_be_linked_is_said() {
        let twice = format!("{HEADER}.visible .func f() {{ ret; }}");
        let inputs = [twice.as_bytes(), twice.as_bytes()];
        let refusal = choose(&cuda_api::link::pack(inputs.into_iter())).err().unwrap();
        assert_eq!(refusal.error, Error::INVALID_PTX);
        assert!(refusal.why.contains("defines f again"), "{}", refusal.why);
        let code = choose(&cuda_api::link::pack([&b"\x7fELF...."[..]].into_iter()));
        let error = code.err().unwrap().error;
        assert!(matches!(error, Error::INVALID_IMAGE | Error::NO_BINARY_FOR_GPU), "{error:?}");
    }
}
