//! Tables of a client's objects, by the handles that the client made.
//!
//! A handle is looked up, never followed: a word of another kind, a stale generation or a place
//! that is empty is CUDA_ERROR_INVALID_HANDLE.

use cuda_api::CudaError;
use cuda_api::handle::{Handle, HandleKind};

/// Objects of one kind.
pub struct Table<T> {
    kind: HandleKind,
    places_max: usize,
    places: Vec<Option<(u32, T)>>,
    /// Objects that the client has destroyed and that requests which wait still name.
    departed: Vec<(u64, T)>,
}

impl<T> Table<T> {
    /// An empty table of at most `places_max` places.
    pub fn new(kind: HandleKind, places_max: usize) -> Self {
        Self { kind, places_max, places: Vec::new(), departed: Vec::new() }
    }

    /// The place that a word names, if it is a handle of this table's kind.
    pub fn handle(&self, word: u64) -> Result<Handle, CudaError> {
        Handle::from_word(word).filter(|h| h.kind == self.kind).ok_or(CudaError::INVALID_HANDLE)
    }

    /// The place that a new object would take: in range and free.
    pub fn vacant(&self, word: u64) -> Result<Handle, CudaError> {
        let handle = self.handle(word)?;
        let index = handle.index as usize;
        if index >= self.places_max {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        match self.places.get(index) {
            Some(Some(_)) => Err(CudaError::INVALID_HANDLE),
            _ => Ok(handle),
        }
    }

    /// Puts an object at a place that [`Table::vacant`] has just answered.
    pub fn put(&mut self, handle: Handle, object: T) {
        let index = handle.index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some((handle.generation, object));
    }

    /// The object of a handle.
    #[inline]
    pub fn get(&self, word: u64) -> Result<&T, CudaError> {
        let handle = self.handle(word)?;
        match self.places.get(handle.index as usize) {
            Some(Some((generation, object))) if *generation == handle.generation => Ok(object),
            _ => self.departed(word),
        }
    }

    #[cold]
    fn departed(&self, word: u64) -> Result<&T, CudaError> {
        let found = self.departed.iter().find(|(of, _)| *of == word);
        found.map(|(_, object)| object).ok_or(CudaError::INVALID_HANDLE)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.as_ref().map(|(_, object)| object))
    }

    /// As [`Table::get`], to change it.
    #[inline]
    pub fn get_mut(&mut self, word: u64) -> Result<&mut T, CudaError> {
        let handle = self.handle(word)?;
        match self.places.get_mut(handle.index as usize) {
            Some(Some((generation, object))) if *generation == handle.generation => Ok(object),
            _ => {
                let found = self.departed.iter_mut().find(|(of, _)| *of == word);
                found.map(|(_, object)| object).ok_or(CudaError::INVALID_HANDLE)
            }
        }
    }

    /// Takes the object of a handle out.
    pub fn take(&mut self, word: u64) -> Result<T, CudaError> {
        let handle = self.handle(word)?;
        let place = self.places.get_mut(handle.index as usize);
        match place.and_then(|place| place.take_if(|(of, _)| *of == handle.generation)) {
            Some((_, object)) => Ok(object),
            None => Err(CudaError::INVALID_HANDLE),
        }
    }

    /// The client has destroyed an object that requests which wait still name: its place is free, and it can be
    /// looked up until [`Table::release`].
    pub fn depart(&mut self, word: u64) -> Result<&T, CudaError> {
        let object = self.take(word)?;
        self.departed.push((word, object));
        self.departed(word)
    }

    /// No request names an object any more that may have departed.
    pub fn release(&mut self, word: u64) {
        self.departed.retain(|(of, _)| *of != word);
    }

    /// All objects, to change them.
    pub fn each_mut(&mut self, each: impl FnMut(&mut T)) {
        self.places.iter_mut().flatten().map(|(_, object)| object).for_each(each);
    }

    /// Drops objects for which `keep` says false.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.retain_named(|_, object| keep(object));
    }

    /// As [`Table::retain`], with the word of each object's handle.
    pub fn retain_named(&mut self, mut keep: impl FnMut(u64, &T) -> bool) {
        let kind = self.kind;
        for (index, place) in self.places.iter_mut().enumerate() {
            let word = |generation: u32| Handle { kind, index: index as u32, generation }.to_word();
            if place.as_ref().is_some_and(|(generation, object)| !keep(word(*generation), object)) {
                *place = None;
            }
        }
    }

    /// Drops all objects.
    pub fn clear(&mut self) {
        self.places = Vec::new();
        self.departed.clear();
    }

    /// Number of objects.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn word(kind: HandleKind, index: u32, generation: u32) -> u64 {
        Handle { kind, index, generation }.to_word()
    }

    #[test]
    fn stale_and_foreign_handles_are_refused() {
        let mut table = Table::new(HandleKind::Event, 16);
        let first = word(HandleKind::Event, 3, 1);
        table.put(table.vacant(first).unwrap(), 'a');
        assert_eq!(table.get(first), Ok(&'a'));
        for bad in [
            0,
            1,
            u64::MAX,
            word(HandleKind::Stream, 3, 1),
            word(HandleKind::Event, 3, 2),
            word(HandleKind::Event, 4, 1),
            word(HandleKind::Event, Handle::INDEX_MAX, 1),
        ] {
            assert_eq!(table.get(bad), Err(CudaError::INVALID_HANDLE), "{bad:#x}");
            assert_eq!(table.take(bad), Err(CudaError::INVALID_HANDLE), "{bad:#x}");
        }
        assert_eq!(table.vacant(first), Err(CudaError::INVALID_HANDLE));
        assert_eq!(table.vacant(word(HandleKind::Event, 16, 0)), Err(CudaError::OUT_OF_MEMORY));
        assert_eq!(table.take(first), Ok('a'));
        assert_eq!(table.get(first), Err(CudaError::INVALID_HANDLE));
        assert_eq!(table.len(), 0);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec((0u8..3, 0u32..12, 0u32..3), 0..200)) {
            let mut table = Table::new(HandleKind::Module, 10);
            let mut model: HashMap<u32, (u32, usize)> = HashMap::new();
            for (number, (what, index, generation)) in steps.into_iter().enumerate() {
                let w = word(HandleKind::Module, index, generation);
                let live = model.get(&index).filter(|(g, _)| *g == generation).copied();
                match what {
                    0 => match table.vacant(w) {
                        Ok(handle) => {
                            prop_assert!(index < 10 && !model.contains_key(&index));
                            table.put(handle, number);
                            model.insert(index, (generation, number));
                        }
                        Err(_) => prop_assert!(index >= 10 || model.contains_key(&index)),
                    },
                    1 => prop_assert_eq!(table.get(w).ok().copied(), live.map(|(_, n)| n)),
                    _ => {
                        prop_assert_eq!(table.take(w).ok(), live.map(|(_, n)| n));
                        if live.is_some() {
                            model.remove(&index);
                        }
                    }
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
