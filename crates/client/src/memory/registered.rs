//! The program's own memory, made known to the device (cuMemHostRegister).
//!
//! The server reaches files, not the program's pages. So pages that are the program's alone and
//! backed by nothing are exchanged, in their place, for those of a file with the same contents,
//! which the server maps too: in the client's host window, where the device finds them. That is
//! another address than the program's, as the device's attribute says, and both are good.
//!
//! Memory that cannot be exchanged (files, what other processes share, stacks, or where nobody can
//! hold up other threads' writes meanwhile) is registered by name only: copies go over staging, as
//! those of any pageable memory, and the device has no address for it.
//!
//! While memory is registered, a child of fork shares its pages with the parent.

use super::descriptors::out_of_the_way;
use super::kept_file::KeptFile;
use super::swap::{self, Nature, Pages};
use super::{HostTag, Memory};
use crate::attach::Attached;
use channel::memfd::{Mapping, Seals, create_sealed};
use channel::message::Message;
use channel::request::{HostMap, HostUnmap};
use cuda_api::constants::host_flags;
use cuda_api::{CUresult, CudaError};
use std::os::fd::AsFd;

/// Every piece is registered so that all contexts and the device reach it.
const PIECE_FLAGS: u32 = host_flags::PORTABLE | host_flags::DEVICE_MAP;

/// A range that the program registered.
pub(super) struct Registered {
    pub(super) bytes: u64,
    pub(super) tag: HostTag,
    /// Where the device finds it; `None` if it is registered by name only.
    pub(super) exchanged: Option<Exchanged>,
}

/// Pages of the program's that are a file's now.
pub(super) struct Exchanged {
    pages: Pages,
    /// Where the first page is in the host window.
    window: u64,
    // Held for the life of the registration: the mapping in the window, and the file.
    _mapping: Mapping,
    _file: KeptFile,
}

/// Where an address of registered memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Start of what was registered, as the program knows it.
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) tag: HostTag,
    /// What to add to an address of the program's to get the device's.
    pub(super) to_device: Option<u64>,
}

impl Registered {
    fn spot(&self, start: u64) -> Spot {
        let to_device = self.exchanged.as_ref().map(|e| e.window.wrapping_sub(e.pages.start));
        Spot { start, bytes: self.bytes, tag: self.tag, to_device }
    }
}

impl Memory {
    /// Registered memory at an address of the program's.
    pub(super) fn registered_at(&self, address: u64) -> Option<Spot> {
        let (start, registered) = self.registered.range(..=address).next_back()?;
        (address - start < registered.bytes).then(|| registered.spot(*start))
    }

    /// Registered memory at an address of the device's.
    pub(super) fn registered_for_device(&self, address: u64) -> Option<Spot> {
        if !self.host_window.contains(address, 1) {
            return None;
        }
        self.registered.iter().map(|(start, registered)| registered.spot(*start)).find(|spot| {
            let start = spot.to_device.map(|offset| spot.start.wrapping_add(offset));
            start.is_some_and(|start| address >= start && address - start < spot.bytes)
        })
    }

    /// The program's address of pinned or registered memory that the device has at `address`.
    pub(crate) fn host_address(&self, address: u64) -> u64 {
        let offset = self.registered_for_device(address).and_then(|spot| spot.to_device);
        address.wrapping_sub(offset.unwrap_or(0))
    }

    fn overlaps_registered(&self, address: u64, end: u64) -> bool {
        let before = self.registered.range(..end).next_back();
        before.is_some_and(|(start, registered)| start + registered.bytes > address)
    }
}

