//! Topology: whether programs and servers run on processors that are near their device.
//!
//! A server keeps to processors near its device by itself. A program elsewhere reaches it through the other socket's
//! memory, which costs launches and copies.

use super::Finding;
use control::status::ListedDevice;
use cuda_api::settings::{Cpus, parse_cpus};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::path::Path;

const TOPIC: &str = "topology";
/// Where the kernel describes devices.
const DEVICES: &str = "/sys/bus/pci/devices";

/// A finding for each device whose processors are not all of the machine's.
pub(super) fn findings(devices: &[ListedDevice]) -> Vec<Finding> {
    let Ok(affinity) = sched_getaffinity(None) else { return Vec::new() };
    let may: Vec<u32> =
        (0..CpuSet::MAX_CPU).filter(|cpu| affinity.is_set(*cpu)).map(|cpu| cpu as u32).collect();
    let of = |device| of_device(Path::new(DEVICES), device, &may);
    devices.iter().filter_map(of).collect()
}

/// Of one device, for a shell that may use some processors.
fn of_device(root: &Path, device: &ListedDevice, may: &[u32]) -> Option<Finding> {
    let directory = root.join(device.pci.to_ascii_lowercase());
    let read = |name| std::fs::read_to_string(directory.join(name)).ok();
    let (list, node) = (read("local_cpulist")?, read("numa_node")?);
    let (list, node) = (list.trim(), node.trim());
    // A machine with one node has no number of it.
    if node.parse::<u32>().is_err() {
        return None;
    }
    let Ok(Cpus::List(near)) = parse_cpus(list) else { return None };
    let is_near = |cpu: &u32| near.contains(cpu);
    let count = may.iter().filter(|cpu| is_near(cpu)).count();
    let ordinal = device.ordinal;
    let place = format!("device {ordinal} is at NUMA node {node} (CPUs {list})");
    if count == may.len() {
        return Some(Finding::ok(TOPIC, format!("{place}, where programs of this shell run")));
    }
    let (where_to, advice) = match count {
        0 => ("none of", "start programs"),
        _ => ("not only", "programs that launch often gain where they start"),
    };
    let text = format!("{place}; programs of this shell may run on {where_to} these");
    let advice = format!("{advice} by `taskset --cpu-list {list} openmps run -- PROGRAM`");
    Some(match count {
        0 => Finding::warning(TOPIC, text, advice),
        _ => Finding { advice, ..Finding::ok(TOPIC, text) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::Severity;

    #[test]
    fn a_shell_far_from_its_device_is_told_how_to_start_programs() {
        let root = std::env::temp_dir().join(format!("openmps-topology-{}", std::process::id()));
        let directory = root.join("0000:1b:00.0");
        std::fs::create_dir_all(&directory).expect("a directory");
        let device = ListedDevice {
            ordinal: 1,
            pci: "0000:1B:00.0".into(),
            uuid: String::new(),
            name: String::new(),
            counts: Default::default(),
        };
        assert!(of_device(&root, &device, &[0]).is_none(), "nothing is known of it");
        std::fs::write(directory.join("local_cpulist"), "8-11\n").expect("a file");
        std::fs::write(directory.join("numa_node"), "-1\n").expect("a file");
        assert!(of_device(&root, &device, &[0]).is_none(), "there is one node");
        std::fs::write(directory.join("numa_node"), "1\n").expect("a file");
        let of = |may: &[u32]| of_device(&root, &device, may).expect("a finding");
        let far = of(&[0, 1]);
        assert!(far.severity == Severity::Warning, "{}", far.text);
        assert!(far.advice.contains("taskset --cpu-list 8-11"), "{}", far.advice);
        assert!(far.text.contains("device 1 is at NUMA node 1"), "{}", far.text);
        assert!(of(&[7, 8]).severity == Severity::Ok && !of(&[7, 8]).advice.is_empty());
        assert!(of(&[8, 9]).advice.is_empty());
        std::fs::remove_dir_all(&root).expect("to remove it");
    }
}
