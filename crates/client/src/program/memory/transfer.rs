//! Transfers: copies between the program's memory and the device, over staging where they must.
//!
//! The device reaches pinned memory itself. Pageable memory goes through staging: to the device,
//! a copy is done with once it lies in staging; from the device, slices are fetched one after the
//! other, several underway at a time.

use crate::connection::staging::{Full, Staging};
use crate::connection::{Connection, SERVER_GONE};
use crate::memory::address::Side;
use crate::program::Client;
use crate::program::launch::submission::wire_stream;
use crate::program::memory::copy3d::{End, Rows};
use crate::program::memory::rows::{Extent, HostRows, NOTHING};
use crate::program::memory::staged_reads::Arrivals;
use channel::region::Region;
use channel::request::{
    Copy3D, Copy3DEnd, Copy3DParams, DeviceToHost, HostReference, HostToDevice, Request,
};
use cuda_api::handle::Handle;
use cuda_api::{CUdeviceptr, CUresult, CudaError};
use recovery::Mark;
use std::time::Duration;

/// How long to wait for other threads' and other streams' slices.
const OTHER_THREAD_PERIOD: Duration = Duration::from_micros(50);
impl Client {
    /// A slice of staging for a copy of a stream; waits for room.
    /// Only for a thread that holds no slice: two that hold some would wait for each other.
    pub(in crate::program) fn take_slice(
        &self,
        bytes: u64,
        stream: Handle,
    ) -> Result<u32, CudaError> {
        loop {
            let full = match self.try_slice(bytes, stream) {
                Ok(slice) => return Ok(slice),
                Err(full) => full,
            };
            match full {
                Full::Behind(mark) => self.wait_unseen(mark)?,
                Full::OfOthers => {
                    self.health()?;
                    std::thread::sleep(OTHER_THREAD_PERIOD);
                }
            }
        }
    }

    /// A slice of staging for a copy of a stream, if there is room now.
    pub(in crate::program) fn try_slice(&self, bytes: u64, stream: Handle) -> Result<u32, Full> {
        let mut staging = self.connection().staging.lock();
        // Slices are a small part of staging, so the length fits.
        let take = |staging: &mut Staging| staging.take(bytes as u32, stream.index);
        if staging.in_use() == 0 {
            return take(&mut staging);
        }
        let mut state = self.state();
        staging.reclaim(|mark| state.passed(mark));
        take(&mut staging).inspect_err(|full| {
            if *full == Full::OfOthers {
                // Streams say by their fences how far they are.
                let marks = staging.marks();
                for mark in marks {
                    let _ = state.fence_if_room(mark);
                }
            }
        })
    }

