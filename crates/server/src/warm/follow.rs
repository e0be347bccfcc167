//! Server in standby: loads what clients of other servers load, until it has clients of its own.
//!
//! So programs that come from a server which ends find their code loaded. It keeps up: what they load
//! meanwhile is loaded here a moment later.

use super::Warm;
use super::load::{Budget, Loaded, load_names};
use crate::common::Common;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often it is looked what other servers' clients have.
const LOOK_PERIOD: Duration = Duration::from_millis(250);
/// How soon the thread sees that a client has come, or that the server ends.
const STOP_PERIOD: Duration = Duration::from_millis(20);

/// Begins, in a thread of its own.
pub fn begin(common: &Arc<Common>) {
    if common.warm.store.is_none() {
        return;
    }
    let of_thread = common.clone();
    match std::thread::Builder::new().name("warm list".into()).spawn(move || run(&of_thread)) {
        Ok(thread) => common.at_end(thread),
        Err(error) => common.log.line(format!("This server does not load ahead: {error}")),
    }
}

fn run(common: &Common) {
    let warm = &common.warm;
    let goes_on = || !common.is_ending() && !warm.serves.load(Ordering::Acquire);
    let Some((store, budget)) = &warm.store else { return };
    if let Err(error) = common.device.make_current() {
        return common.log.line(format!("This server does not load ahead: {error}"));
    }
    // What could not be loaded is not tried again and again.
    let mut tried: BTreeSet<String> = BTreeSet::new();
    let mut looked = None::<Instant>;
    while goes_on() {
        std::thread::sleep(STOP_PERIOD);
        if looked.is_some_and(|at| at.elapsed() < LOOK_PERIOD) {
            continue;
        }
        looked = Some(Instant::now());
        let known = warm.known_names();
        let new = |name: &String| !known.contains(name) && !tried.contains(name);
        let names: Vec<String> = store.held_elsewhere().into_iter().filter(new).collect();
        // Its list comes behind the image.
        let ready = names.into_iter().filter(|name| store.has_list(name));
        let mut count = 0;
        for name in ready {
            if !goes_on() {
                break;
            }
            let mut loaded = Loaded::default();
            let budget = Budget::of_held(*budget).after(warm.loaded_bytes());
            let names = std::slice::from_ref(&name);
            load_names(&common.device, store, names, budget, &mut loaded, &common.log);
            if loaded.uses.is_empty() {
                tried.insert(name);
            } else {
                count += 1;
                warm.take_loaded(&common.device, loaded);
            }
        }
        if count > 0 {
            let text = "images of programs at other servers are loaded ahead";
            common.log.line(format!("{count} {text}"));
        }
    }
}

impl Warm {
    /// A client has come: from now on what is loaded ahead would hold it up.
    pub fn serve(&self) {
        self.serves.store(true, Ordering::Release);
    }

    /// What clients of this server have is not to be loaded by the next servers, which are for one suspect of
    /// a fault each.
    pub fn give_up_held(&self) {
        if let Some((store, _)) = &self.store {
            store.remove_held();
        }
    }
}
