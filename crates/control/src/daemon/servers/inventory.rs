//! Device inventory: what the daemon knows of its devices, and which clients wait to hear of them.

use channel::message::Devices;
use channel::socket::SeqPacket as Socket;
use cuda_api::CUuuid;
use cuda_api::attributes::MULTIPROCESSOR_COUNT;
use recovery::servers::Failures;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is known of the devices.
#[derive(Default)]
pub(crate) struct Inventory {
    pub(in crate::daemon) devices: Option<Arc<Devices>>,
    /// The process that finds out, readable when it has ended.
    pub(in crate::daemon) asked: Option<Arc<OwnedFd>>,
    /// Why the last one did not.
    pub(in crate::daemon) failures: Option<Failures>,
    /// Clients that wait for the answer.
    pub(in crate::daemon) waiting: Vec<Asking>,
}

/// A client that wants to know the devices.
pub(in crate::daemon) struct Asking {
    pub pid: u32,
    pub uid: u32,
    /// Number of the named server whose devices it wants to know; 0: none's.
    pub named: u32,
    pub socket: Socket,
}

impl Inventory {
    /// The devices, if they are known.
    pub fn devices(&self) -> Option<&Arc<Devices>> {
        self.devices.as_ref()
    }

    /// SMs of a device; 0 if they are not known.
    pub fn sms_of(&self, device: CUuuid) -> u32 {
        let known = self.devices.as_ref();
        let device = known.and_then(|known| known.devices.get(known.find(device)?));
        let sms = device.and_then(|device| device.attributes.get(MULTIPROCESSOR_COUNT as usize));
        sms.map_or(0, |sms| u32::try_from(*sms).unwrap_or(0))
    }

    /// A process is finding out.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Ends the process that finds out.
    pub fn stop(&self) {
        if let Some(process) = &self.asked {
            // One that has ended needs no end.
            let _ = rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL);
        }
    }
}
