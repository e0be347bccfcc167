//! Settings of a server's scheduling: which mechanisms are on, with which bounds, and the policy.

use crate::space::Bounds;
use crate::units::{bytes, bytes_text, duration_ns, duration_text};
use std::fmt;

/// Longest text of settings, bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// Most that latency-critical work may be slowed, times.
const SLOWDOWN_MAX: f64 = 100.0;
/// Most that batch work keeps in any case, % of the SMs.
const LEAST_PERCENT_MAX: u32 = 90;
/// Most SMs that a floor can have.
const FLOOR_SMS_MAX: u32 = 1024;

/// A policy of `crate::policy`, as settings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// Strict classes.
    Classes,
    /// Device time by weights.
    Weighted,
    /// The same device time for all.
    Fair,
    /// Earliest deadline first.
    Deadline,
    /// Device time bounded in each second.
    Quota,
}

/// All of them.
const POLICIES: [PolicyName; 5] = [
    PolicyName::Classes,
    PolicyName::Weighted,
    PolicyName::Fair,
    PolicyName::Deadline,
    PolicyName::Quota,
];

impl PolicyName {
    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Weighted => "weighted",
            Self::Fair => "fair",
            Self::Deadline => "deadline",
            Self::Quota => "quota",
        }
    }

    fn parse(name: &str) -> Result<Self, UnknownPolicy> {
        let found = POLICIES.into_iter().find(|policy| policy.as_str() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no policy: there are classes, weighted, fair, deadline and quota; join them with +"
)]
pub struct UnknownPolicy(pub String);

/// Whom work of latency-critical clients pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No client.
    Off,
    /// Clients of class batch.
    Batch,
    /// All clients that are not latency-critical.
    Others,
}

/// Which mechanisms are on, each by itself, and the policy that decides. Text:
/// `policy=classes pause=batch in-flight=200us reserve=on priorities=on slices=4M pieces=on floor=16 elastic=on
/// space=on slowdown=1.25 least=10%`,
/// in any order; what is missing stays as it is. `preset=NAME` sets all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policies, all of which must let a client through: one at least.
    pub policy: Vec<PolicyName>,
    /// Whom latency-critical work pauses.
    pub pause: Pause,
    /// After which time a paused client may submit a piece of work all the same, ns.
    pub pause_max_ns: Option<u64>,
    /// Predicted time of the work that a client may have in flight while others are to be served, ns;
    /// one kernel may always be.
    pub in_flight_ns: Option<u64>,
    /// Work that would still run when the next latency-critical request is due is put off until that
    /// has come, as far as more than `in_flight_ns` of it would be left then.
    pub reserve: bool,
    /// Streams get the device's priorities by their clients' classes.
    pub priorities: bool,
    /// Copies of clients that are held to a bound go in slices of so many bytes.
    pub slice_bytes: Option<u64>,
    /// Graphs of such clients go in pieces.
    pub pieces: bool,
    /// SMs that such clients leave free; 0: none.
    pub floor_sms: u32,
    /// The floor is kept only while latency-critical work is there.
    pub elastic: bool,
    /// Batch work gets SMs of its own beside a latency-critical client that is busy for most of each second.
    pub space: bool,
    /// How much that may slow the latency-critical client, and what batch work has in any case.
    pub bounds: Bounds,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: vec![PolicyName::Classes],
            pause: Pause::Batch,
            pause_max_ns: Some(100_000_000),
            in_flight_ns: Some(200_000),
            reserve: true,
            priorities: true,
            slice_bytes: Some(4 << 20),
            pieces: true,
            floor_sms: 0,
            elastic: false,
            space: true,
            bounds: Bounds { slowdown_permille: 1250, least_percent: 10 },
        }
    }
}

/// Named sets of settings: the one knob between latency and throughput, and each mechanism alone.
pub const PRESETS: &[(&str, &str)] = &[
    (
        "off",
        "pause=off in-flight=none reserve=off priorities=off slices=none pieces=off floor=0 elastic=off \
         space=off",
    ),
    ("priorities", "preset=off priorities=on"),
    ("in-flight", "preset=off in-flight=200us"),
    ("pause", "preset=off pause=batch pieces=on in-flight=200us"),
    ("floor", "preset=off priorities=on floor=16"),
    ("elastic", "preset=off priorities=on floor=16 elastic=on in-flight=200us pieces=on"),
    ("latency", "preset=balanced in-flight=50us slices=1M"),
    (
        "balanced",
        "pause=batch in-flight=200us reserve=on priorities=on slices=4M pieces=on floor=0 elastic=off \
         space=on",
    ),
    ("throughput", "preset=balanced in-flight=1ms slices=16M"),
];

/// Refuses policies of which one is named twice, or two share device time out.
fn check_together(names: &[PolicyName]) -> Result<(), SettingError> {
    let is_share = |name: PolicyName| matches!(name, PolicyName::Weighted | PolicyName::Fair);
    for (index, name) in names.iter().enumerate() {
        let clash = names[..index]
            .iter()
            .find(|other| *other == name || is_share(**other) && is_share(*name));
        if let Some(other) = clash {
            return Err(SettingError::Policies(other.as_str(), name.as_str()));
        }
    }
    Ok(())
}

