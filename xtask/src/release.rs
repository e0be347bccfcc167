//! Releases: the notes of a version, taken from the changelog, and the places that name the version.

use anyhow::{Context, Result};

/// The version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The changelog's section of a version, without its heading.
///
/// # Errors
/// If the changelog has no such section, or an empty one.
pub(crate) fn notes(changelog: &str, version: &str) -> Result<String> {
    let heading = format!("## [{version}]");
    let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&heading));
    lines.next().with_context(|| format!("CHANGELOG.md has no section of {version}"))?;
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let text = section.join("\n").trim().to_owned();
    if text.is_empty() {
        anyhow::bail!("CHANGELOG.md says nothing of {version}");
    }
    Ok(text)
}

/// Prints what a tag's page says: what changed, and how to get it.
///
/// # Errors
/// As of [`notes`]; if the changelog cannot be read.
pub(crate) fn print_notes(version: Option<&str>) -> Result<()> {
    let path = crate::root().join("CHANGELOG.md");
    let changelog =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let version = version.unwrap_or(VERSION);
    println!("# openmps {version}\n\n{}\n", notes(&changelog, version)?);
    println!(
        "## Install\n\n`docs/install.md` says what each package is for. `openmps upgrade --check` says what \
         happens to programs that run at an earlier version.\n\n\
         Licence: MIT OR Apache-2.0."
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{read, tracked};
    use std::path::PathBuf;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-30\n\n### Added\n\n\
                             * One.\n\n## [0.1.0]\n\nFirst.\n";

    #[test]
    fn notes_are_the_section_of_their_version() {
        assert_eq!(notes(CHANGELOG, "0.2.0").unwrap(), "### Added\n\n* One.");
        assert_eq!(notes(CHANGELOG, "0.1.0").unwrap(), "First.");
        assert!(notes(CHANGELOG, "0.3.0").is_err());
        assert!(notes(CHANGELOG, "Unreleased").is_err(), "it is empty");
    }

    /// The versions that follow the product's name in a text: of packages, images and archives.
    fn versions_named(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for (at, name) in text.match_indices("openmps") {
            let rest = &text[at + name.len()..];
            let Some(version) = rest.strip_prefix(['-', ':', '_']) else { continue };
            let version = version.strip_prefix('v').unwrap_or(version);
            let end = version.find(|c: char| c != '.' && !c.is_ascii_digit());
            let version = version[..end.unwrap_or(version.len())].trim_end_matches('.');
            if version.split('.').count() == 3 {
                found.push(version);
            }
        }
        found
    }

    #[test]
    fn versions_behind_the_name_are_found() {
        let text = "openmps-0.1.0-x86_64 localhost/openmps:0.2.0 openmps-1 openmps_0.3.1.";
        assert_eq!(versions_named(text), ["0.1.0", "0.2.0", "0.3.1"]);
    }

    #[test]
    fn the_newest_version_of_the_changelog_is_the_workspaces() {
        let changelog = read(&crate::root().join("CHANGELOG.md"));
        let newest = changelog.lines().filter_map(|line| line.strip_prefix("## [")).nth(1);
        let newest = newest.and_then(|line| line.split(']').next());
        assert_eq!(newest, Some(VERSION));
        notes(&changelog, VERSION).expect("notes of this version");
    }

    #[test]
    fn documents_charts_and_scripts_name_this_version() {
        let mut complaints = Vec::new();
        for pattern in ["*.md", "*.yaml", "*.py", "*.sh"] {
            // The charts' golden texts have images of values that a test gives.
            let other = |path: &&PathBuf| {
                path.ends_with("CHANGELOG.md") || path.to_string_lossy().contains("/helm/golden/")
            };
            for path in tracked(pattern).iter().filter(|path| !other(path)) {
                let text = read(path);
                for version in versions_named(&text).iter().filter(|version| **version != VERSION) {
                    complaints.push(format!("{} names {version}", path.display()));
                }
            }
        }
        let chart = read(&crate::root().join("deploy/helm/openmps/Chart.yaml"));
        for line in [format!("version: {VERSION}"), format!("appVersion: \"{VERSION}\"")] {
            if !chart.lines().any(|found| found == line) {
                complaints.push(format!("Chart.yaml has no line {line:?}"));
            }
        }
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}
