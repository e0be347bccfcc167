//! Wheel: `pip install` puts `bin/openmps` and `lib/openmps` into a Python environment.
//!
//! A wheel cannot hold links, so starters and a forwarding library take their place. NVIDIA's two names are
//! not in `bin`, where they would be found in place of NVIDIA's own.

use super::layout::{Entry, Layout};
use super::{DOCUMENTATION, Parts, third_party};
use crate::dist::{self, PERSONALITIES};
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Largest wheel, in bytes.
const BYTES_MAX: usize = 25_000_000;

/// The samples that `demo`, `bench` and `advise` start, and the one of the first lines of the README.
pub(super) const SAMPLES: &[&str] = &[
    "convnet_inference",
    "endless",
    "fault",
    "mandelbrot",
    "matrix_multiply",
    "microbench",
    "mlp_inference",
    "n_body",
    "spin",
    "vector_add",
];

const INIT: &str = include_str!("../../data/package/init.py");
const MAIN: &str = include_str!("../../data/package/main.py");
const DESCRIPTION: &str = include_str!("../../data/package/wheel.md");

/// A program that starts `bin/openmps` under a name; `bin` is above it by so many directories.
fn starter(name: &str, bin: &str) -> Entry {
    Entry::script(format!(
        "#!/bin/sh\n\
         # A wheel has no links: this starts openmps under the name {name}.\n\
         exec \"$(dirname \"$(readlink -f \"$0\")\")/{bin}/openmps\" --as {name} \"$@\"\n"
    ))
}

