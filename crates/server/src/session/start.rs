//! The beginning of a session: windows, objects, the welcome.

use super::graph::batching::Batcher;
use super::graph::table::Graphs;
use super::memory::Memory;
use super::memory::arrays::Arrays;
use super::restore::Restored;
use super::spent::Spent;
use super::stream::callbacks::Callbacks;
use super::stream::events::Events;
use super::stream::pending::Pending;
use super::stream::submission::Submission;
use super::{Session, SessionLink, Stage};
use crate::account::Refusal;
use crate::common::Common;
use crate::device::Share;
use crate::window::{AddressWindow, CLIENTS_MAX, Lease};
use channel::limits::WINDOW_ANY;
use channel::log_line::Level;
use channel::memfd::FileError;
use channel::message::{
    self, Message, Refused, WELCOME_HAS_TENANTS, WELCOME_TAKES_UNMARKED, WELCOME_WANTS_NOTES,
    Welcome,
};
use channel::region::{Region, RegionError, ServerState, SessionEnd};
use channel::reply::ReplyWriter;
use channel::ring::Consumer;
use channel::socket::SeqPacket;
use channel::system;
use channel::wait::SpinPolicy;
use cuda_api::CudaError;
use cuda_api::attributes::MULTIPROCESSOR_COUNT;
use cuda_api::environment::{OPENMPS_HOST_MEMORY, OPENMPS_HOST_MEMORY_USER};
use cuda_api::extension::memory_note;
use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The attribute of the number of SMs.
const SMS: usize = MULTIPROCESSOR_COUNT as usize;

