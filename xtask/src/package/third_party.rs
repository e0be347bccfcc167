//! Third parties' code in the packages: the crates that are linked in, their licences, and a bill of materials.

use super::build;
use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Beginnings of names of files with licences.
const LICENCE_FILES: &[&str] =
    &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate of another that is linked in.
pub(super) struct Component {
    name: String,
    version: String,
    /// An SPDX expression.
    licence: String,
    /// Where its sources are, if it says so.
    repository: Option<String>,
    authors: Vec<String>,
    /// The texts that it carries.
    texts: Vec<String>,
    /// Other components that it is built on, as `pkg:cargo/NAME@VERSION`.
    built_on: Vec<String>,
}

impl Component {
    /// Its package URL.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// The crates that are linked into shipped ones, sorted, without those of this repository.
pub(super) fn components(root: &Path, shipped: &[&str]) -> Result<Vec<Component>> {
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .other_options(["--locked", "--filter-platform", build::TARGET].map(str::to_owned))
        .exec()
        .context("asking cargo for the packages")?;
    let linked = linked(&metadata, shipped)?;
    let mut components = Vec::new();
    for id in &linked {
        let package = &metadata[id];
        if package.source.is_some() {
            components.push(component(&metadata, package, &linked)?);
        }
    }
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(components)
}

/// All packages that are linked in, directly or through others: neither those of builds and tests nor macros.
fn linked(metadata: &Metadata, shipped: &[&str]) -> Result<BTreeSet<PackageId>> {
    let resolve = metadata.resolve.as_ref().context("cargo resolved nothing")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut linked = BTreeSet::new();
    let mut left: Vec<&PackageId> = metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| shipped.iter().any(|name| package.name == *name))
        .map(|package| &package.id)
        .collect();
    ensure!(left.len() == shipped.len(), "a shipped crate is not in the workspace");
    while let Some(id) = left.pop() {
        let is_macro =
            |target: &cargo_metadata::Target| target.kind.contains(&TargetKind::ProcMacro);
        if metadata[id].targets.iter().any(is_macro) || !linked.insert(id.clone()) {
            continue;
        }
        let normal = |kinds: &[cargo_metadata::DepKindInfo]| {
            kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        };
        let of = nodes[id].deps.iter().filter(|of| normal(&of.dep_kinds));
        left.extend(of.map(|of| &of.pkg));
    }
    Ok(linked)
}

fn component(
    metadata: &Metadata,
    package: &Package,
    linked: &BTreeSet<PackageId>,
) -> Result<Component> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let resolve = metadata.resolve.as_ref().context("cargo resolved nothing")?;
    let node = resolve.nodes.iter().find(|node| node.id == package.id);
    let built_on = node.into_iter().flat_map(|node| &node.dependencies);
    let built_on = built_on.filter(|id| linked.contains(id)).map(|id| &metadata[id]);
    let mut built_on: Vec<String> =
        built_on.map(|on| format!("pkg:cargo/{}@{}", on.name, on.version)).collect();
    built_on.sort();
    Ok(Component {
        name: package.name.to_string(),
        version: package.version.to_string(),
        licence: package
            .license
            .clone()
            .with_context(|| format!("{} names no licence", package.name))?
            .replace('/', " OR "),
        repository: package.repository.clone(),
        authors: package.authors.clone(),
        texts: licence_texts(folder.as_std_path())?,
        built_on,
    })
}

/// The texts of licences in a crate's folder, by the order of their names.
fn licence_texts(folder: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && LICENCE_FILES.iter().any(|begin| name.starts_with(begin)) {
            let text = std::fs::read(&path)?;
            texts.insert(name, String::from_utf8_lossy(&text).replace("\r\n", "\n"));
        }
    }
    Ok(texts.into_values().collect())
}

