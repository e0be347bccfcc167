//! Reserved addresses (cuMemAddressReserve): slabs of the arena, and the pieces of them that a client
//! has.
//!
//! The provider is asked for slabs only. Where a small range lies NVIDIA's driver decides itself, and
//! it need not give a range where it is wanted; a slab is large, and where one is refused another
//! place is tried. Slabs lie at multiples of their length, so that what lies in a slab at one server
//! can lie in a slab at every other one: at those of the program's other devices, and at one that
//! takes a lost server's place.

use crate::device::{DeviceReservation, Share};
use crate::window::{Arena, ArenaLease};
use cuda_api::CudaError;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Most reservations of a client. PyTorch makes two a stream.
pub const RESERVATIONS_MAX: usize = 1024;
/// Most addresses of which a client has reservations, bytes: PyTorch reserves the device's memory
/// once for each stream and size of allocation.
pub const RESERVED_BYTES_MAX: u64 = 4 << 40;
/// Length of a slab, bytes; a longer reservation has a slab of its own, a multiple of this.
const SLAB_BYTES: u64 = 16 << 30;
/// Most places that are tried for a slab.
const PLACES_MAX: u32 = 12;

/// A range of the arena that the provider has reserved.
struct Slab {
    // Dropped first: the provider must have let go before another client gets the addresses.
    _reservation: DeviceReservation,
    lease: ArenaLease,
    bytes: u64,
    /// The client's reservations: start to length.
    pieces: BTreeMap<u64, u64>,
}

impl Slab {
    /// `address` if a piece of that length fits there.
    fn fits(&self, address: u64, bytes: u64, alignment: u64) -> Option<u64> {
        let end = address.checked_add(bytes)?;
        let before = self.pieces.range(..end).next_back();
        let meets = before.is_some_and(|(start, length)| start + length > address);
        let inside = address >= self.lease.address() && end <= self.lease.address() + self.bytes;
        (inside && address.is_multiple_of(alignment) && !meets).then_some(address)
    }

    /// The first place for a piece of that length.
    fn first_place(&self, bytes: u64, alignment: u64) -> Option<u64> {
        let ends = self.pieces.iter().map(|(start, length)| start + length);
        let mut starts = std::iter::once(self.lease.address()).chain(ends);
        starts.find_map(|start| {
            self.fits(start.checked_next_multiple_of(alignment)?, bytes, alignment)
        })
    }
}

/// Why the provider did not give a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabRefused {
    wanted: u64,
    bytes: u64,
    answer: Result<u64, CudaError>,
}

impl fmt::Display for SlabRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, bytes, answer } = self;
        write!(f, "the driver did not reserve {bytes} bytes of addresses at {wanted:#x}: ")?;
        match answer {
            Ok(other) => write!(f, "it gave {other:#x}"),
            Err(error) => write!(f, "{error}"),
        }
    }
}

/// A client's reservations.
#[derive(Default)]
pub struct Reserved {
    slabs: BTreeMap<u64, Slab>,
    refused: Option<SlabRefused>,
}

impl Reserved {
    /// Gives all back. Nothing is mapped there any more.
    pub fn clear(&mut self) {
        self.slabs.clear();
    }

    /// The slab that an address lies in.
    fn slab(&self, address: u64) -> Option<&Slab> {
        let (start, slab) = self.slabs.range(..=address).next_back()?;
        (address - start < slab.bytes).then_some(slab)
    }

