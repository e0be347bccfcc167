//! Server in standby: loads what clients of other servers load, until it has clients of its own.
//!
//! So programs that come from a server which ends find their code loaded. It keeps up: what they load
//! meanwhile is loaded here a little later.

use super::Warm;
use super::load::{Budget, Loaded, load_names};
use crate::device::Device;
use crate::log::Log;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often it is looked what other servers' clients have.
const LOOK_PERIOD: Duration = Duration::from_millis(250);
/// How soon the thread sees that a client has come, or that the server ends.
const STOP_PERIOD: Duration = Duration::from_millis(20);

impl Warm {
    /// Loads until the caller's work has an end, or clients have come. The device is current.
    pub fn follow(&self, device: &Device, log: &Log, is_ending: impl Fn() -> bool) {
        let Some((store, budget)) = &self.store else { return };
        let goes_on = || !is_ending() && !self.serves.load(Ordering::Acquire);
        // What could not be loaded is not tried again and again.
        let mut tried: BTreeSet<String> = BTreeSet::new();
        let mut looked = None::<Instant>;
        while goes_on() {
            std::thread::sleep(STOP_PERIOD);
            if looked.is_some_and(|at| at.elapsed() < LOOK_PERIOD) {
                continue;
            }
            looked = Some(Instant::now());
            // Its list comes behind the image.
            let is_ready =
                |(name, _): &(String, u32)| !tried.contains(name) && store.has_list(name);
            let wanted: Vec<(String, u32)> =
                self.missing(device, store.held_elsewhere()).filter(is_ready).collect();
            let mut count = 0;
            for missing in wanted {
                // One module each time: a client that comes waits for no more than that.
                for _ in 0..missing.1 {
                    if !goes_on() {
                        break;
                    }
                    let mut loaded = Loaded::default();
                    let budget = Budget::of_held(*budget).after(self.loaded_bytes());
                    let one = [(missing.0.clone(), 1)];
                    load_names(device, store, &one, budget, &mut loaded, log);
                    if loaded.uses.is_empty() {
                        tried.insert(missing.0.clone());
                        break;
                    }
                    let serves_all = loaded.uses.values().all(|used| used.variables.is_none());
                    count += loaded.status.images;
                    self.take_loaded(device, loaded);
                    if serves_all {
                        break;
                    }
                }
            }
            if count > 0 {
                let text = "images of programs at other servers are loaded ahead";
                log.line(format!("{count} {text}"));
            }
        }
    }

    /// What is not loaded of images that clients of other servers have, and how many modules of each.
    fn missing(
        &self,
        device: &Device,
        held: BTreeMap<String, u32>,
    ) -> impl Iterator<Item = (String, u32)> {
        let known = self.known_names();
        let idle = device.code_cache().idle_counts().into_iter();
        let idle: BTreeMap<String, u32> =
            idle.map(|(key, modules)| (key.to_string(), modules)).collect();
        held.into_iter().filter_map(move |(name, modules)| {
            let missing = match idle.get(&name) {
                Some(there) => modules.saturating_sub(*there),
                // One without variables serves all.
                None if known.contains(&name) => 0,
                None => modules,
            };
            (missing > 0).then_some((name, missing))
        })
    }

    /// True if a list is kept.
    pub fn is_kept(&self) -> bool {
        self.store.is_some()
    }

    /// A client has come: from now on what is loaded ahead would hold it up.
    pub fn serve(&self) {
        self.serves.store(true, Ordering::Release);
    }

    /// What clients of this server have is not to be loaded by the next servers any more: the clients go.
    pub fn give_up_held(&self) {
        if let Some((store, _)) = &self.store {
            store.remove_held();
        }
    }
}
