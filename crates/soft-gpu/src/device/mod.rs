//! The device half of the software GPU: SMs, streams, events, memory, tenants, turns.
//!
//! A [`Device`] knows kernels only as things whose blocks can be resumed ([`simt::kernel`]) and
//! knows nothing of the driver API, which is built on it in [`crate::api`].

pub mod attributes;
pub mod capability;
mod clock;
pub(crate) mod execution;
pub mod fault;
mod floats;
pub mod identity;
pub mod limits;
pub mod memory;
pub mod occupancy;
pub mod printf;
pub mod profile;
pub mod settings;
pub mod slab;
pub mod stream;
pub mod tenant;
pub mod trace;

use locks::Mutex;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use self::execution::account::{Account, Usage};
use self::execution::activity::{Activity, ActivityTotals};
use self::execution::core::{Core, CoreGuard, Desk, Slot};
use self::execution::turn::{Descriptor, TurnFile, TurnState};
use self::memory::Memory;
use self::settings::Settings;
use self::slab::Slab;
use self::tenant::{Tenant, TenantId};
use simt::runtime::init_tracking::WrittenBytes;
use simt_jit::{Obstacle, Tiers};

/// A software GPU. There is one in a process that uses the driver API; tests make their own.
pub struct Device {
    /// How it was made.
    pub settings: Settings,
    /// Its memory.
    pub memory: Memory,
    shared_dir: Option<PathBuf>,
    core: Mutex<Core>,
    /// Descriptors of the file of turns.
    turn_fds: [Descriptor; 2],
    host_threads: Mutex<HashMap<TenantId, stream::host::HostSender>>,
    threads_started: OnceLock<()>,
    /// The program's tenant on each device.
    default_tenants: Vec<Arc<Tenant>>,
    /// Stands for the copies of a program with several devices, whose memory all may touch.
    copies: Option<Arc<Tenant>>,
    tenant_ids: AtomicU64,
    grid_ids: AtomicU64,
    myself: Weak<Device>,
    /// What has been written of allocated memory, if reads of the rest are looked for.
    pub(crate) written: Option<Arc<WrittenBytes>>,
}

/// Writes a line to standard error. That belongs to the program: where it is closed or full the
/// line is lost, and nothing else.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "openmps-soft: {line}");
}

impl Device {
    /// The directory in which processes meet, if there is one.
    pub fn shared_dir(&self) -> Option<&Path> {
        self.shared_dir.as_deref()
    }

    /// Makes a device; its threads start with the first work.
    pub fn new(settings: Settings) -> Arc<Self> {
        let file = if settings.turn_dirs.is_empty() {
            None
        } else {
            match TurnFile::open(&settings.turn_dirs) {
                Ok(file) => Some(file),
                Err(error) => {
                    if settings.log {
                        let dirs = &settings.turn_dirs;
                        say(format_args!("no turns with other processes: {error} in {dirs:?}"));
                    }
                    None
                }
            }
        };
        if settings.tiers != Tiers::Interpreted
            && let Some(obstacle) = Obstacle::to(settings.isa)
            // A processor is no news.
            && (settings.log || obstacle != Obstacle::Processor)
        {
            say(format_args!(
                "kernels are interpreted, which takes several times longer: {obstacle}"
            ));
        }
        let shared_dir = file.as_ref().map(|file| file.dir().to_path_buf());
        let turn_fds: [Descriptor; 2] = Default::default();
        file.iter().for_each(|file| turn_fds[0].set(file.fd()));
        let now = clock::now_ns();
        let mut accounts = Slab::default();
        let mut account = || accounts.insert(Account::default()).expect("the first of all");
        let count = settings.devices.len().max(1) as u64;
        let (default_tenants, copies) = match count {
            1 => (vec![Tenant::new(TenantId(0), account(), 0)], None),
            _ => {
                let copies = Tenant::new(TenantId(count), account(), 0);
                let mut all: Vec<Arc<Tenant>> = Vec::new();
                for id in 0..count {
                    let first = all.first().map(|first| &**first);
                    let shared = copies.space.clone();
                    let (device, id) = (id as u32, TenantId(id));
                    all.push(Tenant::of_program(id, account(), device, shared, first));
                }
                (all, Some(copies))
            }
        };
        let mut activity = Activity::new(settings.sms * count as u32, settings.capability, now);
        activity.set_held(file.is_none(), now);
        let all_sms = settings.sm_stride() * (count as u32 - 1) + settings.sms;
        let new_slot = |_| Slot { control: Arc::default(), running: None };
        let slots: Vec<Slot> = (0..=settings.threads).map(new_slot).collect();
        let mut desks: Vec<_> = slots.iter().enumerate().map(Desk::new).collect();
        let core = Core {
            streams: Slab::default(),
            groups: Slab::default(),
            group_of: HashMap::new(),
            tenants: default_tenants.iter().map(|tenant| (tenant.id, tenant.clone())).collect(),
            accounts,
            rooms: Vec::new(),
            grids: Slab::default(),
            pending: Vec::new(),
            runnable: Default::default(),
            level_ns: 0,
            anybodys_turn: false,
            transfers: Default::default(),
            transfers_next: false,
            value_waits: Vec::new(),
            values_changed: false,
            ready: Vec::new(),
            capability: settings.capability,
            sms: vec![Default::default(); all_sms as usize],
            reserve: desks.pop(),
            slots_free: desks,
            slots,
            sleepers: Vec::new(),
            wake_deferred: false,
            unannounced: Vec::new(),
            ticker: None,
            activity,
            profile: Default::default(),
            trace: Default::default(),
            turn: TurnState::new(file),
            after: Box::default(),
            arrivals: 0,
            stall_ns: settings.stall.as_nanos() as u64,
            shutdown: false,
        };
        Arc::new_cyclic(|myself| Self {
            memory: Memory::new(settings.memory_bytes, &settings.devices, shared_dir.clone()),
            shared_dir,
            written: settings.check.then(Arc::default),
            settings,
            core: Mutex::new(core),
            turn_fds,
            host_threads: Mutex::default(),
            threads_started: OnceLock::new(),
            default_tenants,
            copies,
            // The number behind the program's own is that of its copies.
            tenant_ids: AtomicU64::new(if count > 1 { count + 1 } else { 1 }),
            grid_ids: AtomicU64::new(1),
            myself: myself.clone(),
        })
    }

