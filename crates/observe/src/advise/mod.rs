//! Advice: what of a device a program leaves, and what sharing would gain, in plain words.
//!
//! [`analyse`] looks at what a program did alone: kernels' grids against the device's slots, the
//! limiter of their occupancy, gaps between kernels, copies, the ceiling that is nearest ([`Ceilings`]). [`predict`] says
//! what several copies should gain; what they really gain is measured by running them
//! ([`Measured`]), and that is what the verdict follows where it is there.

mod model;
mod neighbours;
mod observed;
mod roofline;
mod sharing;
#[cfg(test)]
mod tests;
mod watch;
mod words;

pub use model::{Analysis, KernelAdvice, Limiter, Machine, analyse};
pub use neighbours::{Neighbour, neighbours};
pub use observed::Observed;
pub use roofline::{Bound, Ceilings, KernelRates, Roof};
pub use sharing::{Limit, predict};
pub use watch::Watch;
pub use words::{describe, verdict};

use crate::rates::Rates;
use crate::reading::Reading;
use crate::source::ReportSource;
use anyhow::Result;
use control::accounting::AccountingRecord;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What so many copies at once did, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// How many ran.
    pub copies: u32,
    /// From the first one's start to the last one's end, s.
    pub seconds: f64,
    /// Throughput of all together, over that of one alone.
    pub gain: f64,
    /// Throughput of each, over that of one alone.
    pub each: f64,
    /// What was predicted for `gain`.
    pub predicted: f64,
}

/// All that is said of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// The program.
    pub command: String,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// What it did alone.
    pub analysis: Analysis,
    /// What copies of it did together, if that was measured.
    pub measured: Vec<Measured>,
    /// How many copies could not be measured, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<(u32, String)>,
    /// Programs that were recorded so far, those that go best beside it first.
    pub neighbours: Vec<Neighbour>,
    /// The advice, a sentence each.
    pub words: Vec<String>,
}

impl Advice {
    /// Names neighbours among recorded programs. `device`: its SMs, and its memory in bytes.
    pub fn with_neighbours(mut self, records: &[AccountingRecord], device: (u32, u64)) -> Self {
        self.neighbours = neighbours(records, &self.command, &self.analysis, device);
        self.words = describe(&self);
        self
    }
}

/// Advice on the clients that run: what they do for a while is looked at.
pub fn of_clients(source: &mut dyn ReportSource, look: Duration) -> Result<Vec<Advice>> {
    let before = Reading { at: Instant::now(), report: source.report()? };
    std::thread::sleep(look);
    let now = Reading { at: Instant::now(), report: source.report()? };
    let rates = Rates::between(&before, &now);
    let counts = source.counts()?;
    let mut all = Vec::new();
    for client in &rates.clients {
        let Some(device) = rates.devices.iter().find(|device| device.uuid == client.device) else {
            continue;
        };
        let key = (client.server, client.id);
        let Some(of) = counts.iter().find(|c| (c.server, c.client) == key) else { continue };
        let machine = Machine::of(device);
        let observed = Observed::of_rates(client, look);
        let analysis = analyse(&observed, &of.kernels, &machine);
        let mut advice = Advice {
            command: client.command.clone(),
            pid: client.pid,
            analysis,
            ..Advice::default()
        };
        advice.words = describe(&advice);
        all.push(advice);
    }
    Ok(all)
}
