//! The model's predictions beside what was measured on an H200, and what it is asked for plans.

use device_model::mix::{ArrivalPattern, DeviceSpec, KernelSpec};
use device_model::{Mix, Outcome, simulate};
use scheduling::Settings;

fn run(mix: &Mix, settings: &str, seconds: f64) -> Outcome {
    simulate(mix, &Settings::parse(settings).unwrap(), seconds, 1).unwrap()
}

fn alone(mix: &Mix, client: usize) -> Outcome {
    let clients = vec![mix.clients[client].clone()];
    run(&Mix { clients, ..mix.clone() }, "preset=off", 2.0)
}

/// A setting, p99 of a request as a multiple of alone, and batch as a share of alone: as docs/reports/scheduling.md
/// has them from an H200.
const MEASURED: &[(&str, f64, f64)] = &[
    ("preset=off", 18.5, 1.00),
    ("preset=priorities", 3.8, 0.97),
    ("preset=balanced in-flight=1us reserve=off", 1.26, 0.88),
    ("preset=floor floor=8", 1.54, 0.80),
    ("preset=floor floor=16", 1.08, 0.80),
    ("preset=floor floor=32", 1.01, 0.72),
    ("preset=elastic in-flight=1us", 1.29, 0.93),
];

#[test]
fn predictions_are_within_fifteen_percent_of_an_h200() {
    let mix = Mix::prototype();
    let request_us = alone(&mix, 0).clients[0].p99_us;
    let batch = alone(&mix, 1).clients[0].kernels_per_s;
    assert!((request_us / 788.0 - 1.0).abs() < 0.15, "alone {request_us}");
    for (settings, multiple, share) in MEASURED {
        let outcome = run(&mix, settings, 2.0);
        let found = outcome.clients[0].p99_us / request_us;
        let kept = outcome.clients[1].kernels_per_s / batch;
        println!("{settings}: {found:.2} for {multiple}, batch {kept:.2} for {share}");
        assert!((found / multiple - 1.0).abs() < 0.15, "{settings}: {found} of alone");
        assert!((kept / share - 1.0).abs() < 0.15, "{settings}: batch {kept}");
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let mix = Mix::prototype();
    assert_eq!(run(&mix, "", 0.2), run(&mix, "", 0.2));
}

#[test]
fn thousands_of_clients_are_planned_for() {
    let small = |blocks| KernelSpec {
        count: 4,
        blocks: [blocks, 2 * blocks],
        block_step: 1,
        threads: 128,
        block_us: [5.0, 20.0],
    };
    let mut mix = Mix::prototype();
    mix.clients[0].count = 2000;
    mix.clients[0].arrivals = ArrivalPattern::Poisson(2.0);
    mix.clients[0].kernels = vec![small(4)];
    mix.clients[1].count = 500;
    mix.clients[1].kernels = vec![small(200)];
    mix.clients[1].arrivals = ArrivalPattern::Poisson(5.0);
    let outcome = run(&mix, "preset=balanced", 0.5);
    let critical = &outcome.clients[0];
    assert!((1600..2000).contains(&critical.requests), "{}", critical.requests);
    assert!(critical.p99_us < 2000.0, "{}", critical.p99_us);
}

#[test]
fn weights_are_followed_by_kernels_that_run_beside_each_other() {
    let mut mix = Mix::prototype();
    mix.clients = vec![mix.clients[1].clone(), mix.clients[1].clone()];
    mix.clients[0].settings = "weight=3".into();
    mix.clients[1].settings = "weight=1".into();
    let outcome = run(&mix, "policy=weighted in-flight=500us", 3.0);
    let [a, b] = [0, 1].map(|client| outcome.clients[client].device_share);
    // A kernel is charged from its start to its end, so what runs beside another one's is dearer.
    assert!((0.70..0.86).contains(&(a / (a + b))), "{a} {b}");
    let even = run(&mix, "preset=off", 1.0);
    assert!((even.clients[0].device_share - even.clients[1].device_share).abs() < 0.1);
}

#[test]
fn mixes_are_read_and_mistakes_are_named() {
    let text = r#"{"clients": [{"name": "x", "settings": "batch", "arrivals": {"even": 5},
        "kernels": [{"blocks": [1, 2], "threads": 64, "block_us": [1, 2]}]}]}"#;
    let mix: Mix = serde_json::from_str(text).unwrap();
    assert_eq!(mix.device, DeviceSpec::default());
    let requests = run(&mix, "", 2.0).clients[0].requests;
    assert!((8..=10).contains(&requests), "{requests}");
    for (from, to, part) in [
        ("batch", "urgent", "latency, normal or batch"),
        ("[1, 2], \"threads\"", "[3, 2], \"threads\"", "multiple of block_step"),
        ("64", "4096", "room"),
        ("[1, 2]}", "[0, 2]}", "above 0"),
        ("5}", "0}", "requests a second"),
    ] {
        let mix: Mix = serde_json::from_str(&text.replace(from, to)).unwrap();
        let error = simulate(&mix, &Settings::default(), 1.0, 1).unwrap_err().to_string();
        assert!(error.contains(part), "{to}: {error}");
    }
    assert!(serde_json::from_str::<Mix>(&text.replace("settings", "setings")).is_err());
}

