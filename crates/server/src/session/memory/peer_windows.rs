//! Windows of a process' connections to other devices, of which this device maps memory.
//!
//! The daemon gives out windows so that no two connections of its servers have the same ones; a
//! process that uses several devices may have its memory of one mapped, at its own address, on the
//! others. A window is taken here when memory of it first comes, until the session ends. A process has a
//! connection to each device, so there are no more windows than devices.

use super::Memory;
use crate::device::DeviceReservation;
use crate::window::Lease;
use channel::memfd;
use channel::message::{self, DEVICES_MAX};
use cuda_api::CudaError;
use std::sync::Arc;

/// Windows of one other connection. Fields are dropped in their order.
pub(in crate::session) struct PeerWindow {
    _device: DeviceReservation,
    host: Arc<memfd::Reservation>,
    lease: Lease,
}

impl Memory {
    /// Gives back windows that were taken for memory which did not come after all: `before` were taken then.
    pub(in crate::session) fn forget_peers_since(&mut self, before: usize) {
        self.peer_windows.truncate(before);
    }

    /// Makes sure that a range of another connection's device window is reserved for this client.
    /// CUDA_ERROR_INVALID_VALUE if it is in no window, or in another client's.
    pub(in crate::session) fn reserve_peer(
        &mut self,
        address: u64,
        bytes: u64,
    ) -> Result<(), CudaError> {
        let window = self.peer_window(address)?;
        match window.lease.device().contains(address, bytes) {
            true => Ok(()),
            false => Err(CudaError::INVALID_VALUE),
        }
    }

    /// The reserved host window of another connection that a range lies in, before the part in which
    /// that server places managed variables.
    pub(in crate::session) fn peer_host_window(
        &mut self,
        address: u64,
        bytes: u64,
    ) -> Result<Arc<memfd::Reservation>, CudaError> {
        let window = self.peer_window(address)?;
        let whole = window.lease.host();
        let managed = message::Window { address: whole.base, bytes: whole.bytes }.managed();
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        match whole.contains(address, bytes) && end <= managed.address {
            true => Ok(Arc::clone(&window.host)),
            false => Err(CudaError::INVALID_VALUE),
        }
    }

    fn peer_window(&mut self, address: u64) -> Result<&PeerWindow, CudaError> {
        let has = |peer: &PeerWindow| {
            peer.lease.device().contains(address, 1) || peer.lease.host().contains(address, 1)
        };
        if let Some(index) = self.peer_windows.iter().position(has) {
            return Ok(&self.peer_windows[index]);
        }
        if self.peer_windows.len() >= DEVICES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        // The session that has them may wait until no session submits anything, to end.
        self.share.in_flight().end_submitting();
        let lease = self.common.windows.take_at(address).ok_or(CudaError::INVALID_VALUE)?;
        let (device, host) = (lease.device(), lease.host());
        let peer = PeerWindow {
            _device: DeviceReservation::at(&self.share, device.base, device.bytes)?,
            host: memfd::Reservation::at(host.base, host.bytes)
                .map_err(|_| CudaError::OUT_OF_MEMORY)?,
            lease,
        };
        self.peer_windows.push(peer);
        self.peer_windows.last().ok_or(CudaError::UNKNOWN)
    }
}
