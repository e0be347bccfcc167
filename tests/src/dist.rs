//! The installation under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory with `bin` and `lib` of a build: `$OPENMPS_DIST`, else the one in whose `tests` this
/// program lies, else built now.
pub fn dist() -> &'static Path {
    static DIST: OnceLock<PathBuf> = OnceLock::new();
    DIST.get_or_init(|| match std::env::var_os("OPENMPS_DIST") {
        Some(path) => PathBuf::from(path),
        None => around().unwrap_or_else(build),
    })
}

/// The installation that this program is part of, if it is of one.
fn around() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let installation = program.parent()?.parent()?;
    installation.join("bin/openmps").is_file().then(|| installation.to_path_buf())
}

fn build() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&package).parent().expect("tests lie in the root");
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo xtask dist: {errors}");
    PathBuf::from(text.lines().last().expect("it prints where"))
}
