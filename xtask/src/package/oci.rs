//! OCI image: a layer with glibc, a layer with openmps, in an archive that podman, containerd and skopeo load.
//!
//! It is written here, without an engine of containers, so that two packs have the same bytes. There is no shell in it.

use super::layout::{Entry, Layout, hex};
use super::{Parts, Release, system, tar};
use crate::dist::run;
use anyhow::{Context, Result, bail, ensure};
use oci_spec::image::{
    Arch, Config, ConfigBuilder, Descriptor, DescriptorBuilder, Digest, HistoryBuilder,
    ImageConfiguration, ImageConfigurationBuilder, ImageIndexBuilder, ImageManifestBuilder,
    MediaType, Os, RootFsBuilder, SCHEMA_VERSION,
};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// Name of the image; the tag is the version.
const NAME: &str = "localhost/openmps";
/// Name by which containerd imports the image.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// Name by which podman and skopeo do.
const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";
/// Packages of Debian whose libraries are the base, on the building machine's release.
const BASE_PACKAGES: &[&str] = &["libc6", "netbase"];
/// The pipe directory in the image: one that a volume replaces.
const PIPE: &str = "/run/nvidia-mps";
/// Directory of the daemon's logs.
const LOGS: &str = "/var/log/nvidia-mps";

/// Files of the layer with openmps: those of its three packages, without units.
pub(super) fn files(parts: &Parts) -> Layout {
    let mut all = Layout::default();
    for package in system::packages(parts) {
        all.0.extend(package.layout.0);
    }
    all.split_off(|path| path.contains("/systemd/") || path.contains("/man/"));
    all.split_off(|path| ["bash-completion", "fish", "zsh"].iter().any(|name| path.contains(name)));
    all
}

/// Packs it; returns the archive's path. The base is a root file system, or glibc of this system's release.
pub(super) fn pack(parts: &Parts, base: Option<&Path>, output: &Path) -> Result<PathBuf> {
    let base = match base {
        Some(directory) => Layout::read(directory)?,
        None => base_of_debian()?,
    };
    let layers = [("glibc and its documents", base), ("openmps", files(parts))];
    let image = image(&layers, &parts.release)?;
    let path = output.join(format!("openmps-{}-oci-amd64.tar", parts.release.version));
    let archive = tar::uncompressed(&image, &parts.release)?;
    std::fs::write(&path, archive).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A shared object below the loader's directory, or what says whose it is.
fn is_of_base(path: &str) -> bool {
    let is_library = path.contains(".so") && !path.contains("/gconv/") && !path.contains("/audit/");
    is_library || path.ends_with("/copyright") || path.starts_with("etc/")
}

/// The system's glibc out of Debian's package, which `apt-get download` verifies, and a user table.
fn base_of_debian() -> Result<Layout> {
    let folder = crate::root().join(".third-party/oci");
    let mut layout = Layout::default();
    for package in BASE_PACKAGES {
        let to = folder.join(package);
        if !to.join("complete").is_file() {
            let _ = std::fs::remove_dir_all(&to);
            std::fs::create_dir_all(&to)?;
            run(Command::new("apt-get").current_dir(&to).args(["download", "-q", package]))
                .context(
                    "fetching glibc by apt-get; --base DIR takes a root file system instead",
                )?;
            let archive = std::fs::read_dir(&to)?.flatten().map(|entry| entry.path());
            let archive = archive.into_iter().find(|path| path.extension() == Some("deb".as_ref()));
            let archive = archive.with_context(|| format!("apt-get left no {package}"))?;
            run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(to.join("root")))?;
            std::fs::write(to.join("complete"), "")?;
        }
        layout.0.extend(Layout::read(&to.join("root"))?.0);
    }
    layout.split_off(|path| !is_of_base(path));
    ensure!(layout.0.keys().any(|path| path.ends_with("/libc.so.6")), "the package has no libc");
    layout.put("etc/passwd", Entry::text("root:x:0:0:root:/:/sbin/nologin\n"));
    layout.put("etc/group", Entry::text("root:x:0:\n"));
    layout.put("etc/nsswitch.conf", Entry::text("passwd: files\ngroup: files\nhosts: files dns\n"));
    Ok(layout)
}

