//! Code store on disk, for the next process: a directory with a file a function.
//!
//! A file is complete or not there (it is written under another name first), says how long it is
//! and carries a digest of itself, so that only what was made is loaded, regardless of what
//! happened to the file. Any number of processes share a directory. What runs as code must come
//! from this user: a directory that others may write to is not used.
//!
//! The store is a help, never a duty: if reading or writing it fails, code is made anew.

use super::{Image, Key};
use sha2::{Digest, Sha256};
use simt_interpreter::tier1_abi::Abilities;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// What a file starts with; the last byte is the version of what follows: a digest of the rest,
/// entry, abilities, image.
const MAGIC: [u8; 8] = *b"ompscod\x01";
const DIGEST: Range<usize> = 8..40;
const ENTRY: Range<usize> = 40..44;
const FLAGS: Range<usize> = 44..48;
const PARAM_BYTES: Range<usize> = 48..56;
const HEADER_BYTES: usize = 56;
/// Bits of the flags.
const BLOCK_ENTRY: u32 = 1;
const BLOCKS: u32 = 2;
/// Longest image that is loaded, bytes: far above what the generator makes.
const IMAGE_BYTES_MAX: usize = 64 << 20;
/// The store is looked through once for every [`SWEEP_BYTES`] written (and at the first write).
const SWEEP_BYTES: u64 = 4 << 20;
/// A file that is still being written after this was left behind by a process that ended.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(3600);
const UNFINISHED: &str = "unfinished-";

/// A file whose time changed so long after it was made was found by a later load.
const FOUND_AFTER: Duration = Duration::from_millis(100);

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Functions whose code is kept.
    pub functions: u64,
    /// Those of them that were found again after they were made, as far as the file system says
    /// when a file was made.
    pub found_again: u64,
    /// Size of all, bytes.
    pub bytes: u64,
}

/// A directory of code.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    bytes_max: u64,
    /// Written since the store was last looked through; `u64::MAX` before the first time.
    unswept_bytes: AtomicU64,
    unfinished: AtomicU32,
}

impl Store {
    /// A store in `directory` of at most about `bytes_max` bytes; the directory is made when
    /// there is something to keep.
    pub fn new(directory: PathBuf, bytes_max: u64) -> Self {
        let (unswept_bytes, unfinished) = (AtomicU64::new(u64::MAX), AtomicU32::new(0));
        Self { directory, bytes_max, unswept_bytes, unfinished }
    }

    /// Where the code is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The most it holds, bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// What it holds now. `None` if its directory is not used, because it is not this user's alone,
    /// or would not be if it were made.
    pub fn usage(&self) -> Option<Usage> {
        if !self.is_usable() {
            return None;
        }
        let mut usage = Usage::default();
        let Ok(files) = self.files() else { return Some(usage) };
        for (_, metadata) in files.filter(|(path, _)| !is_unfinished(path)) {
            usage.functions += 1;
            usage.bytes += metadata.len();
            if let (Ok(made), Ok(used)) = (metadata.created(), metadata.modified())
                && used.duration_since(made).is_ok_and(|age| age > FOUND_AFTER)
            {
                usage.found_again += 1;
            }
        }
        Some(usage)
    }

    /// Whether its directory is this user's alone, or may be made. Not among another user's files:
    /// `sudo` may leave that user's HOME in the environment, and a `.cache` of root's would be in the
    /// way of all programs there.
    fn is_usable(&self) -> bool {
        if let Ok(directory) = fs::symlink_metadata(&self.directory) {
            return is_ours_alone(&directory);
        }
        let above = self.directory.ancestors().find_map(|above| fs::metadata(above).ok());
        above.is_some_and(|above| [0, user()].contains(&above.uid()))
    }

