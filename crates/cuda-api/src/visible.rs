//! `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`: which devices a process sees, in which order.
//!
//! One table of CUDA's rules for all who keep to them: the software GPU for its devices, a client for
//! those of its daemon. Reading the environment is theirs. NVIDIA's driver has its own.
//!
//! * An entry of the list is an ordinal in the order of all devices, or a UUID or the beginning of one
//!   (`GPU-` and what follows) that only one device has. A list has entries of the first one's kind.
//! * The list ends at the first entry that names no device: `0,9,1` is `0`, and `-1,0` is nothing.
//! * A device that is named twice is no list at all: the process sees no device.
//! * No variable shows all devices; an empty one shows none.

use crate::CUuuid;
use alloc::string::ToString;
use alloc::vec::Vec;

/// The devices that a list names, as places in `uuids`, in the list's order. `None` as the list: the
/// variable is not set.
pub fn visible_devices(list: Option<&str>, uuids: &[CUuuid]) -> Vec<usize> {
    let Some(list) = list else { return (0..uuids.len()).collect() };
    let by_uuid = |entry: &str| entry.trim().starts_with("GPU-");
    let mut named = Vec::new();
    for entry in list.split(',').take_while(|entry| by_uuid(entry) == by_uuid(list)) {
        match device_named(entry.trim(), uuids) {
            Some(place) if named.contains(&place) => return Vec::new(),
            Some(place) => named.push(place),
            None => break,
        }
    }
    named
}

/// The one device that an entry names, as its place in `uuids`.
pub fn device_named(entry: &str, uuids: &[CUuuid]) -> Option<usize> {
    if entry.starts_with("GPU-") {
        let entry = entry.to_ascii_lowercase().replacen("gpu-", "GPU-", 1);
        let mut found = (0..uuids.len()).filter(|p| uuids[*p].to_string().starts_with(&entry));
        return found.next().filter(|_| found.next().is_none());
    }
    // The C library's strtol reads a number and lets what follows it be; a sign is part of it.
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse::<usize>().ok().filter(|place| *place < uuids.len())
}

/// How `CUDA_DEVICE_ORDER` has devices counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceOrder {
    /// The fastest first, which is what the provider has; the rest in the order of their addresses.
    #[default]
    FastestFirst,
    /// By their PCI addresses.
    PciBusId,
}

impl DeviceOrder {
    /// What the variable's value means; an unknown word is as good as none.
    pub fn of(value: Option<&str>) -> Self {
        match value.map(str::trim) {
            Some("PCI_BUS_ID") => Self::PciBusId,
            _ => Self::FastestFirst,
        }
    }
}

/// The order of devices, as places in `devices`: their speed in any unit, and their PCI address as
/// cuDeviceGetPCIBusId writes it.
pub fn device_order(order: DeviceOrder, devices: &[(u64, &str)]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..devices.len()).collect();
    let address = |place: &usize| devices[*place].1.to_ascii_lowercase();
    match order {
        DeviceOrder::PciBusId => places.sort_by_key(address),
        DeviceOrder::FastestFirst => {
            places.sort_by_key(|place| (core::cmp::Reverse(devices[*place].0), address(place)));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuids() -> Vec<CUuuid> {
        ["aa112200", "aa334400", "bb556600", "cc000000"]
            .map(|head| alloc::format!("GPU-{head}-0000-0000-0000-000000000000"))
            .iter()
            .map(|text| CUuuid::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn lists_are_read_as_cuda_reads_them() {
        let uuids = uuids();
        let whole = uuids[2].to_string();
        for (list, named) in [
            // Ordinals, in any order.
            ("0", &[0][..]),
            ("1", &[1]),
            ("3,0", &[3, 0]),
            ("0,1,2,3", &[0, 1, 2, 3]),
            (" 2 , 0 ", &[2, 0]),
            ("+1", &[1]),
            ("01", &[1]),
            // UUIDs, full and shortened.
            (&whole, &[2]),
            ("GPU-bb", &[2]),
            ("GPU-aa1,GPU-aa3", &[0, 1]),
            ("GPU-BB556600", &[2]),
            ("GPU-cc , GPU-bb", &[3, 2]),
            // The first wrong entry ends the list.
            ("1,4,0", &[1]),
            ("0,-1,1", &[0]),
            ("-1", &[]),
            ("-1,0", &[]),
            ("", &[]),
            (" ", &[]),
            (",0", &[]),
            ("0,,1", &[0]),
            ("4", &[]),
            ("99999999999999999999", &[]),
            ("none", &[]),
            ("NoDevFiles", &[]),
            ("all", &[]),
            ("1,x,0", &[1]),
            ("MIG-7", &[]),
            // Both kinds in one list: what is of the other kind is a wrong entry.
            ("GPU-cc,1", &[3]),
            ("1,GPU-cc", &[1]),
            // A number ends where its digits do.
            ("1gpu,2x", &[1, 2]),
            // A beginning that two devices have names neither; so does one that none has.
            ("GPU-aa", &[]),
            ("GPU-", &[]),
            ("GPU-dd", &[]),
            ("GPU-bb,GPU-aa,0", &[2]),
            ("gpu-bb", &[]),
            ("bb556600", &[]),
            // A device twice is no list at all.
            ("1,1", &[]),
            ("0,1,0", &[]),
            ("GPU-aa3,GPU-aa33", &[]),
            // What comes behind a wrong entry is not read.
            ("1,9,1", &[1]),
        ] {
            assert_eq!(visible_devices(Some(list), &uuids), named, "{list:?}");
        }
        assert_eq!(visible_devices(None, &uuids), [0, 1, 2, 3]);
        assert_eq!(visible_devices(Some("0"), &[]), []);
        assert_eq!(visible_devices(None, &[]), []);
    }

    #[test]
    fn a_single_device_has_every_beginning_of_its_uuid() {
        let one = &uuids()[..1];
        assert_eq!(visible_devices(Some("GPU-"), one), [0]);
        assert_eq!(visible_devices(Some("1"), one), []);
    }

    #[test]
    fn devices_are_ordered_by_speed_or_by_address() {
        let devices = [(5, "0000:0A:00.0"), (9, "0000:0b:00.0"), (9, "0000:09:00.0")];
        assert_eq!(device_order(DeviceOrder::of(None), &devices), [2, 1, 0]);
        assert_eq!(device_order(DeviceOrder::of(Some("FASTEST_FIRST")), &devices), [2, 1, 0]);
        assert_eq!(device_order(DeviceOrder::of(Some("PCI_BUS_ID")), &devices), [2, 0, 1]);
    }
}
