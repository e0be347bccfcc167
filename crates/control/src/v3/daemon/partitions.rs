//! Static partitions of SMs, as commands of protocol 2 and 3 make them.

use crate::daemon::Daemon;
use crate::v3::partitions::{PartitionError, Purpose};

impl Daemon {
    /// Makes a static partition of a device; its id.
    pub(crate) fn add_partition(&self, device: &str, chunks: u32) -> Result<String, String> {
        let device = self.partitioned(device)?;
        let added = self.lock().tenancy.partitions.add(&device, chunks, Purpose::default());
        added.map_err(|error| error.to_string())
    }

    /// Takes a static partition away.
    pub(crate) fn remove_partition(&self, device: &str, name: &str) -> Result<(), String> {
        let device = self.partitioned(device)?;
        let removed = self.lock().tenancy.partitions.remove(device.uuid, name);
        removed.map_err(|error| error.to_string())
    }

    /// The table of static partitions.
    pub(crate) fn partitions(&self) -> Result<String, String> {
        let devices = self.devices().map_err(|error| error.to_string())?;
        Ok(self.lock().tenancy.partitions.table(&devices.devices))
    }

    /// Whether SMs are given out in static partitions only.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.options().static_partitioning
    }

    /// The device that a word names, by number, UUID or the beginning of one.
    pub(super) fn partitioned(&self, word: &str) -> Result<channel::message::Device, String> {
        let devices = self.devices().map_err(|error| error.to_string())?;
        let named = |(ordinal, device): &(usize, &channel::message::Device)| {
            cuda_api::settings::names_device(word, *ordinal as u32, &device.uuid.to_string())
        };
        let mut found = devices.devices.iter().enumerate().filter(named);
        match (found.next(), found.next()) {
            (Some((_, device)), None) => Ok(device.clone()),
            (Some(_), Some(_)) => {
                Err(format!("{word:?} is the beginning of several devices' UUIDs"))
            }
            (None, _) => Err(PartitionError::Device(word.to_owned()).to_string()),
        }
    }
}
