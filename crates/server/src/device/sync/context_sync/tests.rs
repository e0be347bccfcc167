//! Tests of calls that wait for the context: who is held, for how long, and what ends a wait.

use super::*;
use std::sync::mpsc::channel;

/// A session with one stream, which has work until `done` says so.
fn busy(sync: &ContextSync, client: &str, stream: usize) -> SessionInFlight {
    let session = sync.join(client);
    session.add_stream(CUstream(stream));
    session.set_busy(true);
    session.set_in_flight(100, 100, 1);
    session
}

const LOAD: ContextCall = ContextCall::LoadModule;

/// Makes a call for client 7, which does not end.
fn make<R>(
    sync: &ContextSync,
    own: &SessionInFlight,
    is_done: &dyn Fn(CUstream) -> bool,
    f: impl FnOnce() -> R,
) -> R {
    sync.make(LOAD, ("7", Some(own)), is_done, &|| false, f).expect("the client goes on")
}

#[test]
fn a_call_is_made_when_nothing_is_in_flight_and_is_counted() {
    let sync = Arc::new(ContextSync::default());
    let (other, own) = (busy(&sync, "3", 1), sync.join("7"));
    assert!(!sync.is_idle());
    let ended = AtomicBool::new(false);
    // The other one drains when it sees that a call is pending, and ends its work when it is held.
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !sync.is_pending() {
                std::thread::yield_now();
            }
            other.set_in_flight(SHALLOW_KERNELS, SHALLOW_KERNELS, 1);
            while !sync.is_held() {
                std::thread::yield_now();
            }
            ended.store(true, Ordering::SeqCst);
        });
        let is_done = |_| ended.load(Ordering::SeqCst);
        make(&sync, &own, &is_done, || {
            assert!(sync.is_pending() && sync.is_held());
            let [waiting] = &sync.waiting()[..] else { panic!("one call is in flight") };
            let (call, client) = (waiting.call, waiting.client.as_str());
            assert_eq!((call, client), (ContextCall::LoadModule, "7"));
            assert_eq!(waiting.others, ["3"], "it waited for them");
            ended.load(Ordering::SeqCst)
        })
    });
    assert!(seen, "it was made while there was work");
    assert_eq!((sync.is_pending(), sync.is_held(), sync.waiting()), (false, false, vec![]));
    for (call, totals) in sync.totals() {
        let count = u64::from(call == ContextCall::LoadModule);
        assert_eq!((totals.calls, totals.beside_others), (count, count), "{call:?}");
        assert!(totals.longest_ns <= totals.total_ns);
    }
    sync.leave(&other);
    sync.leave(&own);
    assert!(sync.is_idle());
}

#[test]
fn work_that_waits_for_other_servers_gets_what_it_waits_for() {
    // On each of two devices a kernel of one program waits for its kernel on the other device, which
    // is submitted there when nothing is held; the other program's server makes a call.
    let servers = [(); 2].map(|()| Arc::new(ContextSync::default()));
    let [submitted, is_made] = [(); 2].map(|()| [(); 2].map(|()| Arc::new(AtomicBool::new(false))));
    let (made, all_made) = channel();
    for device in 0..2 {
        let (server, there) = (servers[device].clone(), submitted[1 - device].clone());
        let done = is_made[device].clone();
        let own = busy(&server, "7", 2);
        own.set_busy(false);
        let session = busy(&server, "3", 1);
        let made = made.clone();
        std::thread::spawn(move || {
            let is_done = |_| there.load(Ordering::SeqCst);
            make(&server, &own, &is_done, || ());
            done.store(true, Ordering::SeqCst);
            drop(session);
            made.send(device).expect("the test");
        });
        let (server, here) = (servers[device].clone(), submitted[device].clone());
        let done = is_made[device].clone();
        std::thread::spawn(move || {
            // It comes when both servers hold. A busy machine may keep this thread from seeing a hold; behind
            // the server's call there is none.
            while !server.is_held() && !done.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            while server.is_held() {
                std::thread::yield_now();
            }
            here.store(true, Ordering::SeqCst);
        });
    }
    let mut devices: Vec<usize> = (0..2).map(|_| all_made.recv().expect("a call")).collect();
    devices.sort_unstable();
    assert_eq!(devices, [0, 1]);
}