/// `lib` and `lib64` are where `usr/lib` is in the images of today; both spellings of a path are one file.
fn without_merged_directories(layout: Layout) -> Result<Layout> {
    let mut merged = Layout::default();
    for (path, entry) in layout.0 {
        let below = ["lib/", "lib64/", "bin/", "sbin/"].iter().any(|top| path.starts_with(top));
        let path = if below { format!("usr/{path}") } else { path };
        if let Some(other) = merged.0.insert(path.clone(), entry.clone()) {
            ensure!(other == entry, "two files are {path}");
        }
    }
    Ok(merged)
}

/// A layer's links from the root to the directories of `usr`.
fn merged_directories() -> [(String, Entry); 2] {
    ["lib", "lib64"].map(|name| (name.to_owned(), Entry::Link(format!("usr/{name}"))))
}

/// The image's files: an index, a manifest, a configuration, and each layer under its hash.
fn image(layers: &[(&str, Layout)], release: &Release) -> Result<Layout> {
    let mut files = Layout::default();
    let mut blob = |bytes: Vec<u8>, kind: MediaType| -> Result<Descriptor> {
        let hash = hex(&Sha256::digest(&bytes));
        let size = bytes.len() as u64;
        files.put(format!("blobs/sha256/{hash}"), Entry::text(bytes));
        let digest = Digest::from_str(&format!("sha256:{hash}"))?;
        Ok(DescriptorBuilder::default().media_type(kind).size(size).digest(digest).build()?)
    };
    let (mut descriptors, mut hashes, mut history) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (what, layout)) in layers.iter().enumerate() {
        let mut layout = without_merged_directories(layout.clone())?;
        if index == 0 {
            layout.0.extend(merged_directories());
        }
        let plain = tar::uncompressed(&layout, release)?;
        hashes.push(format!("sha256:{}", hex(&Sha256::digest(&plain))));
        descriptors.push(blob(tar::compressed(&plain)?, MediaType::ImageLayerGzip)?);
        let step = HistoryBuilder::default().created(time(release)?).created_by(*what).build()?;
        history.push(step);
    }
    let configuration = configuration(release, hashes, history)?;
    let configuration = blob(serde_json::to_vec(&configuration)?, MediaType::ImageConfig)?;
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(configuration)
        .layers(descriptors)
        .build()?;
    let mut manifest = blob(to_sorted_json(&manifest)?, MediaType::ImageManifest)?;
    let reference = format!("{NAME}:{}", release.version);
    let names = [CONTAINERD_NAME, REFERENCE_NAME].map(|key| (key.to_owned(), reference.clone()));
    manifest.set_annotations(Some(HashMap::from(names)));
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests(vec![manifest])
        .build()?;
    files.put("index.json", Entry::text(to_sorted_json(&index)?));
    files.put("oci-layout", Entry::text(r#"{"imageLayoutVersion":"1.0.0"}"#));
    Ok(files)
}

/// JSON with sorted keys: the library keeps labels and annotations in maps of no order.
fn to_sorted_json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(value)?)?)
}

/// The release's time as RFC 3339.
fn time(release: &Release) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{}", release.epoch));
    let said = date.output().context("starting date")?;
    ensure!(said.status.success(), "date: {}", said.status);
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

/// What a container of the image runs: the daemon of all users in the foreground, as NVIDIA's units have it.
fn run_configuration(release: &Release) -> Result<Config> {
    let variables = [
        "PATH=/usr/bin:/usr/lib/openmps/bin".to_owned(),
        format!("CUDA_MPS_PIPE_DIRECTORY={PIPE}"),
        format!("CUDA_MPS_LOG_DIRECTORY={LOGS}"),
        // NVIDIA's container toolkit puts the driver's libraries into containers that have these.
        "NVIDIA_VISIBLE_DEVICES=all".to_owned(),
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility".to_owned(),
    ];
    let title = "org.opencontainers.image";
    let labels = HashMap::from([
        (format!("{title}.title"), "openmps".to_owned()),
        (format!("{title}.version"), release.version.clone()),
        (format!("{title}.licenses"), "MIT OR Apache-2.0".to_owned()),
        (format!("{title}.description"), "An open Multi-Process Service for CUDA GPUs".to_owned()),
    ]);
    let config = ConfigBuilder::default()
        .env(variables)
        .entrypoint(vec!["/usr/bin/nvidia-cuda-mps-control".to_owned()])
        .cmd(vec!["-f".to_owned(), "-m".to_owned()])
        .volumes(vec![PIPE.to_owned(), LOGS.to_owned()])
        .stop_signal("SIGTERM")
        .labels(labels);
    Ok(config.build()?)
}

