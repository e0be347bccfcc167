//! Warm list: images and kernels that a user's programs used, loaded again when a server starts.
//!
//! Loading code makes all clients wait, where clients share a context. So what is likely to be loaded
//! is loaded before there are any, within a budget of device memory, and stays in the code cache: a
//! program's second start loads nothing. Local memory that the kernels need is taken too. A module
//! with variables serves one program after the other, with their first values, so that one of each
//! such image is loaded ahead. Where the provider has tenants there is nothing to gain and no list.

mod store;

use crate::device::{Ahead, CodeKey, Device, JitOption, Module};
use crate::log::Log;
use channel::message::WarmStatus;
use cuda_api::CudaError;
use cuda_api::environment::{CUDA_CACHE_PATH, OPENMPS_WARM};
use ptx::module_state::Variables;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Kept, Store, Use};

/// Device memory for what is loaded at the start where nothing else is set, bytes.
pub const BUDGET_BYTES: u64 = 256 << 20;
/// The list on disk has at most so many times what is loaded.
const DISK_BUDGETS: u64 = 4;
/// The list on disk may have so many bytes in any case.
const DISK_BYTES_MIN: u64 = 64 << 20;
/// Most kernels of an image.
const KERNELS_MAX: usize = 4096;
/// A server serves no later than this because of the list.
const LOAD_MAX: Duration = Duration::from_secs(1);
/// What clients use is written down when nothing came for so long, or at the latest after
/// [`WRITE_MAX`].
const WRITE_PAUSE: Duration = Duration::from_millis(500);
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Where a server's list is, and how much of it is loaded.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory of all devices' lists; `None`: no list is kept.
    pub directory: Option<PathBuf>,
    /// Device memory, bytes; 0: no list is kept; `None`: [`BUDGET_BYTES`].
    pub budget_bytes: Option<u64>,
}

impl Options {
    /// What the environment says.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(".cache"));
        let above = absolute(CUDA_CACHE_PATH).or_else(|| absolute("XDG_CACHE_HOME")).or_else(home);
        Self {
            directory: above.map(|above| above.join("openmps/warm")),
            budget_bytes: variable(OPENMPS_WARM).and_then(|text| bytes_of(&text)),
        }
    }
}