#[test]
fn even_requests_find_less_work_in_their_way_where_it_is_reserved_for() {
    let mix = Mix::prototype();
    let request_us = alone(&mix, 0).clients[0].p99_us;
    let batch = alone(&mix, 1).clients[0].kernels_per_s;
    let of = |mix: &Mix, settings: &str| {
        let outcome = run(mix, settings, 2.0);
        let found = outcome.clients[0].p99_us / request_us;
        let kept = outcome.clients[1].kernels_per_s / batch;
        println!("{settings}: {found:.2}, batch {kept:.2}");
        (found, kept)
    };
    for (bound, most) in [("1us", 1.05), ("50us", 1.10), ("100us", 1.15), ("200us", 1.25)] {
        let (with, kept) = of(&mix, &format!("in-flight={bound} reserve=on"));
        let (without, kept_without) = of(&mix, &format!("in-flight={bound} reserve=off"));
        assert!(with < without.min(most), "{bound}: p99 {with}, {without} without");
        assert!(kept > kept_without, "{bound}: batch {kept}, {kept_without} without");
    }
    // Requests at random are not expected, and nothing is put off for them.
    let mut random = mix.clone();
    random.clients[0].arrivals = ArrivalPattern::Poisson(100.0);
    let without = of(&random, "in-flight=50us reserve=off");
    let (p99, kept) = of(&random, "in-flight=50us reserve=on");
    assert!(p99 < without.0 * 1.05 && kept > without.1 - 0.01, "{p99} {kept} for {without:?}");
}

#[test]
fn classes_share_in_space_where_a_latency_client_is_never_idle() {
    let mut mix = Mix::prototype();
    mix.clients[0].arrivals = ArrivalPattern::Always;
    // Kernels of it fill a part of the device, or all of it twice over.
    mix.clients[0].kernels[0].blocks = [96, 2112];
    let [latency_alone, batch_alone] =
        [0, 1].map(|client| alone(&mix, client).clients[0].kernels_per_s);
    let of = |settings: &str| {
        let outcome = run(&mix, settings, 10.0);
        let parts = [
            outcome.clients[0].kernels_per_s / latency_alone,
            outcome.clients[1].kernels_per_s / batch_alone,
        ];
        println!("{settings}: {parts:.2?}");
        parts
    };
    let [latency, batch] = of("space=off");
    assert!(latency > 0.95 && batch < 0.05, "{latency} {batch}");
    let [within, most] = [of("slowdown=1.1"), of("slowdown=1.5")];
    assert!(within[0] > 1.0 / 1.1 - 0.05 && within[1] > 0.08, "{within:?}");
    assert!(most[0] > 1.0 / 1.5 - 0.05 && most[1] > within[1], "{most:?}");
}
