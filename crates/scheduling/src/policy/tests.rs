//! Policies on recorded arrivals: a device that runs one piece of work at a time.

use crate::account::ClientId;
use crate::client::ClientSettings;
use crate::gate::{Core, Verdict};
use crate::settings::Settings;

/// A client of a recording: when its requests come, how many kernels each has, how long one takes.
#[derive(Clone)]
struct Recorded {
    settings: &'static str,
    arrivals: Vec<u64>,
    kernels: u64,
    kernel_ns: u64,
}

/// A request that was served.
#[derive(Clone, Copy, Debug)]
struct Served {
    client: usize,
    came_ns: u64,
    done_ns: u64,
}

/// Serves recorded arrivals until `end_ns`: at each moment one kernel runs, of a client that the gate
/// lets through, those with work in turn. Returns what was served, and each client's device time.
fn serve(settings: &str, clients: &[Recorded], end_ns: u64) -> (Vec<Served>, Vec<u64>) {
    let mut core = Core::new(Settings::parse(settings).unwrap());
    let join = |client: &Recorded| core.join(ClientSettings::parse(client.settings).unwrap());
    let ids: Vec<ClientId> = clients.iter().map(join).collect();
    let mut next = vec![0; clients.len()];
    let mut left = vec![0; clients.len()];
    let mut used = vec![0; clients.len()];
    let (mut served, mut now, mut turn) = (Vec::new(), 0, 0);
    while now < end_ns {
        let waits = |i: usize| clients[i].arrivals.get(next[i]).is_some_and(|at| *at <= now);
        for (i, id) in ids.iter().enumerate() {
            if left[i] > 0 || waits(i) {
                core.arrived(*id, now);
            }
        }
        let mut until = None::<u64>;
        let chosen = (0..clients.len()).map(|k| (turn + k) % clients.len()).find(|&i| {
            (left[i] > 0 || waits(i))
                && match core.ask(ids[i], clients[i].kernel_ns, now) {
                    Verdict::Go { .. } => true,
                    Verdict::Wait { until: at, .. } => {
                        until = [until, at].into_iter().flatten().min();
                        false
                    }
                }
        });
        let awake = core.awake();
        let Some(i) = chosen else {
            if !awake.is_empty() {
                continue;
            }
            let comes = (0..clients.len()).filter(|i| left[*i] == 0);
            let comes = comes.filter_map(|i| clients[i].arrivals.get(next[i]).copied());
            let next_event = comes.filter(|at| *at > now).chain(until).min();
            now = next_event.unwrap_or(end_ns).max(now + 1);
            continue;
        };
        if left[i] == 0 {
            left[i] = clients[i].kernels;
        }
        let ns = clients[i].kernel_ns;
        core.submitted(ids[i], ns, now);
        now += ns;
        core.completed(ids[i], ns, ns, now);
        (used[i], left[i], turn) = (used[i] + ns, left[i] - 1, i + 1);
        if left[i] == 0 {
            served.push(Served { client: i, came_ns: clients[i].arrivals[next[i]], done_ns: now });
            next[i] += 1;
            if clients[i].arrivals.get(next[i]).is_none_or(|at| *at > now) {
                core.idle(ids[i], now);
            }
        }
    }
    (served, used)
}

fn always(settings: &'static str, kernel_ns: u64) -> Recorded {
    Recorded { settings, arrivals: vec![0; 100_000], kernels: 10, kernel_ns }
}

fn every(settings: &'static str, period_ns: u64, kernels: u64, kernel_ns: u64) -> Recorded {
    Recorded { settings, arrivals: (0..1000).map(|n| n * period_ns).collect(), kernels, kernel_ns }
}

const MS: u64 = 1_000_000;

fn longest(served: &[Served], client: usize) -> u64 {
    let own = served.iter().filter(|request| request.client == client);
    own.map(|request| request.done_ns - request.came_ns).max().unwrap()
}

#[test]
fn weighted_shares_are_kept_within_three_percent() {
    for (a, b) in [(100_000, 100_000), (30_000, 500_000), (900_000, 20_000)] {
        let clients = [always("weight=3", a), always("weight=1", b)];
        let (_, used) = serve("policy=weighted", &clients, 2000 * MS);
        let share = used[0] as f64 / (used[0] + used[1]) as f64;
        assert!((share - 0.75).abs() < 0.03, "{a} {b}: {share}");
    }
    // Without the policy the shares are those of the kernels' lengths.
    let clients = [always("weight=3", 100_000), always("weight=1", 100_000)];
    let (_, used) = serve("preset=off", &clients, 2000 * MS);
    assert!((used[0] as f64 / used[1] as f64 - 1.0).abs() < 0.05);
}

#[test]
fn fair_shares_are_equal_in_device_time() {
    let clients = [always("weight=9", 20_000), always("", 300_000), always("", 1_000_000)];
    let (_, used) = serve("policy=fair", &clients, 3000 * MS);
    let whole: u64 = used.iter().sum();
    for used in &used {
        let share = *used as f64 / whole as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
    }
}

