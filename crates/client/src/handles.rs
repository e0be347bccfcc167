//! Tables of the client's own objects, by the handles that the program holds.
//!
//! A handle is (kind, index, generation). A place's generation goes up when its object is
//! destroyed, so a stale handle finds nothing. Generations start at 1: no handle that a table
//! gives out is the one of slot 0, generation 0, which stands for the legacy default stream.
//!
//! The generation's upper bits say which device of the process the object is on, so that a handle
//! alone leads to the connection that it is meant for.

use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CudaError};

/// Bits of a generation below the device's.
const DEVICE_SHIFT: u32 = 20;
/// Largest number of reuses: one million.
const REUSES_MAX: u32 = (1 << DEVICE_SHIFT) - 1;

const _: () =
    assert!(channel::message::DEVICES_MAX << DEVICE_SHIFT <= Handle::GENERATION_MAX as usize + 1);

/// The device that an object is on, by its handle.
#[inline(always)]
pub(crate) const fn device_of(handle: Handle) -> CUdevice {
    (handle.generation >> DEVICE_SHIFT) as CUdevice
}

/// The device that an object is on, by the word that the program holds; `None` for no handle.
#[inline(always)]
pub(crate) fn device_of_word(word: u64) -> Option<CUdevice> {
    Handle::from_word(word).map(device_of)
}

