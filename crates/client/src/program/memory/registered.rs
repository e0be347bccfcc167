//! Registering the program's memory: pages are exchanged here and mapped by the server.

use crate::memory::address::Place;
use crate::memory::fd_numbers::{no_shared_memory, out_of_the_way};
use crate::memory::page_exchange::{self, Nature, Pages};
use crate::memory::registered::{Exchanged, Registered};
use crate::memory::{HostKind, HostTag, Memory};
use crate::program::Client;
use channel::memfd::{Seals, create_sealed};
use channel::message::Message;
use channel::request::{HostMap, HostUnmap};
use cuda_api::constants::host_flags;
use cuda_api::{CUresult, CudaError};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Every piece is registered so that all contexts and the device reach it.
const PIECE_FLAGS: u32 = host_flags::PORTABLE | host_flags::DEVICE_MAP;

impl Client {
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
        let exchanged = match page_exchange::nature_now(pages) {
            Nature::Plain => self.exchange_pages(&mut memory, pages)?.map(Arc::new),
            Nature::Exchanged => memory.exchanged_before(pages),
            Nature::Readable => None,
            Nature::Nothing => return Err(CudaError::INVALID_VALUE),
        };
        let tag = HostTag { context, id: memory.new_id(), flags, kind: HostKind::Registered };
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
        let file = create_sealed(page_exchange::FILE_NAME, pages.bytes, Seals::SIZE)
            .map_err(no_shared_memory)?;
        let file = out_of_the_way(file);
        let mapping = memory
            .host_window
            .map(&file, window, pages.bytes)
            .map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let request = HostMap { address: window, bytes: pages.bytes, flags: PIECE_FLAGS };
        self.call_with(Message::HostFd(()), file.as_fd(), &request)?;
        if !page_exchange::exchange(pages, Some(file.as_fd())) {
            self.call(&HostUnmap { address: window })?;
            return Ok(None);
        }
        file.mapped_for_program(pages);
        self.show_host(window, pages.bytes, file.as_fd())?;
        Ok(Some(Exchanged { pages, window, _mapping: mapping, file }))
    }

    /// Takes a registration back, when nothing uses it any more. CUDA_ERROR_INVALID_VALUE for an
    /// address within one, and for memory that was allocated;
    /// CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED for other memory.
    pub(crate) fn unregister_host(&self, address: u64) -> CUresult {
        if address == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        {
            let memory = self.memory();
            if !memory.registered.contains_key(&address) {
                return Err(match memory.place(address) {
                    Ok(Place::Registered { .. } | Place::Pinned { .. }) => CudaError::INVALID_VALUE,
                    _ => CudaError::HOST_MEMORY_NOT_REGISTERED,
                });
            }
        }
        self.wait_for_all_devices()?;
        let mut memory = self.memory();
        let registered =
            memory.registered.remove(&address).ok_or(CudaError::HOST_MEMORY_NOT_REGISTERED)?;
        self.put_back(&mut memory, registered);
        Ok(())
    }

    /// Gives the program pages of its own again. Where that cannot be done soundly the file's stay:
    /// they have the same contents.
    fn put_back(&self, memory: &mut Memory, registered: Registered) {
        // Others in the same pages keep them.
        let Some(exchanged) = registered.exchanged.and_then(Arc::into_inner) else { return };
        // A server that does not answer has no such mapping any more.
        self.hide_host(exchanged.window);
        let _ = self.call(&HostUnmap { address: exchanged.window });
        let (pages, window) = (exchanged.pages, exchanged.window);
        // The program may have unmapped them meanwhile.
        if page_exchange::nature_now(pages) == Nature::Exchanged {
            page_exchange::exchange(pages, None);
        }
        drop(exchanged);
        memory.host.give_addresses(window, pages.bytes);
    }

    /// Takes the registrations of a context back, when its work is done.
    pub(crate) fn unregister_all_of(&self, memory: &mut Memory, context: u64) {
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
