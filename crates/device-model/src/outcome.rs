//! Outcome of a simulation: latencies, throughput and device time of each group of clients.

use serde::Serialize;

/// What became of a group of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientOutcome {
    /// Its name.
    pub name: String,
    /// Requests that were done, all clients of the group together.
    pub requests: u64,
    /// Those a second.
    pub requests_per_s: f64,
    /// Kernels that ended a second.
    pub kernels_per_s: f64,
    /// Latency from a request's arrival to its end, us: the median.
    pub p50_us: f64,
    /// As before: 99 of 100 requests are done by then.
    pub p99_us: f64,
    /// As before: 999 of 1000.
    pub p999_us: f64,
    /// Requests that were done after their deadline, if they have one.
    pub late: u64,
    /// Time of threads on SMs, as a share of the device's.
    pub device_share: f64,
    /// For how long its work was throttled at the gate, a client and second, s.
    pub held: f64,
}

/// What became of all groups, in the mix's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// The groups.
    pub clients: Vec<ClientOutcome>,
}

impl Outcome {
    /// A group by its name.
    pub fn of(&self, name: &str) -> Option<&ClientOutcome> {
        self.clients.iter().find(|client| client.name == name)
    }
}

/// The latency below which a part of sorted ones lies, us.
pub(crate) fn quantile_us(sorted_ns: &[u64], part: f64) -> f64 {
    let index = (sorted_ns.len() as f64 * part) as usize;
    let ns = sorted_ns.get(index).or(sorted_ns.last()).copied().unwrap_or(0);
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_many() {
        assert_eq!(quantile_us(&[], 0.5), 0.0);
        assert_eq!(quantile_us(&[7000], 0.99), 7.0);
        let many: Vec<u64> = (0..1000).map(|n| n * 1000).collect();
        assert_eq!((quantile_us(&many, 0.5), quantile_us(&many, 0.999)), (500.0, 999.0));
    }
}
