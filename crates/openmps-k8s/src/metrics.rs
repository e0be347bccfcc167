//! The metrics page: what the agent does, and what each share has and uses, with pod, namespace and claim.

use crate::checkpoint::PreparedClaim;
use crate::daemon::clients_of;
use crate::prepare::shares_of;
use control::report::Report;
use locks::Mutex;
use std::fmt::Write;
use std::time::Duration;

/// Upper bounds of the classes of the histogram of prepare, s.
const BOUNDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0];

/// Counts since the agent's start.
#[derive(Debug, Default)]
pub struct Counts(Mutex<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    prepares: [u64; BOUNDS.len() + 1],
    prepare_s: f64,
    refused: u64,
    failed: u64,
    unprepares: u64,
    restored: u64,
    removed: u64,
    torn: u64,
}

/// What is counted beside the time of prepares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A claim was refused.
    Refused,
    /// Prepare or unprepare failed and is tried again.
    Failed,
    /// A claim was unprepared.
    Unprepared,
    /// A claim's namespaces or spec were made again.
    Restored,
    /// A namespace or spec that no claim has was removed.
    Removed,
    /// A checkpoint was torn.
    Torn,
}

impl Counts {
    fn lock(&self) -> locks::MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// A claim was prepared.
    pub fn prepared(&self, took: Duration) {
        let mut inner = self.lock();
        let seconds = took.as_secs_f64();
        let class = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        inner.prepares[class] += 1;
        inner.prepare_s += seconds;
    }

    /// Something else happened, so many times.
    pub fn add(&self, what: Counted, times: usize) {
        let mut inner = self.lock();
        let count = match what {
            Counted::Refused => &mut inner.refused,
            Counted::Failed => &mut inner.failed,
            Counted::Unprepared => &mut inner.unprepares,
            Counted::Restored => &mut inner.restored,
            Counted::Removed => &mut inner.removed,
            Counted::Torn => &mut inner.torn,
        };
        *count += times as u64;
    }
}

/// The page, in Prometheus' text form. `report` is what the daemon said last.
pub fn page(counts: &Counts, records: &[PreparedClaim], report: Option<&Report>) -> String {
    let inner = counts.lock().clone();
    let mut text = String::new();
    header(&mut text, "openmps_k8s_prepare_seconds", "histogram", "Time of preparing a claim.");
    let mut sum = 0;
    for (class, count) in inner.prepares.iter().enumerate() {
        sum += count;
        let bound = BOUNDS.get(class).map_or_else(|| "+Inf".to_owned(), f64::to_string);
        let _ = writeln!(text, "openmps_k8s_prepare_seconds_bucket{{le=\"{bound}\"}} {sum}");
    }
    let _ = writeln!(text, "openmps_k8s_prepare_seconds_sum {}", inner.prepare_s);
    let _ = writeln!(text, "openmps_k8s_prepare_seconds_count {sum}");
    for (name, help, value) in [
        ("openmps_k8s_refused_total", "Claims that were refused.", inner.refused),
        ("openmps_k8s_failed_total", "Calls of the kubelet that failed.", inner.failed),
        ("openmps_k8s_unprepared_total", "Claims that were unprepared.", inner.unprepares),
        ("openmps_k8s_restored_total", "Claims that were made again.", inner.restored),
        ("openmps_k8s_removed_total", "Leftovers that were removed.", inner.removed),
        ("openmps_k8s_torn_total", "Checkpoints that were torn.", inner.torn),
    ] {
        header(&mut text, name, "counter", help);
        let _ = writeln!(text, "{name} {value}");
    }
    header(&mut text, "openmps_k8s_claims", "gauge", "Claims that are prepared.");
    let _ = writeln!(text, "openmps_k8s_claims {}", records.len());
    header(&mut text, "openmps_k8s_daemon_up", "gauge", "Whether the control daemon answers.");
    let _ = writeln!(text, "openmps_k8s_daemon_up {}", u8::from(report.is_some()));
    shares(&mut text, records, report);
    text
}

/// A gauge of a share.
struct Gauge {
    name: &'static str,
    help: &'static str,
    value: fn(&crate::share::GpuShare, &[&control::report::ClientReport]) -> f64,
}

