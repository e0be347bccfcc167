//! What an address means: unified addressing, where copies find out for themselves.

use super::registered::Spot;
use super::virtual_memory::Found;
use super::{DeviceTag, HostTag, Memory};
use core::ops::Range;
use cuda_api::{CUdevice, CudaError};

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An allocation of device memory.
    Device { start: u64, bytes: u64, device: CUdevice, tag: DeviceTag },
    /// Memory that the program mapped itself, or another process' that it opened.
    Mapped { start: u64, bytes: u64, id: u64, joins: bool },
    /// A module's variable.
    Global { start: u64, bytes: u64 },
    /// Pinned host memory.
    Pinned { start: u64, bytes: u64, tag: HostTag },
    /// The program's own memory that is registered. The device has it at an address of its own, if
    /// it can reach it at all: `to_device` is what to add to the program's.
    Registered { start: u64, bytes: u64, tag: HostTag, to_device: Option<u64> },
    /// The program's own memory, or nothing.
    Pageable,
}

/// What a kernel that got an address may reach through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Surroundings {
    /// The memory that was given out together.
    Allocation(Range<u64>),
    /// Nothing of this process: an access faults.
    Nothing,
    /// That is not known; or the program sees what is written there, and writes there, while the kernel runs.
    Unknown,
}

/// Copies within this process' memory, which the program's other threads may be using.
pub(crate) fn copy_here(destination: u64, source: u64, bytes: u64) {
    // SAFETY: the program passed each end for a copy of that length, in memory that this process can reach
    // and that lives as long as the copy, or launches of its graph; or the end is a mapping of this
    // library's that is as long.
    unsafe { core::ptr::copy(source as *const u8, destination as *mut u8, bytes as usize) };
}

/// Programs, their libraries and stacks lie from here up, and below lies what servers give out.
const PROGRAMS: u64 = 0x5500_0000_0000;

/// Which side of a copy an address can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The device reaches it, as device memory.
    Device,
    /// Host memory that the device reaches.
    Pinned,
    /// Host memory that only this process reaches.
    Pageable,
}

impl Memory {
    /// True if an address is one of a window of this device's, or of what was made or registered
    /// here; false for memory of another device of the process, and for the program's own.
    pub(crate) fn knows(&self, address: u64) -> bool {
        self.window.contains(address, 1)
            || self.host_window.contains(address, 1)
            || self.virtual_memory.is_reserved(address)
            || !matches!(self.place(address), Ok(Place::Pageable))
    }

    /// What is at an address. CUDA_ERROR_INVALID_VALUE for an address of the windows at which
    /// there is nothing (any more).
    pub(crate) fn place(&self, address: u64) -> Result<Place, CudaError> {
        if self.is_device(address) {
            let block = self.heap.find(address);
            let device = self.device;
            let block = block.filter(|b| !b.tag.freed).ok_or(CudaError::INVALID_VALUE)?;
            if block.tag.variables {
                let (start, global) = self.variable_at(address).ok_or(CudaError::INVALID_VALUE)?;
                return Ok(Place::Global { start, bytes: global.bytes });
            }
            let (start, bytes, tag) = (block.address, block.bytes, block.tag);
            return Ok(Place::Device { start, bytes, device, tag });
        }
        if let Some(spot) = self.registered_for_device(address) {
            // It is the device's address that was asked for.
            let start = spot.start.wrapping_add(spot.to_device.unwrap_or(0));
            return Ok(Place::Pinned { start, bytes: spot.bytes, tag: spot.tag });
        }
        if let Some((start, bytes, tag)) = self.managed_variable(address) {
            return Ok(Place::Pinned { start, bytes, tag });
        }
        if self.host_window.contains(address, 1) {
            let block = self.host.find(address).ok_or(CudaError::INVALID_VALUE)?;
            return Ok(Place::Pinned { start: block.address, bytes: block.bytes, tag: block.tag });
        }
        if self.virtual_memory.is_reserved(address) {
            let found = self.virtual_memory.find(address).ok_or(CudaError::INVALID_VALUE)?;
            let Found { start, bytes, id, joins } = found;
            return Ok(Place::Mapped { start, bytes, id, joins });
        }
        if let Some(Spot { start, bytes, tag, to_device }) = self.registered_at(address) {
            return Ok(Place::Registered { start, bytes, tag, to_device });
        }
        Ok(match self.variable_at(address) {
            Some((start, global)) => Place::Global { start, bytes: global.bytes },
            None => Place::Pageable,
        })
    }

