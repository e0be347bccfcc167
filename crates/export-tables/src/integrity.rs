//! The check by which CUDA's runtime convinces itself that it talks to a driver.
//!
//! It passes its version and the time and expects 16 bytes: for versions that end in 0 and 1
//! constants, else HMAC-MD2 (RFC 2104, RFC 1319) over the driver's version, its own version, the
//! process, the thread, the addresses of the tables it was given, the time, and every device's
//! identity. A wrong answer is cudaErrorSoftwareValidityNotEstablished.

use hmac::{Hmac, KeyInit, Mac};
use md2::Md2;

/// What the check wants to know of a device, as the device's attributes report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// As cuDeviceGetUuid.
    pub uuid: [u8; 16],
    /// Attribute PCI_DOMAIN_ID.
    pub pci_domain: i32,
    /// Attribute PCI_BUS_ID.
    pub pci_bus: i32,
    /// Attribute PCI_DEVICE_ID.
    pub pci_device: i32,
}

/// What enters the check beside the devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) driver_version: u32,
    pub(crate) version: u32,
    pub(crate) process: u32,
    /// Low half of pthread_self().
    pub(crate) thread: u32,
    pub(crate) runtime_interface: u64,
    pub(crate) integrity_table: u64,
    pub(crate) integrity_function: u64,
    pub(crate) unix_seconds: u64,
}

const KEY: [u8; 16] = [
    0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52, 0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F,
];

/// The answer: two words, as the runtime compares them.
pub(crate) fn answer(question: &Question, devices: &[DeviceIdentity]) -> [u64; 2] {
    match question.version % 10 {
        0 => return [0x3341_181C_03CB_675C, 0x8ED3_83AA_1F4C_D1E8],
        1 => return [0x1841_181C_03CB_675C, 0x8ED3_83AA_1F4C_D1E8],
        _ => {}
    }
    let mut mac = Hmac::<Md2>::new_from_slice(&KEY).expect("HMAC takes keys of any length");
    mac.update(&question.driver_version.to_le_bytes());
    mac.update(&question.version.to_le_bytes());
    mac.update(&question.process.to_le_bytes());
    mac.update(&question.thread.to_le_bytes());
    mac.update(&question.runtime_interface.to_le_bytes());
    mac.update(&question.integrity_table.to_le_bytes());
    mac.update(&question.integrity_function.to_le_bytes());
    mac.update(&question.unix_seconds.to_le_bytes());
    for device in devices {
        mac.update(&device.uuid);
        mac.update(&device.pci_domain.to_le_bytes());
        mac.update(&device.pci_bus.to_le_bytes());
        mac.update(&device.pci_device.to_le_bytes());
    }
    let bytes: [u8; 16] = mac.finalize().into_bytes().into();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    [word(0), word(8)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use md2::Digest;

    #[test]
    fn the_hash_is_the_one_of_the_rfc() {
        // RFC 1319, appendix A.5.
        let digest: [u8; 16] = Md2::digest(b"message digest").into();
        assert_eq!(
            digest,
            [
                0xab, 0x4f, 0x49, 0x6b, 0xfb, 0x2a, 0x53, 0x0b, 0x21, 0x9f, 0xf3, 0x30, 0x31, 0xfe,
                0x06, 0xb0
            ]
        );
    }

    #[test]
    fn the_answer_depends_on_everything_that_was_asked() {
        let question = Question {
            driver_version: 13000,
            version: 13002,
            process: 1,
            thread: 2,
            runtime_interface: 3,
            integrity_table: 4,
            integrity_function: 5,
            unix_seconds: 6,
        };
        let device = DeviceIdentity { uuid: [7; 16], pci_domain: 0, pci_bus: 1, pci_device: 2 };
        let base = answer(&question, &[device]);
        let others = [
            answer(&Question { driver_version: 12000, ..question }, &[device]),
            answer(&Question { process: 9, ..question }, &[device]),
            answer(&Question { thread: 9, ..question }, &[device]),
            answer(&Question { runtime_interface: 9, ..question }, &[device]),
            answer(&Question { integrity_table: 9, ..question }, &[device]),
            answer(&Question { integrity_function: 9, ..question }, &[device]),
            answer(&Question { unix_seconds: 9, ..question }, &[device]),
            answer(&question, &[]),
            answer(&question, &[DeviceIdentity { pci_bus: 9, ..device }]),
        ];
        assert!(others.iter().all(|other| *other != base));
        assert_eq!(answer(&Question { version: 13000, ..question }, &[])[0], 0x3341_181C_03CB_675C);
    }
}
