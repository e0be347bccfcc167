//! Messages that describe devices: what a client must answer before it has a context on one.
//!
//! The daemon has them from a process that initialises the provider and ends ([`Devices`]); no
//! server need run for them.

use super::{Body, NAME_BYTES_MAX};
use crate::codec::{CodecError, Decoder, Encoder};
use cuda_api::CUuuid;

/// Devices that a daemon can serve: CUDA machines have 16 at most.
pub const DEVICES_MAX: usize = 16;
/// Attributes of a device that travel: those below CU_DEVICE_ATTRIBUTE_MAX of CUDA 13.0.
pub const DEVICE_ATTRIBUTES: usize = 151;
/// Attributes of a pair of devices that travel: CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, which is
/// 1, to the last one of CUDA 13.0.
pub const PEER_ATTRIBUTES: usize = 5;
/// Longest PCI bus id with its NUL, bytes: what cuDeviceGetPCIBusId writes at most is 13.
const PCI_BYTES_MAX: usize = 32;

/// The devices that a daemon serves, as its `CUDA_VISIBLE_DEVICES` chooses and orders them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// What cuDriverGetVersion answers.
    pub driver_version: i32,
    /// The devices, by ordinal.
    pub devices: Vec<Device>,
}

impl Devices {
    /// The place of the device with this UUID; all zeros name the first.
    pub fn find(&self, uuid: CUuuid) -> Option<usize> {
        match uuid == CUuuid::default() {
            true => (!self.devices.is_empty()).then_some(0),
            false => self.devices.iter().position(|device| device.uuid == uuid),
        }
    }
}

impl Body for Devices {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.i32(self.driver_version);
        to.list(&self.devices, DEVICES_MAX, |to, device| device.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            driver_version: from.i32()?,
            devices: from.list(DEVICES_MAX, Device::read_within)?,
        })
    }
}

/// What one device can do with another one's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The values of CUdevice_P2PAttribute 1 and up.
    pub attributes: [i32; PEER_ATTRIBUTES],
}

impl Peer {
    /// What cuDeviceGetP2PAttribute answers; `None` for an attribute that there is not.
    pub fn attribute(&self, number: u32) -> Option<i32> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.attributes.get(place).copied()
    }

    /// What cuDeviceCanAccessPeer answers.
    pub fn can_access(&self) -> bool {
        // CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
        self.attribute(2) == Some(1)
    }
}

impl Body for Peer {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        self.attributes.iter().for_each(|value| to.i32(*value));
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut peer = Self::default();
        for value in &mut peer.attributes {
            *value = from.i32()?;
        }
        Ok(peer)
    }
}

/// A device as its provider describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: CUuuid,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// Its PCI bus id, as cuDeviceGetPCIBusId writes it.
    pub pci_bus_id: String,
    /// Its attributes by CUdevice_attribute; those that the provider does not know are 0.
    pub attributes: [i32; DEVICE_ATTRIBUTES],
    /// Most of the smallest groups that its SMs can be parted into; 0 if it does not part them.
    pub sm_groups: u32,
    /// What it can do with each device of the list, by ordinal; its own row is zeros. Empty where
    /// the device stands alone, in a [`Welcome`](super::Welcome).
    pub peers: Vec<Peer>,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            name: String::new(),
            uuid: CUuuid::default(),
            memory_bytes: 0,
            pci_bus_id: String::new(),
            attributes: [0; DEVICE_ATTRIBUTES],
            sm_groups: 0,
            peers: Vec::new(),
        }
    }
}

impl Body for Device {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.text(&self.name, NAME_BYTES_MAX);
        to.raw(&self.uuid.bytes);
        to.u64(self.memory_bytes);
        to.text(&self.pci_bus_id, PCI_BYTES_MAX);
        self.attributes.iter().for_each(|value| to.i32(*value));
        to.u32(self.sm_groups);
        to.list(&self.peers, DEVICES_MAX, |to, peer| peer.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut device = Self {
            name: from.text(NAME_BYTES_MAX)?,
            uuid: CUuuid { bytes: from.array()? },
            memory_bytes: from.u64()?,
            pci_bus_id: from.text(PCI_BYTES_MAX)?,
            ..Self::default()
        };
        for value in &mut device.attributes {
            *value = from.i32()?;
        }
        device.sm_groups = from.u32()?;
        device.peers = from.list(DEVICES_MAX, Peer::read_within)?;
        Ok(device)
    }
}
