//! Slices of staging that the device fills for a copy into pageable memory: while it fills some,
//! this thread empties another.

use crate::connection::SERVER_GONE;
use crate::program::Client;
use crate::program::memory::rows::{Extent, HostRows, NOTHING};
use channel::region::{Caching, Region};
use channel::request::Request;
use cuda_api::CUresult;
use cuda_api::handle::Handle;
use recovery::Mark;
use std::collections::VecDeque;

/// Slices of one copy that are underway at a time.
const SLICES_UNDERWAY_MAX: usize = 4;
/// A longer copy leaves nothing in the caches: it would not fit there beside all else.
const BYPASS_BYTES_MIN: u64 = 4 << 20;

/// Slices that the device is filling, oldest first.
pub(in crate::program) struct Arrivals<'a> {
    client: &'a Client,
    stream: Handle,
    underway: VecDeque<Arrival>,
    caching: Caching,
}

struct Arrival {
    slice: u32,
    mark: Mark,
    to: HostRows,
    extent: Extent,
}

impl<'a> Arrivals<'a> {
    /// For a copy of that many bytes.
    pub(in crate::program) fn new(client: &'a Client, stream: Handle, bytes: u64) -> Self {
        let caching = if bytes < BYPASS_BYTES_MIN { Caching::Keep } else { Caching::Bypass };
        Self { client, stream, underway: VecDeque::new(), caching }
    }

    /// Posts the copy of rows into a slice, from where they will go to `to`.
    pub(in crate::program) fn fetch<'r, R: Request<'r>>(
        &mut self,
        to: HostRows,
        extent: Extent,
        request: impl FnOnce(u32) -> R,
    ) -> CUresult {
        if self.underway.len() >= SLICES_UNDERWAY_MAX {
            self.receive_oldest()?;
        }
        let bytes = extent.width * extent.height;
        let slice = loop {
            if self.underway.is_empty() {
                break self.client.take_slice(bytes, self.stream)?;
            }
            match self.client.try_slice(bytes, self.stream) {
                Ok(slice) => break slice,
                Err(_) => self.receive_oldest()?,
            }
        };
        let posted = self.client.posting().and_then(|mut posting| {
            let mark = posting.push_in(self.stream, &request(slice))?;
            posting.fence(mark).map(|()| mark)
        });
        match posted {
            Ok(mark) => {
                self.underway.push_back(Arrival { slice, mark, to, extent });
                Ok(())
            }
            Err(error) => {
                self.give_back(slice);
                Err(error)
            }
        }
    }

    fn receive_oldest(&mut self) -> CUresult {
        let Some(arrival) = self.underway.pop_front() else { return Ok(()) };
        let waited = self.client.wait_for(arrival.mark);
        let lost = self.client.state().streams.was_lost(arrival.mark);
        let waited = waited.and(if lost { Err(SERVER_GONE) } else { Ok(()) });
        if waited.is_ok() {
            let read = |region: &Region| {
                for row in 0..arrival.extent.height {
                    read_slice(
                        region,
                        arrival.slice + (row * arrival.extent.width) as u32,
                        arrival.to.address + row * arrival.to.pitch,
                        arrival.extent.width,
                        self.caching,
                    );
                }
            };
            let current = || core::ptr::from_ref(self.client.connection());
            // The slice is in the same place of each connection's staging.
            while self.client.connection().read_staging(current, read).is_none() {}
        }
        self.give_back(arrival.slice);
        waited
    }

    fn give_back(&self, slice: u32) {
        let mark = Mark { slot: self.stream.index, value: NOTHING };
        self.client.connection().staging.lock().posted(slice, mark);
    }

    /// Receives all that is underway.
    pub(in crate::program) fn finish(mut self) -> CUresult {
        while !self.underway.is_empty() {
            self.receive_oldest()?;
        }
        Ok(())
    }
}

impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        // After an error: the device may still write into the slices, so they are free when it
        // has passed them.
        for arrival in &self.underway {
            self.client.connection().staging.lock().posted(arrival.slice, arrival.mark);
        }
    }
}

/// Copies a slice into the program's memory.
fn read_slice(region: &Region, offset: u32, destination: u64, bytes: u64, caching: Caching) {
    let (destination, length) = (destination as *mut u8, bytes as usize);
    // SAFETY: the program passed the address for a copy of at least these bytes; it is not the
    // region's, whose address no program knows.
    let read = unsafe { region.read_staging_to(offset.into(), destination, length, caching) };
    debug_assert!(read.is_ok(), "a slice lies in staging");
}
