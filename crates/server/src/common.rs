//! Common state: what all sessions of a server share, and how they call its main thread.

use crate::account::{Groups, MemoryAccount};
use crate::counting::Counters;
use crate::device::{Device, SmPlaces};
use crate::green_ahead::GreenAhead;
use crate::host_memory::{HostMemory, machine_bytes};
use crate::kernel_log::{FaultReport, KernelLog};
use crate::log::Log;
use crate::oversubscription::Oversubscription;
use crate::printed::Printed;
use crate::scheduling::Scheduler;
use crate::shared::Shared;
use crate::trace_log::TraceLog;
use crate::warm::Warm;
use crate::window::{Arena, DeviceWindows};
use cuda_api::CudaError;
use cuda_api::environment::OPENMPS_COUNTERS;
use cuda_api::settings::{Counting, LaunchBatching};
use locks::Mutex;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Shared by the main thread and all sessions.
pub struct Common {
    /// The device that all share.
    pub device: Arc<Device>,
    /// Which client has which of the device's SMs.
    pub places: Arc<SmPlaces>,
    /// The clients' windows.
    pub windows: DeviceWindows,
    /// Where their reservations are made.
    pub arena: Arena,
    /// What they export to each other.
    pub shared: Shared,
    /// server.log.
    pub log: Log,
    /// What is held for images while they are loaded: copies, which no client can change.
    pub images: Arc<MemoryAccount>,
    /// Accounts of groups of clients.
    pub groups: Groups,
    /// Memory of the machine that is kept for clients, but for images.
    pub host: HostMemory,
    /// The sessions at work.
    pub oversubscription: Arc<Oversubscription>,
    /// Which of them may submit, and when.
    pub scheduler: Arc<Scheduler>,
    /// What is counted of launches.
    pub counters: Counters,
    /// When launches whose sequence repeats itself go as graphs.
    pub launch_batching: LaunchBatching,
    /// What their work was, while a reader asks.
    pub trace: TraceLog,
    /// What is loaded when a server starts.
    pub warm: Warm,
    /// Green contexts that are made before they are needed.
    pub green_ahead: GreenAhead,
    /// What their kernels print, where the provider does not keep it apart.
    pub printed: Printed,
    /// Sessions that have ended and wait for an idle context.
    pub lingering: AtomicU32,
    /// Processes of clients that wait for room on the device, of which the daemon has not heard yet.
    memory_wanted: Mutex<Vec<u32>>,
    ending: AtomicBool,
    /// Threads that use the device and end when the server does.
    threads: Mutex<Vec<JoinHandle<()>>>,
    kernel_log: KernelLog,
    fault: AtomicU32,
    fault_report: OnceLock<FaultReport>,
    bell: UnixStream,
}

/// What images may hold of the server's memory at a time: this part of the machine's. The provider
/// may need as much again.
const IMAGES_PART: u64 = 8;

/// The end of [`Common::wake_main`] at which the main thread waits.
pub struct Wakeups {
    stream: UnixStream,
}

impl Common {
    /// The shared part of a new server, and where its main thread is woken.
    pub fn new(
        device: Arc<Device>,
        printed: Printed,
        warm: Warm,
        log: Log,
        oversubscription: crate::oversubscription::OversubscriptionOptions,
        launch_batching: LaunchBatching,
    ) -> std::io::Result<(Arc<Self>, Wakeups)> {
        let (bell, stream) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        stream.set_nonblocking(true)?;
        // A provider with tenants says of each fault what it was.
        let kernel_log = if device.has_tenants() { KernelLog::none() } else { KernelLog::open() };
        let sms = device.sm_count().all;
        let (scheduler, wrong) = Scheduler::from_environment(sms);
        if let Some(wrong) = wrong {
            log.line(wrong);
        }
        let counting = std::env::var(OPENMPS_COUNTERS).unwrap_or_default();
        let counting = Counting::parse(counting.trim()).unwrap_or_default();
        let oversubscription = Arc::new(Oversubscription::new(device.queues(), oversubscription));
        let arena = Arena::new(device.part());
        let places = SmPlaces::new(device.sm_count());
        let common = Self {
            device,
            places,
            windows: DeviceWindows::default(),
            arena,
            shared: Shared::default(),
            log,
            images: MemoryAccount::new(machine_bytes() / IMAGES_PART),
            groups: Groups::default(),
            host: HostMemory::from_environment(),
            memory_wanted: Mutex::default(),
            oversubscription,
            scheduler,
            counters: Counters::new(counting),
            launch_batching,
            trace: TraceLog::default(),
            warm,
            green_ahead: GreenAhead::default(),
            printed,
            lingering: AtomicU32::new(0),
            ending: AtomicBool::new(false),
            threads: Mutex::default(),
            kernel_log,
            fault: AtomicU32::new(0),
            fault_report: OnceLock::new(),
            bell,
        };
        Ok((Arc::new(common), Wakeups { stream }))
    }

    /// Says that the server ends: no session waits for anything any more.
    pub fn set_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
        self.green_ahead.look_again();
    }

    /// A thread that uses the device is waited for before the device is closed.
    pub fn at_end(&self, thread: JoinHandle<()>) {
        self.threads.lock().push(thread);
    }

    /// Waits for such threads, which see that the server ends.
    pub fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }

    /// True if the server ends.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Has the daemon notified that a client's process waits for room on the device.
    pub fn want_memory(&self, process: u32) {
        let mut wanted = self.memory_wanted.lock();
        if !wanted.contains(&process) {
            wanted.push(process);
        }
        drop(wanted);
        self.wake_main();
    }

    /// The processes that wait for room, of which the daemon is to hear.
    pub fn take_memory_wanted(&self) -> Vec<u32> {
        std::mem::take(&mut self.memory_wanted.lock())
    }

    /// Makes the main thread look at its sessions.
    pub fn wake_main(&self) {
        // If the socket is full, the main thread has not come to look yet.
        let _ = (&self.bell).write(&[1]);
    }

    /// The error that has corrupted the shared context for all, if there is one.
    pub fn fault(&self) -> Option<CudaError> {
        CudaError::from_code(self.fault.load(Ordering::Acquire))
    }

    /// What is known of that error: it may take some time until the kernel's log says it.
    pub fn fault_report(&self) -> &FaultReport {
        let bus_id = &self.device.info().pci_bus_id;
        self.fault_report.get_or_init(|| self.kernel_log.report(bus_id))
    }

    /// Notes that the shared context is corrupted.
    pub fn set_fault(&self, error: CudaError) {
        let first = self
            .fault
            .compare_exchange(0, error.code(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if first {
            self.log.line("Server is handling a fatal GPU error.");
            self.wake_main();
        }
    }
}

impl Wakeups {
    /// Forgets the wake-ups so far.
    pub fn clear(&self) {
        let mut buffer = [0; 64];
        loop {
            match (&self.stream).read(&mut buffer) {
                Ok(bytes) if bytes == buffer.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

impl AsFd for Wakeups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
