//! Engine: the events of a simulation, and the sessions between clients and the device.

use crate::device::{KernelId, Resident, Room};
use crate::mix::{ArrivalPattern, ClientSpec, DeviceSpec, Mix, MixError};
use crate::outcome::{ClientOutcome, Outcome, quantile_us};
use fastrand::Rng;
use scheduling::predict::{UNKNOWN_NS, takes_alone};
use scheduling::{Class, ClientId, ClientSettings, Core, Settings, Verdict};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Most pieces of work that a client has at the device: beyond it its ring pushes back.
const QUEUE_MAX: usize = 1024;
/// Blocks of one placement end in so many parts at most, a little apart, as blocks do. Parts have this
/// many threads at least: else each block would come to be an event of its own.
const PARTS: u32 = 4;
const PART_THREADS: u32 = 16_384;
/// Ends of blocks are at multiples of this, ns: those that come close to each other are one.
const TICK_NS: u64 = 500;
/// The first part of the time is not counted: clients find their pace, kernels' times are learnt.
const WARM_UP: f64 = 0.1;
/// A stream's priorities, as an H200's.
const PRIORITIES: (i32, i32) = (0, -5);

/// A kernel of a client's request.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    blocks: u32,
    threads: u32,
    block_ns: u64,
}

/// What is submitted at once.
#[derive(Clone, Copy, Debug)]
enum Work {
    Copy(u64),
    /// Kernels of the request, from and to.
    Kernels(usize, usize),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A client's next request comes.
    Arrival(usize),
    /// A client's session looks at its ring.
    Session(usize),
    /// A client that was throttled may go on at the latest.
    Retry(usize),
    /// A client's stream begins what is next in it.
    Stream(usize),
    /// Blocks end.
    Blocks(KernelId, u32),
    /// A client's copy ends.
    Copied(usize),
    /// The server sees that a client's work, predicted and measured so long, has ended.
    Seen(usize, u64, u64),
}

/// What was so when work was submitted.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    at_ns: u64,
    /// No batch work was beside it.
    is_alone: bool,
    /// It is a latency-critical client's, and classes shared in space.
    is_followed: bool,
}

/// Work in a stream.
#[derive(Clone, Copy, Debug)]
struct InStream {
    work: Work,
    predicted_ns: u64,
    free_sms: u32,
    submitted: Submitted,
    began_ns: Option<u64>,
    last: bool,
}

struct Client {
    id: ClientId,
    group: usize,
    kernels: Vec<Kernel>,
    /// What a request is submitted as.
    submissions: Vec<Work>,
    /// What is known of each submission's time, ns; 0: nothing.
    known_ns: Vec<u64>,
    /// What each takes without batch work beside it, ns; 0: not known.
    alone_ns: Vec<u64>,
    settings: ClientSettings,
    /// When requests came that are not done.
    requests: VecDeque<u64>,
    /// Requests whose submission is in progress or ahead, and how far the first of them is.
    to_submit: u64,
    next_submission: usize,
    stream: VecDeque<InStream>,
    /// The next kernel of the work that runs.
    next_kernel: usize,
    running: bool,
    session_due: bool,
    /// When it may go on at the latest, if it was throttled, ns.
    retry_ns: Option<u64>,
    latencies_ns: Vec<u64>,
    kernels_done: u64,
    late: u64,
}

struct Simulation<'a> {
    mix: &'a Mix,
    core: Core,
    room: Room,
    now: u64,
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Events by their place; places are used again.
    waiting: Vec<Event>,
    spare: Vec<usize>,
    clients: Vec<Client>,
    by_id: HashMap<ClientId, usize>,
    rng: Rng,
    next_kernel: KernelId,
    thread_ns: Vec<u64>,
    /// Until when the copy engine is busy, ns.
    copies_until: u64,
    /// Blocks may find room that had none.
    room_changed: bool,
    /// What happens before is not counted, ns.
    counted_from: u64,
}

fn ns(us: f64) -> u64 {
    (us * 1e3) as u64
}

/// Simulates a mix for so many seconds. The same seed gives the same outcome.
///
/// # Errors
/// What is wrong with the mix.
pub fn simulate(
    mix: &Mix,
    settings: &Settings,
    seconds: f64,
    seed: u64,
) -> Result<Outcome, MixError> {
    mix.check()?;
    let mut simulation = Simulation::new(mix, settings, seed)?;
    simulation.counted_from = ns(seconds * WARM_UP * 1e6);
    simulation.run(ns(seconds * 1e6));
    Ok(simulation.outcome(seconds * (1.0 - WARM_UP)))
}

