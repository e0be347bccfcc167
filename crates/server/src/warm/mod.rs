//! Warm list: images and kernels that a user's programs used, loaded again when a server starts.
//!
//! Loading code makes all clients wait, where clients share a context. So what is likely to be loaded
//! is loaded before there are any, within a budget of device memory, and stays in the code cache: a
//! program's second start loads nothing. Local memory that the kernels need is taken too. A module
//! with variables serves one program after the other, with their first values, so that one of each
//! such image is loaded ahead, and as many as another server's programs have. Where the provider has
//! tenants there is nothing to gain and no list.

mod follow;
mod held;
mod load;
mod store;

use crate::device::{CodeInUse, CodeKey, Device, NumericJitOption};
use crate::log::Log;
use channel::message::WarmStatus;
use cuda_api::environment::{CUDA_CACHE_PATH, OPENMPS_WARM};
use cuda_api::settings::parse_bytes;
use load::Loaded;
use locks::Mutex;
use ptx::module_state::Variables;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{ImageUse, Store};

/// Device memory for what is loaded at the start where nothing else is set, bytes.
pub const BUDGET_BYTES: u64 = 256 << 20;
/// The list on disk has at most so many times what is loaded.
const DISK_BUDGETS: u64 = 4;
/// The list on disk may have so many bytes in any case.
const DISK_BYTES_MIN: u64 = 64 << 20;
/// Most kernels of an image.
const KERNELS_MAX: usize = 4096;
/// Most notes that wait to be written down; more are lost.
const NOTES_MAX: usize = 4096;
/// What clients use is written down when nothing came for so long, or at the latest after
/// [`WRITE_MAX`].
const WRITE_PAUSE: Duration = Duration::from_millis(500);
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Where a server's list is, and how much of it is loaded.
#[derive(Clone, Debug, Default)]
pub struct PreloadOptions {
    /// The directory of all devices' lists; `None`: no list is kept.
    pub directory: Option<PathBuf>,
    /// Device memory, bytes; 0: no list is kept; `None`: [`BUDGET_BYTES`].
    pub budget_bytes: Option<u64>,
}

impl PreloadOptions {
    /// What the environment says.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(".cache"));
        let above = absolute(CUDA_CACHE_PATH).or_else(|| absolute("XDG_CACHE_HOME")).or_else(home);
        Self {
            directory: above.map(|above| above.join("openmps/warm")),
            budget_bytes: variable(OPENMPS_WARM).and_then(|text| parse_bytes(&text)),
        }
    }
}

/// Something that a client did.
enum Note {
    Image {
        key: CodeKey,
        image: Vec<u8>,
        used: ImageUse,
    },
    Again(CodeKey),
    Kernel(CodeKey, CString),
    /// Loaded ahead, since the start.
    Ahead(CodeKey, ImageUse),
}

/// A server's list.
#[derive(Default)]
pub struct Warm {
    /// To the thread that writes; `None` where no list is kept.
    notes: Option<Mutex<Option<SyncSender<Note>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Images that it has.
    known: Arc<Mutex<HashSet<CodeKey>>>,
    /// Images that wait to be written, bytes.
    unwritten_bytes: Arc<AtomicU64>,
    /// The longest image, and most bytes of images that wait to be written.
    image_bytes_max: u64,
    status: Mutex<WarmStatus>,
    /// Where the list is, and its budget; `None` where no list is kept.
    store: Option<(Store, u64)>,
    /// A client has come.
    serves: AtomicBool,
}

impl Warm {
    /// Loads what is on the list, and keeps it from now on. The log says what goes wrong, and there
    /// is no list then. The context is current on this thread.
    pub fn start(device: &Device, options: &PreloadOptions, log: &Log) -> Self {
        let budget = options.budget_bytes.unwrap_or(BUDGET_BYTES);
        let directory = options.directory.as_ref().filter(|_| budget > 0 && !device.has_tenants());
        let Some(directory) = directory else { return Self::default() };
        let directory = directory.join(device.info().uuid_text());
        let store =
            Store::open(directory.clone(), budget.saturating_mul(DISK_BUDGETS).max(DISK_BYTES_MIN));
        let loaded = store.and_then(|store| {
            let loaded = load::at_start(device, &store, budget, log)?;
            Ok((store, loaded))
        });
        match loaded {
            Ok((store, loaded)) => Self::keep(store, loaded, budget, device, log),
            Err(error) => {
                let directory = directory.display();
                log.line(format!("There is no warm list in {directory}: {error}"));
                Self::default()
            }
        }
    }

