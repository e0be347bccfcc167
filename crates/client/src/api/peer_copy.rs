//! Peer copies: copies whose ends are on other devices than the stream's.
//!
//! A device that reaches the other one's memory copies it itself. What it does not reach (peer access
//! is not there, arrays, variables of modules) goes through the host, and is done when the call
//! returns.

use super::copy3d_post::post;
use crate::handles::device_of_word;
use crate::program::Client;
use crate::program::memory::copy3d::Resolved;
use crate::program::memory::rows::Extent;
use crate::program::memory::transfer::{Piece, pieces};
use crate::stream::table::LEGACY;
use cuda_api::constants::memory_type;
use cuda_api::handle::Handle;
use cuda_api::{CUresult, CudaError};
use graph::{CopyEnd, CopyNode};

/// Largest piece of a copy through the host, bytes.
const PIECE_BYTES_MAX: u64 = 32 << 20;

/// The clients that the ends of a copy belong to, destination first, if they are not the stream's.
pub(super) struct Elsewhere([Option<&'static Client>; 2]);

impl Elsewhere {
    /// Of a copy in a stream of `client`.
    pub(super) fn of(client: &Client, ends: [&CopyEnd; 2]) -> Self {
        match client.program.has_several() {
            true => Self(ends.map(|end| owner_of(client, end))),
            false => Self([None; 2]),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// True if a copy that the device cannot do for this reason can go through the host.
    pub(super) fn may_go_through_host(&self, error: CudaError) -> bool {
        // An array of another device is none of this one's.
        !self.is_empty()
            && matches!(error, CudaError::PEER_ACCESS_UNSUPPORTED | CudaError::INVALID_HANDLE)
    }

    /// Between devices a copy in the default stream comes after all that was issued to either.
    pub(super) fn wait_before(&self, stream: Handle) -> CUresult {
        match stream == LEGACY {
            true => self.0.iter().flatten().try_for_each(|client| client.wait_for_everything()),
            false => Ok(()),
        }
    }

    /// True if all that is issued to either device later comes after the copy.
    pub(super) fn waits_behind(&self, stream: Handle) -> bool {
        !self.is_empty() && stream == LEGACY
    }

    /// Copies what the stream's device cannot reach.
    pub(super) fn copy_through_host(
        &self,
        client: &'static Client,
        stream: Handle,
        node: &CopyNode,
    ) -> CUresult {
        client.synchronize(stream)?;
        let [to, from] = self.0.map(|owner| owner.unwrap_or(client));
        let extent = node.extent.map(|n| n as u64);
        let (destination, source) = (spread(&node.destination, node), spread(&node.source, node));
        for Piece { offset, extent: Extent { width, height } } in pieces(extent, PIECE_BYTES_MAX) {
            let mut bytes = vec![0_u8; (width * height) as usize];
            let extent = [width as usize, height as usize, 1];
            let between = CopyEnd {
                memory_type: memory_type::HOST,
                host: bytes.as_mut_ptr().addr() as u64,
                pitch: width as usize,
                height: height as usize,
                ..CopyEnd::default()
            };
            let read = CopyNode { destination: between, source: on(&source, offset), extent };
            copy_at_once(from, &read)?;
            let write = CopyNode { destination: on(&destination, offset), source: between, extent };
            copy_at_once(to, &write)?;
        }
        Ok(())
    }
}

/// A client's copy in its own default stream, done when this returns.
fn copy_at_once(client: &'static Client, node: &CopyNode) -> CUresult {
    if let Some(resolved) = Resolved::new(client, node)? {
        post(client, LEGACY, &resolved)?;
    }
    client.synchronize(LEGACY)
}

/// The client of another device that an end of a copy belongs to.
fn owner_of(client: &Client, end: &CopyEnd) -> Option<&'static Client> {
    match end.memory_type {
        memory_type::ARRAY => {
            let device = device_of_word(end.array.0 as u64)?;
            let owner = client.program.client_at(device as usize).ok()?;
            (device != client.device).then_some(owner)
        }
        memory_type::DEVICE | memory_type::UNIFIED => client.owner_elsewhere(end.device.0),
        _ => None,
    }
}

/// An end whose distances of rows and slices are said, also where none stand for those of the copy.
fn spread(end: &CopyEnd, node: &CopyNode) -> CopyEnd {
    let [width, height, _] = node.extent;
    let [x, y, _] = end.offset;
    CopyEnd {
        pitch: if end.pitch == 0 { x.saturating_add(width) } else { end.pitch },
        height: if end.height == 0 { y.saturating_add(height) } else { end.height },
        ..*end
    }
}

/// An end from a piece's offset on.
fn on(end: &CopyEnd, offset: [u64; 3]) -> CopyEnd {
    let [x, y, z] = offset.map(|n| n as usize);
    let [u, v, w] = end.offset;
    CopyEnd { offset: [u + x, v + y, w + z], ..*end }
}