fn configuration(
    release: &Release,
    hashes: Vec<String>,
    history: Vec<oci_spec::image::History>,
) -> Result<serde_json::Value> {
    let layers = RootFsBuilder::default().typ("layers").diff_ids(hashes).build()?;
    let configuration: ImageConfiguration = ImageConfigurationBuilder::default()
        .created(time(release)?)
        .architecture(Arch::Amd64)
        .os(Os::Linux)
        .config(run_configuration(release)?)
        .rootfs(layers)
        .history(history)
        .build()?;
    let value = serde_json::to_value(&configuration)?;
    if value["config"]["Entrypoint"].is_null() {
        bail!("the configuration has no program to start");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::layout::tests::small;
    use flate2::read::GzDecoder;
    use oci_spec::image::{ImageIndex, ImageManifest};
    use std::io::Read;

    fn made(epoch: u64) -> Layout {
        let mut base = Layout::default();
        base.put("lib/x86_64-linux-gnu/libc.so.6", Entry::script("glibc"));
        let release = Release { version: "1.2.3".into(), epoch };
        image(&[("base", base), ("openmps", small())], &release).expect("an image")
    }

    fn bytes<'a>(image: &'a Layout, path: &str) -> &'a [u8] {
        match image.0.get(path) {
            Some(Entry::File { bytes, .. }) => bytes,
            other => panic!("{path} is {other:?}"),
        }
    }

    fn blob<'a>(image: &'a Layout, descriptor: &Descriptor) -> &'a [u8] {
        let digest = descriptor.digest().digest();
        let found = bytes(image, &format!("blobs/sha256/{digest}"));
        assert_eq!(descriptor.size(), found.len() as u64);
        assert_eq!(digest, hex(&Sha256::digest(found)));
        found
    }

    #[test]
    fn each_part_is_found_by_its_hash() {
        let image = made(1_000);
        let index = ImageIndex::from_reader(bytes(&image, "index.json")).expect("an index");
        let [manifest] = index.manifests().as_slice() else { panic!("one manifest") };
        let names = manifest.annotations().as_ref().expect("names");
        assert_eq!(names[CONTAINERD_NAME], "localhost/openmps:1.2.3");
        let manifest = ImageManifest::from_reader(blob(&image, manifest)).expect("a manifest");
        let configuration = blob(&image, manifest.config());
        let configuration =
            ImageConfiguration::from_reader(configuration).expect("a configuration");
        assert_eq!(configuration.created().as_deref(), Some("1970-01-01T00:16:40Z"));
        assert_eq!(configuration.rootfs().diff_ids().len(), manifest.layers().len());
        for (layer, hash) in manifest.layers().iter().zip(configuration.rootfs().diff_ids()) {
            let mut plain = Vec::new();
            GzDecoder::new(blob(&image, layer)).read_to_end(&mut plain).expect("a layer");
            assert_eq!(*hash, format!("sha256:{}", hex(&Sha256::digest(&plain))));
        }
    }

    #[test]
    fn two_packs_are_the_same_bytes() {
        assert_eq!(made(1_000), made(1_000));
        assert_ne!(made(1_000), made(1_001));
    }

    #[test]
    fn the_loader_finds_glibc_in_usr() {
        let mut split = Layout::default();
        split.put("lib64/ld.so", Entry::text("the loader"));
        split.put("usr/lib64/ld.so", Entry::text("the loader"));
        let merged = without_merged_directories(split.clone()).expect("they are the same");
        assert_eq!(merged.0.into_keys().collect::<Vec<_>>(), ["usr/lib64/ld.so"]);
        split.put("usr/lib64/ld.so", Entry::text("another loader"));
        let error = without_merged_directories(split).expect_err("they differ").to_string();
        assert_eq!(error, "two files are usr/lib64/ld.so");
    }
}
