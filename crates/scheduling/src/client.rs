//! Settings of a client: its class and what policies want to know of it, as text and parsed.

use crate::class::{Class, UnknownClass};
use crate::units::{duration_ns, duration_text};
use std::fmt;

/// Weights that a client can have.
pub const WEIGHT_MAX: u32 = 1000;
/// Longest text of a client's settings, bytes.
pub const TEXT_BYTES_MAX: usize = 256;
/// Longest deadline, ns: an hour.
const DEADLINE_NS_MAX: u64 = 3_600_000_000_000;
/// Most device time of a second, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// What is set for a client. Text: `class=batch weight=3 deadline=5ms quota=200ms`, in any order; what
/// is missing has its default, or stays as it is when something is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Its class.
    pub class: Class,
    /// Its share beside others under policy `weighted`: 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Within which time of its arrival a request should be done, ns, under policy `deadline`.
    pub deadline_ns: Option<u64>,
    /// Device time that it may have in each second, ns, under policy `quota`.
    pub quota_ns: Option<u64>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self { class: Class::Normal, weight: 1, deadline_ns: None, quota_ns: None }
    }
}

/// Why a text is no setting of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientSettingError {
    /// It names no class.
    #[error("{0}")]
    Class(#[from] UnknownClass),
    /// There is no such setting.
    #[error("{0:?} is no setting of a client: there are class, weight, deadline and quota")]
    Unknown(String),
    /// The value is not one of those that are allowed.
    #[error("{name}={value:?}: {allowed}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: &'static str,
    },
    /// The text is too long.
    #[error("settings of a client are at most {TEXT_BYTES_MAX} bytes long")]
    TooLong,
}

impl ClientSettings {
    /// Changes what a text says. A word without `=` is a class. Nothing changes if it is wrong.
    ///
    /// # Errors
    /// What is wrong with the text, with what is allowed.
    pub fn change(&mut self, text: &str) -> Result<(), ClientSettingError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ClientSettingError::TooLong);
        }
        let mut changed = *self;
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or(("class", word));
            changed.change_one(name, value)?;
        }
        *self = changed;
        Ok(())
    }

    fn change_one(&mut self, name: &str, value: &str) -> Result<(), ClientSettingError> {
        let wrong =
            |name, allowed| ClientSettingError::Value { name, value: value.to_owned(), allowed };
        let optional = |name, allowed, most| match value {
            "none" => Ok(None),
            _ => match duration_ns(value) {
                Some(ns) if ns > 0 && ns <= most => Ok(Some(ns)),
                _ => Err(wrong(name, allowed)),
            },
        };
        match name {
            "class" => self.class = value.parse()?,
            "weight" => {
                let weight = value.parse().ok().filter(|w| (1..=WEIGHT_MAX).contains(w));
                self.weight =
                    weight.ok_or_else(|| wrong("weight", "a whole number from 1 to 1000"))?;
            }
            "deadline" => {
                let allowed = "a time such as 5ms, at most an hour, or none";
                self.deadline_ns = optional("deadline", allowed, DEADLINE_NS_MAX)?;
            }
            "quota" => {
                let allowed = "device time of each second such as 200ms, at most 1s, or none";
                self.quota_ns = optional("quota", allowed, SECOND_NS)?;
            }
            other => return Err(ClientSettingError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    /// The settings of a text, over the defaults.
    ///
    /// # Errors
    /// As [`ClientSettings::change`].
    pub fn parse(text: &str) -> Result<Self, ClientSettingError> {
        let mut settings = Self::default();
        settings.change(text)?;
        Ok(settings)
    }
}

impl fmt::Display for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class={}", self.class)?;
        if self.weight != 1 {
            write!(f, " weight={}", self.weight)?;
        }
        for (name, ns) in [("deadline", self.deadline_ns), ("quota", self.quota_ns)] {
            if let Some(ns) = ns {
                write!(f, " {name}={}", duration_text(ns))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for text in ["class=latency", "class=batch weight=3 deadline=5ms quota=200ms"] {
            assert_eq!(ClientSettings::parse(text).unwrap().to_string(), text);
        }
        let mut settings = ClientSettings::parse("weight=7,batch").unwrap();
        assert_eq!((settings.class, settings.weight), (Class::Batch, 7));
        settings.change("normal").unwrap();
        assert_eq!((settings.class, settings.weight), (Class::Normal, 7));
        settings.change("deadline=2ms").unwrap();
        settings.change("deadline=none").unwrap();
        assert_eq!(settings.deadline_ns, None);
    }

    #[test]
    fn wrong_settings_are_refused_with_what_is_allowed_and_change_nothing() {
        for (text, part) in [
            ("urgent", "latency, normal or batch"),
            ("class=", "latency, normal or batch"),
            ("weight=0", "1 to 1000"),
            ("weight=x", "1 to 1000"),
            ("deadline=5", "5ms"),
            ("quota=2s", "at most 1s"),
            ("speed=3", "class, weight, deadline and quota"),
        ] {
            let mut settings = ClientSettings::parse("batch").unwrap();
            let error = settings.change(&format!("weight=9 {text}")).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert_eq!(settings, ClientSettings::parse("batch").unwrap());
        }
        assert_eq!(ClientSettings::parse(&"x".repeat(300)), Err(ClientSettingError::TooLong));
    }
}
