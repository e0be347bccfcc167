//! System packages: how an installation below /usr is split, for deb and rpm alike.
//!
//! | package | what |
//! | --- | --- |
//! | openmps | the program, its libraries, units, documents, and the samples that its commands start |
//! | openmps-samples | the other samples |
//! | openmps-nvidia-mps | NVIDIA's two names in /usr/bin |
//!
//! Nothing is in a default directory of the loader: programs get the libraries by `openmps run`.

use super::layout::{Entry, Layout};
use super::{Parts, wheel};
use crate::dist::PERSONALITIES;

/// Where links with NVIDIA's names are, which the units start.
pub(super) const LINKS: &str = "usr/lib/openmps/bin";

/// Who answers for them: no address that exists, until there is one.
pub(super) const MAINTAINER: &str = "The openmps project <maintainers@openmps.invalid>";
/// Longest line of a description, in characters.
const LINE_MAX: usize = 78;

/// A package of a distribution.
pub(super) struct SystemPackage {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// Paragraphs.
    pub(super) description: &'static str,
    /// It is of no use without openmps of the same version.
    pub(super) needs_openmps: bool,
    /// Paths from the root, without the slash.
    pub(super) layout: Layout,
}

/// Splits an installation.
pub(super) fn packages(parts: &Parts) -> [SystemPackage; 3] {
    let mut base = parts.with_units(&format!("/{LINKS}"));
    base = base.renamed(|path| Some(format!("usr/{path}")));
    let is_extra = |path: &str| match path.strip_prefix("usr/lib/openmps/samples/") {
        Some(name) => !wheel::SAMPLES.contains(&name),
        None => false,
    };
    let samples = base.split_off(is_extra);
    let mut names = Layout::default();
    for name in PERSONALITIES {
        base.split_off(|path| path.strip_prefix("usr/bin/") == Some(name));
        base.put(format!("{LINKS}/{name}"), Entry::Link("../../../bin/openmps".into()));
        let link = Entry::Link(format!("../lib/openmps/bin/{name}"));
        names.put(format!("usr/bin/{name}"), link);
    }
    [
        SystemPackage {
            name: "openmps",
            summary: "share a CUDA GPU between unmodified programs",
            description: "Kernels of several CUDA programs run on one GPU at the same time: a daemon, servers that \
                          own a device's context, and a driver library that openmps run gives to programs.\n\
                          Without a GPU the programs run on a software GPU, which executes PTX.",
            needs_openmps: false,
            layout: base,
        },
        SystemPackage {
            name: "openmps-samples",
            summary: "sample CUDA programs of openmps",
            description: "Programs that compute on a GPU by the CUDA driver API and verify their results.",
            needs_openmps: true,
            layout: samples,
        },
        SystemPackage {
            name: "openmps-nvidia-mps",
            summary: "openmps under the names of NVIDIA's MPS",
            description: "Scripts that start nvidia-cuda-mps-control start the daemon of openmps.",
            needs_openmps: true,
            layout: names,
        },
    ]
}

/// A paragraph of a description in lines.
pub(super) fn wrapped(paragraph: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= LINE_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_wrapped() {
        assert_eq!(wrapped(&"word  ".repeat(20)).len(), 2);
        assert_eq!(wrapped(""), Vec::<String>::new());
    }
}