    /// All files, finished or not. Others may be taking them away.
    fn files(&self) -> io::Result<impl Iterator<Item = (PathBuf, Metadata)>> {
        let entries = fs::read_dir(&self.directory)?.flatten();
        Ok(entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))))
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(key.to_string())
    }

    /// What was kept under a key. A file that is not what was written goes.
    pub(crate) fn load(&self, key: &Key) -> Option<Image> {
        if !is_ours_alone(&fs::symlink_metadata(&self.directory).ok()?) {
            return None;
        }
        let path = self.path(key);
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path).ok()?;
        let image = match read(&file) {
            Ok(image) => image,
            Err(_) => {
                let _ = fs::remove_file(&path);
                return None;
            }
        };
        // The store drops what was not used for longest.
        let _ = file.set_modified(SystemTime::now());
        Some(image)
    }

    /// Keeps an image, if it can.
    pub(crate) fn save(&self, key: &Key, image: &Image) {
        let _ = self.try_save(key, image);
    }

    fn try_save(&self, key: &Key, image: &Image) -> io::Result<()> {
        if image.bytes.len() as u64 > self.bytes_max / 4 {
            return Ok(());
        }
        if self.is_usable() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        }
        if !is_ours_alone(&fs::symlink_metadata(&self.directory)?) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        let unfinished =
            self.directory.join(format!("{UNFINISHED}{}-{number}", std::process::id()));
        let written =
            write(&unfinished, image).and_then(|()| fs::rename(&unfinished, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
            return written;
        }
        let bytes = (HEADER_BYTES + image.bytes.len()) as u64;
        let before = self.unswept_bytes.load(Ordering::Relaxed);
        if before.saturating_add(bytes) >= SWEEP_BYTES.min(self.bytes_max / 4) {
            self.unswept_bytes.store(0, Ordering::Relaxed);
            self.sweep()?;
        } else {
            self.unswept_bytes.store(before + bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Drops what was not used for longest until three slices of the room are left, and what
    /// others never finished.
    fn sweep(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for (path, metadata) in self.files()? {
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let age = now.duration_since(used).unwrap_or_default();
            if !is_unfinished(&path) {
                files.push((used, metadata.len(), path));
            } else if age > UNFINISHED_AGE_MAX {
                let _ = fs::remove_file(path);
            }
        }
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if bytes <= self.bytes_max {
            return Ok(());
        }
        files.sort();
        for (_, size, path) in files {
            if bytes <= self.bytes_max / 4 * 3 {
                break;
            }
            // Another process may have been faster.
            let _ = fs::remove_file(path);
            bytes -= size;
        }
        Ok(())
    }
}

/// True for a file that is still being written, or never will be.
fn is_unfinished(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// True for a directory of this user's that no other user can write to.
fn is_ours_alone(directory: &Metadata) -> bool {
    directory.is_dir() && directory.uid() == user() && directory.mode() & 0o022 == 0
}

fn write(path: &Path, image: &Image) -> io::Result<()> {
    let Abilities { block_entry, blocks, param_bytes } = image.abilities;
    let flags = if block_entry { BLOCK_ENTRY } else { 0 } | if blocks { BLOCKS } else { 0 };
    let mut content = vec![0; HEADER_BYTES];
    content[ENTRY].copy_from_slice(&image.entry.to_le_bytes());
    content[FLAGS].copy_from_slice(&flags.to_le_bytes());
    content[PARAM_BYTES].copy_from_slice(&param_bytes.to_le_bytes());
    content.extend(&image.bytes);
    let digest = Sha256::digest(&content[DIGEST.end..]);
    content[..MAGIC.len()].copy_from_slice(&MAGIC);
    content[DIGEST].copy_from_slice(&digest);
    if content.len() as u64 > file_bytes_max() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&content)
}

/// The longest file that the process may write: it is ended if it writes more, by SIGXFSZ.
fn file_bytes_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}

fn read(mut file: &File) -> io::Result<Image> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let length = file.metadata()?.len();
    if length > (HEADER_BYTES + IMAGE_BYTES_MAX) as u64 {
        return Err(damaged());
    }
    let mut content = Vec::with_capacity(length as usize);
    file.read_to_end(&mut content)?;
    let (header, bytes) = content.split_at_checked(HEADER_BYTES).ok_or_else(damaged)?;
    if header[..MAGIC.len()] != MAGIC || header[DIGEST] != *Sha256::digest(&content[DIGEST.end..]) {
        return Err(damaged());
    }
    let number = |at: Range<usize>| {
        header[at].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (entry, flags) = (number(ENTRY) as u32, number(FLAGS) as u32);
    let abilities = Abilities {
        block_entry: flags & BLOCK_ENTRY != 0,
        blocks: flags & BLOCKS != 0,
        param_bytes: number(PARAM_BYTES),
    };
    Ok(Image { bytes: bytes.to_vec(), entry, abilities })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A directory of a test's own, gone with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("openmps-store-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn store(&self, bytes_max: u64) -> Store {
            Store::new(self.0.join("code"), bytes_max)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(n: u32) -> Key {
        Key::of_bytes(&n.to_le_bytes())
    }

    fn image(n: u32) -> Image {
        let abilities =
            Abilities { block_entry: true, blocks: n.is_multiple_of(2), param_bytes: u64::from(n) };
        Image { bytes: vec![n as u8; 1000], entry: 7, abilities }
    }

    #[test]
    fn what_is_kept_is_found_by_another_process() {
        let place = Place::new("kept");
        assert_eq!(place.store(1 << 20).load(&key(1)), None);
        place.store(1 << 20).save(&key(1), &image(1));
        assert_eq!(place.store(1 << 20).load(&key(1)), Some(image(1)));
        assert_eq!(place.store(1 << 20).load(&key(2)), None);
    }

    #[test]
    fn a_damaged_file_is_not_run_and_goes() {
        let place = Place::new("damaged");
        let store = place.store(1 << 20);
        let whole = HEADER_BYTES + 1000;
        for at in [0, DIGEST.start, ENTRY.start, FLAGS.start, HEADER_BYTES, whole - 1] {
            store.save(&key(1), &image(1));
            let mut content = fs::read(store.path(&key(1))).expect("kept");
            assert_eq!(content.len(), whole);
            content[at] ^= 0x10;
            fs::write(store.path(&key(1)), content).expect("written");
            assert_eq!(store.load(&key(1)), None, "byte {at}");
            assert!(!store.path(&key(1)).exists());
        }
        for length in [0, HEADER_BYTES - 1, HEADER_BYTES, whole - 1] {
            store.save(&key(1), &image(1));
            let file = OpenOptions::new().write(true).open(store.path(&key(1))).expect("kept");
            file.set_len(length as u64).expect("cut");
            assert_eq!(store.load(&key(1)), None, "{length} bytes");
        }
    }

    #[test]
    fn the_store_is_bounded_and_keeps_what_was_used_last() {
        let place = Place::new("bounded");
        let store = place.store(16 << 10);
        for n in 0..100 {
            store.save(&key(n), &image(n));
            // Files are distinguished by when they were used, so each gets a time of its own.
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(n) + 1);
            if let Ok(file) = File::options().write(true).open(store.path(&key(n))) {
                file.set_modified(at).expect("its own file");
            }
        }
        let bytes: u64 = fs::read_dir(store.directory())
            .expect("there")
            .map(|entry| entry.expect("readable").metadata().expect("there").len())
            .sum();
        assert!(bytes <= (16 << 10) + (16 << 10) / 4, "{bytes}");
        assert_eq!(store.load(&key(99)), Some(image(99)));
        assert_eq!(store.load(&key(0)), None);
    }

    #[test]
    fn a_directory_that_others_write_to_is_not_used() {
        let place = Place::new("others");
        let store = place.store(1 << 20);
        store.save(&key(1), &image(1));
        fs::set_permissions(store.directory(), fs::Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(store.load(&key(1)), None);
        store.save(&key(2), &image(2));
        fs::set_permissions(store.directory(), fs::Permissions::from_mode(0o700)).expect("ours");
        assert_eq!(store.load(&key(2)), None);
        assert_eq!(store.load(&key(1)), Some(image(1)));
    }

    #[test]
    fn nothing_is_made_among_another_users_files() {
        let place = Place::new("home");
        fs::create_dir(&place.0).expect("made");
        let store = place.store(1 << 20);
        assert_eq!(store.usage(), Some(Usage::default()));
        if std::os::unix::fs::chown(&place.0, Some(65534), None).is_err() {
            // Only root can have another user's HOME and write there.
            return;
        }
        assert_eq!(store.usage(), None);
        store.save(&key(1), &image(1));
        assert!(!store.directory().exists());
    }

    #[test]
    fn what_others_never_finished_goes() {
        let place = Place::new("unfinished");
        let store = place.store(1 << 20);
        fs::create_dir_all(store.directory()).expect("made");
        fs::set_permissions(store.directory(), fs::Permissions::from_mode(0o700)).expect("ours");
        let left = store.directory().join("unfinished-1-0");
        fs::write(&left, b"half").expect("written");
        let long_ago = SystemTime::now() - 2 * UNFINISHED_AGE_MAX;
        File::options().write(true).open(&left).unwrap().set_modified(long_ago).expect("ours");
        store.save(&key(1), &image(1));
        assert!(!left.exists());
    }
}
