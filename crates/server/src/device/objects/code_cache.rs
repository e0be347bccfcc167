//! Code cache: images that several clients use, loaded once.
//!
//! Loading code makes all clients wait, so code that one client has loaded serves the others that
//! bring the same image with the same options, and stays loaded for a while after its last user. An
//! image without variables (`ptx::module_state`) serves them at the same time. A module with variables
//! serves one client after the other: it waits without a user, and before the next one gets it its
//! variables have their first values again. What a client sets of a kernel must not change it for
//! others, now or later: see [`SharedFunctions`]; preferences of caches, which change no result, are not
//! passed on (`Function::set_attribute`, `Function::set_cache`).

use crate::device::objects::variables::FirstValues;
use crate::device::safe_calls::{Live, Owned};
use crate::device::{BuildLog, NumericJitOption};
use channel::request::CodeWords;
use cuda_api::{CUmodule, CUresult, CudaError};
use locks::Mutex;
use ptx::bytes::u64_at;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Images that are kept although no client uses them, bytes of their files.
pub const UNUSED_BYTES_MAX: u64 = 256 << 20;

/// How often a session looks whether another one has loaded what it wants.
const LOADER_PAUSE: Duration = Duration::from_micros(200);

/// What an image is found by: a hash of its bytes and of all that its code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeKey([u8; 32]);

impl CodeKey {
    /// The key that a client got as these words.
    pub fn of_words(words: CodeWords) -> Self {
        let mut bytes = [0; 32];
        bytes
            .chunks_exact_mut(8)
            .zip(words)
            .for_each(|(b, word)| b.copy_from_slice(&word.to_le_bytes()));
        Self(bytes)
    }

    /// As words, for a client.
    pub fn words(self) -> CodeWords {
        std::array::from_fn(|at| u64_at(&self.0, 8 * at).unwrap_or(0))
    }

    /// The key of an image that is loaded with options.
    pub fn of(image: &[u8], options: &[NumericJitOption]) -> Self {
        Self::new(image, options.iter().map(|option| (option.number(), option.value())))
    }

    fn new(image: &[u8], options: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut hash = Sha256::new();
        for (number, value) in options {
            hash.update(number.to_le_bytes());
            hash.update(value.to_le_bytes());
        }
        // Options have a fixed length each, so where they end is clear from the whole's length.
        hash.update((image.len() as u64).to_le_bytes());
        hash.update(image);
        Self(hash.finalize().into())
    }
}

/// In hexadecimal digits.
impl fmt::Display for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The limit on a kernel's dynamic shared memory, bytes: a higher one than a client's own harms
/// nothing, a lower one would.
#[derive(Clone, Copy, Debug)]
struct DynamicMemory {
    /// What a client finds that has set nothing.
    initial: i32,
    /// The highest that any client has asked for: what the provider has.
    highest: i32,
}

/// What was set of a shared module's kernels, by the provider's handle.
type SharedFunctions = Mutex<HashMap<usize, DynamicMemory>>;

/// A module that several clients use.
#[derive(Debug)]
pub struct SharedCode {
    raw: Owned<CUmodule>,
    key: CodeKey,
    log: BuildLog,
    functions: SharedFunctions,
    /// First values of its variables, if it has any: then it has one user at a time.
    variables: FirstValues,
    /// What is charged for them, bytes.
    charged_bytes: u64,
    /// Whether its kernels may print, once a client's load has found out.
    may_print: OnceLock<bool>,
}

impl SharedCode {
    /// A module with variables, loaded by its first user.
    pub(in crate::device) fn with_variables(
        raw: Owned<CUmodule>,
        key: CodeKey,
        log: BuildLog,
        (variables, charged_bytes): (FirstValues, u64),
    ) -> Self {
        let (functions, may_print) = (SharedFunctions::default(), OnceLock::new());
        Self { raw, key, log, functions, variables, charged_bytes, may_print }
    }

    /// Keeps whether its kernels may print.
    pub(super) fn keep_may_print(&self, prints: bool) {
        // The image is the same each time.
        let _ = self.may_print.set(prints);
    }

    /// Whether its kernels may print; `None` until a client's load has found out.
    pub(super) fn may_print(&self) -> Option<bool> {
        self.may_print.get().copied()
    }