/// Why a text is no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error(
        "{0:?} is no setting of scheduling: there are policy, pause, pause-max, in-flight, reserve, \
         priorities, slices, pieces, floor, elastic, space, slowdown, least and preset"
    )]
    Unknown(String),
    /// The value is not one of those that are allowed.
    #[error("{name}={value:?}: {allowed}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: String,
    },
    /// Policies that cannot be together.
    #[error("policies {0} and {1} would charge device time twice: name one of the two")]
    Policies(&'static str, &'static str),
    /// There is no such policy.
    #[error("{0}")]
    Policy(#[from] UnknownPolicy),
    /// The text is too long.
    #[error("settings of scheduling are at most {TEXT_BYTES_MAX} bytes long")]
    TooLong,
}

impl Settings {
    /// As [`Settings::change`], for a device of so many SMs: a floor that leaves batch work none is refused. One
    /// that comes with a preset has no effect there.
    ///
    /// # Errors
    /// What is wrong with the text, with what is allowed.
    pub fn change_on(&mut self, text: &str, sms: u32) -> Result<(), SettingError> {
        let mut changed = self.clone();
        changed.change(text)?;
        let names_it = text.split([' ', ',']).any(|word| word.starts_with("floor="));
        if names_it && changed.floor_sms >= sms {
            let value = changed.floor_sms.to_string();
            let allowed = format!("the device has {sms} SMs: say fewer, 0 for none");
            return Err(SettingError::Value { name: "floor", value, allowed });
        }
        *self = changed;
        Ok(())
    }

