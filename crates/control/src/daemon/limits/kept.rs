//! Kept changes: what the operator has set for programs that run, which goes with them from server to server.
//!
//! A server forgets its clients' settings when it ends. The daemon keeps what was changed of a process on a
//! device until the process ends, and gives it to each server that the process comes to.

use crate::daemon::servers::process::{ClientEnd, began};
use channel::message::{Change, SetBy, Settings};
use cuda_api::CUuuid;
use cuda_api::settings::{MemoryLimit, Percentage, Priority};
use scheduling::{Class, ClientSettings};
use serde::{Deserialize, Serialize};

/// A process, and the device on which something of it was changed.
pub(crate) type Place = (u32, CUuuid);

/// What was changed of a process.
#[derive(Default)]
struct Changes {
    /// Bytes; `None`: all.
    memory: Option<Option<u64>>,
    share: Option<Share>,
    priority: Option<Priority>,
    /// Settings of scheduling: their text.
    scheduling: String,
}

#[derive(Clone, Copy)]
enum Share {
    Part(Percentage),
    Sms(u32),
}

impl Share {
    /// As a part of a device with `all` SMs.
    fn part(self, all: u32) -> Option<Percentage> {
        match self {
            Self::Part(part) => Some(part),
            // Rounded up: an SM less would be given out otherwise.
            Self::Sms(sms) => {
                let part = (u64::from(sms) * 100_000).div_ceil(u64::from(all.max(1)));
                Percentage::from_thousandths(u32::try_from(part).ok()?.min(100_000))
            }
        }
    }
}

/// What was changed of all processes.
#[derive(Default)]
pub(in crate::daemon) struct Kept(Vec<(Place, ClientEnd, Changes)>);

/// What was changed of one process, as one daemon writes it for the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::daemon) struct KeptRecord {
    pid: u32,
    /// When the process began: another one may have its PID by now.
    began: u64,
    device: String,
    /// Bytes; the largest number: all.
    memory: Option<u64>,
    part: Option<u32>,
    sms: Option<u32>,
    priority: Option<u8>,
    scheduling: String,
}

impl Kept {
    fn of(&mut self, place: Place) -> Option<&mut Changes> {
        self.0.retain(|(_, end, _)| !end.has_come());
        if !self.0.iter().any(|(of, ..)| *of == place) {
            self.0.push((place, ClientEnd::of(place.0), Changes::default()));
        }
        let found = self.0.iter_mut().find(|(of, ..)| *of == place);
        found.map(|(.., changes)| changes)
    }

    /// Keeps a change of a limit.
    pub fn keep(&mut self, place: Place, change: &Change) {
        let Some(changes) = self.of(place) else { return };
        match *change {
            Change::Memory(bytes) => changes.memory = Some(bytes),
            Change::Share(part) => changes.share = Some(Share::Part(part)),
            // They are the daemon's own, not an operator's word about a program.
            Change::Group(_) | Change::Partition(..) => {}
            Change::Sms(0) => changes.share = None,
            Change::Sms(sms) => changes.share = Some(Share::Sms(sms)),
            Change::Priority(priority) => {
                changes.priority = Some(priority);
                // It decides the class, as far as that is not changed after it.
                let words = changes.scheduling.split(' ');
                let words = words.filter(|word| !word.starts_with("class="));
                changes.scheduling = words.collect::<Vec<_>>().join(" ");
            }
        }
    }

    /// Keeps a change of scheduling, whose text was checked: `name=value` and blanks between.
    pub fn keep_scheduling(&mut self, place: Place, text: &str) {
        let Some(changes) = self.of(place) else { return };
        let name = |word: &str| word.split_once('=').map_or("class", |(name, _)| name).to_owned();
        let new: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let is_old = |word: &&str| new.iter().all(|new| name(new) != name(word));
        let old = changes.scheduling.split(' ').filter(|word| !word.is_empty());
        let words: Vec<&str> = old.filter(is_old).chain(new.iter().copied()).collect();
        changes.scheduling = words.join(" ");
    }

    /// Changes what a process is given that comes to a server, on a device with so many SMs.
    pub fn apply(
        &self,
        place: Place,
        sms_of_device: u32,
        settings: &mut Settings,
        scheduling: &mut ClientSettings,
    ) {
        let found = self.0.iter().find(|(of, end, _)| *of == place && !end.has_come());
        let Some((.., changes)) = found else { return };
        if let Some(bytes) = changes.memory {
            settings.memory.clear();
            let device = place.1.to_string();
            let limit = bytes.map(|bytes| (MemoryLimit { device, bytes }, SetBy::Live));
            settings.memory.extend(limit);
        }
        if let Some(part) = changes.share.and_then(|share| share.part(sms_of_device)) {
            settings.share = (part, SetBy::Live);
        }
        if let Some(priority) = changes.priority {
            settings.priority = (priority, SetBy::Live);
            scheduling.class = match (priority, scheduling.class) {
                (_, Class::Latency) => Class::Latency,
                (Priority::BelowNormal, _) => Class::Batch,
                (Priority::Normal, _) => Class::Normal,
            };
        }
        // It was checked when it was set.
        let _ = scheduling.change(&changes.scheduling);
    }

