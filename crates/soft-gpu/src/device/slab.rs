//! Storage by index and generation.
//!
//! A [`Key`] outlives what it names without danger: once the value is removed the key finds
//! nothing, also when the place is used again. Handles that programs see are such keys, never
//! pointers.

use std::fmt;
use std::marker::PhantomData;

/// Most values a slab holds at once: handles carry an index of 24 bits.
pub const SLAB_LEN_MAX: usize = 1 << 24;

/// Generations wrap here: handles carry 24 bits of them.
pub const GENERATION_MAX: u32 = (1 << 24) - 1;

/// Names a value in a [`Slab`].
pub struct Key<T> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// Key from the parts a handle was made of; need not name anything.
    pub fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation, of: PhantomData }
    }

    /// A number of its own, for code that only compares it.
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Place in the slab.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How often the place had been used when the key was made; never 0.
    pub fn generation(self) -> u32 {
        self.generation
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}
impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.generation == other.generation
    }
}
impl<T> Eq for Key<T> {}
impl<T> std::hash::Hash for Key<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.index, self.generation).hash(state);
    }
}
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.index, self.generation)
    }
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Values found by [`Key`].
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// The key that the next value will get.
    pub fn next_key(&self) -> Key<T> {
        match self.free.last() {
            Some(&index) => Key::from_parts(index, self.places[index as usize].generation),
            None => Key::from_parts(self.places.len() as u32, 1),
        }
    }

    /// Adds a value; `None` if the slab is full.
    pub fn insert(&mut self, value: T) -> Option<Key<T>> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.value = Some(value);
            return Some(Key::from_parts(index, place.generation));
        }
        if self.places.len() >= SLAB_LEN_MAX {
            return None;
        }
        let index = self.places.len() as u32;
        self.places.push(Place { generation: 1, value: Some(value) });
        Some(Key::from_parts(index, 1))
    }

    /// The value named by `key`.
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.generation == key.generation { place.value.as_ref() } else { None }
    }

    /// The value named by `key`, to change.
    pub fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.value.as_mut() } else { None }
    }

    /// Takes the value out; its key never finds anything again.
    pub fn remove(&mut self, key: Key<T>) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation % GENERATION_MAX + 1;
        self.free.push(key.index);
        Some(value)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, &T)> {
        self.places.iter().enumerate().filter_map(|(i, p)| {
            p.value.as_ref().map(|v| (Key::from_parts(i as u32, p.generation), v))
        })
    }

    /// All values with their keys, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key<T>, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(i, p)| {
            let generation = p.generation;
            p.value.as_mut().map(|v| (Key::from_parts(i as u32, generation), v))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert("a").unwrap();
        assert_eq!(slab.remove(a), Some("a"));
        let b = slab.insert("b").unwrap();
        assert_eq!(a.index(), b.index());
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(b), Some(&"b"));
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.get(Key::from_parts(99, 1)), None);
    }
}