/// Documents by their names: texts of licences, and a bill of materials in CycloneDX's form.
pub(super) fn documents(components: &[Component], version: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let bill = serde_json::to_vec_pretty(&bill_of_materials(components, version))?;
    let mut documents = vec![
        ("THIRD-PARTY-LICENSES.txt".to_owned(), licences(components).into_bytes()),
        (BILL.to_owned(), bill),
    ];
    let said = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let sysroot = String::from_utf8(said.stdout)?;
    let library = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    let text = std::fs::read(&library).with_context(|| {
        format!("reading the standard library's licences {}", library.display())
    })?;
    documents.push(("RUST-STANDARD-LIBRARY-LICENSES.html".to_owned(), text));
    Ok(documents)
}

/// Name of the bill of materials.
pub(super) const BILL: &str = "openmps.cdx.json";

/// Each text once, with the crates that have it.
fn licences(components: &[Component]) -> String {
    let mut text = String::from(
        "The programs and libraries of openmps contain code of the crates below, each under its licence,\n\
         the Rust standard library (RUST-STANDARD-LIBRARY-LICENSES.html), and of LLVM the run-time library\n\
         and libunwind (Apache-2.0 WITH LLVM-exception).\n\n",
    );
    let mut by_text: BTreeMap<&str, Vec<&Component>> = BTreeMap::new();
    for component in components {
        let place = component.repository.as_deref().unwrap_or("crates.io");
        let Component { name, version, licence, .. } = component;
        writeln!(text, "{name} {version}: {licence} ({place})").expect("a string takes it");
        if component.texts.is_empty() {
            let authors = component.authors.join(", ");
            writeln!(text, "    It carries no text of its licence. Authors: {authors}")
                .expect("a string takes it");
        }
        for own in &component.texts {
            by_text.entry(own).or_default().push(component);
        }
    }
    for (licence, of) in by_text {
        let names: Vec<String> = of
            .iter()
            .map(|component| format!("{} {}", component.name, component.version))
            .collect();
        let rule = "-".repeat(80);
        write!(text, "\n{rule}\n{}:\n\n{}\n", names.join(", "), licence.trim_end())
            .expect("a string takes it");
    }
    text
}

/// CycloneDX 1.6. It has neither a time nor a serial number: they would differ from build to build.
fn bill_of_materials(components: &[Component], version: &str) -> Value {
    let own = format!("pkg:generic/openmps@{version}");
    let listed: Vec<Value> = components
        .iter()
        .map(|component| {
            json!({
                "type": "library",
                "bom-ref": component.url(),
                "name": component.name,
                "version": component.version,
                "purl": component.url(),
                "scope": "required",
                "licenses": [{"expression": component.licence}],
            })
        })
        .collect();
    let all: Vec<String> = components.iter().map(Component::url).collect();
    let mut dependencies = vec![json!({"ref": own, "dependsOn": all})];
    dependencies
        .extend(components.iter().map(|of| json!({"ref": of.url(), "dependsOn": of.built_on})));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": own,
            "name": "openmps",
            "version": version,
            "purl": own,
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }},
        "components": listed,
        "dependencies": dependencies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_in_is_listed_with_its_licences() {
        let components =
            components(&crate::root(), &build::shipped(false)).expect("cargo's packages");
        let named = |name: &str| components.iter().find(|component| component.name == name);
        assert!(!named("libc").expect("libc is linked in").texts.is_empty());
        // Of tests and of macros alone.
        assert!(named("proptest").is_none() && named("syn").is_none());
        assert!(named("client").is_none(), "the repository's own");

        let bill = bill_of_materials(&components, "1.2.3");
        let listed = bill["components"].as_array().expect("a list");
        let names: BTreeSet<&str> = listed.iter().filter_map(|of| of["bom-ref"].as_str()).collect();
        assert_eq!(names.len(), components.len(), "each once");
        for of in bill["dependencies"].as_array().expect("a list") {
            for on in of["dependsOn"].as_array().expect("a list") {
                assert!(names.contains(on.as_str().expect("a name")), "{on} of {}", of["ref"]);
            }
        }
    }
}