    fn keep(store: Store, loaded: Loaded, budget: u64, device: &Device, log: &Log) -> Self {
        let known: Arc<Mutex<HashSet<CodeKey>>> =
            Arc::new(Mutex::new(loaded.uses.keys().copied().collect()));
        let unwritten_bytes = Arc::new(AtomicU64::new(0));
        let status = Mutex::new(loaded.status);
        let (notes, received) = sync_channel(NOTES_MAX);
        let (writers_log, held) = (log.clone(), device.code_cache().held().clone());
        let writer = Writer {
            store: store.clone(),
            uses: loaded.uses,
            // By the first image that is written the files are counted.
            bytes: u64::MAX,
            known: known.clone(),
            unwritten_bytes: unwritten_bytes.clone(),
            changed: HashSet::new(),
            held,
            said: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("warm list".into())
            .spawn(move || writer.run(&received, &writers_log));
        let writer = match thread {
            Ok(writer) => writer,
            Err(error) => {
                log.line(format!("The warm list is not written: {error}"));
                return Self { status, ..Self::default() };
            }
        };
        Self {
            notes: Some(Mutex::new(Some(notes))),
            writer: Mutex::new(Some(writer)),
            known,
            unwritten_bytes,
            image_bytes_max: budget,
            status,
            store: Some((store, budget)),
            serves: AtomicBool::new(false),
        }
    }

    /// What was loaded.
    pub fn status(&self, device: &Device) -> WarmStatus {
        WarmStatus { spared: device.code_cache().hits(), ..*self.status.lock() }
    }

    /// Device memory of what was loaded ahead, bytes.
    fn loaded_bytes(&self) -> u64 {
        self.status.lock().bytes
    }

    /// Names of the images that are on the list or were loaded ahead.
    fn known_names(&self) -> BTreeSet<String> {
        self.known.lock().iter().map(CodeKey::to_string).collect()
    }

    /// Takes in what was loaded ahead since the start.
    fn take_loaded(&self, device: &Device, loaded: Loaded) {
        let total = {
            let mut status = self.status.lock();
            status.images += loaded.status.images;
            status.kernels += loaded.status.kernels;
            status.bytes += loaded.status.bytes;
            status.bytes
        };
        // It stays although no client uses it yet.
        device.code_cache().keep_unused(total.max(self.image_bytes_max));
        for (key, used) in loaded.uses {
            self.known.lock().insert(key);
            self.note(Note::Ahead(key, used));
        }
    }

    /// Has something written down. False if it is lost: too much waits, or the writer is gone, which has said so.
    fn note(&self, note: Note) -> bool {
        let Some(notes) = &self.notes else { return false };
        notes.lock().as_ref().is_some_and(|notes| notes.try_send(note).is_ok())
    }

    fn takes(&self, image: &[u8]) -> bool {
        self.notes.is_some() && image.len() as u64 <= self.image_bytes_max
    }

    /// True if an image is not on the list and may come to be.
    pub fn is_new(&self, key: &CodeKey, image: &[u8]) -> bool {
        self.takes(image) && !self.known.lock().contains(key)
    }

    /// A client is about to load an image that may be shared, or has loaded one with variables that may
    /// serve others after it.
    pub fn loading(
        &self,
        key: CodeKey,
        image: &[u8],
        options: &[NumericJitOption],
        variables: Option<&Variables>,
    ) {
        if !self.takes(image) {
            return;
        }
        if !self.known.lock().insert(key) {
            self.note(Note::Again(key));
            return;
        }
        let (options, variables) = (options.to_vec(), variables.cloned());
        let used = ImageUse { options, variables, ..ImageUse::default() };
        let bytes = image.len() as u64;
        let waiting = self.unwritten_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > self.image_bytes_max
            || !self.note(Note::Image { key, image: image.to_vec(), used })
        {
            self.unwritten_bytes.fetch_sub(bytes, Ordering::Relaxed);
            // Another time there may be room.
            self.known.lock().remove(&key);
        }
    }

    /// A client has loaded an image that is on the list, if it is.
    pub fn again(&self, key: &CodeKey) {
        if self.known.lock().contains(key) {
            self.note(Note::Again(*key));
        }
    }

    /// A client has asked for a kernel of such an image.
    pub fn uses(&self, key: CodeKey, kernel: &CStr) {
        if self.notes.is_some() {
            self.note(Note::Kernel(key, kernel.to_owned()));
        }
    }

    /// Writes down what there is to write, at the server's end.
    pub fn finish(&self) {
        if let Some(notes) = &self.notes {
            drop(notes.lock().take());
        }
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
    }
}

/// Writes down what clients use.
struct Writer {
    store: Store,
    uses: HashMap<CodeKey, ImageUse>,
    /// Bytes of the list's files, or more.
    bytes: u64,
    known: Arc<Mutex<HashSet<CodeKey>>>,
    unwritten_bytes: Arc<AtomicU64>,
    changed: HashSet<CodeKey>,
    /// What clients have, and what was last written of that.
    held: Arc<CodeInUse>,
    said: BTreeMap<CodeKey, u32>,
}

impl Writer {
    fn run(mut self, notes: &Receiver<Note>, log: &Log) {
        let (mut touched, mut since) = (HashSet::new(), Instant::now());
        // Something came since it was last written.
        let mut is_due = false;
        loop {
            let note = match is_due {
                false => notes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => notes.recv_timeout(WRITE_PAUSE),
            };
            let written = match note {
                Ok(note) => {
                    if !is_due {
                        since = Instant::now();
                    }
                    is_due = since.elapsed() < WRITE_MAX;
                    let taken = self.take(note, &mut touched);
                    taken.and_then(|()| if is_due { Ok(()) } else { self.write() })
                }
                Err(RecvTimeoutError::Timeout) => {
                    is_due = false;
                    self.write()
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.store.remove_held();
                    if let Err(error) = self.write_uses() {
                        log.line(format!("The warm list is not written: {error}"));
                    }
                    return;
                }
            };
            if let Err(error) = written {
                // A full disk stays full for a while: one line of it is enough.
                return log.line(format!("The warm list is not written any more: {error}"));
            }
        }
    }

