//! The simulators beside what a real cluster said: `tests/clusters/kubernetes.sh --bless` writes the golden files.

use crate::cluster::{Wanted, share_config};
use crate::kubelet::named;
use crate::world::World;
use openmps_k8s::driver::{DRIVER_NAME, Driver};
use openmps_k8s::gpu::{Gpu, MIB};
use openmps_k8s::quantity;
use openmps_k8s::share::{ClaimName, of_claim};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The golden folders, one a version of Kubernetes.
fn versions() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clusters/kubernetes/golden");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(!all.is_empty(), "{folder}");
    all
}

fn golden(folder: &std::path::Path, name: &str) -> Value {
    let path = folder.join(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The paths of all fields; elements of lists are one.
fn paths(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| paths(value, &format!("{path}.{key}"), all));
        }
        Value::Array(list) => list.iter().for_each(|value| paths(value, &format!("{path}[]"), all)),
        _ => drop(all.insert(path.to_owned())),
    }
}

fn paths_of(value: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    paths(value, "", &mut all);
    all
}

fn gpus_of(slice: &Value) -> Vec<Gpu> {
    let devices = slice["spec"]["devices"].as_array().unwrap().iter();
    let number = |value: &Value| quantity::parse(value.as_str().unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let gpu = |device: &Value| Gpu {
        name: text(&device["name"]),
        uuid: text(&device["attributes"]["uuid"]["string"]),
        pci: text(&device["attributes"]["resource.kubernetes.io/pciBusID"]["string"]),
        product: text(&device["attributes"]["productName"]["string"]),
        sms: number(&device["capacity"]["sms"]["value"]) as u32,
        memory_bytes: number(&device["capacity"]["memory"]["value"]),
    };
    devices.map(gpu).collect()
}

#[test]
fn the_api_server_keeps_devices_as_they_are_published() {
    let driver = Driver::new(DRIVER_NAME).unwrap();
    for folder in versions() {
        let slice = golden(&folder, "slice");
        let mut published = json!([]);
        for gpu in gpus_of(&slice) {
            published.as_array_mut().unwrap().push(gpu.device(&driver, None));
        }
        // It writes quantities as they are shortest: 1Gi for 1024Mi.
        let same = |value: &Value| {
            let text = value.to_string().replace("\"1024Mi\"", "\"1Gi\"");
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert_eq!(same(&published), same(&slice["spec"]["devices"]), "{}", folder.display());
    }
}

#[test]
fn the_scheduler_s_allocation_is_read() {
    let driver = Driver::new(DRIVER_NAME).unwrap();
    for folder in versions() {
        let (claim, slice) = (golden(&folder, "claim"), golden(&folder, "slice"));
        let of = |key: &str| claim["metadata"][key].as_str().unwrap().to_owned();
        let name = ClaimName { namespace: of("namespace"), name: of("name"), uid: of("uid") };
        // Times are words in the golden files.
        let text = claim.to_string().replace("\"TIME\"", "\"2026-01-01T00:00:00Z\"");
        let claim = serde_json::from_str(&text).unwrap();
        let read = of_claim(&driver, &name, &claim, &gpus_of(&slice)).unwrap();
        let share = &read[0].shares[0];
        assert_eq!((share.sms, share.memory_bytes), (2, 128 * MIB));
        assert_eq!((share.class().word(), share.cap_sms(), share.clients), ("batch", 4, 1));
    }
}

#[test]
fn the_simulators_say_what_the_real_ones_say() {
    let world = World::new(1);
    let parameters = share_config(json!({"class": "batch", "limitSms": 4}));
    let (claim, _) = world.pod(&Wanted::share("a", 2, "128Mi").with("FromClaim", parameters));
    tests::wait_until("the status is there", || {
        world.cluster.claim("a")["status"]["devices"].is_array()
    });
    let ours = world.cluster.claim("a");
    for folder in versions() {
        let theirs = golden(&folder, "claim");
        let allocation = |claim: &Value| {
            let devices = &claim["status"]["allocation"]["devices"];
            (paths_of(&devices["results"]), paths_of(&devices["config"][0]["opaque"]))
        };
        assert_eq!(allocation(&ours), allocation(&theirs), "{}", folder.display());
        let served = |claim: &Value| paths_of(&claim["status"]["devices"]);
        assert_eq!(served(&ours), served(&theirs));
        let reserved = |claim: &Value| paths_of(&claim["status"]["reservedFor"]);
        assert_eq!(reserved(&ours), reserved(&theirs));
        let calls = golden(&folder, "calls");
        let call = |name: &str| {
            let mut all = calls.as_array().unwrap().iter();
            all.rfind(|of| of["call"] == name).expect(name).clone()
        };
        let request = json!({"claims": [serde_json::to_value(named(&claim)).unwrap()]});
        for name in ["NodePrepareResources", "NodeUnprepareResources"] {
            assert_eq!(paths_of(&call(name)["request"]), paths_of(&request), "{name}");
        }
        assert_eq!(call("GetInfo")["answer"]["type"], "DRAPlugin");
    }
}
