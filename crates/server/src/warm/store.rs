//! Warm list on disk: a directory with two files an image, its bytes and how it was used.
//!
//! A file is complete or not there: it is written under another name first. An image is found by a
//! hash of itself ([`CodeKey`]), and the file beside it carries one, so that only what a program
//! loaded once is loaded, regardless of what happened to the files. The directory is this user's
//! alone, because its content goes to the driver.

use crate::device::{CodeKey, NumericJitOption};
use ptx::module_state::{Variable, Variables};
use rustix::process::Resource;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// An entry that was not used for so long goes.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// A file that is still being written after this was left behind by a process that ended.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(3600);
/// Most images.
const IMAGES_MAX: usize = 4096;
/// Longest list of an image's kernels, bytes.
const LIST_BYTES_MAX: u64 = 4 << 20;
/// The first line of a list; the number is the version of what follows.
const HEAD: &str = "openmps warm list 1";

const IMAGE: &str = "image";
const LIST: &str = "kernels";
const UNFINISHED: &str = "unfinished";
/// Names the image that is being loaded, and by which process.
const LOADING: &str = "loading";

/// How an image was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUse {
    /// The options that it was loaded with.
    pub options: Vec<NumericJitOption>,
    /// Its kernels that were asked for.
    pub kernels: BTreeSet<CString>,
    /// Its variables, if it has any.
    pub variables: Option<Variables>,
}

/// An image that is kept.
#[derive(Debug)]
pub struct StoredImage {
    /// By what it is found.
    pub key: CodeKey,
    /// Its bytes.
    pub image: Vec<u8>,
    /// How it was used.
    pub used: ImageUse,
}

/// A file's name and length, and when it was used.
struct Listed {
    name: String,
    bytes: u64,
    used: SystemTime,
}

/// What is left of a list.
#[derive(Debug, Default)]
pub struct Left {
    /// Its images, the last used first.
    pub names: Vec<String>,
    /// Bytes of their files.
    pub bytes: u64,
}

/// The directory.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    bytes_max: u64,
}