#[test]
fn a_client_that_was_idle_does_not_keep_the_others_out() {
    let late = Recorded {
        settings: "",
        arrivals: vec![1000 * MS; 10_000],
        kernels: 10,
        kernel_ns: 100_000,
    };
    let (served, used) = serve("policy=fair", &[always("", 100_000), late], 2000 * MS);
    let after = served.iter().filter(|r| r.client == 0 && r.done_ns > 1000 * MS).count() as u64;
    assert!(after * MS > 450 * MS && used[1] > 450 * MS, "{after} {used:?}");
}

#[test]
fn strict_classes_serve_latency_as_if_alone() {
    let clients = [every("latency", 10 * MS, 8, 100_000), always("batch", 200_000)];
    let (served, used) = serve("policy=classes", &clients, 1000 * MS);
    // A kernel that runs already is waited for.
    assert!(longest(&served, 0) <= 8 * 100_000 + 200_000, "{}", longest(&served, 0));
    assert!(used[1] > 880 * MS, "batch has the rest: {used:?}");
    let (served, _) = serve("preset=off", &clients, 1000 * MS);
    assert!(longest(&served, 0) > 2 * MS, "without classes it waits for its turn each time");
}

#[test]
fn earliest_deadline_first_meets_what_can_be_met() {
    // Together 0.9 of the device; each deadline is the period.
    let clients = || {
        [
            every("deadline=10ms", 10 * MS, 50, 100_000),
            every("deadline=20ms", 20 * MS, 20, 100_000),
            every("deadline=100ms", 100 * MS, 300, 100_000),
        ]
    };
    let late = |served: &[Served]| {
        let limit = [10 * MS, 20 * MS, 100 * MS];
        served.iter().filter(|r| r.done_ns - r.came_ns > limit[r.client]).count()
    };
    let (served, _) = serve("policy=deadline in-flight=none", &clients(), 1000 * MS);
    assert!(served.len() > 150 && late(&served) == 0, "{} late", late(&served));
    let (served, _) = serve("preset=off", &clients(), 1000 * MS);
    assert!(late(&served) > 0, "in turn, some are late");
}

#[test]
fn a_quota_is_kept_in_every_second() {
    let clients = [always("quota=200ms", 300_000), always("", 100_000)];
    let (served, used) = serve("policy=classes+quota", &clients, 4000 * MS);
    assert!(used[0] <= 801 * MS && used[0] >= 780 * MS, "{used:?}");
    assert!(used[1] >= 3150 * MS, "the rest is the other's: {used:?}");
    for second in 0..4 {
        let range = second * 1000 * MS..(second + 1) * 1000 * MS;
        let own = served.iter().filter(|r| r.client == 0 && range.contains(&r.done_ns)).count();
        assert!(own as u64 * 3 * MS <= 204 * MS, "second {second}: {own}");
    }
}

#[test]
fn a_client_without_quota_left_does_not_hold_others_up() {
    for policy in ["weighted", "fair", "deadline", "classes"] {
        let settings = format!("policy={policy}+quota pause-max=none");
        let clients = [always("latency quota=100ms deadline=1ms", 200_000), always("", 100_000)];
        let batch = [always("latency quota=100ms", 200_000), always("batch", 100_000)];
        for clients in [clients, batch] {
            let (_, used) = serve(&settings, &clients, 4000 * MS);
            assert!(used[0] >= 380 * MS && used[0] <= 401 * MS, "{policy}: {used:?}");
            assert!(used[1] >= 3400 * MS, "{policy}: {used:?}");
        }
    }
}

#[test]
fn work_done_while_no_other_had_any_is_held_against_no_client() {
    let late = Recorded {
        settings: "",
        arrivals: vec![1015 * MS; 100_000],
        kernels: 10,
        kernel_ns: 100_000,
    };
    for policy in ["weighted", "fair"] {
        let clients = [every("", 20 * MS, 10, MS), late.clone()];
        let (served, _) = serve(&format!("policy={policy}"), &clients, 3000 * MS);
        assert!(longest(&served, 0) < 100 * MS, "{policy}: {} ns", longest(&served, 0));
    }
}

#[test]
fn classes_and_shares_do_not_wait_for_each_other() {
    for policy in ["weighted", "fair", "deadline"] {
        let settings = format!("policy=classes+{policy} pause-max=none");
        let clients = [every("latency", 20 * MS, 10, MS), always("batch deadline=1ms", 200_000)];
        let (served, used) = serve(&settings, &clients, 1000 * MS);
        // What runs is waited for, and no batch work after it.
        assert!(longest(&served, 0) <= 11 * MS, "{policy}: {} ns", longest(&served, 0));
        assert!(used[1] > 450 * MS, "{policy}: {used:?}");
    }
}

#[test]
fn a_client_whose_due_time_is_past_is_no_more_urgent_than_all_others() {
    let clients = [always("deadline=5ms", 100_000), always("deadline=10ms", 100_000)];
    let (_, used) = serve("policy=deadline pause-max=none", &clients, 1000 * MS);
    assert!(used.iter().all(|used| *used > 200 * MS), "{used:?}");
    // Work that is never due goes on, slowly.
    let clients = [always("deadline=5ms", 100_000), always("", 100_000)];
    let (_, used) = serve("policy=deadline pause-max=10ms", &clients, 1000 * MS);
    assert!(used[1] >= 5 * MS && used[1] < 20 * MS, "{used:?}");
}