#[test]
fn many_who_load_beside_work_that_never_pauses_get_their_turns() {
    const LOADS: usize = 50;
    let (sync, start) = (ContextSync::default(), Instant::now());
    // By stream: when its work ends, us.
    let ends: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    let now = || start.elapsed().as_micros() as u64;
    let is_done = |stream: CUstream| ends[stream.0].load(Ordering::SeqCst) <= now();
    let sessions: Vec<SessionInFlight> = (0..8).map(|at| busy(&sync, "x", at)).collect();
    // What several load is loaded by one of them, for whom the others wait.
    let slots: Vec<Mutex<bool>> = (0..LOADS).map(|_| Mutex::default()).collect();
    let loads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (at, own) in sessions.iter().enumerate() {
            let (sync, ends, slots, loads) = (&sync, &ends, &slots, &loads);
            scope.spawn(move || {
                for slot in slots {
                    for _ in 0..20 {
                        while !sync.may_submit(own) {
                            std::thread::yield_now();
                        }
                        let after = ends[at].load(Ordering::SeqCst).max(now());
                        ends[at].store(after + 100, Ordering::SeqCst);
                        own.set_in_flight(2, 2, 1);
                        own.set_in_flight(1, 1, 1);
                        own.end_submitting();
                    }
                    let mut loaded = slot.lock();
                    if !std::mem::replace(&mut *loaded, true) {
                        make(sync, own, &is_done, || loads.fetch_add(1, Ordering::SeqCst));
                    }
                }
            });
        }
    });
    assert_eq!(loads.into_inner(), LOADS);
}

#[test]
fn beside_work_that_makes_progress_a_call_is_made_when_little_of_it_is_in_flight() {
    let sync = ContextSync::default();
    let (other, own) = (busy(&sync, "3", 1), sync.join("7"));
    let [ended, was_held] = [(); 2].map(|()| AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One kernel after the other ends of a long queue, and then there is always another one.
            let mut before = start;
            while !ended.load(Ordering::SeqCst) {
                other.makes_progress(CUstream(1));
                let (now, is_held) = (Instant::now(), sync.is_held());
                // Where the machine has left this thread without a processor, the work made no progress.
                let progressed =
                    now - before < STALLED_AFTER / 2 && now.elapsed() < STALLED_AFTER / 2;
                before = now;
                let is_long = start.elapsed() < 3 * FORCE_AFTER;
                was_held.fetch_or(is_long && progressed && is_held, Ordering::SeqCst);
                let count = if is_long { 100 } else { SHALLOW_KERNELS };
                other.set_in_flight(count, count, 1);
                std::thread::yield_now();
            }
        });
        let in_flight = make(&sync, &own, &|_| false, || {
            ended.store(true, Ordering::SeqCst);
            other.kernels()
        });
        assert!(in_flight <= SHALLOW_KERNELS, "{in_flight}");
    });
    assert!(!was_held.into_inner(), "all would wait for the whole queue");
}

#[test]
fn a_graph_of_many_kernels_is_one_launch() {
    let sync = ContextSync::default();
    let (other, own) = (busy(&sync, "3", 1), sync.join("7"));
    // There is always another graph of that client's, but while it is held.
    other.set_in_flight(150, 1, 1);
    make(&sync, &own, &|_| sync.is_held(), || assert!(sync.is_held()));
}

