//! Scheduling in the server: the gate that all sessions share, and a session's place at it.
//!
//! What is decided, and by which policy, is crate `scheduling`'s; here are its clock, its lock, and the
//! waiting. While no client has to ask (all of one class under strict classes), a session reads one
//! flag a launch and nothing else.

use channel::message::ClientScheduling;
use cuda_api::environment::OPENMPS_SCHEDULING;
use locks::{Condvar, Mutex, MutexGuard};
use scheduling::{Class, ClientId, ClientSettings, Core, Predicted, Settings, Verdict};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Predicted time of two pieces of a graph where nothing else is set, ns.
const PIECE_NS: u64 = 200_000;

/// Where a client that is held waits.
#[derive(Debug, Default)]
struct WaitSlot {
    changed: Condvar,
    /// Counts the times at which it should ask again.
    epoch: AtomicU64,
}

/// What sessions share: what is decided over, and where those wait that are held.
#[derive(Debug)]
struct Shared {
    core: Core,
    slots: HashMap<ClientId, Arc<WaitSlot>>,
}

impl Shared {
    /// Has those ask again that may not be held any more.
    fn awaken(&mut self) {
        for who in self.core.awake() {
            if let Some(slot) = self.slots.get(&who) {
                slot.awaken();
            }
        }
    }
}

impl WaitSlot {
    fn awaken(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }
}

/// The gate of a server.
#[derive(Debug)]
pub struct Scheduler {
    shared: Mutex<Shared>,
    /// No client has to ask.
    free: AtomicBool,
    priorities: AtomicBool,
    started: Instant,
    /// SMs of the device.
    sms: u32,
}

impl Scheduler {
    /// A gate without clients, on a device of so many SMs.
    pub fn new(settings: Settings, sms: u32) -> Arc<Self> {
        let priorities = AtomicBool::new(settings.priorities);
        Arc::new(Self {
            shared: Mutex::new(Shared {
                core: Core::new(settings).of_device(sms),
                slots: HashMap::new(),
            }),
            free: AtomicBool::new(true),
            priorities,
            started: Instant::now(),
            sms,
        })
    }

    /// A gate with the settings of the environment, which the daemon has checked; and a sentence if
    /// they are wrong all the same.
    pub fn from_environment(sms: u32) -> (Arc<Self>, Option<String>) {
        let text = std::env::var(OPENMPS_SCHEDULING).unwrap_or_default();
        let mut settings = Settings::default();
        let wrong = settings.change_on(&text, sms).err();
        let wrong = wrong.map(|error| format!("{OPENMPS_SCHEDULING} is not used: {error}"));
        (Self::new(settings, sms), wrong)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// True if no client has to ask.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.free.load(Ordering::Relaxed)
    }

    /// After a change of clients or settings all that are held ask again.
    fn update(&self, mut shared: MutexGuard<'_, Shared>) {
        self.free.store(shared.core.is_free(), Ordering::Relaxed);
        self.priorities.store(shared.core.settings().priorities, Ordering::Relaxed);
        shared.core.awake();
        shared.slots.values().for_each(|slot| slot.awaken());
    }

    /// Changes what is set.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn change(&self, text: &str) -> Result<(), scheduling::settings::SettingError> {
        let mut shared = self.lock();
        let mut settings = shared.core.settings().clone();
        settings.change_on(text, self.sms)?;
        shared.core.set(settings);
        self.update(shared);
        Ok(())
    }

    /// SMs that batch work keeps free; 0: none.
    pub fn floor_sms(&self) -> u32 {
        self.lock().core.settings().floor_sms
    }

    /// A client comes, with settings as the daemon says them.
    pub fn join(self: &Arc<Self>, settings: ClientSettings) -> Member {
        let mut shared = self.lock();
        let id = shared.core.join(settings);
        let slot = Arc::<WaitSlot>::default();
        shared.slots.insert(id, slot.clone());
        self.update(shared);
        Member { scheduler: self.clone(), id, slot, class: AtomicU8::new(settings.class as u8) }
    }
}

/// What the gate says to a client.
#[derive(Clone, Copy, Debug)]
pub struct GateAnswer {
    /// Whether it may submit.
    pub verdict: Verdict,
    /// If not: after which time it may at the latest, if that is known.
    pub until: Option<Duration>,
    /// Predicted time of what it may have in flight, if that is bounded, ns.
    pub bound_ns: Option<u64>,
    /// The client has work in flight that it was charged for.
    pub is_in_flight: bool,
    /// When it was asked, ns of the gate's clock.
    pub at_ns: u64,
    /// What a latency-critical client submits now has the device to itself, as far as batch work goes.
    pub is_alone: bool,
    /// Classes share in space, and the client is latency-critical.
    pub is_followed: bool,
    /// Until when the answer pauses: [`Member::wait`].
    pub epoch: u64,
}

/// A client's place at the gate, which it leaves when dropped.
#[derive(Debug)]
pub struct Member {
    scheduler: Arc<Scheduler>,
    id: ClientId,
    slot: Arc<WaitSlot>,
    class: AtomicU8,
}

impl Member {
    /// Its class.
    #[inline]
    pub fn class(&self) -> Class {
        let class = self.class.load(Ordering::Relaxed);
        Class::ALL.into_iter().find(|of| *of as u8 == class).unwrap_or_default()
    }

    /// True if it is of class batch.
    pub fn is_batch(&self) -> bool {
        self.class() == Class::Batch
    }

    /// Whether graphs may have to go in pieces.
    pub fn cuts_graphs(&self) -> bool {
        self.scheduler.lock().core.settings().pieces
    }

