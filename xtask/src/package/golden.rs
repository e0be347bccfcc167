//! Golden list: which file each package has, from an installation of empty files.
//!
//! `OPENMPS_BLESS=1 cargo test -p xtask golden` writes the list anew.

use super::layout::Layout;
use super::{Parts, Release, deb, oci, rpm, tar, wheel};
use crate::dist::{self, Built, Linker};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const LIST: &str = "xtask/data/package/files.txt";

/// What cargo would have built, empty: a program that writes no manual but one page, and libraries of no code.
fn build(to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    let program = "#!/bin/sh\ncase $1 in man) : > \"$2/openmps.1\" ;; esac\n";
    std::fs::write(to.join("openmps"), program).expect("a file");
    std::fs::set_permissions(to.join("openmps"), PermissionsExt::from_mode(0o755)).expect("a mode");
    std::fs::write(to.join("libruntime_compilers.a"), "!<arch>\n").expect("a file");
    let libraries = ["libcuda.so", "libnvidia_ml.so", "libopenmps_nvtx.so", "libopenmps_soft.so"];
    for name in libraries {
        let mut link = Command::new("cc");
        link.args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(to.join(name));
        assert!(link.status().expect("a C compiler").success());
    }
    for name in dist::sample_names().expect("samples") {
        std::fs::copy(to.join("openmps"), to.join(name)).expect("a file");
    }
}

/// A section of the list.
fn section(list: &mut String, name: &str, layout: &Layout) {
    writeln!(list, "[{name}]").expect("a string takes it");
    for (path, entry) in &layout.0 {
        let what = match entry {
            super::Entry::Link(target) => format!(" -> {target}"),
            super::Entry::File { executable: true, .. } => " *".into(),
            super::Entry::File { .. } => String::new(),
        };
        writeln!(list, "{path}{what}").expect("a string takes it");
    }
    list.push('\n');
}

#[test]
fn each_package_has_the_files_of_the_list() {
    let scratch = std::env::temp_dir().join(format!("openmps-golden-{}", std::process::id()));
    let (built, installation) = (scratch.join("built"), scratch.join("installation"));
    build(&built);
    let linker = Linker::of_the_system();
    let built = Built { client: &built, rest: &built, linker: &linker };
    dist::lay_out(&built, &installation, Path::new("/")).expect("an installation");
    let release = Release { version: "VERSION".into(), epoch: 1_000 };
    let parts = Parts::read(&crate::root(), release, &installation, &super::build::shipped(false))
        .expect("its parts");
    std::fs::remove_dir_all(&scratch).expect("to remove it");

    let mut list = String::new();
    section(&mut list, "tar", &tar::files(&parts));
    section(&mut list, "wheel", &wheel::files(&parts).expect("a wheel's files"));
    for package in deb::files(&parts).expect("packages") {
        section(&mut list, &format!("deb {}", package.name), &package.layout);
    }
    for package in rpm::files(&parts) {
        section(&mut list, &format!("rpm {}", package.name), &package.layout);
    }
    section(&mut list, "oci", &oci::files(&parts));
    let path = crate::root().join(LIST);
    if std::env::var_os("OPENMPS_BLESS").is_some() {
        std::fs::write(&path, &list).expect("to write the list");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    for (have, want) in list.lines().zip(wanted.lines()) {
        assert_eq!(have, want, "{LIST} has the second; OPENMPS_BLESS=1 writes it anew");
    }
    assert_eq!(list.lines().count(), wanted.lines().count(), "lines of {LIST}");
}
