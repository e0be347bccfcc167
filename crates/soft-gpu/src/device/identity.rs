//! What the device calls itself: the same on every run on one machine.

use std::sync::OnceLock;

use cuda_api::CUuuid;

/// UUID of the machine's software GPU of that number, made from the machine's id.
pub fn uuid(number: u32) -> [u8; 16] {
    static MACHINE: OnceLock<Vec<u8>> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| {
        ["/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname"]
            .iter()
            .find_map(|path| std::fs::read(path).ok().filter(|text| !text.is_empty()))
            .unwrap_or_else(|| b"openmps".to_vec())
    });
    let mut text = machine.clone();
    if number > 0 {
        text.extend(number.to_le_bytes());
    }
    let mut uuid = hash(&text).to_be_bytes();
    // Version 8 (made by a rule of one's own), variant 1.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// UUIDs of so many devices.
pub fn uuids(count: u32) -> Vec<CUuuid> {
    (0..count).map(|number| CUuuid { bytes: uuid(number) }).collect()
}

/// The first device's PCI bus. Bus 0 is the host's own, and low numbers are those of real devices: libraries
/// that draw the machine's topology (NCCL) look the address up.
const PCI_BUS_FIRST: u32 = 0xc1;

/// The PCI bus that the device of that number says it is on, which it is not: domain, device and function
/// are 0.
pub const fn pci_bus(number: u32) -> i32 {
    (PCI_BUS_FIRST + number) as i32
}

/// Its PCI address.
pub fn pci_bus_id(number: u32) -> String {
    format!("0000:{:02x}:00.0", pci_bus(number))
}

/// 128-bit FNV-1a.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn uuids_stay_the_same_and_differ() {
        assert_eq!(uuid(0), uuid(0));
        let mut all = uuids(16);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 16);
        assert_eq!(pci_bus_id(0), "0000:c1:00.0");
        assert_eq!(pci_bus_id(15), "0000:d0:00.0");
    }
}