impl<'a> Simulation<'a> {
    fn new(mix: &'a Mix, settings: &Settings, seed: u64) -> Result<Self, MixError> {
        let mut simulation = Self {
            mix,
            core: Core::new(settings.clone()).of_device(mix.device.sms),
            room: Room::new(mix.device.sms, mix.device.threads_per_sm),
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            waiting: Vec::new(),
            spare: Vec::new(),
            clients: Vec::new(),
            by_id: HashMap::new(),
            rng: Rng::with_seed(seed),
            next_kernel: 0,
            thread_ns: vec![0; mix.clients.len()],
            copies_until: 0,
            room_changed: false,
            counted_from: 0,
        };
        for (group, spec) in mix.clients.iter().enumerate() {
            let settings = ClientSettings::parse(&spec.settings)
                .map_err(|error| MixError::Settings(spec.name.clone(), error))?;
            for _ in 0..spec.count {
                simulation.add(group, spec, settings);
            }
        }
        Ok(simulation)
    }

    fn add(&mut self, group: usize, spec: &ClientSpec, settings: ClientSettings) {
        let mut kernels = Vec::new();
        for kind in &spec.kernels {
            for _ in 0..kind.count {
                let [least, most] = kind.blocks;
                let [from, to] = kind.block_us;
                let step = kind.block_step;
                kernels.push(Kernel {
                    blocks: self.rng.u32(least.div_ceil(step)..=most / step) * step,
                    threads: kind.threads,
                    block_ns: ns(from + (to - from) * self.rng.f64()).max(1),
                });
            }
        }
        let mut submissions = Vec::new();
        if spec.copy_bytes > 0 {
            submissions.push(Work::Copy(spec.copy_bytes));
        }
        match spec.graph {
            true => submissions.push(Work::Kernels(0, kernels.len())),
            false => submissions.extend((0..kernels.len()).map(|k| Work::Kernels(k, k + 1))),
        }
        let client = self.clients.len();
        let id = self.core.join(settings);
        self.by_id.insert(id, client);
        self.clients.push(Client {
            id,
            group,
            known_ns: vec![0; submissions.len()],
            alone_ns: vec![0; submissions.len()],
            kernels,
            submissions,
            settings,
            requests: VecDeque::new(),
            to_submit: 0,
            next_submission: 0,
            stream: VecDeque::new(),
            next_kernel: 0,
            running: false,
            session_due: false,
            retry_ns: None,
            latencies_ns: Vec::new(),
            kernels_done: 0,
            late: 0,
        });
        // Clients of one group do not come in step.
        let first = match spec.arrivals {
            ArrivalPattern::Poisson(rate) => ns(-(1.0 - self.rng.f64()).ln() * 1e6 / rate),
            ArrivalPattern::Even(rate) | ArrivalPattern::Paced(rate) => {
                ns(self.rng.f64() * 1e6 / rate)
            }
            ArrivalPattern::Always => self.rng.u64(0..100_000),
        };
        self.after(first, Event::Arrival(client));
    }

    fn after(&mut self, ns: u64, event: Event) {
        let place = match self.spare.pop() {
            Some(place) => {
                self.waiting[place] = event;
                place
            }
            None => {
                self.waiting.push(event);
                self.waiting.len() - 1
            }
        };
        self.sequence += 1;
        self.events.push(Reverse((self.now.saturating_add(ns), self.sequence, place)));
    }

    fn run(&mut self, end_ns: u64) {
        loop {
            let Some(Reverse((at, _, place))) = self.events.pop() else {
                if !std::mem::take(&mut self.room_changed) {
                    break;
                }
                self.place();
                continue;
            };
            if at > self.now && std::mem::take(&mut self.room_changed) {
                // Placed at the time of the change, of which this event may not be the first after.
                self.events.push(Reverse((at, 0, place)));
                self.place();
                continue;
            }
            if at >= end_ns {
                break;
            }
            self.now = at;
            self.spare.push(place);
            match self.waiting[place] {
                Event::Arrival(client) => self.arrival(client),
                Event::Session(client) => self.session(client),
                Event::Retry(client) => {
                    self.clients[client].retry_ns = None;
                    self.look(client, 0);
                }
                Event::Stream(client) => self.begin(client),
                Event::Blocks(kernel, blocks) => self.blocks_end(kernel, blocks),
                Event::Copied(client) => self.work_end(client),
                Event::Seen(client, predicted_ns, device_ns) => {
                    self.seen(client, predicted_ns, device_ns);
                }
            }
        }
    }

    fn device(&self) -> &DeviceSpec {
        &self.mix.device
    }

    fn arrival(&mut self, index: usize) {
        let spec = &self.mix.clients[self.clients[index].group];
        let client = &mut self.clients[index];
        client.requests.push_back(self.now);
        client.to_submit += 1;
        let next = match spec.arrivals {
            ArrivalPattern::Even(rate) => Some(1e6 / rate),
            ArrivalPattern::Poisson(rate) => Some(-(1.0 - self.rng.f64()).ln() * 1e6 / rate),
            ArrivalPattern::Paced(_) | ArrivalPattern::Always => None,
        };
        let id = client.id;
        if let Some(us) = next {
            self.after(ns(us).max(1), Event::Arrival(index));
        }
        self.core.arrived(id, self.now);
        self.look(index, 0);
    }

