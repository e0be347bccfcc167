//! Executables: whether a program can load openmps' libraries at all, by its file.
//!
//! The library path is read by the loader of dynamically linked programs alone, and not where the program has
//! rights that its user has not. Of a script the interpreter counts. Not here: what a program starts itself.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that are looked at: its headers.
const HEAD_BYTES: u64 = 4096;
/// Scripts whose interpreters are scripts: the kernel follows as many.
const SCRIPTS_MAX: usize = 4;
/// Type of the program header that names the loader (PT_INTERP).
const LOADER: u32 = 3;
/// The bits of a file's mode that give its owner's or group's rights.
const SET_ID: u32 = 0o6000;

/// Why a program cannot load the libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is for another kind of processor, or for 32 bits.
    Kind,
    /// It is linked statically.
    Static,
    /// It has the rights of another user.
    Rights,
}

impl Obstacle {
    /// What becomes of the program, for its user.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Kind => {
                "is no 64-bit program for this processor, and openmps' libcuda.so.1 is for those alone: it runs \
                 without sharing"
            }
            Self::Static => {
                "is linked statically and loads no libcuda.so.1: it runs without sharing; programs that it starts share"
            }
            Self::Rights => {
                "has its owner's rights (setuid or setgid), so the loader does not heed LD_LIBRARY_PATH: it runs \
                 without sharing; run it as that user, without the bit"
            }
        }
    }
}

/// Why the program in a file, or on the search path, cannot load the libraries; `None` if it can, or if that is not
/// known.
pub(crate) fn obstacle(program: &Path) -> Option<Obstacle> {
    let mut path = on_search_path(program)?;
    for _ in 0..=SCRIPTS_MAX {
        let mut head = Vec::new();
        File::open(&path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        match interpreter(&head) {
            Some(next) => path = next,
            None => return of_rights(&path).or_else(|| of_head(&head)),
        }
    }
    None
}

fn on_search_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 || !program.is_relative() {
        return Some(program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// The interpreter that a script's first line names. `env NAME` is the program of that name.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let first = Path::new(words.next()?);
    if first.file_name().is_some_and(|name| name == "env") {
        let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
        return on_search_path(Path::new(named?));
    }
    Some(first.to_owned())
}

fn of_rights(path: &Path) -> Option<Obstacle> {
    let file = std::fs::metadata(path).ok()?;
    let mode = file.permissions().mode();
    let gives = |bit: u32, theirs: u32, mine: u32| mode & bit != 0 && theirs != mine;
    let user = gives(0o4000, file.uid(), rustix::process::getuid().as_raw());
    let group = gives(0o2000, file.gid(), rustix::process::getgid().as_raw());
    (mode & SET_ID != 0 && (user || group)).then_some(Obstacle::Rights)
}

/// By the headers of an ELF file; `None` for what is none.
fn of_head(head: &[u8]) -> Option<Obstacle> {
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let bytes = head.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    };
    head.strip_prefix(b"\x7fELF")?;
    // Class, byte order and machine: those of this very program's file.
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if head.get(4..6)? != [CLASS_64, LITTLE_ENDIAN] || number(18, 2)? != machine {
        return Some(Obstacle::Kind);
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        let at = table.checked_add(index.checked_mul(size)?)?;
        // A table that lies elsewhere in the file says nothing here.
        if number(usize::try_from(at).ok()?, 4)? == u64::from(LOADER) {
            return None;
        }
    }
    Some(Obstacle::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header of that type.
    fn elf(class: u8, machine: u8, kind: u8) -> Vec<u8> {
        let mut head = vec![0; 64 + 56];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        (head[18], head[32], head[54], head[56], head[64]) = (machine, 64, 56, 1, kind);
        head
    }

    #[test]
    fn headers_say_what_a_program_loads() {
        let here = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        assert_eq!(of_head(&elf(2, here, 3)), None);
        assert_eq!(of_head(&elf(2, here, 1)), Some(Obstacle::Static));
        assert_eq!(of_head(&elf(1, 3, 3)), Some(Obstacle::Kind));
        assert_eq!(of_head(&elf(2, 21, 3)), Some(Obstacle::Kind));
        assert_eq!(of_head(&elf(2, here, 3)[..60]), None, "a part of a file");
        assert_eq!(of_head(b"no program"), None);
    }

    #[test]
    fn this_program_can_and_a_script_is_its_interpreter() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, bytes: &[u8], mode: u32| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).expect("a file");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("it is ours");
            path
        };
        assert_eq!(obstacle(&std::env::current_exe().expect("it runs")), None);
        let here = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        let fixed = write("fixed", &elf(2, here, 1), 0o755);
        let script = write("script", format!("#!{} -x\n", fixed.display()).as_bytes(), 0o755);
        assert_eq!(obstacle(&script), Some(Obstacle::Static));
        let of_env = write("of_env", b"#!/usr/bin/env -S A=1 sh\n", 0o755);
        assert_eq!(obstacle(&of_env), None);
        let itself = directory.path().join("itself");
        write("itself", format!("#!{}\n", itself.display()).as_bytes(), 0o755);
        assert_eq!(obstacle(&itself), None);
        let own = write("own", &elf(2, here, 3), 0o4755);
        assert_eq!(obstacle(&own), None, "its owner's rights are this user's");
        assert_eq!(obstacle(Path::new("/no/such/program")), None);
    }
}
