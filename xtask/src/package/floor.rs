//! Floor: the oldest C library that a program or a library loads with, by the versions of its symbols.

use super::layout::{Entry, Layout};
use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, VerneedIterator};
use std::fmt;

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc(pub(crate) u32, pub(crate) u32);

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Glibc {
    /// Of a symbol's version, `GLIBC_2.17` or `GLIBC_2.2.5`; `None` for other libraries' versions.
    fn of_version(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse::<u32>);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// What programs load: it has to load wherever they do.
pub(crate) const OF_PROGRAMS: Glibc = Glibc(2, 17);
/// The rest, which starts on its own.
pub(crate) const OF_THE_REST: Glibc = Glibc(2, 28);

/// The floor that a path of the layout has to keep.
pub(crate) fn wanted(path: &str) -> Glibc {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_loaded = name.contains(".so") && name != "libopenmps-soft.so";
    if is_loaded { OF_PROGRAMS } else { OF_THE_REST }
}

/// The highest version of glibc that an ELF file needs; `None` if it needs none, or is no ELF file.
pub(crate) fn needed(bytes: &[u8]) -> Result<Option<Glibc>> {
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((libraries, strings)) = sections.gnu_verneed(endian, bytes)? else { return Ok(None) };
    let strings = sections.strings(endian, bytes, strings)?;
    let mut highest = None;
    let mut libraries: VerneedIterator<'_, _> = libraries;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            let name = version.name(endian, strings)?;
            highest = highest.max(Glibc::of_version(std::str::from_utf8(name)?));
        }
    }
    Ok(highest)
}

/// The ELF files of a layout, each with what it needs.
pub(crate) fn of_layout(layout: &Layout) -> Result<Vec<(String, Glibc)>> {
    let mut floors = Vec::new();
    for (path, entry) in &layout.0 {
        let Entry::File { bytes, .. } = entry else { continue };
        let version = needed(bytes).with_context(|| format!("reading {path} as an ELF file"))?;
        floors.extend(version.map(|version| (path.clone(), version)));
    }
    Ok(floors)
}

/// An error that names each file beyond its floor.
pub(crate) fn check(floors: &[(String, Glibc)]) -> Result<()> {
    let beyond: Vec<String> = floors
        .iter()
        .filter(|(path, version)| *version > wanted(path))
        .map(|(path, version)| format!("{path} needs glibc {version}, not {}", wanted(path)))
        .collect();
    if !beyond.is_empty() {
        bail!("{}", beyond.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(Glibc::of_version("GLIBC_2.2.5"), Some(Glibc(2, 2)));
        assert!(Glibc::of_version("GLIBC_2.4") < Glibc::of_version("GLIBC_2.34"));
        assert_eq!(Glibc::of_version("GCC_3.0"), None);
        assert_eq!(Glibc::of_version("GLIBC_PRIVATE"), None);
    }

    #[test]
    fn a_program_of_this_machine_needs_its_library() {
        let own = std::fs::read(std::env::current_exe().expect("a program")).expect("to read it");
        let version = needed(&own).expect("an ELF file").expect("it needs glibc");
        // Rust's own programs begin there; 2.100 is far from being released.
        assert!(version >= Glibc(2, 14) && version < Glibc(2, 100), "{version}");
        assert_eq!(needed(b"#!/bin/sh\n").expect("a script is fine"), None);
    }

    #[test]
    fn a_file_beyond_its_floor_is_named() {
        let floors = [
            ("lib/openmps/libcuda.so.1".to_owned(), Glibc(2, 18)),
            ("lib/openmps/libopenmps-soft.so".to_owned(), Glibc(2, 28)),
            ("bin/openmps".to_owned(), Glibc(2, 34)),
        ];
        let error = check(&floors).expect_err("two are beyond").to_string();
        let wanted = "lib/openmps/libcuda.so.1 needs glibc 2.18, not 2.17\n\
                      bin/openmps needs glibc 2.34, not 2.28";
        assert_eq!(error, wanted);
    }
}