const GAUGES: &[Gauge] = &[
    Gauge {
        name: "openmps_share_sms",
        help: "SMs of a share.",
        value: |share, _| f64::from(share.sms),
    },
    Gauge {
        name: "openmps_share_limit_sms",
        help: "SMs that a share's programs may have.",
        value: |share, _| f64::from(share.cap_sms()),
    },
    Gauge {
        name: "openmps_share_memory_limit_bytes",
        help: "Device memory of a share.",
        value: |share, _| share.memory_bytes as f64,
    },
    Gauge {
        name: "openmps_share_memory_used_bytes",
        help: "Device memory that a share's programs have.",
        value: |_, clients| clients.iter().map(|client| client.memory_bytes).sum::<u64>() as f64,
    },
    Gauge {
        name: "openmps_share_clients",
        help: "Programs of a share.",
        value: |_, clients| clients.len() as f64,
    },
    Gauge {
        name: "openmps_share_sm_active_seconds",
        help: "Time during which a share's programs had a block on an SM, summed over SMs; of those that run.",
        value: |_, clients| {
            let works = clients.iter().filter_map(|client| client.work);
            works.map(|work| work.sm_active_ns).sum::<u64>() as f64 / 1e9
        },
    },
    Gauge {
        name: "openmps_share_paused_seconds",
        help: "Time for which a share's work was paused for others; of programs that run.",
        value: |_, clients| {
            clients.iter().map(|client| client.scheduling.paused_ns).sum::<u64>() as f64 / 1e9
        },
    },
];

fn shares(text: &mut String, records: &[PreparedClaim], report: Option<&Report>) {
    for gauge in GAUGES {
        header(text, gauge.name, "gauge", gauge.help);
        for record in records {
            for (namespace, share) in shares_of(record) {
                let clients = report.map_or_else(Vec::new, |all| clients_of(all, &namespace.name));
                let on_gpu = clients.into_iter().map(|(_, client)| client);
                let mine: Vec<_> = on_gpu.filter(|of| of.device_uuid == share.uuid).collect();
                let _ = writeln!(
                    text,
                    "{}{{namespace=\"{}\",pod=\"{}\",claim=\"{}\",request=\"{}\",gpu_uuid=\"{}\",class=\"{}\"}} {}",
                    gauge.name,
                    escaped(&record.claim.namespace),
                    escaped(&record.pods.join(",")),
                    escaped(&record.claim.name),
                    escaped(&share.request),
                    escaped(&share.uuid),
                    share.class(),
                    (gauge.value)(share, &mine)
                );
            }
        }
    }
}

fn header(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::{ClaimName, GpuShare, Namespace};

    #[test]
    fn a_share_s_rows_have_its_pod_and_its_programs_memory() {
        let share = GpuShare {
            request: "gpu".into(),
            uuid: "GPU-1".into(),
            sms: 2,
            memory_bytes: 1 << 30,
            ..GpuShare::default()
        };
        let record = PreparedClaim {
            claim: ClaimName { namespace: "team".into(), name: "c".into(), uid: "u".into() },
            pods: vec!["p\"".into()],
            namespaces: vec![Namespace {
                name: "s1".into(),
                shares: vec![share],
                ..Namespace::default()
            }],
            is_over: false,
        };
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"servers":[{"pid":2,"state":"ACTIVE","clients":[
            {"pid":3,"id":1,"user":"a","device_uuid":"GPU-1","mps_namespace":"s1","memory_bytes":7,"kernels":5,"command":"x"},
            {"pid":4,"id":2,"user":"a","device_uuid":"GPU-1","mps_namespace":"s2","memory_bytes":9,"kernels":5,"command":"x"}]}]}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        let counts = Counts::default();
        counts.prepared(Duration::from_millis(3));
        counts.add(Counted::Refused, 1);
        let page = page(&counts, &[record], Some(&report));
        let labels = r#"{namespace="team",pod="p\"",claim="c",request="gpu",gpu_uuid="GPU-1",class="normal"}"#;
        for line in [
            format!("openmps_share_sms{labels} 2"),
            format!("openmps_share_memory_used_bytes{labels} 7"),
            "openmps_k8s_prepare_seconds_bucket{le=\"0.002\"} 0".to_owned(),
            "openmps_k8s_prepare_seconds_bucket{le=\"0.005\"} 1".to_owned(),
            "openmps_k8s_refused_total 1".to_owned(),
            "openmps_k8s_daemon_up 1".to_owned(),
        ] {
            assert!(page.lines().any(|of| of == line), "{line}\n{page}");
        }
    }
}