    /// Has a session look at its ring after some time, unless it will anyway.
    fn look(&mut self, index: usize, after_ns: u64) {
        if !std::mem::replace(&mut self.clients[index].session_due, true) {
            self.after(after_ns, Event::Session(index));
        }
    }

    /// A session submits its client's next piece of work, if there is one and the gate lets it through.
    fn session(&mut self, index: usize) {
        let now = self.now;
        let client = &mut self.clients[index];
        client.session_due = false;
        if client.to_submit == 0 || client.stream.len() >= QUEUE_MAX {
            return;
        }
        let number = client.next_submission;
        let work = client.submissions[number];
        let predicted_ns = match client.known_ns[number] {
            0 => UNKNOWN_NS,
            known => known,
        };
        let free_sms = match self.core.ask(client.id, predicted_ns, now) {
            Verdict::Go { free_sms } => free_sms,
            Verdict::Wait { until, .. } => {
                // Each client has one retry ahead, the next one.
                let until = until.filter(|until| client.retry_ns.is_none_or(|at| *until < at));
                if let Some(until) = until {
                    client.retry_ns = Some(until);
                    self.after(until.saturating_sub(now).max(1), Event::Retry(index));
                }
                return self.awaken();
            }
        };
        self.core.submitted(client.id, predicted_ns, now);
        let last = number + 1 == client.submissions.len();
        client.next_submission = if last { 0 } else { number + 1 };
        if last {
            client.to_submit -= 1;
        }
        let is_latency = client.settings.class == Class::Latency;
        let submitted = Submitted {
            at_ns: now,
            is_alone: self.core.is_alone(now),
            is_followed: is_latency && self.core.shares_space(),
        };
        let entry = InStream { work, predicted_ns, free_sms, submitted, began_ns: None, last };
        client.stream.push_back(entry);
        let more = client.to_submit > 0;
        let submit_ns = ns(self.device().submit_us);
        if !std::mem::replace(&mut self.clients[index].running, true) {
            self.after(submit_ns, Event::Stream(index));
        }
        if more {
            self.look(index, submit_ns.max(1));
        }
    }

    /// A stream begins what is next in it: a copy, or a kernel.
    fn begin(&mut self, index: usize) {
        let now = self.now;
        let client = &mut self.clients[index];
        let Some(entry) = client.stream.front_mut() else {
            client.running = false;
            return;
        };
        if entry.began_ns.is_none() {
            entry.began_ns = Some(now);
            if let Work::Kernels(first, _) = entry.work {
                client.next_kernel = first;
            }
        }
        let entry = *entry;
        match entry.work {
            Work::Copy(bytes) => {
                let begins = self.copies_until.max(now);
                let ends = begins + (bytes as f64 / self.device().copy_gb_per_s) as u64;
                self.copies_until = ends;
                self.after(ends - now, Event::Copied(index));
            }
            Work::Kernels(..) => {
                let kernel = client.kernels[client.next_kernel];
                let wanted = client.settings.class.stream_priority(0, PRIORITIES.0, PRIORITIES.1);
                let priority = if self.core.settings().priorities { wanted } else { 0 };
                let per_sm = u64::from(self.device().threads_per_sm);
                let resident = Resident {
                    client: index,
                    waiting: kernel.blocks,
                    running: 0,
                    threads: kernel.threads,
                    block_ns: kernel.block_ns,
                    priority,
                    keep_free: u64::from(entry.free_sms) * per_sm,
                    ended: 0,
                };
                self.next_kernel += 1;
                let id = self.next_kernel;
                self.room.start(id, resident);
                self.room_changed = true;
            }
        }
    }

    fn place(&mut self) {
        for placed in self.room.place() {
            let Some(kernel) = self.room.kernel(placed.kernel) else { continue };
            let (threads, group) = (kernel.threads, self.clients[kernel.client].group);
            let oversubscribing = 1.0 + self.device().oversubscribing * placed.fullness;
            let block_ns = kernel.block_ns as f64 * oversubscribing;
            let mut left = placed.blocks;
            let parts = (left.saturating_mul(threads) / PART_THREADS).clamp(1, PARTS);
            for part in (1..=parts).rev() {
                let blocks = left / part;
                left -= blocks;
                let spread = 1.0 + self.device().spread * (2.0 * self.rng.f64() - 1.0);
                let end_ns = self.now + (block_ns * spread) as u64;
                let ns = end_ns.next_multiple_of(TICK_NS).max(self.now + 1) - self.now;
                if self.now >= self.counted_from {
                    self.thread_ns[group] += ns * u64::from(blocks) * u64::from(threads);
                }
                self.after(ns, Event::Blocks(placed.kernel, blocks));
            }
        }
    }