    pub fn record(&self) -> Vec<KeptRecord> {
        let there = self.0.iter().filter(|(_, end, _)| !end.has_come());
        let record = |((pid, device), _, of): &(Place, ClientEnd, Changes)| {
            let (part, sms) = match of.share {
                None => (None, None),
                Some(Share::Part(part)) => (Some(part.thousandths()), None),
                Some(Share::Sms(sms)) => (None, Some(sms)),
            };
            KeptRecord {
                pid: *pid,
                began: began(*pid),
                device: device.to_string(),
                memory: of.memory.map(|bytes| bytes.unwrap_or(u64::MAX)),
                part,
                sms,
                priority: of.priority.map(Priority::number),
                scheduling: of.scheduling.clone(),
            }
        };
        there.map(record).collect()
    }

    /// What the daemon before kept; what is not understood is as if it had not been set.
    pub fn from_record(records: Vec<KeptRecord>) -> Self {
        let process = |of: KeptRecord| {
            let part = of.part.and_then(Percentage::from_thousandths).map(Share::Part);
            let changes = Changes {
                memory: of.memory.map(|bytes| Some(bytes).filter(|bytes| *bytes < u64::MAX)),
                share: part.or(of.sms.map(Share::Sms)),
                priority: of.priority.and_then(Priority::from_number),
                scheduling: of.scheduling,
            };
            Some(((of.pid, CUuuid::parse(&of.device)?), ClientEnd::of(of.pid), changes))
        };
        let is_there = |of: &KeptRecord| began(of.pid) == of.began;
        Self(records.into_iter().filter(is_there).filter_map(process).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: CUuuid = CUuuid { bytes: [3; 16] };

    fn applied(kept: &Kept, pid: u32, class: &str) -> (Settings, String) {
        let mut settings = Settings::default();
        let mut scheduling = ClientSettings::parse(class).unwrap();
        kept.apply((pid, DEVICE), 132, &mut settings, &mut scheduling);
        (settings, scheduling.to_string())
    }

    #[test]
    fn sms_given_at_first_are_kept_as_none() {
        let mut kept = Kept::default();
        let me = std::process::id();
        let share = |kept: &Kept| applied(kept, me, "normal").0.share;
        let before = share(&kept);
        kept.keep((me, DEVICE), &Change::Sms(13));
        assert_ne!(share(&kept), before);
        kept.keep((me, DEVICE), &Change::Sms(0));
        assert_eq!(share(&kept), before);
    }

    #[test]
    fn what_was_set_for_a_process_goes_with_it_while_it_is_there() {
        let mut kept = Kept::default();
        let me = std::process::id();
        kept.keep((me, DEVICE), &Change::Memory(Some(1 << 30)));
        kept.keep((me, DEVICE), &Change::Sms(13));
        kept.keep_scheduling((me, DEVICE), "class=batch weight=2");
        kept.keep_scheduling((me, DEVICE), "weight=3");
        let kept = Kept::from_record(
            serde_json::from_str(&serde_json::to_string(&kept.record()).unwrap()).unwrap(),
        );
        let (settings, scheduling) = applied(&kept, me, "latency");
        assert_eq!(settings.memory_of(0, &DEVICE.to_string()), Some((1 << 30, SetBy::Live)));
        assert_eq!((settings.share.0.sms(132, 1), settings.share.1), (13, SetBy::Live));
        assert_eq!(scheduling, "class=batch weight=3");
        assert_eq!(applied(&kept, 1, "latency"), (Settings::default(), "class=latency".into()));
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        let mut kept = Kept::default();
        kept.keep_scheduling((child.id(), DEVICE), "batch");
        assert_eq!(applied(&kept, child.id(), "").1, "class=batch");
        child.kill().expect("a kill");
        child.wait().expect("its end");
        assert_eq!(applied(&kept, child.id(), "").1, "class=normal");
    }

    #[test]
    fn the_last_one_of_priority_and_class_holds() {
        let me = std::process::id();
        let mut kept = Kept::default();
        kept.keep((me, DEVICE), &Change::Priority(Priority::BelowNormal));
        assert_eq!(applied(&kept, me, "normal").1, "class=batch");
        kept.keep_scheduling((me, DEVICE), "class=normal");
        assert_eq!(applied(&kept, me, "batch").1, "class=normal");
        kept.keep((me, DEVICE), &Change::Priority(Priority::Normal));
        assert_eq!(applied(&kept, me, "batch").1, "class=normal");
        kept.keep((me, DEVICE), &Change::Memory(None));
        assert_eq!(applied(&kept, me, "latency").1, "class=latency");
    }
}
