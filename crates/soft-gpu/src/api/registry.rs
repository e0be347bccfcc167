//! Tables of what handles stand for.

use locks::RwLock;
use std::sync::Arc;

use cuda_api::handle::{Handle, HandleKind};

use crate::device::slab::{Key, Slab};
use crate::error::{Error, Result};

/// Objects of one kind by handle.
pub(crate) struct Registry<T> {
    kind: HandleKind,
    slab: RwLock<Slab<Arc<T>>>,
}

impl<T> Registry<T> {
    pub(crate) fn new(kind: HandleKind) -> Self {
        Self { kind, slab: RwLock::new(Slab::default()) }
    }

    /// Adds an object that wants to know its own handle.
    pub(crate) fn insert_with(&self, make: impl FnOnce(usize) -> T) -> Result<(usize, Arc<T>)> {
        let mut slab = self.slab.write();
        let word = |key: Key<Arc<T>>| {
            let (index, generation) = (key.index(), key.generation());
            Handle { kind: self.kind, index, generation }.to_word() as usize
        };
        let key = slab.next_key();
        let object = Arc::new(make(word(key)));
        let key = slab.insert(object.clone()).ok_or(Error::OUT_OF_MEMORY)?;
        Ok((word(key), object))
    }

    /// Adds an object; returns its handle.
    pub(crate) fn insert(&self, object: T) -> Result<usize> {
        self.insert_with(|_| object).map(|(word, _)| word)
    }

    /// The object of a handle; INVALID_HANDLE for one that is stale, foreign or of another kind.
    pub(crate) fn get(&self, word: usize) -> Result<Arc<T>> {
        let key = self.key(word, self.kind)?;
        let slab = self.slab.read();
        slab.get(key).cloned().ok_or(Error::INVALID_HANDLE)
    }

    /// As [`Registry::get`], also for a handle of the kind `or`.
    pub(crate) fn get_either(&self, word: usize, or: HandleKind) -> Result<Arc<T>> {
        let key = self.key(word, self.kind).or_else(|_| self.key(word, or))?;
        let slab = self.slab.read();
        slab.get(key).cloned().ok_or(Error::INVALID_HANDLE)
    }

    /// Takes the object away; its handle is stale from now on.
    pub(crate) fn remove(&self, word: usize) -> Result<Arc<T>> {
        let key = self.key(word, self.kind)?;
        let mut slab = self.slab.write();
        slab.remove(key).ok_or(Error::INVALID_HANDLE)
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let slab = self.slab.read();
        slab.iter().map(|(_, object)| object.clone()).collect()
    }

    /// Takes away all objects that `doomed` picks.
    pub(crate) fn remove_all(&self, doomed: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut slab = self.slab.write();
        let keys: Vec<_> = slab.iter().filter(|(_, o)| doomed(o)).map(|(k, _)| k).collect();
        keys.into_iter().filter_map(|key| slab.remove(key)).collect()
    }

    fn key(&self, word: usize, kind: HandleKind) -> Result<Key<Arc<T>>> {
        match Handle::from_word(word as u64) {
            Some(handle) if handle.kind == kind => {
                Ok(Key::from_parts(handle.index, handle.generation))
            }
            _ => Err(Error::INVALID_HANDLE),
        }
    }
}

/// The same handle as of another kind.
pub(crate) fn with_kind(word: usize, kind: HandleKind) -> usize {
    match Handle::from_word(word as u64) {
        Some(handle) => Handle { kind, ..handle }.to_word() as usize,
        None => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_for_its_object_only() {
        let registry = Registry::new(HandleKind::Event);
        let (word, _) = registry.insert_with(|word| word).unwrap();
        assert_eq!(*registry.get(word).unwrap(), word);
        for bad in [0, 1, 2, word + 1, with_kind(word, HandleKind::Stream), usize::MAX] {
            assert_eq!(registry.get(bad), Err(Error::INVALID_HANDLE), "{bad:#x}");
        }
        let stream = with_kind(word, HandleKind::Stream);
        assert_eq!(*registry.get_either(stream, HandleKind::Stream).unwrap(), word);
        registry.remove(word).unwrap();
        let again = registry.insert(7).unwrap();
        assert_ne!(again, word);
        assert_eq!(registry.get(word), Err(Error::INVALID_HANDLE));
        assert_eq!(registry.remove_all(|o| *o == 7).len(), 1);
    }
}