    /// True if a range lies in a reservation, all of it.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        let Some(slab) = self.slab(address) else { return false };
        slab.pieces.range(..=address).next_back().is_some_and(|(start, length)| {
            let offset = address - start;
            offset <= *length && bytes <= length - offset
        })
    }

    /// True if a reservation begins there and has that length.
    pub fn is_whole(&self, address: u64, bytes: u64) -> bool {
        self.slab(address).is_some_and(|slab| slab.pieces.get(&address) == Some(&bytes))
    }

    /// The provider's last refusal, once.
    pub fn take_refusal(&mut self) -> Option<SlabRefused> {
        self.refused.take()
    }

    /// Reserves `bytes` bytes at a multiple of `alignment`: at `wanted` if that is free, else
    /// anywhere. CUDA_ERROR_OUT_OF_MEMORY if the client has too many, or there is no place.
    pub fn reserve(
        &mut self,
        (share, arena): (&Rc<Share>, &Arena),
        wanted: u64,
        bytes: u64,
        alignment: u64,
    ) -> Result<u64, CudaError> {
        let pieces: usize = self.slabs.values().map(|slab| slab.pieces.len()).sum();
        let used: u64 = self.slabs.values().flat_map(|slab| slab.pieces.values()).sum();
        let total = used.checked_add(bytes);
        if pieces >= RESERVATIONS_MAX || total.is_none_or(|total| total > RESERVED_BYTES_MAX) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let own = bytes > SLAB_BYTES || alignment > SLAB_BYTES;
        let address = if own {
            let whole = bytes.checked_next_multiple_of(SLAB_BYTES);
            let whole = whole.ok_or(CudaError::OUT_OF_MEMORY)?;
            self.add_slab((share, arena), (wanted, false), whole, alignment.max(SLAB_BYTES))?
        } else {
            self.place((share, arena), wanted, bytes, alignment)?
        };
        let (_, slab) = self.slabs.range_mut(..=address).next_back().ok_or(CudaError::UNKNOWN)?;
        slab.pieces.insert(address, bytes);
        Ok(address)
    }

    /// A place for a piece of a slab, which is made if need be.
    fn place(
        &mut self,
        (share, arena): (&Rc<Share>, &Arena),
        wanted: u64,
        bytes: u64,
        alignment: u64,
    ) -> Result<u64, CudaError> {
        let start = wanted - wanted % SLAB_BYTES;
        if wanted != 0 && self.slab(wanted).is_none() {
            // If it cannot be had, another place will do.
            let _ = self.add_slab((share, arena), (start, true), SLAB_BYTES, SLAB_BYTES);
        }
        let there = self.slab(wanted).and_then(|slab| slab.fits(wanted, bytes, alignment));
        let small = || self.slabs.values().filter(|slab| slab.bytes == SLAB_BYTES);
        let first = || small().find_map(|slab| slab.first_place(bytes, alignment));
        match there.or_else(first) {
            Some(address) => Ok(address),
            None => self.add_slab((share, arena), (0, false), SLAB_BYTES, SLAB_BYTES),
        }
    }

    /// Has the provider reserve a slab; where. With `exact` nowhere but at `wanted`.
    fn add_slab(
        &mut self,
        (share, arena): (&Rc<Share>, &Arena),
        (mut wanted, exact): (u64, bool),
        bytes: u64,
        alignment: u64,
    ) -> Result<u64, CudaError> {
        // Slabs that are hardly used count whole here: the arena is for all clients.
        let held: u64 = self.slabs.values().map(|slab| slab.bytes).sum();
        if held.checked_add(bytes).is_none_or(|held| held > 2 * RESERVED_BYTES_MAX) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        // Kept until a place is found, so that none is tried twice.
        let mut tried = Vec::new();
        for place in 0..PLACES_MAX {
            let lease = arena.take(wanted, bytes, alignment).ok_or(CudaError::OUT_OF_MEMORY)?;
            let address = lease.address();
            if exact && address != wanted {
                return Err(CudaError::OUT_OF_MEMORY);
            }
            let answer = DeviceReservation::near(share, address, bytes);
            let answer = match answer {
                Ok(reservation) if reservation.address() == address => {
                    let pieces = BTreeMap::new();
                    let slab = Slab { _reservation: reservation, lease, bytes, pieces };
                    self.slabs.insert(address, slab);
                    return Ok(address);
                }
                Ok(reservation) => Ok(reservation.address()),
                Err(error @ (CudaError::OUT_OF_MEMORY | CudaError::INVALID_VALUE)) => Err(error),
                Err(error) => return Err(error),
            };
            self.refused = Some(SlabRefused { wanted: address, bytes, answer });
            if exact {
                break;
            }
            tried.push(lease);
            wanted = address.saturating_add(bytes.saturating_mul(1 << place));
        }
        Err(CudaError::OUT_OF_MEMORY)
    }

    /// Gives a reservation back in which nothing is mapped any more. One empty slab is kept for those
    /// to come.
    pub fn release(&mut self, address: u64) {
        let Some((start, slab)) = self.slabs.range_mut(..=address).next_back() else { return };
        let start = *start;
        slab.pieces.remove(&address);
        let (is_empty, is_long) = (slab.pieces.is_empty(), slab.bytes > SLAB_BYTES);
        let others = self.slabs.iter().filter(|(other, slab)| **other != start && slab.is_spare());
        if is_empty && (is_long || others.count() > 0) {
            self.slabs.remove(&start);
        }
    }
}

impl Slab {
    /// True if it is of the common length and has no piece.
    fn is_spare(&self) -> bool {
        self.pieces.is_empty() && self.bytes == SLAB_BYTES
    }
}
