//! Whether a program is to see a device at all, by its environment. Not which of several: a provider
//! goes by the rest of the list itself.

use cuda_api::environment::CUDA_VISIBLE_DEVICES;

/// False if `CUDA_VISIBLE_DEVICES` keeps this process from all devices.
pub fn wants_a_device() -> bool {
    let list = std::env::var_os(CUDA_VISIBLE_DEVICES);
    list.is_none_or(|list| names_a_device(&list.to_string_lossy()))
}

/// False for lists that name nothing: an empty one, -1, a word.
fn names_a_device(list: &str) -> bool {
    // What comes after the first entry that names none does not count.
    let first = list.split(',').next().unwrap_or_default().trim();
    let by_uuid = ["GPU-", "MIG-"].iter().any(|kind| first.starts_with(kind));
    by_uuid || first.parse::<u32>().is_ok()
}

/// Which of the devices this process is to see, by [`CUDA_VISIBLE_DEVICES`], in the order of that
/// list: places in `uuids`, which has the devices' UUIDs as text.
pub fn visible_devices(uuids: &[String]) -> Vec<usize> {
    match std::env::var_os(CUDA_VISIBLE_DEVICES) {
        Some(list) => named_devices(&list.to_string_lossy(), uuids),
        None => (0..uuids.len()).collect(),
    }
}

/// The devices that a list names, by number or by the beginning of a UUID that only one has. What
/// comes after an entry that names none, or one that was named before, does not count.
fn named_devices(list: &str, uuids: &[String]) -> Vec<usize> {
    let mut named = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let place = match entry.parse::<usize>() {
            Ok(number) => (number < uuids.len()).then_some(number),
            Err(_) if entry.starts_with("GPU-") => {
                let mut found = (0..uuids.len()).filter(|place| uuids[*place].starts_with(entry));
                found.next().filter(|_| found.next().is_none())
            }
            Err(_) => None,
        };
        match place.filter(|place| !named.contains(place)) {
            Some(place) => named.push(place),
            None => break,
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_a_device_keeps_a_program_from_all() {
        for list in ["0", "3", " 1 ,0", "0,nothing", "GPU-dff26382", "MIG-7"] {
            assert!(names_a_device(list), "{list:?}");
        }
        for list in ["", " ", "-1", "-1,0", ",0", "NoDevFiles", "none"] {
            assert!(!names_a_device(list), "{list:?}");
        }
    }

    #[test]
    fn devices_are_named_by_number_and_by_uuid() {
        let uuids = ["GPU-aa11-22", "GPU-aa33-44", "GPU-bb55-66"].map(str::to_owned);
        for (list, named) in [
            ("0", &[0][..]),
            ("2, 0", &[2, 0]),
            ("GPU-bb,GPU-aa1", &[2, 0]),
            ("1,3,0", &[1]),
            ("1,1,0", &[1]),
            ("GPU-aa", &[]),
            ("3", &[]),
            ("-1", &[]),
            ("", &[]),
            ("GPU-nope", &[]),
            ("MIG-7", &[]),
            ("none", &[]),
        ] {
            assert_eq!(named_devices(list, &uuids), named, "{list:?}");
        }
    }
}