/// The generation of a device's objects that exist without being made, in their `reuse`-th form.
pub(crate) const fn generation_on(device: CUdevice, reuse: u32) -> u32 {
    (device as u32) << DEVICE_SHIFT | reuse
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Objects of one kind (or of two kinds that share their numbers, as functions and kernels do).
pub(crate) struct Table<T> {
    kind: HandleKind,
    /// The device of all that is inserted without saying which.
    device: CUdevice,
    /// Index of the first slot: lower ones belong to objects that exist without being made.
    first: u32,
    /// Largest number of slots.
    slots_max: u32,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// An empty table whose indices run from `first` to below `first + slots_max`.
    pub(crate) const fn new(kind: HandleKind, first: u32, slots_max: u32) -> Self {
        Self::on(kind, 0, first, slots_max)
    }

    /// As [`Self::new`], for objects on a device.
    pub(crate) const fn on(kind: HandleKind, device: CUdevice, first: u32, slots_max: u32) -> Self {
        Self { kind, device, first, slots_max, slots: Vec::new(), free: Vec::new() }
    }

    /// Adds an object. CUDA_ERROR_OUT_OF_MEMORY if the table is full.
    pub(crate) fn insert(&mut self, value: T) -> Result<Handle, CudaError> {
        self.insert_on(self.device, value)
    }

    /// Adds an object that is on a device. CUDA_ERROR_OUT_OF_MEMORY if the table is full.
    pub(crate) fn insert_on(&mut self, device: CUdevice, value: T) -> Result<Handle, CudaError> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.slots.len() < self.slots_max as usize => {
                self.slots.push(Slot { generation: 1, value: None });
                self.slots.len() as u32 - 1
            }
            None => return Err(CudaError::OUT_OF_MEMORY),
        };
        let slot = &mut self.slots[place as usize];
        slot.value = Some(value);
        slot.generation = generation_on(device, slot.generation & REUSES_MAX);
        Ok(Handle { kind: self.kind, index: self.first + place, generation: slot.generation })
    }

    #[inline(always)]
    fn slot(&self, handle: Handle) -> Option<usize> {
        let place = handle.index.checked_sub(self.first)? as usize;
        let slot = self.slots.get(place)?;
        (slot.generation == handle.generation && slot.value.is_some()).then_some(place)
    }

    /// The object of a handle; which kind the handle says is the caller's business.
    #[inline(always)]
    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        self.slots[self.slot(handle)?].value.as_ref()
    }

    /// The object of a handle, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let place = self.slot(handle)?;
        self.slots[place].value.as_mut()
    }

    /// The object of a word that the program passed as a handle of this table's kind.
    /// CUDA_ERROR_INVALID_HANDLE if it is none, or none any more.
    #[inline(always)]
    pub(crate) fn lookup(&self, word: usize) -> Result<&T, CudaError> {
        self.get(self.decode(word)?).ok_or(CudaError::INVALID_HANDLE)
    }

    /// As [`Self::lookup`], to be changed.
    #[inline(always)]
    pub(crate) fn lookup_mut(&mut self, word: usize) -> Result<&mut T, CudaError> {
        let handle = self.decode(word)?;
        self.get_mut(handle).ok_or(CudaError::INVALID_HANDLE)
    }

    /// The handle of a word that the program passed, if it is of this table's kind.
    #[inline(always)]
    pub(crate) fn decode(&self, word: usize) -> Result<Handle, CudaError> {
        Handle::from_word(word as u64)
            .filter(|handle| handle.kind == self.kind)
            .ok_or(CudaError::INVALID_HANDLE)
    }

    /// Takes an object out; its handle is stale from now on.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let value = self.take_without_reuse(handle)?;
        self.free.push(handle.index - self.first);
        Some(value)
    }

    /// As [`Self::remove`], but the place is not used again before [`Self::reuse`].
    pub(crate) fn take_without_reuse(&mut self, handle: Handle) -> Option<T> {
        let place = self.slot(handle)?;
        let slot = &mut self.slots[place];
        // A place whose generations are used up starts over at 1: a handle would have to be
        // a million objects old to be mistaken.
        slot.generation = match slot.generation & REUSES_MAX {
            REUSES_MAX => 1,
            reuse => reuse + 1,
        };
        slot.value.take()
    }

    /// Lets the place of a taken object be used again.
    pub(crate) fn reuse(&mut self, index: u32) {
        self.free.push(index - self.first);
    }

    /// All objects with their handles.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let (kind, first) = (self.kind, self.first);
        self.slots.iter().enumerate().filter_map(move |(place, slot)| {
            let handle = Handle { kind, index: first + place as u32, generation: slot.generation };
            Some((handle, slot.value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut table = Table::new(HandleKind::Event, 0, 2);
        let a = table.insert('a').unwrap();
        let b = table.insert('b').unwrap();
        assert_eq!(table.insert('c'), Err(CudaError::OUT_OF_MEMORY));
        assert_eq!(table.lookup(a.to_word() as usize), Ok(&'a'));
        assert_eq!(table.remove(a), Some('a'));
        assert_eq!(table.remove(a), None);
        let c = table.insert('c').unwrap();
        assert_eq!((c.index, c.generation), (a.index, a.generation + 1));
        assert_eq!(table.lookup(a.to_word() as usize), Err(CudaError::INVALID_HANDLE));
        assert_eq!(table.get(b), Some(&'b'));
        assert_eq!(table.iter().map(|(_, v)| *v).collect::<String>(), "cb");
    }

    #[test]
    fn words_of_another_kind_or_of_none_are_refused() {
        let mut table = Table::new(HandleKind::Event, 1, 8);
        let handle = table.insert(()).unwrap();
        assert_eq!(handle.index, 1);
        let other = Handle { kind: HandleKind::Stream, ..handle };
        for word in [0, 1, 0x7fff_0000, other.to_word() as usize] {
            assert_eq!(table.lookup(word), Err(CudaError::INVALID_HANDLE));
        }
        let beyond = Handle { index: 0, ..handle };
        assert_eq!(table.get(beyond), None);
    }

    #[test]
    fn a_place_can_be_kept_back() {
        let mut table = Table::new(HandleKind::Stream, 1, 1);
        let handle = table.insert(()).unwrap();
        table.take_without_reuse(handle).unwrap();
        assert_eq!(table.insert(()), Err(CudaError::OUT_OF_MEMORY));
        table.reuse(handle.index);
        assert!(table.insert(()).is_ok());
    }
}
