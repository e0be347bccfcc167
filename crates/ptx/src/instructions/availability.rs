//! Since when something exists: the least PTX ISA version and the targets, in the table's notation.
//!
//! `@7.8/sm_90` reads: from PTX ISA 7.8 on, for `.target sm_90` or higher. `sm_90a` is that
//! architecture alone, `sm_100f` its family from it on; several with `|` are alternatives. Either
//! half may be missing. `@3.0<6.4/sm_70`: no more from 6.4 on for sm_70 or higher. What a target itself needs is not repeated: `sm_90` is of ISA 7.8 anyway.

use crate::ast::{Target, Version};
use std::fmt;

/// Since when something exists.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Since {
    /// The least version; 0.0 for any.
    pub(crate) version: Version,
    /// One of these; none for any.
    pub(crate) targets: Vec<Architecture>,
    /// Gone from this version on, for targets from this on.
    pub(crate) until: Option<(Version, u32)>,
}

/// A target that something needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Architecture {
    sm: u32,
    suffix: Option<char>,
}

/// What a module lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Its `.version` is older.
    Version(Version),
    /// Its `.target` is none of these.
    Target(Vec<Architecture>),
    /// It is gone from this version on, for targets from this on.
    Gone(Version, u32),
}

impl Since {
    /// Reads what follows `@`.
    pub(super) fn read(text: &str) -> Option<Since> {
        let mut since = Since::default();
        let (text, until) = text.split_once('<').unwrap_or((text, ""));
        if !until.is_empty() {
            let Since { version, targets, .. } = Since::read(until)?;
            since.until = Some((version, targets.first().map_or(0, |target| target.sm)));
        }
        for half in text.split('/').filter(|half| !half.is_empty()) {
            if half.starts_with("sm_") {
                since.targets = half.split('|').map(Architecture::read).collect::<Option<_>>()?;
            } else {
                let (major, minor) = half.split_once('.')?;
                since.version = Version { major: major.parse().ok()?, minor: minor.parse().ok()? };
            }
        }
        Some(since)
    }

    /// What a module of this version and target lacks.
    pub(crate) fn lack(&self, version: Version, target: &Target) -> Option<Lack> {
        if let Some((last, sm)) = self.until
            && version >= last
            && target.sm >= sm
        {
            return Some(Lack::Gone(last, sm));
        }
        // A target that has it is the harder thing to come by: named first.
        if !self.targets.is_empty() && !self.targets.iter().any(|own| own.is_in(target)) {
            return Some(Lack::Target(self.targets.clone()));
        }
        (version < self.version).then_some(Lack::Version(self.version))
    }
}

impl Architecture {
    fn read(text: &str) -> Option<Architecture> {
        let number = text.strip_prefix("sm_")?;
        let digits = number.trim_end_matches(['a', 'f']);
        Some(Architecture {
            sm: digits.parse().ok()?,
            suffix: number[digits.len()..].chars().next(),
        })
    }

    /// Code for `target` may use what is of this architecture.
    fn is_in(self, target: &Target) -> bool {
        match self.suffix {
            None => target.sm >= self.sm,
            Some('f') => {
                target.suffix.is_some()
                    && target.sm >= self.sm
                    && target.family() == crate::ast::family(self.sm)
            }
            Some(_) => target.sm == self.sm && target.suffix == self.suffix,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.sm)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

/// As ptxas says it: `requires .target sm_90 or higher`.
impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Version(Version { major, minor }) => {
                write!(f, "requires PTX ISA .version {major}.{minor} or later")
            }
            Lack::Gone(Version { major, minor }, 0) => {
                write!(f, "is not supported starting from PTX ISA .version {major}.{minor}")
            }
            Lack::Gone(Version { major, minor }, sm) => write!(
                f,
                "is not supported on .target sm_{sm} or higher from PTX ISA .version {major}.{minor}"
            ),
            Lack::Target(targets) => {
                f.write_str("requires .target ")?;
                for (index, own) in targets.iter().enumerate() {
                    let separator = if index == 0 { "" } else { " or " };
                    let more = match own.suffix {
                        None => " or higher",
                        Some('f') => " or higher in the same family",
                        Some(_) => "",
                    };
                    write!(f, "{separator}{own}{more}")?;
                }
                Ok(())
            }
        }
    }
}
