//! What specs say, which names are refused, and that files come and go whole.

use cdi::{Invalid, Share, file_name, list, remove, spec, write};
use serde_json::json;

fn share(device: &str) -> Share {
    Share {
        kind: cdi::KIND.into(),
        device: device.into(),
        pipe_on_host: format!("/run/nvidia-mps/training/{device}").into(),
        pipe_in_container: cdi::PIPE_IN_CONTAINER.into(),
        libraries: "/opt/openmps/lib/openmps".into(),
        environment: vec![("LIMIT".into(), "4G".into())],
    }
}

#[test]
fn a_share_is_a_directory_and_libraries_and_no_device_node() {
    let spec = spec(&[share("batch")]).unwrap();
    let value: serde_json::Value = serde_json::from_str(&spec.to_json()).unwrap();
    assert_eq!(value["cdiVersion"], "0.5.0");
    assert_eq!(value["kind"], "openmps.example/share");
    let device = &value["devices"][0];
    assert_eq!(device["name"], "batch");
    assert_eq!(
        device["containerEdits"],
        json!({
            "env": ["CUDA_MPS_PIPE_DIRECTORY=/run/openmps", "LIMIT=4G"],
            "mounts": [{
                "hostPath": "/run/nvidia-mps/training/batch",
                "containerPath": "/run/openmps",
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate", "noexec"],
            }],
        })
    );
    let edits = &value["containerEdits"];
    assert_eq!(edits["env"][0], "NVIDIA_VISIBLE_DEVICES=void");
    let of = |mount: &serde_json::Value| mount["containerPath"].as_str().unwrap().to_owned();
    let places: Vec<String> = edits["mounts"].as_array().unwrap().iter().map(of).collect();
    let debian = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for directory in [debian.as_str(), "/usr/lib64"] {
        for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
            assert!(places.contains(&format!("{directory}/{name}")), "{places:?}");
        }
    }
    assert!(places.contains(&cdi::LIBRARIES_IN_CONTAINER.to_owned()));
    assert!(!spec.to_json().contains("deviceNodes"), "a share needs no device node");
    assert_eq!(spec.devices().collect::<Vec<_>>(), ["openmps.example/share=batch"]);
}

#[test]
fn names_and_paths_that_runtimes_refuse_are_refused_here() {
    let wrong = |change: &dyn Fn(&mut Share)| {
        let mut one = share("batch");
        change(&mut one);
        spec(&[one]).unwrap_err()
    };
    for kind in
        ["openmps.example", "/share", "1x/share", "x/sh.are", "x/share_", "x./share", "x/a/b"]
    {
        assert_eq!(wrong(&|of| of.kind = kind.into()), Invalid::Kind(kind.into()));
    }
    for device in ["", "-a", "a-", "a/b", "a b", "a=b"] {
        assert_eq!(wrong(&|of| of.device = device.into()), Invalid::Device(device.into()));
    }
    assert!(matches!(wrong(&|of| of.pipe_on_host = "pipe".into()), Invalid::Path(_)));
    assert!(matches!(wrong(&|of| of.libraries = "lib".into()), Invalid::Path(_)));
    for name in ["", "A=B", "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES"] {
        let error = wrong(&|of| of.environment = vec![(name.into(), "x".into())]);
        assert_eq!(error, Invalid::Variable(name.into()));
    }
    assert_eq!(spec(&[]).unwrap_err(), Invalid::Empty);
    assert_eq!(spec(&[share("a"), share("a")]).unwrap_err(), Invalid::Twice("a".into()));
    let other = Share { kind: "x/y".into(), ..share("b") };
    assert!(matches!(spec(&[share("a"), other]).unwrap_err(), Invalid::Kinds(..)));
    let other = Share { libraries: "/lib".into(), ..share("b") };
    assert!(matches!(spec(&[share("a"), other]).unwrap_err(), Invalid::Libraries(..)));
}

#[test]
fn files_are_whole_listed_and_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cdi");
    assert_eq!(list(&directory).unwrap(), []);
    let one = spec(&[share("a"), share("b")]).unwrap();
    let file = file_name(cdi::KIND, Some("a")).unwrap();
    assert_eq!(file, "openmps.example-share_a.json");
    assert_eq!(file_name(cdi::KIND, None).unwrap(), "openmps.example-share.json");
    assert!(file_name(cdi::KIND, Some("../a")).is_err());
    // Over a file that is there, and beside files of others.
    for _ in 0..2 {
        assert_eq!(write(&one, &directory, &file).unwrap(), directory.join(&file));
    }
    let nvidia = json!({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]});
    std::fs::write(directory.join("nvidia.json"), nvidia.to_string()).unwrap();
    std::fs::write(directory.join("torn.json"), "{").unwrap();
    let found = list(&directory).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].spec, one);
    let names: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "no draft is left: {names:?}");
    assert!(remove(&directory, &file).unwrap());
    assert!(!remove(&directory, &file).unwrap());
    // A directory that cannot be made leaves nothing.
    assert!(write(&one, &directory.join("torn.json"), &file).is_err());
}