    fn blocks_end(&mut self, id: KernelId, blocks: u32) {
        if let Some(ended) = self.room.end(id, blocks) {
            self.kernel_end(ended.client);
        }
        self.room_changed = true;
    }

    fn kernel_end(&mut self, index: usize) {
        let gap = ns(self.device().gap_us);
        let client = &mut self.clients[index];
        client.kernels_done += u64::from(self.now >= self.counted_from);
        client.next_kernel += 1;
        match client.stream.front().map(|entry| entry.work) {
            Some(Work::Kernels(_, end)) if client.next_kernel < end => {
                self.after(gap, Event::Stream(index));
            }
            _ => self.work_end(index),
        }
    }

    /// The work at the head of a stream has ended.
    fn work_end(&mut self, index: usize) {
        let (now, seen, gap) = (self.now, ns(self.device().seen_us), ns(self.device().gap_us));
        let client = &mut self.clients[index];
        let Some(entry) = client.stream.pop_front() else { return };
        let device_ns = now - entry.began_ns.unwrap_or(now);
        let number = match entry.work {
            Work::Copy(_) => 0,
            Work::Kernels(..) if client.submissions.len() == 1 => 0,
            Work::Kernels(first, _) => first + client.submissions.len() - client.kernels.len(),
        };
        if let Some(known) = client.known_ns.get_mut(number) {
            *known = if *known == 0 { device_ns } else { (*known * 7 + device_ns) / 8 }.max(1);
        }
        if let Some(alone) = client.alone_ns.get_mut(number) {
            *alone = takes_alone(*alone, device_ns, entry.submitted.is_alone);
            if entry.submitted.is_followed {
                self.core.sampled(client.id, (device_ns, *alone), entry.submitted.at_ns);
            }
        }
        if entry.last
            && let Some(came) = client.requests.pop_front()
        {
            let latency = now - came;
            let counts = now >= self.counted_from;
            if counts {
                client.latencies_ns.push(latency);
            }
            client.late +=
                u64::from(counts && client.settings.deadline_ns.is_some_and(|ns| latency > ns));
            match self.mix.clients[client.group].arrivals {
                ArrivalPattern::Always => {
                    // A program without pauses has its next request in the ring already.
                    client.requests.push_back(now);
                    client.to_submit += 1;
                }
                ArrivalPattern::Paced(rate) => {
                    let next = (came + ns(1e6 / rate)).max(now + 1) - now;
                    self.after(next, Event::Arrival(index));
                }
                _ => {}
            }
        }
        self.after(gap, Event::Stream(index));
        self.after(seen, Event::Seen(index, entry.predicted_ns, device_ns));
        self.look(index, 0);
    }

    fn seen(&mut self, index: usize, predicted_ns: u64, device_ns: u64) {
        let client = &self.clients[index];
        let (id, idle) = (client.id, client.stream.is_empty() && client.to_submit == 0);
        self.core.completed(id, predicted_ns, device_ns, self.now);
        if idle {
            self.core.idle(id, self.now);
        }
        self.awaken();
    }

    /// Those that are throttled and need not be any more ask again.
    fn awaken(&mut self) {
        for id in self.core.awake() {
            if let Some(index) = self.by_id.get(&id).copied() {
                self.look(index, 0);
            }
        }
    }

    fn outcome(self, seconds: f64) -> Outcome {
        let device = &self.mix.device;
        let all = f64::from(device.sms) * f64::from(device.threads_per_sm) * seconds * 1e9;
        let groups = self.mix.clients.iter().enumerate().map(|(group, spec)| {
            let own = || self.clients.iter().filter(move |client| client.group == group);
            let mut latencies: Vec<u64> =
                own().flat_map(|client| client.latencies_ns.iter().copied()).collect();
            latencies.sort_unstable();
            let paused_ns: u64 =
                own().filter_map(|c| self.core.accounts().get(c.id)).map(|a| a.paused_ns).sum();
            let kernels: u64 = own().map(|client| client.kernels_done).sum();
            ClientOutcome {
                name: spec.name.clone(),
                requests: latencies.len() as u64,
                requests_per_s: latencies.len() as f64 / seconds,
                kernels_per_s: kernels as f64 / seconds,
                p50_us: quantile_us(&latencies, 0.5),
                p99_us: quantile_us(&latencies, 0.99),
                p999_us: quantile_us(&latencies, 0.999),
                late: own().map(|client| client.late).sum(),
                device_share: self.thread_ns[group] as f64 / all,
                held: paused_ns as f64 / 1e9 / seconds / f64::from(spec.count.max(1)),
            }
        });
        Outcome { clients: groups.collect() }
    }
}
