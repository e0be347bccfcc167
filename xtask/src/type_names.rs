//! Names of types: one name has one meaning in a crate and in those that it is built on.

use crate::tidy::{read, tracked};
use std::collections::{BTreeMap, BTreeSet};

/// The crates of the sharing half. The compiler's have the words of two languages (`ptx` and `simt` both have a
/// `Function`), each below a module that says which.
const CRATES: &[&str] = &[
    "cdi",
    "channel",
    "client",
    "control",
    "cuda-api",
    "device-model",
    "driver-common",
    "graph",
    "locks",
    "nvml",
    "nvtx",
    "observe",
    "openmps",
    "openmps-k8s",
    "provider",
    "recovery",
    "scheduling",
    "server",
];

/// Names that two crates have all the same, with the upper one.
const BOTH: &[(&str, &str)] = &[
    // The message that describes a device, and the device.
    ("server", "Device"),
];

/// The public types of a text.
fn types(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("pub "));
    let named = lines.filter_map(|line| {
        let (kind, rest) = line.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        matches!(kind, "struct" | "enum" | "trait" | "type").then_some(name)
    });
    named.collect()
}

/// Those of [`CRATES`] that a crate's dependencies name, and the ones that those name.
fn below(name: &str) -> BTreeSet<&'static str> {
    let manifest = read(&crate::root().join(format!("crates/{name}/Cargo.toml")));
    let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = dependencies.lines().take_while(|line| !line.starts_with('['));
    let named: Vec<_> = lines.filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
    let own = CRATES.iter().copied().filter(|name| named.contains(name));
    own.flat_map(|own| below(own).into_iter().chain([own])).collect()
}

#[test]
fn a_type_has_no_name_that_a_crate_below_gives_another() {
    let of_crate = |name: &&'static str| {
        let text: String =
            tracked(&format!("crates/{name}/src/*.rs")).iter().map(|path| read(path)).collect();
        (*name, types(&text).into_iter().map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let of_crates: BTreeMap<_, _> = CRATES.iter().map(of_crate).collect();
    let mut twice = Vec::new();
    for name in CRATES {
        for lower in below(name) {
            let both = of_crates[name].intersection(&of_crates[lower]);
            let both = both.filter(|of| !BOTH.contains(&(name, of.as_str())));
            twice.extend(both.map(|of| format!("{name}::{of} is also {lower}::{of}")));
        }
    }
    assert!(twice.is_empty(), "one name, two meanings:\n{}", twice.join("\n"));
}

#[test]
fn types_and_dependencies_are_found() {
    let text =
        "pub struct One;\nstruct Own;\npub enum Two<T> {\n    pub struct Inner;\npub fn f() {}\n";
    assert_eq!(types(text), BTreeSet::from(["One", "Two"]));
    assert!(below("server").is_superset(&BTreeSet::from(["channel", "scheduling", "recovery"])));
    assert!(below("locks").is_empty());
}