/// How long a client waits for its windows, in which a session that ends may have memory of another device.
const WINDOW_WAIT_MAX: Duration = Duration::from_secs(60);
/// As [`WINDOW_WAIT_MAX`], of a client that takes any: all are those of other clients, of which some may just end.
const ANY_WINDOW_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why a client is not taken.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// The shared context is corrupted, and the server ends.
    #[error("the server's context is corrupted by {0}; the next server takes it")]
    Corrupted(CudaError),
    /// All windows are taken.
    #[error("the server has its most clients, {}", CLIENTS_MAX)]
    Full,
    /// The region is not acceptable.
    #[error("{0}")]
    Region(#[from] RegionError),
    /// The ring begins where none can.
    #[error("{0}")]
    Ring(#[from] channel::ring::RingBroken),
    /// The provider said no.
    #[error("the provider answered {0} while the client's session was set up")]
    Provider(#[from] CudaError),
    /// The client's socket said no.
    #[error("the client's socket: {0}")]
    Socket(#[from] std::io::Error),
}

impl StartError {
    fn result(&self) -> CudaError {
        match self {
            Self::Corrupted(_) => CudaError::MPS_SERVER_NOT_READY,
            Self::Full => CudaError::MPS_MAX_CLIENTS_REACHED,
            Self::Region(RegionError::File(FileError::Io(error))) | Self::Socket(error) => {
                system::result_of(error)
            }
            Self::Region(_) | Self::Ring(_) => CudaError::MPS_CONNECTION_FAILED,
            Self::Provider(error) => *error,
        }
    }
}

/// Starts a client's session on a thread of its own. The thread says through `link` how far it
/// is, and wakes the main thread when it has ended.
///
/// # Errors
/// If the system has no thread for it.
pub fn spawn(
    common: Arc<Common>,
    link: Arc<SessionLink>,
    socket: SeqPacket,
    region: OwnedFd,
) -> std::io::Result<JoinHandle<()>> {
    let name = format!("client {}", link.identity.pid);
    Builder::new().name(name).spawn(move || {
        channel::wait::sleep_precisely();
        // A panic is a bug of ours. It costs this client its session and other clients nothing.
        let outcome =
            catch_unwind(AssertUnwindSafe(|| serve(common.clone(), link.clone(), socket, region)));
        if let Err(panic) = outcome {
            let text = text_of(panic.as_ref());
            let text = format!("Session of client {} failed: {text}", link.name());
            common.log.line_at(Level::Error, text);
        }
        link.set_stage(Stage::Inactive);
        common.wake_main();
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panic")
}

fn serve(common: Arc<Common>, link: Arc<SessionLink>, socket: SeqPacket, region: OwnedFd) {
    let refuse = |error: &StartError, socket: &SeqPacket| {
        let text = format!("Client {} is refused: {error}", link.name());
        common.log.line_at(Level::Warning, text);
        let reason = channel::codec::cut(&error.to_string(), message::REASON_BYTES_MAX).to_owned();
        let refused = Refused { result: error.result().code(), reason };
        if let StartError::Provider(error) = error
            && !common.device.has_tenants()
            && super::fault::is_fault(*error)
        {
            common.set_fault(*error);
            return;
        }
        if matches!(error, StartError::Corrupted(_)) {
            // The connection is closed without a word: the client comes again.
            return;
        }
        // A client that is gone need not know.
        let _ = socket.send(&Message::Refused(refused), &[]);
    };
    let window = link.identity.window;
    let refusal_socket = match socket.try_clone() {
        Ok(refusal_socket) => refusal_socket,
        Err(error) => {
            common.windows.give_back(window);
            return refuse(&StartError::Socket(error), &socket);
        }
    };
    let region = match open_region(&socket, region) {
        Ok(region) => region,
        Err(error) => {
            common.windows.give_back(window);
            return refuse(&error, &refusal_socket);
        }
    };
    // In every case a client that waits learns that no answer will come.
    let _ended = SayEnded(region.clone());
    match Session::open(&common, &link, socket, region) {
        Ok(mut session) => {
            session.run();
            session.end();
        }
        Err(error) => refuse(&error, &refusal_socket),
    }
}

/// Sets the region's state when dropped, in a panic too.
struct SayEnded(Region);

impl Drop for SayEnded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return self.0.end_session(SessionEnd::SessionFailed);
        }
        self.0.set_server_state(ServerState::Ended);
    }
}

fn open_region(socket: &SeqPacket, file: OwnedFd) -> Result<Region, StartError> {
    socket.set_nonblocking(true)?;
    Ok(Region::open(file)?)
}

/// Has the log say when a client may have no more memory: unlike a device that is full, that is an
/// operator's setting.
fn tell_refusals(common: &Arc<Common>, link: &Arc<SessionLink>) {
    let (log, name) = (common.log.clone(), link.name());
    link.limits.memory.tell_refusals(move |refusal| {
        let Refusal { wanted_bytes, used_bytes, limit_bytes, level, count } = refusal;
        let (whose, who) = if level == 0 { ("its", "it has") } else { ("its group's", "all have") };
        log.line(format!(
            "Client {name} is at {whose} device memory limit of {limit_bytes} bytes: {who} \
             {used_bytes}, and {wanted_bytes} more are refused ({count} times so far)"
        ));
    });
}

/// The same of memory of the machine that the server holds for it.
fn tell_host_refusals(common: &Arc<Common>, link: &Arc<SessionLink>) {
    let (log, name) = (common.log.clone(), link.name());
    link.limits.host.tell_refusals(move |refusal| {
        let Refusal { wanted_bytes, used_bytes, limit_bytes, level, count } = refusal;
        let (whose, setting) = match level {
            0 => ("its host memory limit", OPENMPS_HOST_MEMORY),
            1 => ("its user's host memory limit", OPENMPS_HOST_MEMORY_USER),
            _ => ("the host memory limit of the server", "a part of the machine's memory"),
        };
        log.line(format!(
            "Client {name} is at {whose} of {limit_bytes} bytes ({setting}): {used_bytes} are \
             pinned and in graphs, and {wanted_bytes} more are refused ({count} times so far)"
        ));
    });
}

/// Has the daemon hear when the client's group may have more memory and the device has none.
fn ask_for_room(common: &Arc<Common>, link: &Arc<SessionLink>) {
    // The account is the link's: a link that held itself would never go.
    let (common, of) = (common.clone(), Arc::downgrade(link));
    link.limits.memory.ask_for_room(move || {
        let goes_on = of.upgrade().filter(|link| link.ending().is_none() && !common.is_ending());
        if let Some(link) = &goes_on {
            common.want_memory(link.identity.pid);
        }
        goes_on.is_some()
    });
}

impl Session {
    /// Sets everything up and welcomes the client.
    fn open(
        common: &Arc<Common>,
        link: &Arc<SessionLink>,
        socket: SeqPacket,
        region: Region,
    ) -> Result<Self, StartError> {
        if let Some(error) = common.fault() {
            return Err(StartError::Corrupted(error));
        }
        let window = link.identity.window;
        let began = Instant::now();
        let longest = if window == WINDOW_ANY { ANY_WINDOW_WAIT_MAX } else { WINDOW_WAIT_MAX };
        let waits = || began.elapsed() < longest && link.ending().is_none();
        let lease = common.windows.take_when_free(window, waits).ok_or(StartError::Full)?;
        let of = link.clone();
        // What a client goes on with at another server is done to its end, unless it makes the call again there.
        let ends = move || of.gives_up_call();
        let share = Share::new(common.device.clone(), &link.identity.process(), ends)?;
        let share = Rc::new(share);
        if let Some(tenant) = share.tenant() {
            // A session is opened once.
            let _ = link.tenant.set(tenant);
        }
        link.put_into_effect(&common.device)?;
        let consumer = Consumer::new(region.clone(), SpinPolicy::of_process())?;
        link.set_doorbell(consumer.doorbell(), region.clone());
        tell_refusals(common, link);
        tell_host_refusals(common, link);
        ask_for_room(common, link);
        let socket = Rc::new(socket);
        let mut session = Self {
            pending: Pending::default(),
            looked: Instant::now(),
            records_until_advance: 0,
            graphs: Graphs::new(&share, link),
            batcher: Batcher::new(),
            coalesces: false,
            arrays: Arrays::new(),
            events: Events::new(&share, link, common),
            submission: Submission::new(&share, link, common, &region),
            callbacks: Callbacks::new(&region),
            memory: Memory::new(&share, (link, common), &lease, region.clone(), &socket)?,
            lease: None,
            replies: ReplyWriter::new(region),
            consumer,
            socket,
            results: Vec::new(),
            restored: link.identity.comes_again.then(|| Restored::begin(Instant::now())),
            spent: Spent::if_wanted(),
        };
        session.memory.set_restoring(link.identity.comes_again);
        session.welcome(&lease)?;
        session.lease = Some(lease);
        Ok(session)
    }

    fn flags(&self) -> u32 {
        let notes = self.submission.share.note_memory(0, 0, memory_note::NONE).is_ok();
        let tenants = self.submission.common.device.has_tenants();
        [(tenants, WELCOME_HAS_TENANTS), (notes, WELCOME_WANTS_NOTES)]
            .into_iter()
            .filter(|(is_so, _)| *is_so)
            .fold(WELCOME_TAKES_UNMARKED, |flags, (_, flag)| flags | flag)
    }

    fn welcome(&self, lease: &Lease) -> Result<(), StartError> {
        let device = &self.submission.common.device;
        let info = device.info();
        let (least, greatest) = device.stream_priorities();
        let (mut attributes, sms) = (info.attributes, self.submission.link.limits.sms());
        attributes[SMS] = sms as i32;
        let window = |w: AddressWindow| message::Window { address: w.base, bytes: w.bytes };
        let welcome = Welcome {
            client_id: self.submission.link.identity.id,
            server_pid: std::process::id(),
            window: window(lease.device()),
            host_window: window(lease.host()),
            driver_version: device.driver_version(),
            priority_least: least,
            priority_greatest: greatest,
            flags: self.flags(),
            log_path: self.submission.common.log.path().to_owned(),
            devices: vec![message::Device {
                attributes,
                // Of a share they are those of its size.
                sm_groups: if sms < info.attributes[SMS] as u32 { 0 } else { info.sm_groups },
                ..message::Device::from(info.clone())
            }],
            release: message::Release::of_this_build(),
        };
        self.submission.region.set_server_state(ServerState::Running);
        self.submission.link.set_stage(Stage::Active);
        self.socket.send(&Message::Welcome(welcome), &[])?;
        let log = &self.submission.common.log;
        log.line(format!("Device {} (uuid {}) is associated", info.name, info.uuid_text()));
        log.line(format!("Status of client {} is ACTIVE", self.submission.link.name()));
        Ok(())
    }
}
