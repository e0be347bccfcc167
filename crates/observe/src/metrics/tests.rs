//! Metrics: what a report becomes in both formats.

use super::*;
use crate::rates::tests::reading;
use control::counts::Kernel;
use std::time::Instant;

#[test]
fn series_are_bounded_and_what_is_left_out_is_summed() {
    let clients: Vec<_> = (1..=100u32).map(|id| (id, u64::from(id), 0)).collect();
    let report = reading(Instant::now(), 10, &clients).report;
    let text = text(Format::OpenMetrics, &mut Series::default(), &report, &BTreeMap::new(), None);
    let rows: Vec<&str> =
        text.lines().filter(|l| l.starts_with("openmps_client_kernels_total{")).collect();
    assert_eq!(rows.len(), CLIENTS_MAX + 1);
    let sum: u64 = (1..=36).sum();
    let others = format!("openmps_client_kernels_total{{client=\"others\"}} {sum}");
    assert!(rows.contains(&others.as_str()), "{rows:?}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn devices_have_the_names_of_dcgm_exporter() {
    let report = reading(Instant::now(), 10, &[(1, 5, 1_000_000_000)]).report;
    let ratios = Ratios { util: 0.5, ..Ratios::default() };
    let ratios = BTreeMap::from([("GPU-0".to_owned(), ratios)]);
    let text = text(Format::OpenMetrics, &mut Series::default(), &report, &ratios, None);
    let of = "gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"0\",modelName=\"software GPU\"";
    for line in [
        format!("DCGM_FI_DEV_GPU_UTIL{{{of}}} 50"),
        format!("DCGM_FI_DEV_FB_USED{{{of}}} 2048"),
        "openmps_device_busy_seconds_total{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"0\",model=\"software GPU\",\
         server=\"2\"} 1"
            .to_owned(),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[test]
fn each_server_of_a_device_has_its_own_counters_and_the_device_is_told_of_once() {
    let mut report = reading(Instant::now(), 10, &[(1, 5, 1_000_000_000)]).report;
    let mut other = reading(Instant::now(), 10, &[(1, 7, 3_000_000_000)]).report.servers;
    other[0].pid = 3;
    other[0].devices[0].counts.memory_free_bytes -= 1 << 30;
    report.servers.append(&mut other);
    let text = text(Format::OpenMetrics, &mut Series::default(), &report, &BTreeMap::new(), None);
    let of = |name: &str| {
        let rows = text.lines().filter(|line| line.starts_with(name));
        let values: Vec<&str> = rows.filter_map(|line| line.rsplit(' ').next()).collect();
        values.join(" ")
    };
    assert_eq!(of("DCGM_FI_DEV_FB_USED{"), "3072");
    assert_eq!(of("DCGM_FI_DEV_GPU_UTIL{"), "0");
    assert_eq!(of("openmps_device_busy_seconds_total{"), "1 3");
}

#[test]
fn how_classes_share_in_space_is_said_for_each_server() {
    let mut report = reading(Instant::now(), 10, &[(1, 5, 0), (2, 5, 0)]).report;
    let clients = &mut report.servers[0].clients;
    let scheduling = |space_sms, slowed_permille| Scheduling {
        space_sms,
        slowed_permille,
        space_changes: 7,
        ..Scheduling::default()
    };
    (clients[0].scheduling, clients[1].scheduling) = (scheduling(0, 1187), scheduling(33, 0));
    let text = text(Format::Prometheus, &mut Series::default(), &report, &BTreeMap::new(), None);
    for line in
        ["batch_sms{server=\"2\"", "slowdown_ratio{server=\"2\"", "changes_total{server=\"2\""]
            .into_iter()
            .zip([" 33", " 1.187", " 7"])
    {
        let found = text.lines().find(|l| l.starts_with(&format!("openmps_space_{}", line.0)));
        assert!(found.is_some_and(|l| l.ends_with(line.1)), "{line:?}: {text}");
    }
}

#[test]
fn kernels_of_one_name_have_one_series() {
    let report = reading(Instant::now(), 10, &[(1, 5, 0)]).report;
    let kernel = |name: &str, launches| Kernel {
        name: name.to_owned(),
        launches,
        device_ns: 1_000_000_000,
        ..Kernel::default()
    };
    let kernels = vec![
        kernel("_ZN41_GLOBAL__N__0a1b2c3d_4_a_cu_1a2b3c4d_56783addEPf", 3),
        kernel("_ZN41_GLOBAL__N__9a1b2c3d_4_b_cu_9a2b3c4d_56783addEPf", 4),
    ];
    let counts = ClientCounts { server: 2, client: 1, kernels, ..ClientCounts::default() };
    let text = text(
        Format::OpenMetrics,
        &mut Series::default(),
        &report,
        &BTreeMap::new(),
        Some(&[counts]),
    );
    let of = "{server=\"2\",client=\"1\",kernel=\"(anonymous namespace)::add(float*)\"}";
    assert!(text.contains(&format!("openmps_kernel_launches_total{of} 7\n")), "{text}");
    assert_eq!(text.matches("openmps_kernel_device_seconds_total{").count(), 1, "{text}");
}

#[test]
fn label_values_cannot_end_early() {
    assert_eq!(labels(&[("a", "x\"y\\z")]), "{a=\"x\\\"y\\\\z\"}");
}

/// Names of families that have the comment `what` and of samples, each once.
fn names<'a>(text: &'a str, what: &str) -> (Vec<&'a str>, Vec<&'a str>) {
    let comments = text.lines().filter_map(|line| line.strip_prefix(what)?.split(' ').next());
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let mut samples: Vec<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
    samples.dedup();
    (comments.collect(), samples)
}

#[test]
fn each_format_describes_its_samples_by_their_names() {
    let report = reading(Instant::now(), 10, &[(1, 5, 1_000_000_000)]).report;
    let of = |format| text(format, &mut Series::default(), &report, &BTreeMap::new(), None);
    let plain = of(Format::Prometheus);
    for what in ["# HELP ", "# TYPE "] {
        let (described, samples) = names(&plain, what);
        for sample in samples {
            assert!(described.contains(&sample), "{what}{sample}");
        }
    }
    assert!(!plain.contains("# EOF"), "{plain}");
    let open = of(Format::OpenMetrics);
    let (described, _) = names(&open, "# HELP ");
    assert!(!described.iter().any(|name| name.ends_with("_total")), "{described:?}");
    let own = plain.lines().filter(|line| line.starts_with("openmps_"));
    let labels =
        own.flat_map(|line| line.split(['{', ',']).skip(1)).filter_map(|l| l.split_once('='));
    for (label, _) in labels {
        assert_eq!(label, label.to_lowercase());
    }
}

#[test]
fn alert_rules_name_metrics_that_there_are() {
    let mut report = reading(Instant::now(), 10, &[(1, 5, 1_000_000_000)]).report;
    let error = "CUDA_ERROR_OUT_OF_MEMORY".to_owned();
    report.refusals = vec![control::report::Refusals { error, count: 2 }];
    let call = ContextCalls { call: "loading".into(), calls: 3, ..ContextCalls::default() };
    let context = control::report::Context { calls: vec![call], ..Default::default() };
    report.servers[0].context = Some(context);
    let text = text(Format::Prometheus, &mut Series::default(), &report, &BTreeMap::new(), None);
    let metrics: std::collections::BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for line in
        ["openmps_refusals_total{error=\"CUDA_ERROR_OUT_OF_MEMORY\"} 2", "call=\"loading\"} 3"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observe/alerts.yml");
    let rules = std::fs::read_to_string(path).expect("the rules");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let expressions: Vec<&str> =
        rules.lines().filter(|line| line.trim_start().starts_with("expr:")).collect();
    assert!(expressions.len() >= 6);
    for expression in expressions {
        let words = expression.split(|c: char| !is_name(c));
        let names: Vec<&str> = words.filter(|word| word.starts_with("openmps_")).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(metrics.contains(name), "{name} of {expression}: {metrics:?}");
        }
    }
}

/// Prometheus' own check, where it is there.
#[test]
fn prometheus_understands_the_alert_rules() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observe/alerts.yml");
    match std::process::Command::new("promtool").args(["check", "rules", path]).output() {
        Ok(said) => {
            let text = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.success(), "{text}");
        }
        Err(_) => eprintln!("skipped: there is no promtool here"),
    }
}

#[test]
fn what_alerts_need_is_counted() {
    let mut report = reading(Instant::now(), 10, &[(1, 5, 1_000_000_000)]).report;
    report.counters = Counters { faults: 3, clients_refused: 2, ..Counters::default() };
    report.servers[0].candidate = Some(7);
    report.servers[0].clients[0].limits.memory_bytes = Some(1 << 30);
    let text = text(Format::Prometheus, &mut Series::default(), &report, &BTreeMap::new(), None);
    for line in [
        "openmps_faults_total 3",
        "openmps_clients_refused_total 2",
        "openmps_servers_lost_total 0",
        "state=\"active\",purpose=\"candidate\"} 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let limit = text.lines().find(|l| l.starts_with("openmps_client_memory_limit_bytes{"));
    assert!(limit.is_some_and(|line| line.ends_with(" 1073741824")), "{text}");
}