    /// Predicted time of a piece of a graph, ns.
    pub fn piece_ns(&self) -> u64 {
        let bound_ns = self.scheduler.lock().core.settings().in_flight_ns;
        bound_ns.unwrap_or(PIECE_NS) / 2
    }

    /// True if no client has to ask.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.scheduler.is_free()
    }

    /// Changes what is set for the client.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn change(&self, text: &str) -> Result<(), scheduling::client::ClientSettingError> {
        let mut shared = self.scheduler.lock();
        let account = shared.core.accounts().get(self.id);
        let mut settings = account.map(|account| account.settings).unwrap_or_default();
        settings.change(text)?;
        self.class.store(settings.class as u8, Ordering::Relaxed);
        shared.core.set_client(self.id, settings, self.scheduler.now_ns());
        self.scheduler.update(shared);
        Ok(())
    }

    /// Work of the client has come.
    pub fn arrived(&self) {
        self.scheduler.lock().core.arrived(self.id, self.scheduler.now_ns());
    }

    /// All work of the client is done, and none has come.
    pub fn idle(&self) {
        let mut shared = self.scheduler.lock();
        shared.core.idle(self.id, self.scheduler.now_ns());
        shared.awaken();
    }

    /// Whether a piece of work may be submitted that is predicted to take so long, beside work of the client's that
    /// stands still if so.
    pub fn ask(&self, predicted: Predicted, stands: bool) -> GateAnswer {
        let epoch = self.slot.epoch.load(Ordering::Acquire);
        let now = self.scheduler.now_ns();
        let mut shared = self.scheduler.lock();
        let verdict = shared.core.ask_beside(self.id, predicted, stands, now);
        shared.awaken();
        let bound_ns = shared.core.bound_ns(self.id, now);
        let account = shared.core.accounts().get(self.id);
        let is_in_flight = account.is_some_and(|of| of.in_flight != Predicted::default());
        let until = match verdict {
            Verdict::Wait { until: Some(until), .. } => {
                Some(Duration::from_nanos(until.saturating_sub(now)))
            }
            _ => None,
        };
        let is_latency = account.is_some_and(|of| of.settings.class == Class::Latency);
        let is_followed = is_latency && shared.core.shares_space();
        let is_alone = shared.core.is_alone(now);
        GateAnswer {
            verdict,
            until,
            bound_ns,
            is_in_flight,
            at_ns: now,
            is_alone,
            is_followed,
            epoch,
        }
    }

    /// A graph or kernel of the client that was submitted at that time took so long, and takes so long alone, ns.
    pub fn sampled(&self, times: (u64, u64), submitted_ns: u64) {
        self.scheduler.lock().core.sampled(self.id, times, submitted_ns);
    }

    /// Whether streams have the device's priorities by their clients' classes.
    #[inline]
    pub fn has_priorities(&self) -> bool {
        self.scheduler.priorities.load(Ordering::Relaxed)
    }

    /// How the client's copies are sliced now, bytes of a slice; `None`: they are not.
    pub fn slice_bytes(&self) -> Option<u64> {
        if self.is_free() {
            return None;
        }
        let core = &self.scheduler.lock().core;
        let bounded = core.is_bounded(self.id, self.scheduler.now_ns());
        core.settings().slice_bytes.filter(|_| bounded)
    }

    /// Whether the client's graphs go in pieces now.
    pub fn wants_pieces(&self) -> bool {
        if self.is_free() {
            return false;
        }
        self.scheduler.lock().core.cuts_graphs(self.id, self.scheduler.now_ns())
    }

    /// Waits until an answer of that epoch may have become another one, or for so long.
    pub fn wait(&self, epoch: u64, most: Duration) {
        let shared = self.scheduler.lock();
        let same = |_: &mut Shared| self.slot.epoch.load(Ordering::Acquire) == epoch;
        drop(self.slot.changed.wait_timeout_while(shared, most, same));
    }

    /// A piece of work was submitted.
    pub fn submitted(&self, predicted: Predicted) {
        self.scheduler.lock().core.submitted(self.id, predicted, self.scheduler.now_ns());
    }

    /// A piece of work is done that was predicted to take so long, and took so long.
    pub fn completed(&self, predicted: Predicted, device_ns: u64) {
        let now = self.scheduler.now_ns();
        let mut shared = self.scheduler.lock();
        shared.core.completed(self.id, predicted, device_ns, now);
        shared.awaken();
    }

    /// How the client is scheduled.
    pub fn status(&self) -> ClientScheduling {
        let core = &self.scheduler.lock().core;
        let Some(account) = core.accounts().get(self.id) else {
            return ClientScheduling::default();
        };
        let now = self.scheduler.now_ns();
        let since = account.paused_since.map_or(0, |since| now.saturating_sub(since));
        let expected = account.arrivals.next(now);
        let (space_sms, slowed) = core.space().unwrap_or_default();
        let is = |class: Class| account.settings.class == class;
        let slowed = slowed.map_or(0, |permille| u32::try_from(permille).unwrap_or(u32::MAX));
        ClientScheduling {
            settings: account.settings.to_string(),
            paused_ns: account.paused_ns + since,
            pauses: account.pauses,
            charged_ns: account.used_ns,
            interval_ns: expected.map_or(0, |next| next.interval_ns),
            space_sms: if is(Class::Batch) { space_sms } else { 0 },
            slowed_permille: if is(Class::Latency) { slowed } else { 0 },
            space_changes: if is(Class::Normal) { 0 } else { core.space_changes() },
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut shared = self.scheduler.lock();
        shared.core.leave(self.id);
        shared.slots.remove(&self.id);
        self.scheduler.update(shared);
    }
}