    /// Posts a copy that uses a slice, which is free when it has passed.
    fn post_with_slice<'a>(
        &self,
        connection: &'static Connection,
        slice: u32,
        stream: Handle,
        request: &impl Request<'a>,
    ) -> Result<Mark, CudaError> {
        let posted = {
            let mut state = self.posting()?;
            // The slice is one of that connection's region.
            match core::ptr::eq(state.connection(), connection) {
                true => state.push_in(stream, request),
                false => return Err(SERVER_GONE),
            }
        };
        // Regardless of the result: no other code says when the slice is free.
        let mark = posted.as_ref().copied().unwrap_or(Mark { slot: stream.index, value: NOTHING });
        connection.staging.lock().posted(slice, mark);
        posted
    }

    fn slice_bytes_max(&self, copy_bytes: u64) -> u64 {
        self.connection().staging.lock().slice_bytes_max(copy_bytes).into()
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
            return self.posting()?.push_in(stream, &request).map(|_| ());
        }
        let connection = self.connection();
        let slice_max = self.slice_bytes_max(bytes);
        let mut done = 0;
        while done < bytes {
            let now = slice_max.min(bytes - done);
            let slice = self.take_slice(now, stream)?;
            write_slice(connection.region(), slice, source + done, now);
            let request = HostToDevice {
                destination: CUdeviceptr(destination + done),
                source: HostReference::Staging(slice),
                bytes: now,
                stream: wire,
            };
            self.post_with_slice(connection, slice, stream, &request)?;
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
            return self.posting()?.push_in(stream, &request).map(|_| ());
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

    /// Makes a 3-D copy of pageable memory to the device, as [`Self::copy_to_device`].
    pub(crate) fn copy_3d_to_device(
        &self,
        to: &End,
        from: &Rows,
        extent: [u64; 3],
        stream: Handle,
    ) -> CUresult {
        let connection = self.connection();
        for Piece { offset, extent: Extent { width, height } } in self.pieces(extent) {
            let slice = self.take_slice(width * height, stream)?;
            let [x, y, z] = offset;
            for row in 0..height {
                let in_slice = slice + (row * width) as u32;
                write_slice(connection.region(), in_slice, from.at([x, y + row, z]), width);
            }
            let source = staged(slice, width, height);
            let copy =
                Copy3DParams { destination: to.wire(offset), source, extent: [width, height, 1] };
            let request = Copy3D { stream: wire_stream(stream), copy };
            self.post_with_slice(connection, slice, stream, &request)?;
        }
        Ok(())
    }

    /// Makes a 3-D copy from the device to pageable memory, as [`Self::copy_from_device`].
    pub(crate) fn copy_3d_from_device(
        &self,
        to: &Rows,
        from: &End,
        extent: [u64; 3],
        stream: Handle,
    ) -> CUresult {
        let mut arrivals = Arrivals::new(self, stream, extent.iter().product());
        for Piece { offset, extent } in self.pieces(extent) {
            let Extent { width, height } = extent;
            let rows = HostRows { address: to.at(offset), pitch: to.pitch };
            arrivals.fetch(rows, extent, |slice| {
                let destination = staged(slice, width, height);
                let copy = Copy3DParams {
                    destination,
                    source: from.wire(offset),
                    extent: [width, height, 1],
                };
                Copy3D { stream: wire_stream(stream), copy }
            })?;
        }
        arrivals.finish()
    }

    /// Pieces of a 3-D copy that fit into slices of staging.
    fn pieces(&self, extent: [u64; 3]) -> impl Iterator<Item = Piece> + use<> {
        pieces(extent, self.slice_bytes_max(extent[0].saturating_mul(extent[1])))
    }
}

/// A slice of staging as one end of a copy.
fn staged(slice: u32, width: u64, height: u64) -> Copy3DEnd {
    Copy3DEnd::Host { reference: HostReference::Staging(slice), pitch: width, rows: height }
}

/// A part of a 3-D copy: rows of one of its slices, or a part of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it begins in the copy: bytes of a row, rows, slices.
    pub(crate) offset: [u64; 3],
    pub(crate) extent: Extent,
}

/// Parts of a 3-D copy, each of at most `bytes_max` bytes.
pub(crate) fn pieces(
    [width, height, depth]: [u64; 3],
    bytes_max: u64,
) -> impl Iterator<Item = Piece> {
    let width_max = width.min(bytes_max);
    let rows_max = (bytes_max / width).max(1);
    let starts = |length: u64, step: u64| (0..length).step_by(step as usize);
    (0..depth)
        .flat_map(move |z| starts(height, rows_max).map(move |y| (y, z)))
        .flat_map(move |(y, z)| starts(width, width_max).map(move |x| [x, y, z]))
        .map(move |offset @ [x, y, _]| Piece {
            offset,
            extent: Extent { width: width_max.min(width - x), height: rows_max.min(height - y) },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_and_are_all_of_the_copy() {
        let all = |extent, bytes_max| -> Vec<([u64; 3], u64, u64)> {
            pieces(extent, bytes_max)
                .map(|piece| (piece.offset, piece.extent.width, piece.extent.height))
                .collect()
        };
        assert_eq!(all([10, 3, 1], 100), [([0, 0, 0], 10, 3)]);
        assert_eq!(all([10, 3, 1], 25), [([0, 0, 0], 10, 2), ([0, 2, 0], 10, 1)]);
        assert_eq!(all([4, 1, 2], 100), [([0, 0, 0], 4, 1), ([0, 0, 1], 4, 1)]);
        // Rows that are longer than a slice are cut.
        let cut = all([10, 2, 1], 6);
        assert_eq!(cut[..2], [([0, 0, 0], 6, 1), ([6, 0, 0], 4, 1)]);
        assert_eq!(cut[2..], [([0, 1, 0], 6, 1), ([6, 1, 0], 4, 1)]);
    }
}