impl Attached {
    /// Registers the program's memory. CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if part of it is
    /// registered, CUDA_ERROR_INVALID_VALUE if part of it is not there.
    pub(crate) fn register_host(
        &self,
        context: u64,
        address: u64,
        bytes: u64,
        flags: u32,
    ) -> CUresult {
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let pages = Pages::around(address, bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mut memory = self.memory();
        if memory.overlaps_registered(address, end) {
            return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        // What the windows have is CUDA's already.
        let foreign = |window: &channel::memfd::Reservation| {
            end <= window.address() || address >= window.address() + window.bytes()
        };
        if !foreign(&memory.window) || !foreign(&memory.host_window) {
            return Err(CudaError::INVALID_VALUE);
        }
        let exchanged = match swap::nature_now(pages) {
            Nature::Plain => self.exchange_pages(&mut memory, pages)?,
            Nature::Readable | Nature::Exchanged => None,
            Nature::Nothing => return Err(CudaError::INVALID_VALUE),
        };
        let tag =
            HostTag { context, id: memory.new_id(), flags, kind: super::HostKind::Registered };
        memory.registered.insert(address, Registered { bytes, tag, exchanged });
        Ok(())
    }

    /// Exchanges pages for a file's, which the server maps too; `None` if they cannot be.
    fn exchange_pages(
        &self,
        memory: &mut Memory,
        pages: Pages,
    ) -> Result<Option<Exchanged>, CudaError> {
        let Some(window) = memory.host.take_addresses(pages.bytes) else { return Ok(None) };
        let exchanged = self.exchange_pages_at(memory, pages, window);
        if !matches!(exchanged, Ok(Some(_))) {
            memory.host.give_addresses(window, pages.bytes);
        }
        exchanged
    }

    fn exchange_pages_at(
        &self,
        memory: &mut Memory,
        pages: Pages,
        window: u64,
    ) -> Result<Option<Exchanged>, CudaError> {
        let out_of_memory = |_| CudaError::OUT_OF_MEMORY;
        let file =
            create_sealed(swap::FILE_NAME, pages.bytes, Seals::SIZE).map_err(out_of_memory)?;
        let file = out_of_the_way(file);
        let mapping = memory
            .host_window
            .map(&file, window, pages.bytes)
            .map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let request = HostMap { address: window, bytes: pages.bytes, flags: PIECE_FLAGS };
        self.call_with(Message::HostFd(()), file.as_fd(), &request)?;
        if !swap::exchange(pages, Some(file.as_fd())) {
            self.call(&HostUnmap { address: window })?;
            return Ok(None);
        }
        Ok(Some(Exchanged { pages, window, _mapping: mapping, _file: file }))
    }

    /// Takes a registration back, when nothing uses it any more.
    /// CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED if none starts there.
    pub(crate) fn unregister_host(&self, address: u64) -> CUresult {
        if !self.memory().registered.contains_key(&address) {
            return Err(CudaError::HOST_MEMORY_NOT_REGISTERED);
        }
        self.wait_for_everything()?;
        let mut memory = self.memory();
        let registered =
            memory.registered.remove(&address).ok_or(CudaError::HOST_MEMORY_NOT_REGISTERED)?;
        self.put_back(&mut memory, registered);
        Ok(())
    }

    /// Gives the program pages of its own again. Where that cannot be done soundly the file's stay:
    /// they have the same contents.
    fn put_back(&self, memory: &mut Memory, registered: Registered) {
        let Some(exchanged) = registered.exchanged else { return };
        // A server that does not answer has no such mapping any more.
        let _ = self.call(&HostUnmap { address: exchanged.window });
        let (pages, window) = (exchanged.pages, exchanged.window);
        // The program may have unmapped them meanwhile.
        if swap::nature_now(pages) == Nature::Exchanged {
            swap::exchange(pages, None);
        }
        drop(exchanged);
        memory.host.give_addresses(window, pages.bytes);
    }

    /// Takes the registrations of a context back, when its work is done.
    pub(super) fn unregister_all_of(&self, memory: &mut Memory, context: u64) {
        let starts: Vec<u64> = memory
            .registered
            .iter()
            .filter(|(_, registered)| registered.tag.context == context)
            .map(|(start, _)| *start)
            .collect();
        for start in starts {
            if let Some(registered) = memory.registered.remove(&start) {
                self.put_back(memory, registered);
            }
        }
    }
}
