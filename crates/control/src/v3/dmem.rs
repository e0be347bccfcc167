//! Limits of device memory that others set: the kernel's dmem controller on a client's cgroup, and the variables by which
//! NVIDIA's container toolkit and Kubernetes fractions say what a container asked for.
//!
//! The kernel counts what a process has; here the memory is a server's, so its limits are read and kept by us. The
//! variables are the program's own word: they bind programs that do not mean harm.

use channel::message::MemoryGroup;
use std::path::Path;

/// Bytes of the longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
const MIB: u64 = 1 << 20;
/// Variables for a container's guaranteed memory, MiB, and for the most that it may have: today's names and older ones.
const REQUEST: [&str; 2] = ["NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_REQUESTS"];
const LIMIT: [&str; 2] = ["NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_LIMITS"];

/// The limits that the dmem controller has on a device, at a PCI address, for a process of a cgroup. The hard limit is
/// the least of the cgroup's and those above it, whose account it then is; the soft one that of the nearest with one.
pub(crate) fn of_cgroup(root: &Path, cgroup: &str, pci: &str) -> Option<MemoryGroup> {
    let mut hard: Option<(u64, String)> = None;
    let mut soft: Option<(u64, String)> = None;
    for above in Path::new(cgroup).ancestors() {
        let directory = root.join(above.strip_prefix("/").unwrap_or(above));
        let value = |file: &str| {
            let path = directory.join(file);
            let small = std::fs::metadata(&path).is_ok_and(|of| of.len() <= FILE_BYTES_MAX);
            let text = small.then(|| std::fs::read_to_string(&path).ok()).flatten()?;
            value_of(&text, pci)
        };
        let name = || above.to_string_lossy().into_owned();
        if let Some(bytes) = value("dmem.max")
            && hard.as_ref().is_none_or(|(least, _)| bytes <= *least)
        {
            hard = Some((bytes, name()));
        }
        if soft.is_none() {
            soft = value("dmem.min").filter(|bytes| *bytes > 0).map(|bytes| (bytes, name()));
        }
    }
    let name = hard.as_ref().or(soft.as_ref())?.1.clone();
    let hard_bytes = hard.map_or(u64::MAX, |(bytes, _)| bytes);
    let soft_bytes = soft.map_or(0, |(bytes, _)| bytes).min(hard_bytes);
    Some(MemoryGroup { name, soft_bytes, hard_bytes })
}

/// The bytes of the region of a PCI address in a file of the controller: `nvidia/0000:3b:00.0/vidmem 1073741824`, or
/// `drm/…`; `None` without one, or with `max`.
fn value_of(text: &str, pci: &str) -> Option<u64> {
    let wanted = numbers(pci)?;
    text.lines().find_map(|line| {
        let (region, value) = line.trim().rsplit_once(' ')?;
        region.split('/').any(|part| numbers(part) == Some(wanted)).then(|| value.parse().ok())?
    })
}

/// Domain, bus, device and function of a PCI address, however it is written.
fn numbers(address: &str) -> Option<[u32; 4]> {
    let (rest, function) = address.rsplit_once('.')?;
    let mut parts = rest.split(':').map(|digits| u32::from_str_radix(digits, 16).ok());
    let (domain, bus, device) = (parts.next()??, parts.next()??, parts.next()??);
    let function = u32::from_str_radix(function, 16).ok()?;
    parts.next().is_none().then_some([domain, bus, device, function])
}

