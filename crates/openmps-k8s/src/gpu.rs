//! GPUs as the control daemon reports them, and as devices of a ResourceSlice.

use crate::driver::Driver;
use crate::health::{Health, HealthState};
use control::report::{CLIENTS_MAX, Report};
use serde_json::{Value, json};

/// Bytes of a MiB, the step of memory.
pub const MIB: u64 = 1 << 20;
/// Devices of a ResourceSlice that has taints: the API's limit.
pub const DEVICES_MAX: usize = 64;

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Its device's name in slices, from its UUID: `gpu-d0a1cf3e`. It stays when numbers change.
    pub name: String,
    /// `GPU-...`
    pub uuid: String,
    /// Its PCI address, `0000:00:06.0`.
    pub pci: String,
    /// Its product's name.
    pub product: String,
    /// Its SMs.
    pub sms: u32,
    /// Its memory, bytes.
    pub memory_bytes: u64,
}

/// The GPUs of a report, those that are whole: with SMs and memory.
pub fn of_report(report: &Report) -> Vec<Gpu> {
    let all = report.devices.iter();
    let mut gpus: Vec<Gpu> = all
        .filter(|device| device.counts.sms > 0 && device.counts.memory_bytes >= MIB)
        .map(|device| Gpu {
            name: device_name(&device.uuid, 8),
            uuid: device.uuid.clone(),
            pci: device.pci.clone(),
            product: device.name.clone(),
            sms: device.counts.sms,
            memory_bytes: device.counts.memory_bytes,
        })
        .collect();
    let names: Vec<String> = gpus.iter().map(|gpu| gpu.name.clone()).collect();
    for gpu in &mut gpus {
        if names.iter().filter(|name| **name == gpu.name).count() > 1 {
            gpu.name = device_name(&gpu.uuid, usize::MAX);
        }
    }
    gpus
}

/// A DNS label from the first characters of a UUID.
fn device_name(uuid: &str, characters: usize) -> String {
    let bare = uuid.strip_prefix("GPU-").unwrap_or(uuid);
    let taken: String = bare.chars().take(characters).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("gpu-{}", taken.chars().map(plain).collect::<String>().trim_matches('-'))
}

impl Gpu {
    /// Whole MiB of its memory.
    pub fn mebibytes(&self) -> u64 {
        self.memory_bytes / MIB
    }

    /// The device of a slice. Each capacity's default is all of it: a claim that asks for nothing is alone.
    pub fn device(&self, driver: &Driver, health: Option<&Health>) -> Value {
        let range = |max: String, min: &str, step: &str| json!({"value": max, "requestPolicy": {"default": max, "validRange": {"min": min, "max": max, "step": step}}});
        let memory = format!("{}Mi", self.mebibytes());
        let mut clients = range(CLIENTS_MAX.to_string(), "1", "1");
        // A program of a share is one client; most have one.
        clients["requestPolicy"]["default"] = json!("1");
        let mut device = json!({
            "name": self.name,
            "allowMultipleAllocations": true,
            "attributes": {
                "uuid": {"string": self.uuid},
                "productName": {"string": short(&self.product)},
                "multiprocessors": {"int": self.sms},
            },
            "capacity": {
                "sms": range(self.sms.to_string(), "1", "1"),
                "memory": range(memory, "1Mi", "1Mi"),
                "clients": clients,
            },
        });
        if !self.pci.is_empty() {
            device["attributes"]["resource.kubernetes.io/pciBusID"] = json!({"string": self.pci});
        }
        if let Some(Health { verdict: HealthState::Unhealthy { effect }, since, .. }) = health {
            let mut taint = json!({"key": driver.key("fault"), "effect": effect.word()});
            if let Some(since) = since {
                taint["timeAdded"] = json!(since);
            }
            device["taints"] = json!([taint]);
        }
        device
    }
}

/// A string attribute has 64 characters at most.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A node's slice; `None` if it has no GPU.
pub fn slice(
    driver: &Driver,
    node: (&str, &str),
    generation: i64,
    devices: &[Value],
) -> Option<Value> {
    let (name, uid) = node;
    if devices.is_empty() {
        return None;
    }
    let mut metadata = json!({"name": slice_name(driver, name)});
    if !uid.is_empty() {
        // The slice goes with its node.
        metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": true}]);
    }
    Some(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": {
            "driver": driver.name(),
            "nodeName": name,
            "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
            "devices": devices.iter().take(DEVICES_MAX).collect::<Vec<_>>(),
        },
    }))
}

/// The name of a node's slice.
pub fn slice_name(driver: &Driver, node: &str) -> String {
    format!("{node}-{}", driver.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DRIVER_NAME;
    use crate::health::TaintEffect;

    fn gpu() -> Gpu {
        Gpu {
            name: "gpu-d0a1cf3e".into(),
            uuid: "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d".into(),
            pci: "0000:00:06.0".into(),
            product: "NVIDIA H200".into(),
            sms: 132,
            memory_bytes: 143_771 * MIB + 5,
        }
    }

    #[test]
    fn a_device_has_its_capacities_and_everything_is_the_default() {
        let driver = Driver::new(DRIVER_NAME).unwrap();
        let device = gpu().device(&driver, None);
        assert_eq!(device["capacity"]["sms"]["value"], "132");
        assert_eq!(device["capacity"]["sms"]["requestPolicy"]["default"], "132");
        assert_eq!(device["capacity"]["memory"]["value"], "143771Mi");
        assert_eq!(device["capacity"]["clients"]["requestPolicy"]["default"], "1");
        assert_eq!(device["attributes"]["multiprocessors"]["int"], 132);
        assert_eq!(device.get("taints"), None);
        let ill = Health::unhealthy("a fault", TaintEffect::NoSchedule);
        let device = gpu().device(&driver, Some(&ill));
        assert_eq!(device["taints"][0]["key"], "gpu.openmps.io/fault");
        assert_eq!(device["taints"][0]["effect"], "NoSchedule");
    }

    #[test]
    fn names_come_from_uuids_and_differ() {
        assert_eq!(device_name("GPU-D0a1cf3e-b77a", 8), "gpu-d0a1cf3e");
        let device = |uuid: &str| control::status::ListedDevice {
            ordinal: 0,
            pci: String::new(),
            uuid: uuid.into(),
            name: "x".into(),
            counts: control::status::DeviceCounts {
                sms: 8,
                memory_bytes: MIB,
                ..Default::default()
            },
        };
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"servers":[]}"#;
        let mut report: Report = serde_json::from_str(text).unwrap();
        report.devices = vec![device("GPU-aaaabbbb-1"), device("GPU-aaaabbbb-2"), device("GPU-c")];
        let names: Vec<String> = of_report(&report).into_iter().map(|gpu| gpu.name).collect();
        assert_eq!(names, ["gpu-aaaabbbb-1", "gpu-aaaabbbb-2", "gpu-c"]);
    }

    #[test]
    fn a_node_without_gpus_has_no_slice() {
        let driver = Driver::new(DRIVER_NAME).unwrap();
        assert_eq!(slice(&driver, ("node1", "u"), 1, &[]), None);
        let made = slice(&driver, ("node1", "u"), 3, &[gpu().device(&driver, None)]).unwrap();
        assert_eq!(made["metadata"]["name"], "node1-gpu.openmps.io");
        assert_eq!(made["spec"]["pool"]["generation"], 3);
    }
}