    /// What is charged for its variables, bytes.
    pub(in crate::device) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    /// First values of its variables.
    pub(in crate::device) fn variables(&self) -> &FirstValues {
        &self.variables
    }

    /// The provider's handle, while this is there.
    pub(in crate::device) fn live(&self) -> Live<'_, CUmodule> {
        self.raw.live()
    }

    /// By what it is found.
    pub(in crate::device) fn key(&self) -> CodeKey {
        self.key
    }

    /// What the provider said while it was loaded.
    pub(in crate::device) fn log(&self) -> &BuildLog {
        &self.log
    }

    /// The most dynamic shared memory of a kernel before any client set it. `current` is what the
    /// provider says now.
    pub(in crate::device) fn initial_dynamic_memory(&self, function: usize, current: i32) -> i32 {
        let new = DynamicMemory { initial: current, highest: current };
        self.functions.lock().entry(function).or_insert(new).initial
    }

    /// Raises the most dynamic shared memory of a kernel by `set`, if it is lower.
    pub(in crate::device) fn raise_dynamic_memory(
        &self,
        function: usize,
        bytes: i32,
        set: impl FnOnce() -> CUresult,
    ) -> CUresult {
        if bytes < 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut functions = self.functions.lock();
        let new = DynamicMemory { initial: 0, highest: -1 };
        let limit = functions.entry(function).or_insert(new);
        if limit.highest < bytes {
            set()?;
            limit.highest = bytes;
        }
        Ok(())
    }
}

/// One image: empty until the first client has loaded it.
#[derive(Debug, Default)]
struct Slot {
    code: Mutex<Option<Arc<SharedCode>>>,
    bytes: u64,
    used: AtomicU64,
}

impl Slot {
    /// One that only the map holds is in use by no loader; its code, if only the slot holds it, by no module.
    fn is_unused(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
            && self.code.lock().as_ref().is_none_or(|code| Arc::strong_count(code) == 1)
    }
}

/// A module with variables that has no user.
#[derive(Debug)]
pub(in crate::device) struct Idle {
    pub(in crate::device) code: Arc<SharedCode>,
    /// Of its image.
    pub(in crate::device) image_bytes: u64,
    /// No client has had it: its variables are as the load has left them.
    pub(in crate::device) is_fresh: bool,
    used: u64,
}

impl Idle {
    /// Of its image and of its variables.
    fn bytes(&self) -> u64 {
        self.image_bytes.saturating_add(self.code.variables.bytes())
    }
}

/// Images that clients have now, and how many modules of each.
#[derive(Debug, Default)]
pub struct CodeInUse(Mutex<BTreeMap<CodeKey, u32>>);

impl CodeInUse {
    /// A client has a module of an image.
    pub(in crate::device) fn take(&self, key: CodeKey) {
        *self.0.lock().entry(key).or_default() += 1;
    }

    /// A client's module of an image is gone.
    pub(in crate::device) fn give_back(&self, key: &CodeKey) {
        let mut held = self.0.lock();
        if let Some(modules) = held.get_mut(key) {
            *modules -= 1;
            if *modules == 0 {
                held.remove(key);
            }
        }
    }

    /// By what they are found, and how many modules there are of each.
    pub fn counts(&self) -> BTreeMap<CodeKey, u32> {
        self.0.lock().clone()
    }
}

/// All shared code of a device.
#[derive(Debug, Default)]
pub struct CodeCache {
    slots: Mutex<HashMap<CodeKey, Arc<Slot>>>,
    idle: Mutex<Vec<Idle>>,
    held: Arc<CodeInUse>,
    clock: AtomicU64,
    hits: AtomicU64,
    /// Images that are kept beyond [`UNUSED_BYTES_MAX`], bytes.
    more_unused: AtomicU64,
}

