//! Registered memory: the program's own, made known to the device (cuMemHostRegister).
//!
//! The server reaches files, not the program's pages. So pages that are the program's alone and
//! backed by nothing are exchanged, in their place, for those of a file with the same contents,
//! which the server maps too: in the client's host window, where the device finds them. That is
//! another address than the program's, as the device's attribute says, and both are good.
//!
//! Memory that cannot be exchanged (files, what other processes share, stacks, or where other
//! threads' writes cannot be held up meanwhile) is registered by name only: copies go over staging,
//! as those of any pageable memory, and the device has no address for it.
//!
//! Memory that lies in pages which were exchanged for other memory's sake has its device's address there
//! too; the pages are put back with the last registration in them.
//!
//! A child of fork has pages of its own, as it would without the registration ([`super::kept_file`]).

use super::kept_file::KeptFile;
use super::page_exchange::{Pages, is_file_at, maps_now};
use super::{HostTag, Memory};
use channel::memfd::Mapping;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A range that the program registered.
pub(crate) struct Registered {
    pub(crate) bytes: u64,
    pub(crate) tag: HostTag,
    /// Where the device finds it, with others in the same pages; `None` if it is registered by name only.
    pub(crate) exchanged: Option<Arc<Exchanged>>,
}

/// Pages of the program's that are a file's now.
pub(crate) struct Exchanged {
    pub(crate) pages: Pages,
    /// Where the first page is in the host window.
    pub(crate) window: u64,
    // Held for the life of the registrations: the mapping in the window, and the file.
    pub(crate) _mapping: Mapping,
    pub(crate) file: KeptFile,
}

/// Where an address of registered memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Start of what was registered, as the program knows it.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) tag: HostTag,
    /// What to add to an address of the program's to get the device's.
    pub(crate) to_device: Option<u64>,
}

impl Registered {
    fn spot(&self, start: u64) -> Spot {
        let to_device = self.exchanged.as_ref().map(|e| e.window.wrapping_sub(e.pages.start));
        Spot { start, bytes: self.bytes, tag: self.tag, to_device }
    }
}

impl Memory {
    /// Registered memory at an address of the program's.
    pub(crate) fn registered_at(&self, address: u64) -> Option<Spot> {
        let (start, registered) = self.registered.range(..=address).next_back()?;
        (address - start < registered.bytes).then(|| registered.spot(*start))
    }

    /// Registered memory at an address of the device's.
    pub(crate) fn registered_for_device(&self, address: u64) -> Option<Spot> {
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

    /// What these pages were exchanged for, all of them, when other memory in them was registered.
    pub(crate) fn exchanged_before(&self, pages: Pages) -> Option<Arc<Exchanged>> {
        let all = self.registered.values().filter_map(|registered| registered.exchanged.as_ref());
        let has_them = |of: &&Arc<Exchanged>| {
            of.pages.contains(pages) && is_file_at(&maps_now(), pages, of.file.as_raw_fd())
        };
        all.into_iter().find(has_them).cloned()
    }

    pub(crate) fn overlaps_registered(&self, address: u64, end: u64) -> bool {
        let before = self.registered.range(..end).next_back();
        before.is_some_and(|(start, registered)| start + registered.bytes > address)
    }
}
