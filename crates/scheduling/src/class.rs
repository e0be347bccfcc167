//! Classes: how much a client's work is in a hurry.

use std::fmt;
use std::str::FromStr;

/// A client's class, the most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Latency-critical: short requests whose answers are waited for.
    Latency,
    /// Neither of the two.
    #[default]
    Normal,
    /// Best-effort: long work of which only the throughput counts.
    Batch,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Normal, Self::Batch];

    /// The word by which users name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Normal => "normal",
            Self::Batch => "batch",
        }
    }

    /// The priority that a stream gets at a device with priorities from `least` to `greatest` (the
    /// smaller number), of which the client asked for `wanted`. Streams of a more urgent class are
    /// above all of a less urgent one where the device has three levels or more; within a class the
    /// order of what was asked for stays as far as there are levels.
    pub fn stream_priority(self, wanted: i32, least: i32, greatest: i32) -> i32 {
        let levels = least.saturating_sub(greatest).saturating_add(1);
        if levels < 3 {
            return match self {
                Self::Latency => greatest,
                Self::Normal => wanted.clamp(greatest.min(least), least),
                Self::Batch => least,
            };
        }
        // The upper third is for latency, the least level for batch, all between is normal's.
        let upper = levels / 3;
        let (first, last) = match self {
            Self::Latency => (greatest + upper - 1, greatest),
            Self::Normal => (least - 1, greatest + upper),
            Self::Batch => (least, least),
        };
        let above = least.saturating_sub(wanted.clamp(greatest, least));
        (first - above).clamp(last, first)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no class: say latency, normal or batch")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        let found = Self::ALL.into_iter().find(|class| class.word() == text);
        found.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_others_are_refused() {
        for class in Class::ALL {
            assert_eq!(class.word().parse(), Ok(class));
        }
        let error = "urgent".parse::<Class>().unwrap_err().to_string();
        assert!(error.contains("urgent") && error.contains("latency, normal or batch"), "{error}");
    }

    #[test]
    fn streams_of_an_urgent_class_are_above_all_of_others() {
        for (least, greatest) in [(0, -5), (0, -2), (0, -7)] {
            for wanted in greatest..=least {
                let of = |class: Class, wanted| class.stream_priority(wanted, least, greatest);
                let batch = of(Class::Batch, wanted);
                let normal = of(Class::Normal, wanted);
                let latency = of(Class::Latency, wanted);
                assert_eq!(batch, least);
                assert!(latency < normal && normal < batch, "{latency} {normal} {batch}");
                assert!(latency >= greatest);
                if wanted > greatest {
                    assert!(of(Class::Normal, wanted - 1) <= normal);
                }
            }
        }
        // A device without priorities, and one with two.
        assert_eq!(Class::Latency.stream_priority(-3, 0, 0), 0);
        assert_eq!(Class::Normal.stream_priority(0, 0, -1), 0);
        assert_eq!(Class::Normal.stream_priority(-1, 0, -1), -1);
    }
}
