//! The shared library as a loader sees it: its name, that it stays, and exactly which symbols it
//! exports. Reads the ELF file itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The library built with this test (the crate is a dependency of it).
fn library() -> Vec<u8> {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let candidates: [PathBuf; 2] = [deps.join("libcuda.so"), deps.join("../libcuda.so")];
    let path = candidates.iter().find(|p| p.is_file()).expect("libcuda.so is built with its tests");
    std::fs::read(path).unwrap()
}

struct Elf(Vec<u8>);

impl Elf {
    fn u16(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(self.0[at..at + 2].try_into().unwrap()))
    }
    fn u32(&self, at: usize) -> usize {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap()) as usize
    }
    fn u64(&self, at: usize) -> usize {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap()) as usize
    }
    fn string(&self, at: usize) -> &str {
        let end = self.0[at..].iter().position(|b| *b == 0).unwrap();
        std::str::from_utf8(&self.0[at..at + end]).unwrap()
    }

    /// Section headers of that type: (offset, bytes, link).
    fn sections(&self, kind: usize) -> Vec<(usize, usize, usize)> {
        let (table, size, count) = (self.u64(0x28), self.u16(0x3a), self.u16(0x3c));
        (0..count)
            .map(|i| table + i * size)
            .filter(|s| self.u32(s + 4) == kind)
            .map(|s| (self.u64(s + 0x18), self.u64(s + 0x20), self.u32(s + 0x28)))
            .collect()
    }

    fn section_offset(&self, index: usize) -> usize {
        self.u64(self.u64(0x28) + index * self.u16(0x3a) + 0x18)
    }

    /// Defined dynamic symbols.
    fn exports(&self) -> BTreeSet<String> {
        let (offset, bytes, link) = self.sections(11)[0];
        let strings = self.section_offset(link);
        (offset..offset + bytes)
            .step_by(24)
            .filter(|s| self.u16(s + 6) != 0)
            .map(|s| self.string(strings + self.u32(s)).to_owned())
            .collect()
    }

    /// Values of that tag in the dynamic section.
    fn dynamic(&self, tag: usize) -> Vec<usize> {
        let (offset, bytes, _) = self.sections(6)[0];
        (offset..offset + bytes)
            .step_by(16)
            .filter(|d| self.u64(*d) == tag)
            .map(|d| self.u64(d + 8))
            .collect()
    }

    fn dynamic_strings(&self, tag: usize) -> Vec<&str> {
        let strings = self.section_offset(self.sections(6)[0].2);
        self.dynamic(tag).into_iter().map(|at| self.string(strings + at)).collect()
    }
}

#[test]
fn exactly_the_drivers_symbols_are_exported() {
    let exports = Elf(library()).exports();
    let wanted: BTreeSet<String> =
        cuda_api::symbols::SYMBOLS.iter().map(|s| (*s).to_owned()).collect();
    let missing: Vec<_> = wanted.difference(&exports).collect();
    let extra: Vec<_> = exports.difference(&wanted).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
}

#[test]
fn it_goes_by_the_drivers_name_and_is_never_unloaded() {
    const DT_NEEDED: usize = 1;
    const DT_SONAME: usize = 14;
    const DT_FLAGS_1: usize = 0x6fff_fffb;
    const DF_1_NODELETE: usize = 8;
    let elf = Elf(library());
    assert_eq!(elf.dynamic_strings(DT_SONAME), ["libcuda.so.1"]);
    assert!(elf.dynamic(DT_FLAGS_1)[0] & DF_1_NODELETE != 0);
    // It links next to nothing: the C library, and the compiler's unwinder.
    for needed in elf.dynamic_strings(DT_NEEDED) {
        let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
        assert!(known.contains(&needed), "needs {needed}");
    }
}