impl Store {
    /// The store in a directory, which is made if it is not there, of at most so many bytes.
    ///
    /// # Errors
    /// The system's; PermissionDenied for a directory that other users have a part in.
    pub fn open(directory: PathBuf, bytes_max: u64) -> io::Result<Self> {
        if fs::symlink_metadata(&directory).is_err() {
            // Not among another user's files: `sudo` may leave that user's HOME in the environment.
            let above = directory.ancestors().find_map(|above| fs::metadata(above).ok());
            if !above.is_some_and(|above| [0, user()].contains(&above.uid())) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        }
        if !is_ours_alone(&fs::symlink_metadata(&directory)?) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self { directory, bytes_max })
    }

    /// The path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of that kind that belongs to an image, or to something else.
    pub fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.directory.join(format!("{name}.{kind}"))
    }

    /// The images, the last used first. What is too old goes, and so does what is too much, what
    /// others never finished, and an image that a process was loading when it ended: its name.
    pub fn clear_up(&self) -> io::Result<(Vec<String>, Option<String>)> {
        let candidate = self.interrupted();
        if let Some(name) = &candidate {
            self.remove(name);
            let _ = fs::remove_file(self.directory.join(LOADING));
        }
        Ok((self.trim(self.bytes_max, IMAGES_MAX)?.names, candidate))
    }

    /// Takes out what is too old, what was not used for longest until there are no more than so many bytes and
    /// images, and what others never finished: what is left.
    fn trim(&self, bytes_max: u64, images_max: usize) -> io::Result<Left> {
        let now = SystemTime::now();
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let age = now.duration_since(used).unwrap_or_default();
            let (Some(name), Some(kind)) = (path.file_stem(), path.extension()) else { continue };
            let name = name.to_string_lossy().into_owned();
            if kind == LIST {
                let image = fs::symlink_metadata(self.path(&name, IMAGE));
                let bytes = metadata.len() + image.map_or(0, |image| image.len());
                all.push(Listed { name, bytes, used });
            } else if kind == IMAGE && !self.path(&name, LIST).exists() && age > UNFINISHED_AGE_MAX
                || kind == UNFINISHED && age > UNFINISHED_AGE_MAX
            {
                let _ = fs::remove_file(path);
            }
        }
        all.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        let (mut bytes, mut left) = (0, Left::default());
        for listed in all {
            bytes += listed.bytes;
            let age = now.duration_since(listed.used).unwrap_or_default();
            if bytes > bytes_max || left.names.len() >= images_max || age > AGE_MAX {
                self.remove(&listed.name);
            } else {
                left.bytes = bytes;
                left.names.push(listed.name);
            }
        }
        Ok(left)
    }

    /// Makes room for an image of so many bytes, and for some more: what is left.
    pub fn make_room(&self, bytes: u64) -> io::Result<Left> {
        let bytes_max = self.bytes_max.saturating_sub(bytes.saturating_add(LIST_BYTES_MAX));
        self.trim(bytes_max - bytes_max / 8, IMAGES_MAX - IMAGES_MAX / 8)
    }

    /// True if the number of images or their bytes together are more than may be there.
    pub fn is_beyond(&self, images: usize, bytes: u64) -> bool {
        images > IMAGES_MAX || bytes > self.bytes_max
    }

    /// Takes an image out.
    pub fn remove(&self, name: &str) {
        for kind in [LIST, IMAGE] {
            // Another process may have been faster.
            let _ = fs::remove_file(self.path(name, kind));
        }
    }

    /// How long an image is, bytes.
    pub fn image_bytes(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.path(name, IMAGE)).map_or(0, |image| image.len())
    }

    /// What is kept under a name. Files that are not what was written go.
    pub fn load(&self, name: &str) -> Option<StoredImage> {
        let kept = self.read(name, LIST, LIST_BYTES_MAX).ok().and_then(|list| {
            let used = parse(std::str::from_utf8(&list).ok()?)?;
            let image = self.read(name, IMAGE, self.bytes_max).ok()?;
            let key = CodeKey::of(&image, &used.options);
            (key.to_string() == name).then_some(StoredImage { key, image, used })
        });
        if kept.is_none() {
            self.remove(name);
        }
        kept
    }

    fn read(&self, name: &str, kind: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let path = self.path(name, kind);
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Keeps an image, unless it is there.
    pub fn save_image(&self, key: &CodeKey, image: &[u8]) -> io::Result<()> {
        let name = key.to_string();
        match self.image_bytes(&name) == image.len() as u64 {
            true => Ok(()),
            false => self.write(&name, IMAGE, image),
        }
    }

    /// Keeps how an image was used, from now on. Returns bytes of the file.
    pub fn save_use(&self, key: &CodeKey, used: &ImageUse) -> io::Result<u64> {
        let text = print(used);
        self.write(&key.to_string(), LIST, text.as_bytes())?;
        Ok(text.len() as u64)
    }

    /// An image was used.
    pub fn touch(&self, key: &CodeKey) {
        if let Ok(file) = File::open(self.path(&key.to_string(), LIST)) {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// True if an image is kept, and how it was used.
    pub fn has_list(&self, name: &str) -> bool {
        self.path(name, LIST).exists()
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, name: &str, kind: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > file_bytes_max() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let unfinished = self.path(&format!("{name}-{kind}-{}", std::process::id()), UNFINISHED);
        let _ = fs::remove_file(&unfinished);
        let write = || {
            let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
            new?.write_all(bytes)?;
            fs::rename(&unfinished, self.path(name, kind))
        };
        write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }

    /// An image is about to be loaded; `None`: none is any more. If the process ends meanwhile, the
    /// image is the candidate.
    pub fn set_loading(&self, name: Option<&str>) {
        let path = self.directory.join(LOADING);
        let _ = match name {
            None => fs::remove_file(path),
            Some(name) => fs::write(path, format!("{} {name}\n", std::process::id())),
        };
    }

    /// The image that a process which is gone was loading when it ended.
    fn interrupted(&self) -> Option<String> {
        let text = fs::read_to_string(self.directory.join(LOADING)).ok()?;
        let (pid, name) = text.trim_end().split_once(' ')?;
        let pid: u32 = pid.parse().ok()?;
        let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_gone = pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists();
        (is_name && is_gone).then(|| name.to_owned())
    }
}

fn digest(text: &str) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(text) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn print(used: &ImageUse) -> String {
    let mut text = format!("{HEAD}\n");
    for option in &used.options {
        let _ = writeln!(text, "option {} {}", option.number(), option.value());
    }
    if let Some(Variables { all, section_bytes }) = &used.variables {
        let _ = writeln!(text, "variables {}", all.len());
        for bytes in section_bytes {
            let _ = writeln!(text, "section {bytes}");
        }
        for Variable { name, bytes, place } in all.iter().filter(|v| !v.name.contains('\n')) {
            let _ = match place {
                Some((section, offset)) => {
                    writeln!(text, "placed {section} {offset} {bytes} {name}")
                }
                None => writeln!(text, "variable {bytes} {name}"),
            };
        }
    }
    let names = used.kernels.iter().filter_map(|name| name.to_str().ok());
    for name in names.filter(|name| !name.contains('\n')) {
        let _ = writeln!(text, "kernel {name}");
    }
    let digest = digest(&text);
    text + "digest " + &digest + "\n"
}

fn parse(text: &str) -> Option<ImageUse> {
    let (body, given) = text.trim_end().rsplit_once('\n')?;
    let body = format!("{body}\n");
    if given.strip_prefix("digest ")? != digest(&body) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let (mut used, mut count) = (ImageUse::default(), 0);
    for line in lines {
        match line.split_once(' ')? {
            ("option", option) => {
                let (number, value) = option.split_once(' ')?;
                let option = NumericJitOption::new(number.parse().ok()?, value.parse().ok()?);
                used.options.push(option.ok()?);
            }
            ("variables", all) => {
                count = all.parse().ok()?;
                used.variables = Some(Variables::default());
            }
            ("section", bytes) => {
                used.variables.as_mut()?.section_bytes.push(bytes.parse().ok()?);
            }
            ("placed", variable) => {
                let mut words = variable.splitn(4, ' ');
                let place = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let (bytes, name) = (words.next()?.parse().ok()?, words.next()?.to_owned());
                used.variables.as_mut()?.all.push(Variable { name, bytes, place: Some(place) });
            }
            ("variable", variable) => {
                let (bytes, name) = variable.split_once(' ')?;
                let (bytes, name) = (bytes.parse().ok()?, name.to_owned());
                used.variables.as_mut()?.all.push(Variable { name, bytes, place: None });
            }
            ("kernel", name) => drop(used.kernels.insert(CString::new(name).ok()?)),
            _ => return None,
        }
    }
    // One that is missing would keep what a program has left in it.
    (used.variables.as_ref().map_or(0, |variables| variables.all.len()) == count).then_some(used)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// True for a directory of this user's in which no other user can do or see anything.
fn is_ours_alone(directory: &Metadata) -> bool {
    directory.is_dir() && directory.uid() == user() && directory.mode() & 0o077 == 0
}

/// The longest file that the process may write: it is ended if it writes more, by SIGXFSZ.
fn file_bytes_max() -> u64 {
    rustix::process::getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A directory of a test's own, gone with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("openmps-warm-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn store(&self, bytes_max: u64) -> Store {
            Store::open(self.0.join("warm"), bytes_max).expect("a store")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn used() -> ImageUse {
        let kernels = ["add", "_Z3mulPf"].map(|name| CString::new(name).expect("a name"));
        let options = vec![NumericJitOption::new(0, 32).expect("an option")];
        ImageUse { options, kernels: kernels.into(), variables: None }
    }

    #[test]
    fn variables_come_back_all_or_not_at_all() {
        let variable = |name: &str, place| Variable { name: name.to_owned(), bytes: 12, place };
        let all = vec![variable("a b", None), variable("c", Some((3, 64)))];
        let variables = Variables { all, section_bytes: vec![0, 7, 0, 128] };
        let with = ImageUse { variables: Some(variables.clone()), ..used() };
        assert_eq!(parse(&print(&with)), Some(with));
        let mut odd = variables;
        odd.all.push(variable("two\nlines", None));
        assert_eq!(parse(&print(&ImageUse { variables: Some(odd), ..used() })), None);
    }

    fn save(store: &Store, image: &[u8]) -> CodeKey {
        let key = CodeKey::of(image, &used().options);
        store.save_image(&key, image).expect("room");
        store.save_use(&key, &used()).expect("room");
        key
    }

    fn names(store: &Store) -> Vec<String> {
        store.clear_up().expect("a directory").0
    }

    fn set_age(store: &Store, key: &CodeKey, age: Duration) {
        let list = File::open(store.path(&key.to_string(), LIST)).expect("kept");
        list.set_modified(SystemTime::now() - age).expect("set");
    }

    #[test]
    fn what_is_kept_is_found_by_another_process_and_is_private() {
        let place = Place::new("kept");
        let key = save(&place.store(1 << 20), b"an image");
        let store = place.store(1 << 20);
        assert_eq!(names(&store), [key.to_string()]);
        let kept = store.load(&key.to_string()).expect("kept");
        assert_eq!((kept.key, &kept.image[..], kept.used), (key, &b"an image"[..], used()));
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode(&store.directory), 0o700);
        for kind in [IMAGE, LIST] {
            assert_eq!(mode(&store.path(&key.to_string(), kind)), 0o600);
        }
    }

    #[test]
    fn damaged_files_are_not_used_and_go() {
        let place = Place::new("damaged");
        let store = place.store(1 << 20);
        for kind in [IMAGE, LIST] {
            let name = save(&store, b"an image").to_string();
            let length = fs::read(store.path(&name, kind)).expect("kept").len();
            for at in [0, length / 2, length - 2] {
                save(&store, b"an image");
                let mut content = fs::read(store.path(&name, kind)).expect("kept");
                content[at] ^= 1;
                fs::write(store.path(&name, kind), &content).expect("written");
                assert!(store.load(&name).is_none(), "{kind} byte {at}");
                assert!(names(&store).is_empty());
                save(&store, b"an image");
                fs::write(store.path(&name, kind), &content[..at]).expect("written");
                assert!(store.load(&name).is_none(), "{kind} cut at {at}");
            }
        }
        // An image without its list, and a list without its image, are no more than that.
        let name = save(&store, b"an image").to_string();
        fs::remove_file(store.path(&name, IMAGE)).expect("there");
        assert!(store.load(&name).is_none());
        assert!(store.load("../../etc/passwd").is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let place = Place::new("age");
        let store = place.store(1 << 20);
        let keys = [b"one", b"two", b"six"].map(|image| save(&store, image));
        let hour = Duration::from_secs(3600);
        for (key, age) in keys.iter().zip([2 * hour, hour, 3 * hour]) {
            set_age(&store, key, age);
        }
        let order = |order: [usize; 3]| order.map(|at| keys[at].to_string());
        assert_eq!(names(&store), order([1, 0, 2]));
        store.touch(&keys[2]);
        assert_eq!(names(&store), order([2, 1, 0]));
        set_age(&store, &keys[1], AGE_MAX + hour);
        assert_eq!(names(&store), [keys[2].to_string(), keys[0].to_string()]);
        // Room for one.
        let bytes = fs::metadata(store.path(&keys[2].to_string(), LIST)).expect("there").len();
        assert_eq!(names(&place.store(bytes + 10)), [keys[2].to_string()]);
        assert_eq!(fs::read_dir(&store.directory).expect("there").count(), 2);
    }

    #[test]
    fn an_image_whose_loading_ended_the_process_is_not_loaded_again() {
        let place = Place::new("candidate");
        let store = place.store(1 << 20);
        let name = save(&store, b"an image").to_string();
        store.set_loading(Some(&name));
        assert_eq!(store.clear_up().expect("there"), (vec![name.clone()], None), "it goes on");
        // A process that is gone: no system has that many.
        fs::write(store.directory.join(LOADING), format!("4294967295 {name}\n")).expect("written");
        assert_eq!(store.clear_up().expect("there"), (vec![], Some(name)));
        assert_eq!(store.clear_up().expect("there"), (vec![], None));
    }

    #[test]
    fn a_directory_that_others_have_a_part_in_is_not_used() {
        let place = Place::new("others");
        let store = place.store(1 << 20);
        let set = |mode| fs::set_permissions(&store.directory, fs::Permissions::from_mode(mode));
        for mode in [0o755, 0o770, 0o701] {
            set(mode).expect("ours");
            let refused = Store::open(store.directory.clone(), 1).map(drop);
            assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
        }
        set(0o700).expect("ours");
        assert!(Store::open(store.directory.clone(), 1).is_ok());
    }
}
