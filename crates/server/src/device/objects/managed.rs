//! Managed variables of modules: in files that client, server and device have at the same addresses.
//! A provider that can asks where they are to lie; for another one they are placed before it loads
//! the module.

use crate::device::{HostRegistration, Share};
use channel::memfd::{Mapping, PAGE_BYTES, Reservation, Seals, create_sealed};
use channel::message::Window;
use cuda_api::CudaError;
use ptx::managed::Managed;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

/// The managed variables of one module: gone from the device and from this process when dropped.
pub struct ManagedVariables {
    // Dropped first: the registration must not outlive the mapping.
    _registration: HostRegistration,
    _mapping: Mapping,
    file: OwnedFd,
    address: u64,
    bytes: u64,
    room: Rc<Room>,
}

impl ManagedVariables {
    /// Their memory's first address, in the client too.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Their memory's length, bytes: whole pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Their memory's file.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// True if a variable is one of them.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        Window { address: self.address, bytes: self.bytes }.contains(address, bytes)
    }
}

impl Drop for ManagedVariables {
    fn drop(&mut self) {
        self.room.taken.borrow_mut().remove(&self.address);
    }
}

struct Room {
    share: Rc<Share>,
    host_window: Arc<Reservation>,
    /// The part of the host window that is for them.
    part: Window,
    /// Addresses that are taken, and how many bytes.
    taken: RefCell<BTreeMap<u64, u64>>,
    /// What was placed for the module that is being loaded.
    placed: RefCell<Option<ManagedVariables>>,
}

/// Where the managed variables of a client's modules go.
pub struct ManagedRoom(Rc<Room>);

impl ManagedRoom {
    /// Room in a client's host window. The provider asks for it from now on, if it can.
    pub fn new(
        share: &Rc<Share>,
        host_window: &Arc<Reservation>,
        part: Window,
    ) -> Result<Self, CudaError> {
        let room = Rc::new(Room {
            share: share.clone(),
            host_window: host_window.clone(),
            part,
            taken: RefCell::default(),
            placed: RefCell::default(),
        });
        // SAFETY: the room is where it is until it is dropped, which takes this back; the provider
        // calls the function on this thread only, in a load of a module of this share.
        unsafe { share.place_managed(Some(place), Rc::as_ptr(&room).cast_mut().cast())? };
        Ok(Self(room))
    }

    /// The part of the host window that it takes.
    pub fn part(&self) -> Window {
        self.0.part
    }

    /// Places variables that the provider does not ask for, with their first values: the address of
    /// their beginning.
    pub fn place(&self, managed: &Managed) -> Result<u64, CudaError> {
        let address = self.0.place(managed.bytes()).ok_or(CudaError::OUT_OF_MEMORY)?;
        let placed = self.0.placed.borrow();
        let file = placed.as_ref().and_then(|placed| placed.file.try_clone().ok());
        let file = File::from(file.ok_or(CudaError::OUT_OF_MEMORY)?);
        for variable in managed.variables().values() {
            let written = file.write_all_at(&variable.value, variable.offset);
            written.map_err(|_| CudaError::OUT_OF_MEMORY)?;
        }
        Ok(address)
    }

    /// What was placed for the module that was loaded last, or could not be.
    pub fn take_placed(&self) -> Option<ManagedVariables> {
        self.0.placed.take()
    }
}

impl Drop for ManagedRoom {
    fn drop(&mut self) {
        // SAFETY: nothing is called any more. A provider that does not answer calls nothing.
        let _ = unsafe { self.0.share.place_managed(None, std::ptr::null_mut()) };
    }
}

/// The first gap of so many bytes in a part, of which some addresses are taken, each with so many
/// bytes.
fn gap(part: Window, taken: &BTreeMap<u64, u64>, bytes: u64) -> Option<u64> {
    let mut free = part.address;
    for (address, length) in taken {
        if address - free >= bytes {
            break;
        }
        free = address + length;
    }
    part.contains(free, bytes).then_some(free)
}

impl Room {
    fn place(self: &Rc<Self>, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).filter(|bytes| *bytes > 0)?;
        let address = gap(self.part, &self.taken.borrow(), bytes)?;
        let file = create_sealed(c"openmps-managed", bytes, Seals::SIZE).ok()?;
        let mapping = self.host_window.map(&file, address, bytes).ok()?;
        // SAFETY: the mapping covers the range and is kept beside the registration, which is
        // dropped first.
        let registration = unsafe { HostRegistration::new(&self.share, address, bytes) }.ok()?;
        if registration.device_address() != address {
            return None;
        }
        self.taken.borrow_mut().insert(address, bytes);
        *self.placed.borrow_mut() = Some(ManagedVariables {
            _registration: registration,
            _mapping: mapping,
            file,
            address,
            bytes,
            room: self.clone(),
        });
        Some(address)
    }
}

/// Places a module's managed variables; 0 if there is no room.
///
/// # Safety
/// `data` is that of a room that is alive.
unsafe extern "C" fn place(data: *mut c_void, bytes: u64) -> u64 {
    let room = data.cast_const().cast::<Room>();
    // SAFETY: the room is alive and in an Rc, of which this makes one more.
    let room = unsafe {
        Rc::increment_strong_count(room);
        Rc::from_raw(room)
    };
    room.place(bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_first_gap_that_is_long_enough() {
        let part = Window { address: 100, bytes: 100 };
        let taken = BTreeMap::from([(110, 10), (140, 20), (160, 5)]);
        let places = [10, 11, 20, 21, 35, 36].map(|bytes| gap(part, &taken, bytes));
        assert_eq!(places, [Some(100), Some(120), Some(120), Some(165), Some(165), None]);
    }
}