    fn take(&mut self, note: Note, touched: &mut HashSet<CodeKey>) -> std::io::Result<()> {
        match note {
            Note::Image { key, image, used } => {
                let bytes = image.len() as u64;
                self.unwritten_bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.make_room(bytes, touched)?;
                self.store.save_image(&key, &image)?;
                self.uses.insert(key, used);
                self.known.lock().insert(key);
                self.changed.insert(key);
                touched.insert(key);
            }
            // Once in a server's life is enough for what is kept for weeks.
            Note::Again(key) if touched.insert(key) => self.store.touch(&key),
            Note::Again(_) => {}
            Note::Ahead(key, used) => drop(self.uses.insert(key, used)),
            Note::Kernel(key, name) => {
                if let Some(used) = self.uses.get_mut(&key)
                    && used.kernels.len() < KERNELS_MAX
                    && used.kernels.insert(name)
                {
                    self.changed.insert(key);
                }
            }
        }
        Ok(())
    }

    /// Makes room for an image of so many bytes: what was not used for longest goes, if need be, and is
    /// forgotten.
    fn make_room(&mut self, bytes: u64, touched: &mut HashSet<CodeKey>) -> std::io::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if !self.store.is_beyond(self.uses.len() + 1, self.bytes) {
            return Ok(());
        }
        // What is not on the list yet would not count.
        self.write_uses()?;
        let left = self.store.make_room(bytes)?;
        self.bytes = left.bytes + bytes;
        let left: HashSet<String> = left.names.into_iter().collect();
        let is_left = |key: &CodeKey| left.contains(&key.to_string());
        self.uses.retain(|key, _| is_left(key));
        touched.retain(is_left);
        self.known.lock().retain(is_left);
        Ok(())
    }

    fn write(&mut self) -> std::io::Result<()> {
        self.write_uses()?;
        let held = self.held.counts();
        if held != self.said {
            self.store.save_held(&held)?;
            self.said = held;
        }
        Ok(())
    }

    fn write_uses(&mut self) -> std::io::Result<()> {
        for key in std::mem::take(&mut self.changed) {
            if let Some(used) = self.uses.get(&key) {
                self.bytes = self.bytes.saturating_add(self.store.save_use(&key, used)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_bytes_or_have_a_unit() {
        let all = ["0", "256M", " 1g ", "64K", "7", "M", "1T", "-1", "99999999999G"];
        let bytes = [Some(0), Some(256 << 20), Some(1 << 30), Some(64 << 10), Some(7)];
        let bytes: Vec<_> = bytes.into_iter().chain([None; 4]).collect();
        assert_eq!(all.map(parse_bytes).to_vec(), bytes);
    }
}