impl CodeCache {
    /// The code of an image, which `load` loads if no client has. Of several that ask at once, one
    /// loads and the others wait for it, unless `ends` says that they end: CUDA_ERROR_MPS_CLIENT_TERMINATED.
    ///
    /// # Errors
    /// Those of `load`, which nothing is kept of.
    pub(in crate::device) fn get(
        &self,
        key: CodeKey,
        bytes: u64,
        mut ends: impl FnMut() -> bool,
        load: impl FnOnce() -> (Result<Owned<CUmodule>, CudaError>, BuildLog),
    ) -> (Result<Arc<SharedCode>, CudaError>, BuildLog) {
        let slot = self
            .slots
            .lock()
            .entry(key)
            .or_insert_with(|| Arc::new(Slot { bytes, ..Slot::default() }))
            .clone();
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        // The one that loads may wait for long.
        let mut code = loop {
            match slot.code.try_lock() {
                Some(code) => break code,
                None if ends() => {
                    return (Err(CudaError::MPS_CLIENT_TERMINATED), BuildLog::default());
                }
                None => std::thread::sleep(LOADER_PAUSE),
            }
        };
        drop(ends);
        if let Some(code) = &*code {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return (Ok(code.clone()), code.log().clone());
        }
        let (raw, log) = load();
        let loaded = raw.map(|raw| {
            let none = (FirstValues::default(), 0);
            Arc::new(SharedCode::with_variables(raw, key, log.clone(), none))
        });
        *code = loaded.as_ref().ok().cloned();
        drop(code);
        if loaded.is_err() {
            self.forget_empty(&key, slot);
        }
        (loaded, log)
    }

    /// Takes out a slot without code, unless another client waits to load it.
    fn forget_empty(&self, key: &CodeKey, slot: Arc<Slot>) {
        let mut slots = self.slots.lock();
        let is_it = slots.get(key).is_some_and(|found| Arc::ptr_eq(found, &slot));
        drop(slot);
        // Who takes it from the table holds that lock, so no other session gets it from here on.
        let found = slots.get(key).filter(|_| is_it);
        let is_empty = |slot: &Arc<Slot>| {
            Arc::strong_count(slot) == 1 && slot.code.try_lock().is_some_and(|code| code.is_none())
        };
        if found.is_some_and(is_empty) {
            slots.remove(key);
        }
    }

    /// The code of that key, if it is loaded: an image without variables.
    pub(in crate::device) fn find(&self, key: &CodeKey) -> Option<Arc<SharedCode>> {
        self.find_if(key, |_| true)
    }

    /// As [`CodeCache::find`], if the code fits; else it counts as no hit.
    pub(in crate::device) fn find_if(
        &self,
        key: &CodeKey,
        fits: impl FnOnce(&SharedCode) -> bool,
    ) -> Option<Arc<SharedCode>> {
        let slot = self.slots.lock().get(key)?.clone();
        let code = slot.code.try_lock()?.clone().filter(|code| fits(code))?;
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(code)
    }

    /// A module with variables that has no user any more, the last used first. The caller writes its
    /// variables, unless no client has had it.
    pub(in crate::device) fn take_idle(&self, key: &CodeKey) -> Option<Idle> {
        let mut idle = self.idle.lock();
        let found = (0..idle.len()).rev().find(|at| idle[*at].code.key == *key)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(idle.remove(found))
    }

    /// Keeps a module with variables, of an image of so many bytes, for its next user. None of its
    /// kernels runs any more, and no other client has it; `is_fresh`: none has had it.
    pub(in crate::device) fn keep_idle(
        &self,
        code: Arc<SharedCode>,
        image_bytes: u64,
        is_fresh: bool,
    ) {
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        self.idle.lock().push(Idle { code, image_bytes, is_fresh, used });
    }

    /// How many modules with variables wait for a user, by image.
    pub fn idle_counts(&self) -> BTreeMap<CodeKey, u32> {
        let mut counts = BTreeMap::new();
        self.idle.lock().iter().for_each(|of| *counts.entry(of.code.key).or_default() += 1);
        counts
    }