/// A number of bytes, or one with K, M or G.
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match text[number.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Something that a client did.
enum Note {
    Image { key: CodeKey, image: Vec<u8>, used: Use },
    Again(CodeKey),
    Kernel(CodeKey, CString),
}

/// A server's list.
#[derive(Default)]
pub struct Warm {
    /// To the thread that writes; `None` where no list is kept.
    notes: Option<Mutex<Option<Sender<Note>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Images that it has.
    known: Mutex<HashSet<CodeKey>>,
    image_bytes_max: u64,
    status: WarmStatus,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Warm {
    /// Loads what is on the list, and keeps it from now on. The log says what goes wrong, and there
    /// is no list then. The context is current on this thread.
    pub fn start(device: &Device, options: &Options, log: &Log) -> Self {
        let budget = options.budget_bytes.unwrap_or(BUDGET_BYTES);
        let directory = options.directory.as_ref().filter(|_| budget > 0 && !device.has_tenants());
        let Some(directory) = directory else { return Self::default() };
        let directory = directory.join(device.info().uuid_text());
        let store =
            Store::open(directory.clone(), budget.saturating_mul(DISK_BUDGETS).max(DISK_BYTES_MIN));
        let loaded = store.and_then(|store| {
            let loaded = load(device, &store, budget, log)?;
            Ok((store, loaded))
        });
        match loaded {
            Ok((store, loaded)) => Self::keep(store, loaded, budget, log),
            Err(error) => {
                let directory = directory.display();
                log.line(format!("There is no warm list in {directory}: {error}"));
                Self::default()
            }
        }
    }

    fn keep(store: Store, loaded: Loaded, budget: u64, log: &Log) -> Self {
        let known = loaded.uses.keys().copied().collect();
        let (notes, received) = channel();
        let (writers_log, uses) = (log.clone(), loaded.uses);
        let thread = std::thread::Builder::new().name("warm list".into()).spawn(move || {
            Writer { store, uses, changed: HashSet::new() }.run(&received, &writers_log)
        });
        let writer = match thread {
            Ok(writer) => writer,
            Err(error) => {
                log.line(format!("The warm list is not written: {error}"));
                return Self { status: loaded.status, ..Self::default() };
            }
        };
        Self {
            notes: Some(Mutex::new(Some(notes))),
            writer: Mutex::new(Some(writer)),
            known: Mutex::new(known),
            image_bytes_max: budget,
            status: loaded.status,
        }
    }

    /// What was loaded.
    pub fn status(&self, device: &Device) -> WarmStatus {
        WarmStatus { spared: device.code_cache().hits(), ..self.status }
    }

    fn note(&self, note: Note) {
        if let Some(notes) = &self.notes
            && let Some(notes) = &*locked(notes)
        {
            // A writer that is gone has said so.
            let _ = notes.send(note);
        }
    }

    fn takes(&self, image: &[u8]) -> bool {
        self.notes.is_some() && image.len() as u64 <= self.image_bytes_max
    }

    /// True if an image is not on the list and may come to be.
    pub fn is_new(&self, key: &CodeKey, image: &[u8]) -> bool {
        self.takes(image) && !locked(&self.known).contains(key)
    }

    /// A client is about to load an image that may be shared, or has loaded one with variables that may
    /// serve others after it.
    pub fn loading(
        &self,
        key: CodeKey,
        image: &[u8],
        options: &[JitOption],
        variables: Option<&Variables>,
    ) {
        if !self.takes(image) {
            return;
        }
        if !locked(&self.known).insert(key) {
            return self.note(Note::Again(key));
        }
        let (options, variables) = (options.to_vec(), variables.cloned());
        let used = Use { options, variables, ..Use::default() };
        self.note(Note::Image { key, image: image.to_vec(), used });
    }

    /// A client has loaded an image that is on the list, if it is.
    pub fn again(&self, key: &CodeKey) {
        if locked(&self.known).contains(key) {
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
            drop(locked(notes).take());
        }
        if let Some(writer) = locked(&self.writer).take() {
            let _ = writer.join();
        }
    }
}

/// What was loaded at the start.
struct Loaded {
    status: WarmStatus,
    uses: HashMap<CodeKey, Use>,
}

/// Loads what is on the list, the last used first, within a budget.
fn load(device: &Device, store: &Store, budget: u64, log: &Log) -> std::io::Result<Loaded> {
    let since = Instant::now();
    let (names, suspect) = store.clear_up()?;
    if let Some(name) = suspect {
        log.line(format!(
            "Image {name} of the warm list is given up: a server ended while loading it"
        ));
    }
    let free = || device.memory_info().map_or(0, |(free, _)| free);
    let free_before = free();
    let mut status = WarmStatus { budget_bytes: budget, ..WarmStatus::default() };
    let (mut uses, mut loaded, mut local_bytes) = (HashMap::new(), Vec::new(), 0);
    for name in &names {
        let bytes = store.image_bytes(name);
        if since.elapsed() >= LOAD_MAX || status.bytes >= budget {
            break;
        }
        if status.bytes + bytes > budget {
            continue;
        }
        let Some(Kept { key, image, used }) = store.load(name) else { continue };
        store.set_loading(Some(name));
        let how = (&used.options[..], used.variables.as_ref());
        match Module::load_ahead(device, key, image, how, used.kernels.iter()) {
            Ok(Ahead { kernels, local_bytes: of_a_thread }) => {
                status.images += 1;
                status.kernels += kernels;
                local_bytes = of_a_thread.max(local_bytes);
                loaded.push(key);
            }
            Err(CudaError::OUT_OF_MEMORY) => break,
            Err(error) => {
                log.line(format!("Image {name} of the warm list is given up: {error}"));
                store.remove(name);
                continue;
            }
        }
        uses.insert(key, used);
        // Drivers take less than the file has, or more.
        let taken = free_before.saturating_sub(free());
        status.bytes = if taken > 0 { taken } else { status.bytes + bytes };
    }
    store.set_loading(None);
    match device.take_local_memory(local_bytes, budget.saturating_sub(status.bytes)) {
        Ok(0) => {}
        Ok(bytes) => {
            status.bytes += bytes;
            log.line(format!(
                "Local memory for {local_bytes} bytes a thread is taken: {} MiB",
                bytes >> 20
            ));
        }
        Err(error) => log.line(format!("Local memory is not taken ahead: {error}")),
    }
    // What was used last goes last.
    loaded.iter().rev().for_each(|key| device.code_cache().touch(key));
    device.code_cache().keep_unused(budget);
    if status.images > 0 {
        let WarmStatus { images, kernels, bytes, .. } = status;
        let (mib, ms) = (bytes >> 20, since.elapsed().as_millis());
        log.line(format!(
            "Warm list: {images} images with {kernels} kernels, {mib} MiB, in {ms} ms"
        ));
    }
    Ok(Loaded { status, uses })
}

/// Writes down what clients use.
struct Writer {
    store: Store,
    uses: HashMap<CodeKey, Use>,
    changed: HashSet<CodeKey>,
}

impl Writer {
    fn run(mut self, notes: &Receiver<Note>, log: &Log) {
        let (mut touched, mut since) = (HashSet::new(), Instant::now());
        loop {
            let note = match self.changed.is_empty() {
                true => notes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => notes.recv_timeout(WRITE_PAUSE),
            };
            let written = match note {
                Ok(note) => {
                    if self.changed.is_empty() {
                        since = Instant::now();
                    }
                    let taken = self.take(note, &mut touched);
                    let due = since.elapsed() >= WRITE_MAX;
                    taken.and_then(|()| if due { self.write() } else { Ok(()) })
                }
                Err(RecvTimeoutError::Timeout) => self.write(),
                Err(RecvTimeoutError::Disconnected) => {
                    if let Err(error) = self.write() {
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
                self.store.save_image(&key, &image)?;
                self.uses.insert(key, used);
                self.changed.insert(key);
                touched.insert(key);
            }
            // Once in a server's life is enough for what is kept for weeks.
            Note::Again(key) if touched.insert(key) => self.store.touch(&key),
            Note::Again(_) => {}
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

    fn write(&mut self) -> std::io::Result<()> {
        for key in std::mem::take(&mut self.changed) {
            if let Some(used) = self.uses.get(&key) {
                self.store.save_use(&key, used)?;
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
        assert_eq!(all.map(bytes_of).to_vec(), bytes);
    }
}
