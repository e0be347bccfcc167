//! Model of sharing: a closed queueing network of a program's copies, the SMs and the driver's lock.
//!
//! Each copy goes round: a call of the driver, which takes one copy's at a time (a queue with one
//! server), time on the SMs (processor sharing among as many kernels as have room beside each other),
//! and the rest, in which it waits for no other copy (a delay). Throughput follows by mean value analysis:
//! a copy that comes to a queue meets there what the others, one copy fewer, have there on the average.
//!
//! Not here: what a copy does to another's caches and memory bandwidth, which no counter says.

use super::observed::Observed;
use serde::Serialize;

/// Part of a call that submits work for which the driver lets no other thread in. Fitted to eleven programs
/// on an H200 (docs/reports/observe.md); threads of one context that launch empty kernels as fast as they can
/// have at least a third.
const SERIAL_PART: f64 = 2.0 / 3.0;
/// So much more would have to be gained without it for something to be named as the limit.
const LIMIT_MIN: f64 = 1.05;

/// What keeps copies from gaining more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Nothing: each goes on as if it were alone.
    #[default]
    None,
    /// They wait for each other at the driver.
    Driver,
    /// They share the SMs.
    Sms,
    /// They share the machine's processors.
    Processors,
}

/// What so many copies of a program should do together, over what one does alone.
pub fn predict(observed: &Observed, copies: u32) -> f64 {
    let together = Demand::of(observed).throughput(copies);
    // The software GPU's kernels run on the processors, too.
    match observed.processors > 0.0 {
        true => together.min((1.0 / observed.processors).max(1.0)),
        false => together,
    }
}

/// What limits so many copies: that without which they would gain most.
pub fn limit(observed: &Observed, copies: u32) -> Limit {
    let with = predict(observed, copies);
    let without = [
        (Limit::Driver, Observed { submitting: 0.0, ..*observed }),
        (Limit::Sms, Observed { sm_share: 0.0, ..*observed }),
        (Limit::Processors, Observed { processors: 0.0, ..*observed }),
    ];
    let gains = without.map(|(limit, observed)| (limit, predict(&observed, copies) / with));
    let most = gains.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, gain)| *gain >= LIMIT_MIN).map_or(Limit::None, |(limit, _)| limit)
}

/// What one copy alone wants of each in a round that takes 1.
struct Demand {
    /// Of the driver's lock.
    serial: f64,
    /// As `serial`, without what passes while its own kernels run.
    serial_alone: f64,
    /// Of SMs.
    kernels: f64,
    /// Kernels like its own that have room on the SMs at once.
    room: f64,
}

impl Demand {
    fn of(observed: &Observed) -> Self {
        let sm_share = observed.sm_share.clamp(0.0, 1.0);
        // Kernels of several streams may have more of the SMs than of the time.
        let kernels = observed.busy.max(sm_share).min(1.0);
        let room = if sm_share > 0.0 { kernels / sm_share } else { f64::INFINITY };
        let serial = SERIAL_PART * observed.submitting.clamp(0.0, 1.0);
        Self { serial, serial_alone: serial.min(1.0 - kernels), kernels, room }
    }

    /// Rounds of so many copies in the time that one alone takes for one.
    fn throughput(&self, copies: u32) -> f64 {
        let rest = (1.0 - self.serial_alone - self.kernels).max(0.0);
        let (mut at_driver, mut on_sms, mut throughput) = (0.0, 0.0, 1.0);
        for copies in 1..=copies {
            let driver = self.serial_alone * (1.0 + at_driver);
            let sms = self.kernels * f64::max(1.0, (1.0 + on_sms) / self.room);
            throughput = f64::from(copies) / (rest + driver + sms);
            (at_driver, on_sms) = (throughput * driver, throughput * sms);
        }
        // What passes beside its own kernels does not pass beside other copies' calls.
        match self.serial > 0.0 {
            true => throughput.min((1.0 / self.serial).max(1.0)),
            false => throughput,
        }
    }
}
