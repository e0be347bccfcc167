//! The CDI spec of a claim: a file a claim, a device a share.

use crate::driver::Driver;
use crate::share::{GpuShare, Namespace};
use ::cdi::{Invalid, PIPE_IN_CONTAINER};
use std::path::{Path, PathBuf};

/// A share's device, and the namespace's directory on the host.
fn share(
    driver: &Driver,
    (namespace, pipe): (&Namespace, &Path),
    share: &GpuShare,
    libraries: &Path,
) -> ::cdi::Share {
    // A container may name one request of a claim or all: each of them brings all that its namespace needs.
    let own = namespace.shares.iter().map(|share| &share.uuid);
    let mut visible: Vec<&str> = own.chain(&namespace.joined).map(String::as_str).collect();
    // A claim's own devices are in the order of its requests. Whichever of several claims a container names last, it
    // is the same list.
    if !namespace.joined.is_empty() {
        visible.sort_unstable();
    }
    let mut environment = vec![("CUDA_VISIBLE_DEVICES".to_owned(), visible.join(","))];
    if let Some(class) = share.parameters.class {
        environment.push(("OPENMPS_CLASS".to_owned(), class.word().to_owned()));
    }
    ::cdi::Share {
        kind: driver.cdi_kind(),
        device: device_name(namespace, share),
        pipe_on_host: pipe.to_owned(),
        pipe_in_container: PIPE_IN_CONTAINER.into(),
        libraries: libraries.to_owned(),
        environment,
    }
}

/// The name of a share's device within its kind.
fn device_name(namespace: &Namespace, share: &GpuShare) -> String {
    format!("{}-{}", namespace.name, share.device)
}

/// What a container names a share's device by.
pub fn qualified(driver: &Driver, namespace: &Namespace, share: &GpuShare) -> String {
    ::cdi::qualified(&driver.cdi_kind(), &device_name(namespace, share))
}

/// The spec of a claim's namespaces, each with its directory on the host.
///
/// # Errors
/// What cannot stand in a spec.
pub fn spec(
    driver: &Driver,
    namespaces: &[(&Namespace, PathBuf)],
    libraries: &Path,
) -> Result<::cdi::Spec, Invalid> {
    let all = namespaces.iter().flat_map(|(namespace, pipe)| {
        let one = move |of| share(driver, (*namespace, pipe.as_path()), of, libraries);
        namespace.shares.iter().map(one)
    });
    ::cdi::spec(&all.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DRIVER_NAME;

    #[test]
    fn each_share_of_a_namespace_brings_the_same() {
        let driver = Driver::new(DRIVER_NAME).unwrap();
        let share = |name: &str| GpuShare {
            device: name.into(),
            uuid: format!("GPU-{name}"),
            ..GpuShare::default()
        };
        let namespace = Namespace {
            name: "s1".into(),
            shares: vec![share("gpu-a"), share("gpu-b")],
            ..Namespace::default()
        };
        let pipe = PathBuf::from("/run/openmps/shared/s1");
        let made = spec(&driver, &[(&namespace, pipe.clone())], Path::new("/opt/lib")).unwrap();
        let names: Vec<String> = made.devices().collect();
        assert_eq!(names, ["gpu.openmps.io/share=s1-gpu-a", "gpu.openmps.io/share=s1-gpu-b"]);
        assert_eq!(names[0], qualified(&driver, &namespace, &namespace.shares[0]));
        for device in &made.devices {
            let visible = "CUDA_VISIBLE_DEVICES=GPU-gpu-a,GPU-gpu-b".to_owned();
            assert!(device.container_edits.env.contains(&visible));
            let mounts = &device.container_edits.mounts;
            assert_eq!((mounts.len(), &mounts[0].host_path), (1, &pipe));
        }
        assert!(!made.to_json().contains("deviceNodes"));
    }
}