/// What a process's variables say, for all processes of its cgroup that say the same; `None` if it says nothing or its
/// variables may not be read.
pub(crate) fn of_environment(pid: u32, cgroup: Option<&str>) -> Option<MemoryGroup> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variable = |names: [&str; 2]| {
        let all = || bytes.split(|byte| *byte == 0).filter_map(|row| std::str::from_utf8(row).ok());
        let of = |name: &str| all().find_map(|row| row.strip_prefix(name)?.strip_prefix('='));
        let text = names.into_iter().find_map(of)?;
        text.trim().parse::<u64>().ok()?.checked_mul(MIB)
    };
    limits(variable(REQUEST), variable(LIMIT)).map(|(soft_bytes, hard_bytes)| MemoryGroup {
        // A container is a cgroup of its own; elsewhere a program is one.
        name: match cgroup.filter(|path| *path != "/") {
            Some(path) => format!("{path} (its variables say {} MiB)", hard_bytes / MIB),
            None => format!("process {pid}"),
        },
        soft_bytes,
        hard_bytes,
    })
}

/// Soft and hard limit, as NVIDIA's hook reads the two variables: what is requested alone is no limit, and a limit
/// alone is requested too.
fn limits(request: Option<u64>, limit: Option<u64>) -> Option<(u64, u64)> {
    match (request, limit) {
        (None, None) => None,
        (Some(request), None) => Some((request, u64::MAX)),
        (None, Some(limit)) => Some((limit, limit)),
        // It refuses a container that requests more than its limit.
        (Some(request), Some(limit)) => Some((request.min(limit), limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PCI: &str = "0000:3b:00.0";

    #[test]
    fn a_region_is_a_device_s_by_its_address() {
        let text = "drm/0000:03:00.0/vram0 5\nnvidia/00000000:3B:00.0/vidmem 1073741824\n";
        assert_eq!(value_of(text, PCI), Some(1 << 30));
        assert_eq!(value_of(text, "0000:03:00.0"), Some(5));
        assert_eq!(value_of(text, "0000:04:00.0"), None);
        assert_eq!(value_of("nvidia/0000:3b:00.0/vidmem max\n", PCI), None);
        assert_eq!(value_of("nonsense\n\n", PCI), None);
    }

    #[test]
    fn the_least_limit_above_a_process_holds_and_the_nearest_guarantee() {
        let root = std::env::temp_dir().join(format!("openmps-dmem-{}", std::process::id()));
        let write = |path: &str, file: &str, bytes: u64| {
            fs::create_dir_all(root.join(path)).unwrap();
            fs::write(root.join(path).join(file), format!("nvidia/{PCI}/vidmem {bytes}\n"))
                .unwrap();
        };
        write("pods/one", "dmem.max", 100);
        write("pods/one/container", "dmem.max", 300);
        write("pods/one/container", "dmem.min", 40);
        write("pods/two", "dmem.min", 20);
        let of = |cgroup: &str| of_cgroup(&root, cgroup, PCI);
        let group = |name: &str, soft_bytes, hard_bytes| {
            Some(MemoryGroup { name: name.into(), soft_bytes, hard_bytes })
        };
        assert_eq!(of("/pods/one/container/sub"), group("/pods/one", 40, 100));
        assert_eq!(of("/pods/two/x"), group("/pods/two", 20, u64::MAX));
        assert_eq!((of("/pods"), of("/"), of("/gone")), (None, None, None));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn variables_are_read_as_nvidia_s_hook_reads_them() {
        assert_eq!(limits(None, None), None);
        assert_eq!(limits(Some(3), None), Some((3, u64::MAX)));
        assert_eq!(limits(None, Some(3)), Some((3, 3)));
        assert_eq!(limits(Some(2), Some(3)), Some((2, 3)));
        assert_eq!(limits(Some(4), Some(3)), Some((3, 3)));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("NVIDIA_GPU_MEMORY_REQUEST", "5")
            .env("NVIDIA_GPU_MEMORY_LIMITS", "7")
            .spawn()
            .unwrap();
        // A process that was just started may not have its variables yet.
        let group = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            of_environment(child.id(), Some("/a"))
        });
        let group = group.unwrap();
        assert_eq!((group.soft_bytes, group.hard_bytes), (5 * MIB, 7 * MIB));
        assert!(group.name.starts_with("/a "), "{}", group.name);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
