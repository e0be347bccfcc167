//! Mixes: the device and the clients of a simulation, as data.

use serde::{Deserialize, Serialize};

/// Most clients of a mix, all counts together.
pub const CLIENTS_MAX: u32 = 65_536;
/// Most kernels of a request.
const KERNELS_MAX: u32 = 100_000;

/// A device and its clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// The device.
    #[serde(default)]
    pub device: DeviceSpec,
    /// Groups of clients.
    pub clients: Vec<ClientSpec>,
}

/// The device, and what work costs beside its own time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSpec {
    /// SMs.
    pub sms: u32,
    /// Threads that an SM has room for.
    pub threads_per_sm: u32,
    /// What a session takes to submit a piece of work, us.
    pub submit_us: f64,
    /// Between the end of a kernel and the start of the next one of its stream, us.
    pub gap_us: f64,
    /// After which time the server sees that work has ended, us.
    pub seen_us: f64,
    /// By how much the times of one kernel's blocks differ, parts of their time to each side.
    pub spread: f64,
    /// By how much a block takes longer on an SM that is full than on an empty one, parts of its time.
    pub oversubscribing: f64,
    /// Copies between host and device, GB/s in each direction.
    pub copy_gb_per_s: f64,
}

impl Default for DeviceSpec {
    fn default() -> Self {
        Self {
            sms: 132,
            threads_per_sm: 2048,
            submit_us: 3.4,
            gap_us: 1.0,
            seen_us: 10.0,
            spread: 0.1,
            oversubscribing: 0.25,
            copy_gb_per_s: 50.0,
        }
    }
}

/// Clients that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// What the outcome calls them.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
    /// Settings of their scheduling: `class=latency deadline=5ms`.
    #[serde(default)]
    pub settings: String,
    /// When their requests come.
    pub arrivals: ArrivalPattern,
    /// Bytes that are copied to the device in front of the kernels.
    #[serde(default)]
    pub copy_bytes: u64,
    /// Kernels of a request, one after the other.
    pub kernels: Vec<KernelSpec>,
    /// The kernels are one graph, submitted at once.
    #[serde(default)]
    pub graph: bool,
}

const fn one() -> u32 {
    1
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalPattern {
    /// So many a second, evenly.
    Even(f64),
    /// So many a second on the average, at random.
    Poisson(f64),
    /// So many a second, evenly, but each waits for the one before: a program with one thread.
    Paced(f64),
    /// The next one comes when the last one is done.
    Always,
}

/// Kernels that are alike: numbers between two bounds are drawn evenly, once for each kernel of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// How many of them follow each other.
    #[serde(default = "one")]
    pub count: u32,
    /// Blocks, from and to.
    pub blocks: [u32; 2],
    /// The number of blocks is a multiple of this.
    #[serde(default = "one")]
    pub block_step: u32,
    /// Threads of a block.
    pub threads: u32,
    /// What a block takes on an SM that is empty otherwise, us, from and to.
    pub block_us: [f64; 2],
}

/// Why a mix cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    /// There is nothing in it, or too much.
    #[error("a mix has from 1 to {CLIENTS_MAX} clients, this one {0}")]
    Clients(u64),
    /// A client's settings are wrong.
    #[error("clients {0}: {1}")]
    Settings(String, scheduling::client::ClientSettingError),
    /// A client's numbers are wrong.
    #[error("clients {0}: {1}")]
    Numbers(String, &'static str),
    /// The device's numbers are wrong.
    #[error("device: {0}")]
    Device(&'static str),
}

impl Mix {
    /// Looks whether it can be simulated.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), MixError> {
        let device = &self.device;
        let times = [device.submit_us, device.gap_us, device.seen_us];
        if device.sms == 0 || device.threads_per_sm == 0 || device.sms > 4096 {
            return Err(MixError::Device("it has from 1 to 4096 SMs with room for threads"));
        }
        if !(0.0..1.0).contains(&device.spread) {
            return Err(MixError::Device("spread is from 0 to 1"));
        }
        if !(0.0..=16.0).contains(&device.oversubscribing) {
            return Err(MixError::Device("oversubscribing is from 0 to 16"));
        }
        if times.iter().any(|time| !(0.0..1e6).contains(time)) || device.copy_gb_per_s < 0.001 {
            return Err(MixError::Device("times are from 0 to a second, copies above 0.001 GB/s"));
        }
        let clients = self.clients.iter().map(|client| u64::from(client.count)).sum();
        if clients == 0 || clients > u64::from(CLIENTS_MAX) {
            return Err(MixError::Clients(clients));
        }
        self.clients.iter().try_for_each(|client| client.check(device))
    }

    /// The mix by which a prototype of the gate was measured on an H200 (docs/reports/scheduling.md): a graph of 150
    /// short kernels, 100 a second, beside kernels that fill the device.
    pub fn prototype() -> Self {
        let kernels = |count, blocks, block_step, block_us| KernelSpec {
            count,
            blocks,
            block_step,
            threads: 256,
            block_us,
        };
        let short = kernels(150, [12, 95], 1, [2.6, 6.0]);
        // Whole waves of 8 blocks an SM, in which a block takes 9 to 53 us.
        let long = kernels(256, [1056, 6336], 1056, [7.2, 42.4]);
        let client = |name: &str, settings: &str, arrivals, kernels, graph| ClientSpec {
            name: name.into(),
            count: 1,
            settings: settings.into(),
            arrivals,
            copy_bytes: 0,
            kernels: vec![kernels],
            graph,
        };
        Self {
            device: DeviceSpec { gap_us: 0.8, spread: 0.03, seen_us: 4.0, ..DeviceSpec::default() },
            clients: vec![
                client("critical", "latency", ArrivalPattern::Paced(100.0), short, true),
                client("batch", "batch", ArrivalPattern::Always, long, false),
            ],
        }
    }
}

impl ClientSpec {
    fn check(&self, device: &DeviceSpec) -> Result<(), MixError> {
        let wrong = |text| Err(MixError::Numbers(self.name.clone(), text));
        scheduling::ClientSettings::parse(&self.settings)
            .map_err(|error| MixError::Settings(self.name.clone(), error))?;
        match self.arrivals {
            ArrivalPattern::Even(rate)
            | ArrivalPattern::Poisson(rate)
            | ArrivalPattern::Paced(rate)
                if !(0.001..1e6).contains(&rate) =>
            {
                return wrong("from 0.001 to a million requests a second can come");
            }
            _ => {}
        }
        let kernels: u64 = self.kernels.iter().map(|kernel| u64::from(kernel.count)).sum();
        if kernels == 0 || kernels > u64::from(KERNELS_MAX) {
            return wrong("a request has from 1 to 100000 kernels");
        }
        for kernel in &self.kernels {
            let ([least, most], [from, to]) = (kernel.blocks, kernel.block_us);
            if kernel.threads == 0 || kernel.threads > device.threads_per_sm.min(1024) {
                return wrong(
                    "a block has at least one thread, and at most what an SM has room for",
                );
            }
            let step = kernel.block_step;
            if step == 0 || most / step * step < least {
                return wrong(
                    "some number of blocks between the bounds is a multiple of block_step",
                );
            }
            if least == 0 || least > most || !(from > 0.0 && from <= to && to < 1e9) {
                return wrong("blocks and their times are above 0, the lower bound first");
            }
        }
        Ok(())
    }
}