    /// What a kernel may reach through an address.
    pub(crate) fn surroundings(&self, address: u64) -> Surroundings {
        if self.is_device(address) {
            // A block with work in flight keeps its extent: it is given out again only whole.
            let range = match self.heap.find(address) {
                Some(block) => Some((block.address, block.tag.asked.clamp(1, block.bytes))),
                None => self.heap.chunk_of(address),
            };
            return match range {
                Some((start, bytes)) => Surroundings::Allocation(start..start + bytes),
                None => Surroundings::Unknown,
            };
        }
        match self.place(address) {
            Ok(Place::Global { start, bytes }) => Surroundings::Allocation(start..start + bytes),
            Ok(Place::Pageable) if address < PROGRAMS => Surroundings::Nothing,
            _ => Surroundings::Unknown,
        }
    }

    /// Which side of a copy a range can be. CUDA_ERROR_INVALID_VALUE if it reaches beyond what it
    /// begins in.
    pub(crate) fn side(&self, address: u64, bytes: u64) -> Result<Side, CudaError> {
        let (start, length, side) = match self.place(address)? {
            Place::Device { start, bytes, .. } => (start, bytes, Side::Device),
            Place::Global { start, bytes } => (start, bytes, Side::Device),
            // What the program mapped side by side is one range to it.
            Place::Mapped { start, bytes: length, joins: true, .. } => {
                let wanted = (address - start).saturating_add(bytes);
                let mut joined = length;
                while joined < wanted {
                    match self.virtual_memory.find(start + joined) {
                        Some(Found { bytes, joins: true, .. }) => joined += bytes,
                        _ => break,
                    }
                }
                (start, joined, Side::Device)
            }
            Place::Mapped { start, bytes, .. } => (start, bytes, Side::Device),
            Place::Pinned { start, bytes, .. } => (start, bytes, Side::Pinned),
            Place::Registered { start, bytes, to_device: Some(_), .. } => {
                (start, bytes, Side::Pinned)
            }
            Place::Registered { to_device: None, .. } | Place::Pageable => {
                return Ok(Side::Pageable);
            }
        };
        match bytes <= length - (address - start) {
            true => Ok(side),
            false => Err(CudaError::INVALID_VALUE),
        }
    }

    /// As [`Self::side`], with the address by which server and device know the range's beginning.
    pub(crate) fn end(&self, address: u64, bytes: u64) -> Result<(Side, u64), CudaError> {
        let side = self.side(address, bytes)?;
        let to_device = match side {
            Side::Pinned => self.registered_at(address).and_then(|spot| spot.to_device),
            Side::Device if self.is_device(address) => None,
            // Another server may have a variable somewhere else.
            Side::Device => {
                self.variable_at(address).map(|(start, global)| global.present.wrapping_sub(start))
            }
            Side::Pageable => None,
        };
        Ok((side, address.wrapping_add(to_device.unwrap_or(0))))
    }

    /// Checks that a device can read or write a range: device memory or pinned memory.
    pub(crate) fn check_device_range(&self, address: u64, bytes: u64) -> Result<(), CudaError> {
        match self.end(address, bytes)? {
            (Side::Pageable, _) => Err(CudaError::INVALID_VALUE),
            // Registered memory is at another address for the device.
            (_, known) if known != address => Err(CudaError::INVALID_VALUE),
            _ => Ok(()),
        }
    }
}
