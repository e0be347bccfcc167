//! Whether a library's file is whole: the loader maps what the file says that it has, and who touches
//! what is not there gets SIGBUS.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of an ELF file's header and of an entry of its program headers, of 64 bits.
const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 56;
/// Kind of an entry: the loader maps it.
const LOAD: u32 = 1;

/// How many bytes a file has and how many it should have, if it is an ELF file that was cut off. What
/// is none, or cannot be read, is the loader's to refuse.
pub(crate) fn cut_off(path: &Path) -> Option<(u64, u64)> {
    let file = File::open(path).ok()?;
    let there = file.metadata().ok()?.len();
    let mut header = [0u8; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    const LITTLE_64: &[u8] = b"\x7fELF\x02\x01";
    header.starts_with(LITTLE_64).then_some(())?;
    let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let word = |bytes: &[u8], at: usize| {
        let word: [u8; 8] = bytes[at..at + 8].try_into().unwrap_or_default();
        u64::from_le_bytes(word)
    };
    let (entries, entry_bytes, count) = (word(&header, 32), half(&header, 54), half(&header, 56));
    (usize::from(entry_bytes) == ENTRY_BYTES).then_some(())?;
    let mut wanted = entries.saturating_add(u64::from(count) * ENTRY_BYTES as u64);
    for index in 0..u64::from(count) {
        let mut entry = [0u8; ENTRY_BYTES];
        if file
            .read_exact_at(&mut entry, entries.saturating_add(index * ENTRY_BYTES as u64))
            .is_err()
        {
            break;
        }
        if u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) == LOAD {
            wanted = wanted.max(word(&entry, 8).saturating_add(word(&entry, 32)));
        }
    }
    (wanted > there).then_some((there, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_was_cut_off_is_found() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(cut_off(&own), None);
        assert_eq!(cut_off(Path::new("/etc/passwd")), None);
        let bytes = std::fs::read(&own).unwrap();
        let path = std::env::temp_dir().join(format!("provider-cut-{}", std::process::id()));
        let cut = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            cut_off(&path)
        };
        let (there, wanted) = cut(&bytes[..8000]).unwrap();
        assert!(there == 8000 && there < wanted && wanted <= bytes.len() as u64);
        // Not even all program headers, or a header that says anything.
        assert!(cut(&bytes[..100]).is_some());
        let mut odd = bytes[..HEADER_BYTES].to_vec();
        odd[32..40].fill(0xff);
        assert!(cut(&odd).is_some());
        assert_eq!(cut(&bytes[..10]), None);
        std::fs::remove_file(&path).unwrap();
    }
}