    fn lock(&self) -> CoreGuard<'_> {
        CoreGuard::new(self, &self.core)
    }

    /// The tenant that everything on the first device belongs to unless another one is bound.
    pub fn default_tenant(&self) -> &Arc<Tenant> {
        &self.default_tenants[0]
    }

    /// The tenant that everything on a device belongs to unless another one is bound.
    pub fn default_tenant_on(&self, device: u32) -> &Arc<Tenant> {
        self.default_tenants.get(device as usize).unwrap_or(&self.default_tenants[0])
    }

    /// True for the tenants of a program that binds none.
    pub fn is_default(&self, tenant: &Tenant) -> bool {
        tenant.family == self.default_tenants[0].id
    }

    /// Number of devices.
    pub fn count(&self) -> u32 {
        self.default_tenants.len() as u32
    }

    /// The SMs of a stream of a tenant, given those of its device that it may use: `None` if there is
    /// one device and it may use all.
    pub(crate) fn sms_of(
        &self,
        tenant: &Tenant,
        wanted: execution::grid::SmMask,
    ) -> execution::grid::SmMask {
        if self.count() == 1 {
            return wanted;
        }
        let first = self.settings.sm_stride() * tenant.device;
        Some(match wanted {
            Some(sms) => sms.iter().map(|sm| sm + first).collect(),
            None => (first..first + self.settings.sms).collect(),
        })
    }

    /// How busy the device has been since it was made.
    pub fn activity(&self) -> ActivityTotals {
        self.lock().activity.totals(clock::now_ns())
    }

    /// What was done for a tenant so far.
    pub fn usage(&self, tenant: &Tenant) -> Usage {
        let now = clock::now_ns();
        let mut core = self.lock();
        let clock_ns = core.activity.clock_ns(now);
        let account = core.accounts.get_mut(tenant.account);
        let memory_bytes = tenant.memory_bytes.load(Ordering::Relaxed);
        let usage = account.map(|account| account.usage(now, clock_ns)).unwrap_or_default();
        Usage { memory_bytes, ..usage }
    }

    /// Has a tenant's blocks placed on those SMs only from now on, and its grids to come be so much
    /// less urgent. Blocks that have their places keep them until they end.
    pub fn limit_tenant(&self, tenant: &Tenant, sms: execution::grid::SmMask, less_urgent: i32) {
        let now = clock::now_ns();
        let mut core = self.lock();
        if let Some(account) = core.accounts.get_mut(tenant.account) {
            account.sms = sms;
            account.priority = less_urgent;
        }
        core.place_blocks(now);
        core.wake_workers();
    }

    /// Writes a line to stderr if OPENMPS_SOFT_LOG asks for it.
    pub fn log(&self, line: &str) {
        if self.settings.log {
            say(line);
        }
    }

    /// Starts the threads if they do not run yet; all code that needs them calls this first.
    pub fn start_threads(&self) {
        self.threads_started.get_or_init(|| {
            let turn = self.lock().turn.file.as_ref().and_then(|file| file.share().ok());
            if let Some(file) = &turn {
                self.turn_fds[1].set(file.fd());
            }
            for number in 0..self.settings.threads {
                self.spawn(&format!("openmps-sm-{number}"), |device| device.work());
            }
            self.spawn("openmps-tick", |device| device.tick());
            if let Some(file) = turn {
                self.spawn("openmps-turn", |device| device.queue_for_turns(file));
            }
        });
    }

    fn spawn(&self, name: &str, run: impl FnOnce(&Device) + Send + 'static) {
        let Some(device) = self.myself.upgrade() else { return };
        // Signals are the program's business: its handlers must not run on our threads.
        let blocked = channel::signals::Blocked::all();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&device));
        drop(blocked);
        if let Err(error) = thread {
            self.log(&format!("cannot start thread {name}: {error}"));
        }
    }

    /// In the child of a fork: closes the child's copies of files whose locks the parent would
    /// otherwise keep beyond its own end. Takes no lock, since the thread that held it is not here.
    pub fn close_locked_files_after_fork(&self) {
        self.memory.close_row_after_fork();
        for fd in &self.turn_fds {
            fd.close_after_fork();
        }
    }

    /// Ends the threads; a device that is shut down runs nothing more.
    pub fn shut_down(&self) {
        let mut core = self.lock();
        core.shutdown = true;
        let tenants: Vec<TenantId> = core.tenants.keys().copied().collect();
        for tenant in tenants {
            core.cancel_tenant(tenant);
        }
        while let Some(thread) = core.sleepers.pop() {
            core.after.unpark_thread(thread);
        }
        core.wake_ticker();
        if let Some(thread) = core.turn.thread.take() {
            core.after.unpark_thread(thread);
        }
        drop(core);
        self.host_threads.lock().clear();
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod stress_tests;
