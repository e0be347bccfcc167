//! The header: a version and a target that exist, and the version of the target.

use super::Checker;
use crate::ast::Version;

/// The newest version of the ISA that this crate knows. Later ones of the same major number are
/// read like it: what is new in them is unknown, which is said where it stands.
pub const VERSION_MAX: Version = Version { major: 9, minor: 5 };

/// Last minor version of each major one, from 1.
const MINORS_MAX: [u16; 9] = [5, 3, 2, 3, 1, 5, 8, 8, u16::MAX];

/// Targets, and the version that each came with.
const TARGETS: &[(&str, u16, u16)] = &[
    ("10", 1, 0),
    ("11", 1, 0),
    ("12", 1, 2),
    ("13", 1, 2),
    ("20", 2, 0),
    ("21", 2, 0),
    ("30", 3, 0),
    ("32", 4, 0),
    ("35", 3, 1),
    ("37", 4, 1),
    ("50", 4, 0),
    ("52", 4, 1),
    ("53", 4, 2),
    ("60", 5, 0),
    ("61", 5, 0),
    ("62", 5, 0),
    ("70", 5, 1),
    ("72", 6, 1),
    ("75", 6, 3),
    ("80", 7, 0),
    ("82", 6, 2),
    ("86", 7, 1),
    ("87", 7, 4),
    ("88", 9, 0),
    ("89", 7, 8),
    ("90", 7, 8),
    ("90a", 8, 0),
    ("100", 8, 6),
    ("100a", 8, 6),
    ("100f", 8, 8),
    ("101", 8, 6),
    ("101a", 8, 6),
    ("101f", 8, 8),
    ("103", 8, 8),
    ("103a", 8, 8),
    ("103f", 8, 8),
    ("107", 9, 4),
    ("107a", 9, 4),
    ("107f", 9, 4),
    ("110", 9, 0),
    ("110a", 9, 0),
    ("110f", 9, 0),
    ("120", 8, 7),
    ("120a", 8, 7),
    ("120f", 8, 8),
    ("121", 8, 8),
    ("121a", 8, 8),
    ("121f", 8, 8),
];

/// True if there is such a version, or may be: see [`VERSION_MAX`].
pub fn is_version(version: Version) -> bool {
    let last = usize::from(version.major).checked_sub(1).and_then(|major| MINORS_MAX.get(major));
    last.is_some_and(|&last| version.minor <= last)
}

/// True if there is such a target: `80` for `sm_80`, `90a`.
pub fn is_target(name: &str) -> bool {
    TARGETS.iter().any(|(known, ..)| *known == name)
}

impl Checker<'_> {
    /// `.version` and `.target`.
    pub(super) fn header(&mut self) {
        let Version { major, minor } = self.module.version;
        let span = self.module.version_span;
        if !is_version(self.module.version) {
            let Version { major: newest, minor: last } = VERSION_MAX;
            let message = format!(
                "Unsupported .version {major}.{minor}; current version is '{newest}.{last}'"
            );
            return self.error(span, message);
        }
        let span = self.module.target_span;
        let target = &self.module.target;
        if target.sm == 0 {
            return;
        }
        if target.sm >= 13 && target.options.iter().any(|word| word == "map_f64_to_f32") {
            let message = "Directive map_f64_to_f32 is not supported with SM 1.3 or higher";
            self.error(span, message.to_owned());
        }
        let name = format!("{}{}", target.sm, target.suffix.map(String::from).unwrap_or_default());
        match TARGETS.iter().find(|(known, ..)| *known == name) {
            None => self.error(span, format!("Unsupported .target 'sm_{name}'")),
            Some(&(_, since, minor_since)) => {
                if self.module.version < (Version { major: since, minor: minor_since }) {
                    let message = format!(
                        "PTX .version {major}.{minor} does not support .target sm_{name}, expected \
                         {since}.{minor_since} or later"
                    );
                    self.error(span, message);
                }
            }
        }
    }
}
