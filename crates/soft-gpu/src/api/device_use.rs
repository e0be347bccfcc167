//! Compute modes: whether this process may have contexts on a device beside others.

use locks::Mutex;
use std::path::PathBuf;

use provider::compute_mode::{self, ComputeMode, Use};

use super::Driver;
use crate::device::memory::device_directory;
use crate::error::{Error, Result};

/// By device: this process's use of it, from its first context to its end.
pub(super) struct Uses(Vec<Mutex<Option<Use>>>);

impl Uses {
    pub(super) fn new(devices: usize) -> Self {
        Self((0..devices).map(|_| Mutex::default()).collect())
    }

    /// In the child of a fork: lets go of what is the parent's.
    pub(super) fn forget_after_fork(&self) {
        for place in &self.0 {
            if let Some(mut place) = place.try_lock() {
                place.take();
            }
        }
    }
}

impl Driver {
    /// Where processes on a device meet, if they can.
    fn meeting_place(&self, device: u32) -> Option<PathBuf> {
        let number = self.device.settings.devices.get(device as usize)?;
        Some(device_directory(self.device.shared_dir()?, *number))
    }

    /// The compute mode of a device as it is now.
    pub(super) fn compute_mode(&self, device: u32) -> ComputeMode {
        self.meeting_place(device).map_or(ComputeMode::Default, |place| compute_mode::get(&place))
    }

    /// To be called before a context is made: DEVICE_UNAVAILABLE where the compute mode has no room for
    /// this process.
    pub(super) fn enter_device(&self, device: u32) -> Result {
        let (Some(place), Some(own)) =
            (self.meeting_place(device), self.uses.0.get(device as usize))
        else {
            return Ok(());
        };
        let mut own = own.lock();
        let mode = compute_mode::get(&place);
        if mode == ComputeMode::Prohibited {
            return Err(Error::DEVICE_UNAVAILABLE);
        }
        if own.is_none() {
            *own = Some(compute_mode::enter(&place).ok_or(Error::DEVICE_UNAVAILABLE)?);
        }
        Ok(())
    }
}
