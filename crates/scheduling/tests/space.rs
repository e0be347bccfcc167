//! The gate over simulated clients: a latency client and a batch client on a device whose SMs they share.

use scheduling::{ClientId, ClientSettings, Core, Hold, Predicted, Settings, Verdict};

const US: u64 = 1000;
const STEP_NS: u64 = 20 * US;
const SMS: u32 = 132;
/// What a request of the latency client takes alone, and a kernel of the batch client on all SMs, ns.
const REQUEST_NS: u64 = 3000 * US;
const KERNEL_NS: u64 = 400 * US;

/// Work on the device: what is left of it, and when it began, ns.
struct Running {
    left_ns: f64,
    began_ns: u64,
}

/// What came of it, beside what each client makes alone.
struct Outcome {
    latency: f64,
    batch: f64,
    /// The longest request, of what one takes alone.
    longest: f64,
    shared_ms: u64,
}

struct Simulation {
    core: Core,
    latency: ClientId,
    batch: ClientId,
    now: u64,
}

impl Simulation {
    fn new(settings: &str) -> Self {
        let settings = Settings::parse(settings).expect("settings");
        let mut core = Core::new(settings).of_device(SMS);
        let mut join = |text| core.join(ClientSettings::parse(text).expect("settings"));
        let (latency, batch) = (join("class=latency"), join("class=batch"));
        Self { core, latency, batch, now: 0 }
    }

    /// Runs for so many seconds: a request comes `gap_ns` after the end of the one before or, if that is `even`, after
    /// its beginning. Each SM that batch work uses slows a request by so many ‰.
    fn run(&mut self, seconds: u64, gap_ns: u64, even: bool, each_permille: f64) -> Outcome {
        let (mut request, mut kernel) = (None::<Running>, None::<(Running, u32)>);
        let (mut next_ns, mut requests, mut kernels) = (self.now, 0u64, 0.0);
        let (mut longest, mut shared_ms) = (0f64, 0);
        let end = self.now + seconds * 1_000_000_000;
        let mut rng = fastrand::Rng::with_seed(7);
        while self.now < end {
            let now = self.now;
            if request.is_none() && now >= next_ns {
                self.core.arrived(self.latency, now);
                let verdict = self.core.ask(self.latency, REQUEST_NS, now);
                assert!(matches!(verdict, Verdict::Go { .. }), "a request never waits");
                self.core.submitted(self.latency, REQUEST_NS, now);
                // Requests differ by a twentieth.
                let left_ns = REQUEST_NS as f64 * (0.975 + rng.f64() / 20.0);
                request = Some(Running { left_ns, began_ns: now });
                next_ns = if even { now + gap_ns } else { u64::MAX };
            }
            if kernel.is_none()
                && let Verdict::Go { free_sms } = self.core.ask(self.batch, KERNEL_NS, now)
            {
                self.core.submitted(self.batch, KERNEL_NS, now);
                kernel =
                    Some((Running { left_ns: KERNEL_NS as f64, began_ns: now }, SMS - free_sms));
            }
            let batch_sms = kernel.as_ref().map_or(0, |(_, sms)| *sms);
            self.now += STEP_NS;
            if let Some((running, sms)) = &mut kernel {
                running.left_ns -= STEP_NS as f64 * f64::from(*sms) / f64::from(SMS);
                if running.left_ns <= 0.0 {
                    kernels += 1.0;
                    self.core.completed(
                        self.batch,
                        KERNEL_NS,
                        self.now - running.began_ns,
                        self.now,
                    );
                    kernel = None;
                }
            }
            if let Some(running) = &mut request {
                running.left_ns -=
                    STEP_NS as f64 / (1.0 + each_permille * f64::from(batch_sms) / 1000.0);
                if running.left_ns <= 0.0 {
                    let (took, began) = (self.now - running.began_ns, running.began_ns);
                    requests += 1;
                    longest = longest.max(took as f64 / REQUEST_NS as f64);
                    self.core.completed(self.latency, REQUEST_NS, took, self.now);
                    self.core.sampled(self.latency, (took, REQUEST_NS), began);
                    self.core.idle(self.latency, self.now);
                    request = None;
                    if !even {
                        next_ns = self.now + gap_ns;
                    }
                }
            }
            self.core.awake();
            shared_ms += u64::from(self.core.space().is_some()) * STEP_NS / US;
        }
        let ns = (seconds * 1_000_000_000) as f64;
        let alone = if even { ns / gap_ns as f64 } else { ns / (REQUEST_NS + gap_ns) as f64 };
        let batch = kernels * KERNEL_NS as f64 / ns;
        Outcome { latency: requests as f64 / alone, batch, longest, shared_ms: shared_ms / 1000 }
    }
}

#[test]
fn a_server_that_is_never_idle_and_batch_work_both_go_on() {
    // A server waits for 200 us between two steps. How much each SM slows it, ‰, and what batch work is to have.
    for (each, least_batch) in [(0.5, 0.70), (2.0, 0.68), (4.0, 0.30), (8.0, 0.10)] {
        let mut simulation = Simulation::new("");
        // Until the size is found.
        simulation.run(5, 200 * US, false, each);
        let Outcome { latency, batch, .. } = simulation.run(20, 200 * US, false, each);
        assert!(latency >= 1.0 / 1.27, "{each}: the server has {latency:.2} of alone");
        assert!(batch >= least_batch, "{each}: batch work has {batch:.2} of alone");
    }
    let mut turns = Simulation::new("space=off");
    let Outcome { latency, batch, .. } = turns.run(10, 200 * US, false, 4.0);
    assert!(latency > 0.95 && batch < 0.08, "in turns: {latency:.2} and {batch:.2}");
}

#[test]
fn requests_that_leave_time_are_served_in_turns_as_before() {
    let (mut before, mut now) = (Simulation::new("space=off"), Simulation::new(""));
    let each = [&mut before, &mut now].map(|of| of.run(20, 10_000 * US, true, 4.0));
    let [before, now] = each;
    assert_eq!(now.shared_ms, 0);
    assert!((now.batch - before.batch).abs() < 0.01 && (now.longest - before.longest).abs() < 0.01);
    assert!(now.batch > 0.5 && now.longest < 1.35, "{:.2} {:.2}", now.batch, now.longest);
}

#[test]
fn a_bound_of_none_and_no_least_part_leave_all_to_the_server() {
    let mut simulation = Simulation::new("slowdown=1 least=0% pause-max=none");
    simulation.run(5, 200 * US, false, 4.0);
    let Outcome { latency, batch, .. } = simulation.run(20, 200 * US, false, 4.0);
    assert!(latency > 0.97 && batch < 0.12, "{latency:.2} {batch:.2}");
}

#[test]
fn a_client_of_no_class_is_never_held_for_it() {
    let mut simulation = Simulation::new("");
    simulation.run(3, 200 * US, false, 4.0);
    let normal = simulation.core.join(ClientSettings::default());
    for _ in 0..50 {
        simulation.run(1, 200 * US, false, 4.0);
        let verdict = simulation.core.ask(normal, Predicted::UNKNOWN, simulation.now);
        assert!(!matches!(verdict, Verdict::Wait { hold: Hold::Policy, .. }), "{verdict:?}");
        simulation.core.idle(normal, simulation.now);
    }
}
