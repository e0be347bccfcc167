//! Podman: containers of root file systems that are made here, so that no image has to be had.

use crate::node::{Node, is_root};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{dist, finish};

/// What a container's shell has.
const PROGRAMS: &[&str] = &["sh", "cat", "ls", "mkdir", "sleep", "test", "rm", "id"];

/// A root file system as small images have it: a shell, the C library, a program that uses CUDA, and of openmps the
/// control program. No CUDA library is in it.
pub fn root_file_system(node: &Node, name: &str) -> PathBuf {
    let root = node.directory(name, 0o777);
    for directory in [
        "tmp",
        "proc",
        "sys",
        "dev",
        "etc",
        "run",
        "var",
        "var/log",
        "usr",
        "usr/bin",
        "usr/lib",
        "usr/local",
    ] {
        node.directory(&format!("{name}/{directory}"), 0o777);
    }
    node.directory(&format!("{name}/tmp"), 0o1777);
    // As distributions since 2020 have it.
    for merged in ["bin", "lib"] {
        symlink(format!("usr/{merged}"), root.join(merged)).expect("a link");
    }
    symlink("usr/lib64", root.join("lib64")).expect("a link");
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let found = find(program).unwrap_or_else(|| panic!("{program} is wanted"));
        put(&found, &root.join("usr/bin").join(program));
        libraries.extend(needs(&found));
    }
    let own = dist().join("bin/openmps");
    put(&own, &root.join("usr/bin/nvidia-cuda-mps-control"));
    let sample = dist().join("lib/openmps/samples/vector_add");
    put(&sample, &root.join("usr/bin/vector_add"));
    for program in [&own, &sample, &dist().join("lib/openmps/libcuda.so.1")] {
        libraries.extend(needs(program));
    }
    for library in libraries {
        // Where the image's own loader looks.
        let name = Path::new(&library).file_name().expect("a name").to_owned();
        let folder = if library.contains("ld-linux") { "usr/lib64" } else { LIBRARIES };
        put(Path::new(&library), &root.join(folder).join(name));
    }
    // For the daemon: the libraries beside its program.
    for name in ["libcuda.so.1", "libnvidia-ml.so.1", "libopenmps-soft.so"] {
        put(&dist().join("lib/openmps").join(name), &root.join("usr/lib/openmps").join(name));
    }
    root
}

/// The same without anything of openmps.
pub fn image(node: &Node, name: &str) -> PathBuf {
    let root = root_file_system(node, name);
    fs::remove_dir_all(root.join("usr/lib/openmps")).expect("it goes");
    root
}

#[cfg(target_arch = "aarch64")]
const LIBRARIES: &str = "usr/lib/aarch64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

fn find(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
}

/// The libraries that a program or a library is linked to.
fn needs(file: &Path) -> Vec<String> {
    let listed = finish(Command::new("ldd").arg(file)).stdout;
    let words =
        listed.split_whitespace().filter(|word| word.starts_with('/') && word.contains(".so"));
    words.map(str::to_owned).collect()
}

/// A copy, or the same file under another name.
fn put(from: &Path, to: &Path) {
    let folder = to.parent().expect("a folder");
    fs::create_dir_all(folder).expect("a folder");
    // A runtime makes places for its mounts, also as a user namespace's root, to whom nothing here belongs.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("its mode");
    let from = from.canonicalize().expect("it is there");
    if fs::hard_link(&from, to).is_err() {
        fs::copy(&from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
}

/// A container's command: podman with runc, where neither raises limits nor has a network.
pub fn podman(words: &[&str], root: &Path, program: &[&str]) -> Command {
    let mut command = Command::new("podman");
    command.args(["--runtime", "runc", "run", "--rm", "--network", "none"]);
    command.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
    command.args(words).arg("--rootfs").arg(root).args(program);
    command
}

/// Why no container can be run here.
pub fn cannot(node: &Node) -> Option<String> {
    if !is_root() {
        return Some("containers want root here".to_owned());
    }
    if find("podman").is_none() || !Path::new("/usr/sbin/runc").exists() && find("runc").is_none() {
        return Some("podman and runc are wanted".to_owned());
    }
    let root = root_file_system(node, "trial");
    let tried = finish(&mut podman(&[], &root, &["sh", "-c", "exit 7"]));
    (tried.status != 7).then(|| format!("podman runs no container here: {}", tried.stderr.trim()))
}
