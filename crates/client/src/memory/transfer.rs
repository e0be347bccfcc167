//! Copies between the program's memory and the device, over staging where they must.
//!
//! The device reaches pinned memory itself. Pageable memory goes through staging: to the device,
//! a copy is done with once it lies in staging; from the device, slices are fetched one after the
//! other, several underway at a time.

use super::arrivals::Arrivals;
use super::staging::Mark;
use super::where_is::Side;
use crate::attach::{Attached, locked};
use crate::state::wire_stream;
use channel::region::Region;
use channel::request::{Copy2d, CopyDirection, DeviceToHost, HostReference, HostToDevice, Request};
use cuda_api::handle::Handle;
use cuda_api::{CUdeviceptr, CUresult, CudaError, Word};
use std::time::Duration;

/// How long to wait for another thread that is just copying into the oldest slice.
const OTHER_THREAD_PERIOD: Duration = Duration::from_micros(50);
/// Stands for an operation that has passed: no operation has that number.
pub(super) const NOTHING: u64 = 0;

/// Rows of bytes at regular distances in this process' memory.
#[derive(Clone, Copy)]
pub(crate) struct HostRows {
    pub(crate) address: u64,
    pub(crate) pitch: u64,
}

/// What is copied: `height` rows of `width` bytes.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl Attached {
    /// A slice of staging; waits for room.
    /// Only for a thread that holds no slice: two that hold some would wait for each other.
    pub(super) fn take_slice(&self, bytes: u64) -> Result<u32, CudaError> {
        loop {
            let oldest = match self.try_slice(bytes) {
                Ok(slice) => return Ok(slice),
                Err(oldest) => oldest,
            };
            match oldest {
                Some(mark) => self.wait_for(mark)?,
                None => {
                    self.health()?;
                    std::thread::sleep(OTHER_THREAD_PERIOD);
                }
            }
        }
    }

    /// A slice of staging if there is room now; else what the oldest slice waits for.
    pub(super) fn try_slice(&self, bytes: u64) -> Result<u32, Option<Mark>> {
        let mut staging = locked(&self.staging);
        if staging.in_use() > 0 {
            let mut state = self.state();
            staging.reclaim(|mark| state.passed(mark));
        }
        // Slices are a small part of staging, so the length fits.
        staging.take(bytes as u32).ok_or_else(|| staging.oldest())
    }

    /// Posts a copy that uses a slice, which is free when it has passed.
    fn post_with_slice<'a>(
        &self,
        slice: u32,
        stream: Handle,
        request: &impl Request<'a>,
    ) -> Result<Mark, CudaError> {
        let posted = self.state().push_in(stream, request);
        // Whatever came of it, nobody else will say when the slice is free.
        let mark = posted.as_ref().copied().unwrap_or(Mark { slot: stream.index, value: NOTHING });
        locked(&self.staging).posted(slice, mark);
        posted
    }

    fn slice_bytes_max(&self, copy_bytes: u64) -> u64 {
        locked(&self.staging).slice_bytes_max(copy_bytes).into()
    }

    /// Copies to the device in a stream. Pageable memory may be changed again when this returns.
    pub(crate) fn copy_to_device(
        &self,
        destination: u64,
        source: u64,
        side: Side,
        bytes: u64,
        stream: Handle,
    ) -> CUresult {
        let wire = wire_stream(stream);
        if side == Side::Pinned {
            let request = HostToDevice {
                destination: CUdeviceptr(destination),
                source: HostReference::Mapped(source),
                bytes,
                stream: wire,
            };
            return self.state().push_in(stream, &request).map(|_| ());
        }
        let slice_max = self.slice_bytes_max(bytes);
        let mut done = 0;
        while done < bytes {
            let now = slice_max.min(bytes - done);
            let slice = self.take_slice(now)?;
            write_slice(self.link.region(), slice, source + done, now);
            let request = HostToDevice {
                destination: CUdeviceptr(destination + done),
                source: HostReference::Staging(slice),
                bytes: now,
                stream: wire,
            };
            self.post_with_slice(slice, stream, &request)?;
            done += now;
        }
        Ok(())
    }

    /// Copies from the device in a stream. Into pageable memory the copy is done when this
    /// returns; into pinned memory, when the stream has passed it.
    pub(crate) fn copy_from_device(
        &self,
        destination: u64,
        side: Side,
        source: u64,
        bytes: u64,
        stream: Handle,
    ) -> CUresult {
        let wire = wire_stream(stream);
        if side == Side::Pinned {
            let request = DeviceToHost {
                destination: HostReference::Mapped(destination),
                source: CUdeviceptr(source),
                bytes,
                stream: wire,
            };
            return self.state().push_in(stream, &request).map(|_| ());
        }
        let slice_max = self.slice_bytes_max(bytes);
        let mut arrivals = Arrivals::new(self, stream, bytes);
        let mut done = 0;
        while done < bytes {
            let now = slice_max.min(bytes - done);
            let to = HostRows { address: destination + done, pitch: now };
            arrivals.fetch(to, Extent { width: now, height: 1 }, |slice| DeviceToHost {
                destination: HostReference::Staging(slice),
                source: CUdeviceptr(source + done),
                bytes: now,
                stream: wire,
            })?;
            done += now;
        }
        arrivals.finish()
    }

    /// Copies rows to the device, as [`Self::copy_to_device`].
    pub(crate) fn copy_rows_to_device(
        &self,
        mut copy: Copy2d,
        side: Side,
        stream: Handle,
    ) -> CUresult {
        copy.direction = CopyDirection::HostToDevice;
        if side == Side::Pinned {
            return self.state().push_in(stream, &copy).map(|_| ());
        }
        let bytes = copy.width_bytes.saturating_mul(copy.height);
        let Some(rows_max) = rows_of_slice(self.slice_bytes_max(bytes), copy.width_bytes) else {
            return each_row(&copy, |source, destination, bytes| {
                self.copy_to_device(destination, source, side, bytes, stream)
            });
        };
        let mut row = 0;
        while row < copy.height {
            let rows = rows_max.min(copy.height - row);
            let slice = self.take_slice(rows * copy.width_bytes)?;
            for i in 0..rows {
                let from = copy.source + (row + i) * copy.source_pitch;
                let to = u64::from(slice) + i * copy.width_bytes;
                write_slice(self.link.region(), to as u32, from, copy.width_bytes);
            }
            let piece = Copy2d {
                source: HostReference::Staging(slice).to_word(),
                source_pitch: copy.width_bytes,
                destination: copy.destination + row * copy.destination_pitch,
                height: rows,
                ..copy
            };
            self.post_with_slice(slice, stream, &piece)?;
            row += rows;
        }
        Ok(())
    }

    /// Copies rows from the device, as [`Self::copy_from_device`].
    pub(crate) fn copy_rows_from_device(
        &self,
        mut copy: Copy2d,
        side: Side,
        stream: Handle,
    ) -> CUresult {
        copy.direction = CopyDirection::DeviceToHost;
        if side == Side::Pinned {
            return self.state().push_in(stream, &copy).map(|_| ());
        }
        let bytes = copy.width_bytes.saturating_mul(copy.height);
        let Some(rows_max) = rows_of_slice(self.slice_bytes_max(bytes), copy.width_bytes) else {
            return each_row(&copy, |source, destination, bytes| {
                self.copy_from_device(destination, side, source, bytes, stream)
            });
        };
        let mut arrivals = Arrivals::new(self, stream, bytes);
        let mut row = 0;
        while row < copy.height {
            let rows = rows_max.min(copy.height - row);
            let to = HostRows {
                address: copy.destination + row * copy.destination_pitch,
                pitch: copy.destination_pitch,
            };
            let extent = Extent { width: copy.width_bytes, height: rows };
            arrivals.fetch(to, extent, |slice| Copy2d {
                source: copy.source + row * copy.source_pitch,
                destination: HostReference::Staging(slice).to_word(),
                destination_pitch: copy.width_bytes,
                height: rows,
                ..copy
            })?;
            row += rows;
        }
        arrivals.finish()
    }
}

/// How many rows fit into a slice; `None` if not even one does.
fn rows_of_slice(slice_bytes: u64, width: u64) -> Option<u64> {
    slice_bytes.checked_div(width).filter(|rows| *rows > 0)
}

/// Calls `f` with source, destination and length of each row.
fn each_row(copy: &Copy2d, mut f: impl FnMut(u64, u64, u64) -> CUresult) -> CUresult {
    (0..copy.height).try_for_each(|row| {
        f(
            copy.source + row * copy.source_pitch,
            copy.destination + row * copy.destination_pitch,
            copy.width_bytes,
        )
    })
}

/// Copies the program's memory into a slice.
fn write_slice(region: &Region, offset: u32, source: u64, bytes: u64) {
    let (source, length) = (source as *const u8, bytes as usize);
    // SAFETY: the program passed the address for a copy of at least these bytes; it is not the
    // region's, whose address no program knows.
    let written = unsafe { region.write_staging_from(offset.into(), source, length) };
    debug_assert!(written.is_ok(), "a slice lies in staging");
}