    /// Changes what a text says. Nothing changes if it is wrong.
    ///
    /// # Errors
    /// What is wrong with the text, with what is allowed.
    pub fn change(&mut self, text: &str) -> Result<(), SettingError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(SettingError::TooLong);
        }
        let mut changed = self.clone();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let Some((name, value)) = word.split_once('=') else {
                return Err(SettingError::Unknown(word.to_owned()));
            };
            changed.change_one(name, value)?;
        }
        *self = changed;
        Ok(())
    }

    fn change_one(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let wrong = |name, allowed: &str| {
            let allowed = format!("say {allowed}");
            SettingError::Value { name, value: value.to_owned(), allowed }
        };
        let switch = |name| match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(wrong(name, "on or off")),
        };
        let time = |name| match value {
            "none" => Ok(None),
            _ => match duration_ns(value) {
                Some(ns) if ns > 0 => Ok(Some(ns)),
                _ => Err(wrong(name, "a time such as 200us, or none")),
            },
        };
        match name {
            "policy" => {
                let names: Vec<_> =
                    value.split('+').map(PolicyName::parse).collect::<Result<_, _>>()?;
                check_together(&names)?;
                self.policy = names;
            }
            "pause" => {
                self.pause = match value {
                    "off" => Pause::Off,
                    "batch" => Pause::Batch,
                    "others" => Pause::Others,
                    _ => return Err(wrong("pause", "off, batch or others")),
                }
            }
            "pause-max" => self.pause_max_ns = time("pause-max")?,
            "in-flight" => self.in_flight_ns = time("in-flight")?,
            "reserve" => self.reserve = switch("reserve")?,
            "priorities" => self.priorities = switch("priorities")?,
            "slices" => {
                self.slice_bytes = match value {
                    "none" => None,
                    _ => match bytes(value) {
                        Some(size) if size >= 4096 => Some(size),
                        _ => return Err(wrong("slices", "bytes such as 4M, at least 4K, or none")),
                    },
                }
            }
            "pieces" => self.pieces = switch("pieces")?,
            "floor" => {
                let sms = value.parse().ok().filter(|sms| *sms <= FLOOR_SMS_MAX);
                self.floor_sms =
                    sms.ok_or_else(|| wrong("floor", "a number of SMs, 0 for none"))?;
            }
            "elastic" => self.elastic = switch("elastic")?,
            "space" => self.space = switch("space")?,
            "slowdown" => {
                let times =
                    value.parse::<f64>().ok().filter(|times| (1.0..=SLOWDOWN_MAX).contains(times));
                let times = times
                    .ok_or_else(|| wrong("slowdown", "a number from 1 to 100, such as 1.25"))?;
                self.bounds.slowdown_permille = (times * 1000.0).round() as u32;
            }
            "least" => {
                let percent = value.strip_suffix('%').unwrap_or(value).parse().ok();
                let percent = percent.filter(|percent| *percent <= LEAST_PERCENT_MAX);
                self.bounds.least_percent =
                    percent.ok_or_else(|| wrong("least", "a part of the SMs from 0% to 90%"))?;
            }
            "preset" => {
                let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == value) else {
                    let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
                    return Err(wrong("preset", &names.join(", ")));
                };
                self.change(text)?;
            }
            other => return Err(SettingError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    /// What a text sets for a client that none of the policies looks at: a sentence for each.
    pub fn unused(&self, client: &str) -> Vec<String> {
        let words = client.split([' ', ',']).filter_map(|word| word.split_once('='));
        let sentence = |(name, value): (&str, &str)| {
            let missing = match name {
                "weight" => PolicyName::Weighted,
                "deadline" => PolicyName::Deadline,
                "quota" => PolicyName::Quota,
                _ => return None,
            };
            if matches!(value, "none" | "1") || self.policy.contains(&missing) {
                return None;
            }
            let names = |policies: &[PolicyName]| {
                policies.iter().map(|policy| policy.as_str()).collect::<Vec<_>>().join("+")
            };
            let mut wanted = self.policy.clone();
            wanted.retain(|policy| check_together(&[*policy, missing]).is_ok());
            wanted.push(missing);
            let (now, wanted) = (names(&self.policy), names(&wanted));
            Some(format!(
                "{name}={value} has no effect under policy={now}: openmps set --scheduling policy={wanted}"
            ))
        };
        words.filter_map(sentence).collect()
    }

    /// The settings of a text, over the defaults.
    ///
    /// # Errors
    /// As [`Settings::change`].
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        settings.change(text)?;
        Ok(settings)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |on| if on { "on" } else { "off" };
        let time = |ns: Option<u64>| ns.map_or_else(|| "none".to_owned(), duration_text);
        let pause = match self.pause {
            Pause::Off => "off",
            Pause::Batch => "batch",
            Pause::Others => "others",
        };
        let slices = self.slice_bytes.map_or_else(|| "none".to_owned(), bytes_text);
        write!(
            f,
            "policy={} pause={pause} pause-max={} in-flight={} reserve={} priorities={} \
             slices={slices} pieces={} floor={} elastic={} space={} slowdown={} least={}%",
            self.policy.iter().map(|policy| policy.as_str()).collect::<Vec<_>>().join("+"),
            time(self.pause_max_ns),
            time(self.in_flight_ns),
            switch(self.reserve),
            switch(self.priorities),
            switch(self.pieces),
            self.floor_sms,
            switch(self.elastic),
            switch(self.space),
            f64::from(self.bounds.slowdown_permille) / 1000.0,
            self.bounds.least_percent,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_leaves_batch_work_some_of_the_device() {
        let mut settings = Settings::default();
        let refused = settings.change_on("floor=99", 8).unwrap_err().to_string();
        assert!(refused.contains("floor=\"99\": the device has 8 SMs"), "{refused}");
        assert!(settings.change_on("pause=off,floor=8", 8).is_err());
        assert_eq!(settings, Settings::default(), "nothing changes");
        settings.change_on("floor=7", 8).unwrap();
        settings.change_on("preset=floor", 8).unwrap();
        settings.change_on("floor=99", 132).unwrap();
        // What was set before is no fault of what is set now.
        settings.change_on("pause=off", 8).unwrap();
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let mut texts = vec![
            "policy=classes+quota pause=others pause-max=none in-flight=75us reserve=off priorities=off \
             slices=none pieces=off floor=24 elastic=on space=off slowdown=1.5 least=0%"
                .to_owned(),
        ];
        for (name, _) in PRESETS {
            texts.push(Settings::parse(&format!("preset={name}")).unwrap().to_string());
        }
        for text in texts {
            assert_eq!(Settings::parse(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_preset_of_one_mechanism_has_only_that() {
        let of = |name: &str| Settings::parse(&format!("preset={name}")).unwrap();
        assert!(of("priorities").priorities && of("priorities").in_flight_ns.is_none());
        assert!(!of("in-flight").priorities && of("in-flight").pause == Pause::Off);
        assert_eq!(of("floor").floor_sms, 16);
        assert!(of("latency").in_flight_ns < of("throughput").in_flight_ns);
    }

    #[test]
    fn wrong_settings_are_refused_and_change_nothing() {
        for (text, part) in [
            ("pause=on", "off, batch or others"),
            ("in-flight=5", "200us"),
            ("priorities=1", "on or off"),
            ("slices=7", "at least 4K"),
            ("policy=best", "classes"),
            ("policy=classes+best", "best"),
            ("preset=x", "balanced"),
            ("speed=1", "in-flight"),
            ("pause", "in-flight"),
            ("policy=quota+quota", "quota and quota"),
            ("policy=weighted+classes+fair", "name one of the two"),
        ] {
            let mut settings = Settings::default();
            let error = settings.change(&format!("floor=8 {text}")).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert_eq!(settings, Settings::default());
        }
    }

    #[test]
    fn what_no_policy_looks_at_is_told_with_the_policy_that_would() {
        let told = |policy: &str, client: &str| {
            Settings::parse(&format!("policy={policy}")).unwrap().unused(client).join("\n")
        };
        assert!(told("classes", "quota=5ms").ends_with("policy=classes+quota"));
        assert!(told("classes+fair", "weight=3").ends_with("policy=classes+weighted"));
        assert_eq!(told("fair", "weight=3 deadline=2ms class=batch").lines().count(), 2);
        assert_eq!(told("classes+quota", "quota=5ms class=batch"), "");
        assert_eq!(told("classes", "quota=none weight=1 deadline=none"), "");
    }
}