    /// An image was used.
    pub fn touch(&self, key: &CodeKey) {
        if let Some(slot) = self.slots.lock().get(key) {
            slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Images of so many bytes are kept although no client uses them, if that is more than
    /// [`UNUSED_BYTES_MAX`].
    pub fn keep_unused(&self, bytes: u64) {
        self.more_unused.store(bytes.saturating_sub(UNUSED_BYTES_MAX), Ordering::Relaxed);
    }

    /// Images that are kept although no client uses them, bytes of their files.
    pub fn unused_bytes_max(&self) -> u64 {
        UNUSED_BYTES_MAX + self.more_unused.load(Ordering::Relaxed)
    }

    /// What clients have now.
    pub fn held(&self) -> &Arc<CodeInUse> {
        &self.held
    }

    /// Loads that another client's load has spared.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Images that no client uses, bytes of their files.
    pub(in crate::device) fn unused_bytes(&self) -> u64 {
        let (slots, idle) = (self.slots.lock(), self.idle.lock());
        let shared = slots.values().filter(|slot| slot.is_unused()).map(|slot| slot.bytes);
        shared.chain(idle.iter().map(Idle::bytes)).sum()
    }

    /// Takes out what no client uses, the longest unused first, until what is left of it has at most
    /// so many bytes. The caller unloads it.
    pub(in crate::device) fn take_unused(&self, bytes_max: u64) -> Vec<Owned<CUmodule>> {
        let (mut slots, mut idle) = (self.slots.lock(), self.idle.lock());
        // Of modules with variables no key: there may be several of one image.
        let mut unused: Vec<(u64, u64, Option<CodeKey>)> = slots
            .iter()
            .filter(|(_, slot)| slot.is_unused())
            .map(|(key, slot)| (slot.used.load(Ordering::Relaxed), slot.bytes, Some(*key)))
            .chain(idle.iter().map(|module| (module.used, module.bytes(), None)))
            .collect();
        unused.sort_unstable_by_key(|(used, ..)| *used);
        let mut bytes: u64 = unused.iter().map(|(_, bytes, _)| bytes).sum();
        let mut taken = Vec::new();
        for (used, its_bytes, key) in unused {
            if bytes <= bytes_max {
                break;
            }
            bytes -= its_bytes;
            let code = match key {
                Some(key) => slots.remove(&key).and_then(|slot| slot.code.lock().take()),
                None => {
                    let at = idle.iter().position(|module| module.used == used);
                    at.map(|at| idle.remove(at).code)
                }
            };
            // It has no other user, or it would not be unused.
            taken.extend(code.and_then(Arc::into_inner).map(|code| code.raw));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(number: usize) -> Owned<CUmodule> {
        // SAFETY: no provider gets it.
        unsafe { Owned::new_unchecked(CUmodule(number)) }
    }

    fn key(name: &str) -> CodeKey {
        CodeKey::new(name.as_bytes(), std::iter::empty())
    }

    fn load(cache: &CodeCache, name: &str, number: usize) -> Arc<SharedCode> {
        let loader = || (Ok(module(number)), BuildLog::default());
        cache.get(key(name), 10, || false, loader).0.expect("it is loaded")
    }

    #[test]
    fn keys_tell_images_and_options_apart() {
        let with = |options: &[(u32, u32)]| CodeKey::new(b"image", options.iter().copied());
        assert_eq!(with(&[(0, 32)]), with(&[(0, 32)]));
        assert_ne!(with(&[]), with(&[(0, 32)]));
        assert_ne!(with(&[(0, 32)]), with(&[(0, 33)]));
        assert_ne!(with(&[]), key("imagf"));
    }

    #[test]
    fn an_image_is_loaded_once_and_a_failure_is_not_kept() {
        let cache = CodeCache::default();
        let failed = cache.get(
            key("a"),
            10,
            || false,
            || (Err(CudaError::INVALID_IMAGE), BuildLog::default()),
        );
        assert_eq!(failed.0.err(), Some(CudaError::INVALID_IMAGE));
        assert!(cache.slots.lock().is_empty(), "wrong images take no memory");
        assert_eq!(cache.unused_bytes(), 0);
        let first = load(&cache, "a", 1);
        let again = cache.get(key("a"), 10, || false, || unreachable!("it is there"));
        assert!(Arc::ptr_eq(&first, &again.0.expect("it is there")));
        assert_eq!(cache.hits(), 1);
        assert_eq!(first.may_print(), None);
        first.keep_may_print(true);
        assert_eq!(cache.find(&key("a")).and_then(|code| code.may_print()), Some(true));
    }

    #[test]
    fn unused_code_goes_the_oldest_first_and_used_code_stays() {
        let cache = CodeCache::default();
        let (used, _) = (load(&cache, "used", 1), load(&cache, "old", 2));
        load(&cache, "new", 3);
        assert_eq!(cache.take_unused(20), []);
        assert_eq!(cache.take_unused(10), [module(2)]);
        assert_eq!(cache.take_unused(0), [module(3)]);
        assert_eq!(cache.take_unused(0), []);
        drop(used);
        assert_eq!(cache.take_unused(0), [module(1)]);
    }

    #[test]
    fn a_module_with_variables_has_one_user_at_a_time_and_goes_as_other_unused_code_does() {
        let cache = CodeCache::default();
        let with_variables = |number| {
            let (log, variables) = (BuildLog::default(), (FirstValues::default(), 0));
            Arc::new(SharedCode::with_variables(module(number), key("a"), log, variables))
        };
        assert!(cache.take_idle(&key("a")).is_none());
        cache.keep_idle(with_variables(1), 10, true);
        drop(load(&cache, "b", 2));
        cache.keep_idle(with_variables(3), 10, false);
        assert_eq!(cache.idle_counts(), [(key("a"), 2)].into());
        assert!(cache.take_idle(&key("b")).is_none(), "it is another image");
        let taken = cache.take_idle(&key("a")).expect("one that waits");
        assert_eq!((taken.code.live(), cache.hits()), (module(3).live(), 1), "the last used");
        assert!(!taken.is_fresh);
        cache.keep_idle(taken.code, 10, false);
        assert_eq!(cache.take_unused(20), [module(1)]);
        assert_eq!(cache.take_unused(10), [module(2)]);
        assert_eq!(cache.take_unused(0), [module(3)]);
        assert!(cache.take_idle(&key("a")).is_none());
    }

    #[test]
    fn code_that_was_touched_is_kept_longer_and_more_is_kept_if_that_is_asked_for() {
        let cache = CodeCache::default();
        drop((load(&cache, "a", 1), load(&cache, "b", 2)));
        cache.touch(&key("a"));
        cache.touch(&key("not loaded"));
        assert_eq!(cache.take_unused(10), [module(2)]);
        cache.keep_unused(10);
        assert_eq!(cache.unused_bytes_max(), UNUSED_BYTES_MAX);
        cache.keep_unused(3 * UNUSED_BYTES_MAX);
        assert_eq!(cache.unused_bytes_max(), 3 * UNUSED_BYTES_MAX);
    }

    #[test]
    fn several_that_load_at_once_load_once() {
        let cache = CodeCache::default();
        let loads = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    cache.get(
                        key("a"),
                        10,
                        || false,
                        || {
                            loads.fetch_add(1, Ordering::Relaxed);
                            (Ok(module(1)), BuildLog::default())
                        },
                    )
                });
            }
        });
        assert_eq!((loads.into_inner(), cache.hits()), (1, 3));
    }

    #[test]
    fn the_highest_limit_of_any_client_holds() {
        let cache = CodeCache::default();
        let code = load(&cache, "a", 1);
        assert_eq!(code.initial_dynamic_memory(7, 100), 100);
        let set = std::cell::Cell::new(0);
        assert_eq!(code.raise_dynamic_memory(7, 50, || unreachable!("it is higher")), Ok(()));
        let raise = |bytes: i32| {
            code.raise_dynamic_memory(7, bytes, || {
                set.set(bytes);
                Ok(())
            })
        };
        assert_eq!((raise(1000), set.get()), (Ok(()), 1000));
        assert_eq!((raise(500), set.get()), (Ok(()), 1000));
        assert_eq!((raise(2000), set.get()), (Ok(()), 2000));
        assert_eq!(code.initial_dynamic_memory(7, 2000), 100);
        assert_eq!(raise(-1), Err(CudaError::INVALID_VALUE));
        let refused = code.raise_dynamic_memory(7, 9000, || Err(CudaError::INVALID_VALUE));
        assert_eq!(
            (refused, raise(3000), set.get()),
            (Err(CudaError::INVALID_VALUE), Ok(()), 3000)
        );
    }
}