#[test]
fn a_session_that_waits_for_its_own_call_need_not_count_down() {
    let sync = ContextSync::default();
    let [one, other] = [busy(&sync, "3", 1), busy(&sync, "7", 2)];
    let (gone, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for own in [&one, &other] {
            scope.spawn(|| {
                let is_done = |_| gone.load(Ordering::SeqCst);
                make(&sync, own, &is_done, || made.fetch_add(1, Ordering::SeqCst));
            });
        }
        while sync.waiting().len() < 2 {
            std::thread::yield_now();
        }
        gone.store(true, Ordering::SeqCst);
    });
    assert_eq!((one.kernels(), other.kernels(), made.into_inner()), (100, 100, 2));
}

#[test]
fn between_calls_that_follow_each_other_those_that_are_held_have_their_turn() {
    const CALLS: usize = 50;
    let sync = ContextSync::default();
    let (other, own) = (busy(&sync, "3", 1), sync.join("7"));
    [&other, &own].into_iter().for_each(|session| session.set_busy(false));
    let (submitted, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It always has something to submit, and is held when it comes.
            while !ended.load(Ordering::SeqCst) {
                while !sync.is_held() && !ended.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let waits = sync.begin_waiting();
                while !sync.may_submit(&other) {
                    sync.wait_while_held(REST_PAUSE_MAX);
                }
                submitted.fetch_add(1, Ordering::SeqCst);
                drop(waits);
                other.end_submitting();
            }
        });
        for _ in 0..CALLS {
            make(&sync, &own, &|_| true, || {
                while !sync.turns.is_waited_for() {
                    std::thread::yield_now();
                }
                seen.push(submitted.load(Ordering::SeqCst));
            });
        }
        ended.store(true, Ordering::SeqCst);
    });
    // A thread that the machine leaves without a processor for long is not waited for.
    let turns = seen.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(turns > CALLS / 2, "{seen:?}");
}

#[test]
fn of_those_that_wait_one_asks_the_provider() {
    const CALLS: usize = 20;
    let sync = ContextSync::default();
    let _endless = busy(&sync, "3", 1);
    let askers = Mutex::new(std::collections::HashSet::new());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..CALLS {
            scope.spawn(|| {
                let is_done = |_| {
                    if !ended.load(Ordering::SeqCst) {
                        askers.lock().insert(std::thread::current().id());
                    }
                    ended.load(Ordering::SeqCst)
                };
                sync.make(LOAD, ("7", None), &is_done, &|| false, || ())
            });
        }
        while sync.waiting().len() < CALLS {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            while !sync.is_held() {
                std::thread::yield_now();
            }
            while sync.is_held() {
                std::thread::yield_now();
            }
        }
        ended.store(true, Ordering::SeqCst);
    });
    assert_eq!(askers.lock().len(), 1);
}

#[test]
fn what_is_set_bounds_a_hold() {
    for bound in [HOLD_MAX, Duration::from_millis(2)] {
        let sync = ContextSync::default();
        sync.set_hold_max(bound);
        let lengths = (0..2000).map(|random| hold_length(sync.hold_max(), random));
        assert!(lengths.into_iter().all(|length| (bound / 2..=bound).contains(&length)));
    }
    assert_eq!(ContextSync::default().hold_max(), HOLD_MAX);
}

#[test]
fn a_stream_that_stands_still_counts_beside_one_that_makes_progress() {
    let sync = ContextSync::default();
    let (other, own) = (busy(&sync, "3", 1), sync.join("7"));
    other.add_stream(CUstream(4));
    let (ended, forced) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let makes_progress = scope.spawn(|| {
            // After that many holds the call would have been made long ago.
            let (mut holds, mut was_held) = (0, false);
            while holds < 4 {
                other.makes_progress(CUstream(4));
                holds += u32::from(sync.is_held() && !was_held);
                was_held = sync.is_held();
                std::thread::yield_now();
            }
            ended.store(true, Ordering::SeqCst);
        });
        let is_done = |_| ended.load(Ordering::SeqCst);
        make(&sync, &own, &is_done, || {
            forced.store(!ended.load(Ordering::SeqCst), Ordering::SeqCst);
        });
        makes_progress.join().expect("the other client");
    });
    assert!(!forced.into_inner(), "all would wait for the stream that stands still");
}

