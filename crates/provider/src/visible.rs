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
}