/// A library named `libcuda.so` that has only the need for `libcuda.so.1` beside it: what asks it for a
/// function gets that library's, and both names are one library.
fn forwarder(libraries: &Layout) -> Result<Entry> {
    let client = libraries.0.get("lib/openmps/libcuda.so.1").context("there is no libcuda.so.1")?;
    let Entry::File { bytes, .. } = client else { anyhow::bail!("libcuda.so.1 is a link") };
    let scratch = dist::target_directory(&crate::root()).join("package-forwarder");
    std::fs::create_dir_all(&scratch)?;
    let (needed, made) = (scratch.join("libcuda.so.1"), scratch.join("libcuda.so"));
    std::fs::write(&needed, bytes)?;
    let mut link = dist::Linker::of_the_system().shared();
    link.args(["-nostdlib", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", "-Wl,--build-id=none"]);
    link.args(["-Wl,-soname,libcuda.so", "-Wl,--unresolved-symbols=ignore-all", "-o"]).arg(&made);
    dist::run(link.arg(&needed)).context("linking libcuda.so")?;
    let bytes = std::fs::read(&made)?;
    std::fs::remove_dir_all(&scratch)?;
    Ok(Entry::File { bytes, executable: true })
}

/// What is installed below the prefix of an environment, without links.
fn installed(parts: &Parts) -> Result<Layout> {
    let mut layout = parts.layout.clone();
    layout.split_off(|path| match path.strip_prefix("lib/openmps/samples/") {
        Some(name) => !SAMPLES.contains(&name),
        None => path.starts_with(DOCUMENTATION),
    });
    layout.put("lib/openmps/libcuda.so", forwarder(&layout)?);
    layout.put("lib/openmps/compilers/bin/ptxas", starter("ptxas", "../../../../bin"));
    for name in PERSONALITIES {
        layout.split_off(|path| path.strip_prefix("bin/") == Some(name));
        layout.put(format!("lib/openmps/bin/{name}"), starter(name, "../../../bin"));
    }
    let link = layout.0.iter().find(|(_, entry)| matches!(entry, Entry::Link(_)));
    ensure!(link.is_none(), "{link:?} is a link, which a wheel cannot hold");
    Ok(layout)
}

/// What is in the wheel.
pub(super) fn files(parts: &Parts) -> Result<Layout> {
    let version = &parts.release.version;
    let (data, info) = (format!("openmps-{version}.data"), format!("openmps-{version}.dist-info"));
    let mut wheel = installed(parts)?.renamed(|path| {
        Some(match path.strip_prefix("bin/") {
            Some(program) => format!("{data}/scripts/{program}"),
            None => format!("{data}/data/{path}"),
        })
    });
    wheel.put("openmps/__init__.py", Entry::text(INIT));
    wheel.put("openmps/__main__.py", Entry::text(MAIN));
    let mut licences = Vec::new();
    for (path, entry) in &parts.layout.0 {
        let Some(name) = path.strip_prefix(&format!("{DOCUMENTATION}/")) else { continue };
        if name == third_party::BILL {
            wheel.put(format!("{info}/sboms/{name}"), entry.clone());
        } else if name.contains("LICENSE") {
            wheel.put(format!("{info}/licenses/{name}"), entry.clone());
            licences.push(name);
        }
    }
    wheel.put(format!("{info}/METADATA"), Entry::text(metadata(version, &licences)));
    let tag = tag(parts);
    let about = format!(
        "Wheel-Version: 1.0\nGenerator: cargo-xtask-package ({version})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    wheel.put(format!("{info}/WHEEL"), Entry::text(about));
    let record = record(&wheel, &format!("{info}/RECORD"));
    wheel.put(format!("{info}/RECORD"), Entry::text(record));
    Ok(wheel)
}

/// Which systems it is for: those whose glibc has what its files need.
fn tag(parts: &Parts) -> String {
    format!("py3-none-manylinux_{}_{}_x86_64", parts.floor.0, parts.floor.1)
}

/// What an index shows of it (core metadata 2.4).
fn metadata(version: &str, licences: &[&str]) -> String {
    let mut text = format!(
        "Metadata-Version: 2.4\nName: openmps\nVersion: {version}\n\
         Summary: Shares a CUDA GPU between unmodified programs, or runs them on a software GPU\n\
         Keywords: cuda,gpu,mps,sharing\n\
         Classifier: Environment :: GPU :: NVIDIA CUDA\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Classifier: Programming Language :: Rust\n\
         Requires-Python: >=3.8\nLicense-Expression: MIT OR Apache-2.0\n"
    );
    for name in licences {
        writeln!(text, "License-File: {name}").expect("a string takes it");
    }
    text.push_str("Description-Content-Type: text/markdown\n\n");
    text.push_str(DESCRIPTION);
    text
}

/// Each file with its hash and its length, as installers compare them.
fn record(wheel: &Layout, own: &str) -> String {
    let mut text = String::new();
    for (path, entry) in &wheel.0 {
        let Entry::File { bytes, .. } = entry else { continue };
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        writeln!(text, "{path},sha256={hash},{}", bytes.len()).expect("a string takes it");
    }
    text + own + ",,\n"
}

/// Packs it; returns the wheel's path.
pub(super) fn pack(parts: &Parts, output: &Path) -> Result<PathBuf> {
    let bytes = archive(&files(parts)?)?;
    ensure!(bytes.len() <= BYTES_MAX, "the wheel has {} bytes, not {BYTES_MAX}", bytes.len());
    let path = output.join(format!("openmps-{}-{}.whl", parts.release.version, tag(parts)));
    std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The ZIP file, with the metadata at its end, as the format recommends. Its times are the format's first.
fn archive(wheel: &Layout) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let is_about = |path: &str| path.contains(".dist-info/");
    let mut files: Vec<_> = wheel.0.iter().collect();
    files.sort_by_key(|(path, _)| (is_about(path), path.ends_with("/RECORD")));
    for (path, entry) in files {
        let Entry::File { bytes, .. } = entry else { continue };
        let options = SimpleFileOptions::DEFAULT
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .unix_permissions(0o100_000 | entry.mode());
        archive.start_file(path.as_str(), options)?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_packs_are_the_same_bytes() {
        let layout = crate::package::layout::tests::small();
        assert_eq!(archive(&layout).expect("a wheel"), archive(&layout).expect("a wheel"));
    }

    #[test]
    fn the_record_has_hashes_without_padding() {
        let mut layout = Layout::default();
        layout.put("a", Entry::text("library"));
        let text = record(&layout, "RECORD");
        let hash = "txjxNU9yR2Ii7Kzpi2j6RBf81W3a3a3b0ZSDHPLqmc8";
        assert!(text.ends_with("\nRECORD,,\n"), "{text}");
        assert!(text.starts_with("a,sha256=") && text.contains(",7\n"), "{text}");
        assert_eq!(text.len(), "a,sha256=,7\nRECORD,,\n".len() + hash.len());
        assert!(!text.contains("=,"), "padding: {text}");
    }

    #[test]
    fn a_starter_finds_openmps_from_its_own_place() {
        let scratch = std::env::temp_dir().join(format!("openmps-starter-{}", std::process::id()));
        let (bin, deep) = (scratch.join("bin"), scratch.join("lib/openmps/bin"));
        for directory in [&bin, &deep] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        let place = |path: &Path, entry: Entry| {
            use std::os::unix::fs::PermissionsExt;
            let Entry::File { bytes, .. } = entry else { unreachable!("a script") };
            std::fs::write(path, bytes).expect("a file");
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("a mode");
        };
        place(&bin.join("openmps"), Entry::script("#!/bin/sh\necho \"$@\"\n"));
        place(&deep.join("name"), starter("name", "../../../bin"));
        // Through a link, as a user may have one in another directory.
        std::os::unix::fs::symlink(deep.join("name"), scratch.join("link")).expect("a link");
        let said = std::process::Command::new(scratch.join("link")).args(["a b", "c"]).output();
        assert_eq!(said.expect("it starts").stdout, b"--as name a b c\n");
        std::fs::remove_dir_all(&scratch).expect("to remove it");
    }
}