#[test]
fn others_are_held_for_a_small_part_of_the_time_beside_work_that_does_not_get_on() {
    let sync = ContextSync::default();
    let (_endless, own) = (busy(&sync, "3", 1), sync.join("7"));
    let is_done = |stream| stream == CUstream(2);
    let request = Request {
        call: LOAD,
        client: "7",
        own: Some(&own),
        number: 0,
        began: Instant::now(),
        others: Vec::new(),
        is_done: &is_done,
        ends: &|| false,
    };
    wait(Duration::from_secs(600), PAUSE_MAX, || sync.is_stalled(&is_done));
    let mut rounds = Rounds::default();
    let start = Instant::now();
    assert!(sync.round(&mut rounds, &request).is_none());
    let rest = rounds.rest_until.expect("the others go on");
    // Each hold takes half of the longest one at least.
    assert!(rest >= start + (HOLD_MAX / 2) * (100 / HELD_PERCENT_MAX), "{:?}", rest - start);
    // A machine that was slow to look has made the hold long, and the rest longer than one call waits for it.
    while rounds.count < 2 {
        assert!(sync.round(&mut rounds, &request).is_none());
    }
    assert!(Instant::now() >= rest, "they go on until then");
    // Another one that waits holds no others.
    let first = sync.rounds.lock();
    assert!(sync.share_quiet(&request).is_none());
    assert_eq!(first.count, 0);
    // When the work makes progress, what waits does not rest any longer.
    sync.sessions.lock()[0].in_flight.set_busy(false);
    let quiet = sync.round(&mut rounds, &request).expect("nothing is in flight");
    assert!(sync.is_held() && rounds.rest_until.is_none());
    drop(quiet);
}

#[test]
fn a_call_whose_client_ends_is_not_made_and_is_reported() {
    let sync = Arc::new(ContextSync::default());
    let (reports, reported) = channel();
    let reports = Mutex::new(reports);
    sync.report_to(move |report| {
        let _ = reports.lock().send(report.clone());
    });
    let (_endless, own) = (busy(&sync, "3", 1), sync.join("7"));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            let ends = || ended.load(Ordering::SeqCst);
            let is_done = |stream| stream == CUstream(2);
            sync.make(LOAD, ("7", Some(&own)), &is_done, &ends, || ())
        });
        let report = reported.recv().expect("a report of the wait");
        assert_eq!((report.progress, report.client.as_str()), (CallProgress::Waits, "7"));
        let [(client, since)] = &report.stalled[..] else { panic!("{report:?}") };
        assert!(client == "3" && *since >= STALLED_AFTER, "{report:?}");
        let [waiting] = &sync.waiting()[..] else { panic!("one call is in flight") };
        assert_eq!(waiting.others, ["3"], "for whom it waits");
        ended.store(true, Ordering::SeqCst);
        assert_eq!(call.join().expect("the call"), None);
    });
    assert!(!sync.is_held() && !sync.is_pending() && sync.waiting().is_empty());
    let report = reported.try_iter().last().expect("a report of its end");
    assert_eq!(report.progress, CallProgress::GivenUp);
}

#[test]
fn beside_endless_work_a_call_is_made_when_all_are_to_end() {
    let sync = ContextSync::default();
    let (_endless, own) = (busy(&sync, "3", 1), sync.join("7"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !sync.is_held() {
                std::thread::yield_now();
            }
            sync.hurry();
        });
        make(&sync, &own, &|stream| stream == CUstream(2), || ());
    });
}

