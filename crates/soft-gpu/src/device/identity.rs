//! What the device calls itself: the same on every run on one machine.

use std::sync::OnceLock;

use super::capability::Capability;
use super::settings::Settings;

/// What cuDeviceGetName answers: the compute capability is named if it was asked for.
pub fn name(settings: &Settings) -> String {
    let Capability { major, minor, .. } = settings.capability;
    match settings.strict {
        true => format!("openmps software GPU, sm_{major}{minor}"),
        false => "openmps software GPU".to_owned(),
    }
}

/// UUID of the machine's software GPU, made from the machine's id.
pub fn uuid() -> [u8; 16] {
    static UUID: OnceLock<[u8; 16]> = OnceLock::new();
    *UUID.get_or_init(|| {
        let machine = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname"]
            .iter()
            .find_map(|path| std::fs::read(path).ok().filter(|text| !text.is_empty()))
            .unwrap_or_else(|| b"openmps".to_vec());
        let mut uuid = hash(&machine).to_be_bytes();
        // Version 8 (made by a rule of one's own), variant 1.
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    })
}

/// The UUID as nvidia-smi and CUDA_VISIBLE_DEVICES write it.
pub fn uuid_text() -> String {
    cuda_api::CUuuid { bytes: uuid() }.to_string()
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
    fn the_uuid_stays_the_same() {
        assert_eq!(uuid(), uuid());
        assert_eq!(uuid_text().len(), "GPU-00000000-0000-0000-0000-000000000000".len());
    }
}