#[test]
fn others_go_on_while_the_callers_own_work_may_soon_end() {
    let sync = ContextSync::default();
    let (_other, own) = (busy(&sync, "3", 1), busy(&sync, "7", 2));
    let (ended, start) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The other one's work ends at once.
            let is_done = |stream| stream == CUstream(1) || ended.load(Ordering::SeqCst);
            make(&sync, &own, &is_done, || assert!(sync.is_held()));
        });
        let mut held = false;
        while start.elapsed() < FORCE_AFTER / 2 {
            // What is seen late may have been so late.
            held |= (sync.is_pending() || sync.is_held()) && start.elapsed() < FORCE_AFTER;
            std::thread::yield_now();
        }
        ended.store(true, Ordering::SeqCst);
        assert!(!held, "there can be no quiet moment yet");
    });
}

#[test]
fn who_waits_for_its_own_work_is_served_by_another_calls_moment() {
    const LOOKS: usize = 100;
    let sync = ContextSync::default();
    let (_other, own) = (busy(&sync, "3", 1), busy(&sync, "7", 2));
    let (looks, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let rounds = sync.rounds.lock();
    sync.turns.owner_is_there();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_done = |_| {
                looks.fetch_add(1, Ordering::SeqCst);
                false
            };
            sync.make(LOAD, ("7", Some(&own)), &is_done, &|| ended.load(Ordering::SeqCst), || ())
        });
        while sync.turns.waiting() == 0 && looks.load(Ordering::SeqCst) < LOOKS {
            std::thread::yield_now();
        }
        let looks = looks.load(Ordering::SeqCst);
        ended.store(true, Ordering::SeqCst);
        assert!(looks < LOOKS, "it waits for its own work alone");
    });
    drop(rounds);
}

#[test]
fn who_is_alone_waits_within_the_call() {
    let sync = ContextSync::default();
    let own = busy(&sync, "7", 1);
    let is_done = |_| panic!("the provider is not asked");
    make(&sync, &own, &is_done, || {
        assert!(!sync.is_held());
    });
}

#[test]
fn a_long_call_is_reported() {
    let sync = ContextSync::default();
    let (reports, reported) = channel();
    let reports = Mutex::new(reports);
    sync.report_to(move |report| {
        let _ = reports.lock().send(report.clone());
    });
    let (_other, own) = (busy(&sync, "3", 1), sync.join("7"));
    make(&sync, &own, &|_| true, || std::thread::sleep(2 * REPORT_MIN));
    let report = reported.try_recv().expect("a report of a long call");
    assert_eq!((report.call, &report.others[..]), (LOAD, &["3".to_owned()][..]));
    assert_eq!(report.client, "7");
    assert!(matches!(report.progress, CallProgress::Made(took) if took >= REPORT_MIN));
}

#[test]
fn a_call_of_the_servers_own_is_made_in_a_quiet_moment_or_not_at_all() {
    let sync = ContextSync::default();
    let other = busy(&sync, "3", 1);
    const MAKE: ContextCall = ContextCall::CreateGreenContext;
    assert_eq!(sync.make_if_quiet(MAKE, &|_| false, || 1), None);
    assert!(!sync.is_held() && !sync.is_pending());
    // Between the first look and the hold something was submitted.
    let looks = AtomicUsize::new(0);
    let is_done = |_| looks.fetch_add(1, Ordering::Relaxed) == 0;
    assert_eq!(sync.make_if_quiet(MAKE, &is_done, || 2), None);
    assert_eq!(looks.load(Ordering::Relaxed), 2);
    // A session that may be submitting something is no quiescent point.
    assert!(sync.may_submit(&other));
    assert_eq!(sync.make_if_quiet(MAKE, &|_| true, || 3), None);
    other.end_submitting();
    assert_eq!(sync.make_if_quiet(MAKE, &|_| true, || sync.is_held()), Some(true));
    let calls = sync.totals().find(|(call, _)| *call == MAKE).map(|(_, totals)| totals.calls);
    assert_eq!((calls, sync.is_held()), (Some(1), false));
}
