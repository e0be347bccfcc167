//! A whole server process: start, main loop, end.
//!
//! The main thread talks to the daemon and watches the clients' sockets; it runs no request.
//! It never waits for a session: a session that ends wakes it.

mod attribution;
mod clients;
mod counts;
mod cpus;
mod daemon;
mod outbox;
mod stalled;
mod start;
mod succession;

use crate::after_start;
use crate::common::{Common, Wakeups};
use crate::device::{Driver, describe_all};
use crate::log::{Log, LogRole};
use crate::oversubscription;
use crate::printed::Printed;
use crate::session::End;
use crate::warm::PreloadOptions;
use channel::message::{FDS_MAX, Message};
use channel::socket::{HangUps, Interest, ReceiveError, SeqPacket, poll};
use clients::Clients;
use cuda_api::CUuuid;
use cuda_api::settings::LaunchBatching;
use outbox::Outbox;
use recovery::{AttributionState, Ending};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a server that ends at once waits for its sessions to clear up. What still runs then
/// ends with the process.
const FORCED_END_MAX: Duration = Duration::from_secs(5);
/// How long messages to the daemon may wait for room in its socket at the server's end.
const DAEMON_SEND_MAX: Duration = Duration::from_secs(1);

/// What a server needs to know beside its connection to the daemon.
pub struct Options {
    /// server.log.
    pub log: Log,
    /// The daemon's pipe directory, for the log.
    pub pipe_directory: PathBuf,
    /// Becomes readable when the process is asked to end (SIGTERM).
    pub stop: Option<OwnedFd>,
    /// The device that it serves; `None`: the provider's first.
    pub device: Option<CUuuid>,
    /// Its warm list.
    pub warm: PreloadOptions,
    /// When launches whose sequence repeats itself go as graphs; `None`: as is best for the provider.
    pub launch_batching: Option<LaunchBatching>,
    /// The cores that it has for its clients, and who is notified when they are too few.
    pub oversubscription: oversubscription::OversubscriptionOptions,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As asked.
    Clean,
    /// It could not start.
    StartFailed,
    /// Its clients go on at another server, or work of theirs has no end but the process'.
    Replaced,
    /// A fault has corrupted the shared context, and its clients know what becomes of them.
    Fault,
}

impl Exit {
    /// The process' exit status.
    pub const fn status(self) -> u8 {
        match self {
            Self::Clean | Self::Replaced => 0,
            Self::StartFailed | Self::Fault => 1,
        }
    }
}

/// Runs a server until it ends. To be called once a process, first of all: it sets environment
/// variables that the provider reads, which no other thread may do meanwhile.
pub fn run(control: SeqPacket, mut options: Options) -> Exit {
    let log = options.log.clone();
    log.line_as(LogRole::Other, "Startup");
    let socket = options.pipe_directory.join("control");
    log.line_as(
        LogRole::Other,
        format!("Connecting to control daemon on socket: {}", socket.display()),
    );
    log.line_as(LogRole::Other, "Initializing server process");
    start::prepare_environment(&log);
    cpus::keep_to_list(&log);
    match start::load_provider() {
        Ok((driver, path)) => {
            log.line(format!("Provider is {}", path.display()));
            let printed = start::take_over_output(&driver, &log);
            if driver.extension.is_some() {
                // The software GPU keeps native code itself: only if that was asked for.
                options.warm.budget_bytes.get_or_insert(0);
            }
            let exit = serve(driver, printed, control, options);
            if matches!(exit, Exit::Fault | Exit::Replaced) {
                // Nothing of the provider's may wait for work that does not end, or for a context
                // that is of no use.
                // SAFETY: ends the process without running anything more of it.
                unsafe { libc::_exit(exit.status().into()) };
            }
            exit
        }
        Err(reason) => fail(&control, &log, &reason),
    }
}

/// Describes the provider's devices to the daemon, and ends. To be called as [`run`] is. It makes no
/// context, so nothing of a device is taken.
pub fn describe(control: &SeqPacket, log: &Log) -> Exit {
    start::prepare_environment(log);
    let described = start::load_provider()
        .and_then(|(driver, _)| describe_all(driver).map_err(|error| start::why_no_device(&error)));
    let devices = match described {
        Ok(devices) => devices,
        Err(reason) => return fail(control, log, &reason),
    };
    match control.send(&Message::Devices(devices), &[]) {
        Ok(()) => Exit::Clean,
        Err(error) => fail(control, log, &format!("the devices cannot be reported: {error}")),
    }
}

/// Runs a server on a provider that is loaded already, in a process that does something else too:
/// its standard output stays as it is.
pub fn run_on(driver: Driver, control: SeqPacket, options: Options) -> Exit {
    serve(driver, Printed::none(), control, options)
}

fn serve(driver: Driver, printed: Printed, control: SeqPacket, options: Options) -> Exit {
    let hang_ups = HangUps::new().map_err(|error| format!("clients cannot be watched: {error}"));
    match hang_ups.and_then(|hang_ups| Ok((start::open(driver, printed, &options)?, hang_ups))) {
        Ok(((common, wakeups), hang_ups)) => {
            let clients = Clients::new(common.clone(), hang_ups);
            Server::new(common, wakeups, clients, control, options).run()
        }
        Err(reason) => fail(&control, &options.log, &reason),
    }
}

fn fail(control: &SeqPacket, log: &Log, reason: &str) -> Exit {
    log.line(format!("MPS server failed to start: {reason}"));
    let reason = channel::codec::cut(reason, channel::message::REASON_BYTES_MAX).to_owned();
    // The daemon learns of it by the exit status too.
    let _ = control.send(&Message::Failed(reason), &[]);
    Exit::StartFailed
}

/// The main thread's state.
struct Server {
    common: Arc<Common>,
    wakeups: Wakeups,
    /// To the daemon; it does not block.
    control: SeqPacket,
    outbox: Outbox,
    stop: Option<OwnedFd>,
    clients: Clients,
    ending: Ending,
    daemon_gone: bool,
    /// The user whose daemon started this server.
    daemon_uid: Option<u32>,
    /// The log has said that another user's daemon was refused.
    refused_daemon: bool,
    /// Where the next daemon is looked for when this one is gone, and when that is done next.
    next_daemon: (PathBuf, Option<Instant>),
    /// The version of the protocol to begin in there.
    next_daemon_speaks: u16,
    /// It ends with its last client only because its daemon is gone.
    ends_for_want_of_daemon: bool,
    /// What was done about a fault of the context.
    attribution: AttributionState,
    /// Should there be a fault, the process need not stay for others' sake.
    may_leave: bool,
    /// The daemon knows that another server is to take this one's place.
    asked_for_replacement: bool,
    /// Descriptors that are given up for those of the daemon's next message.
    spare: Vec<SeqPacket>,
}

impl Server {
    fn new(
        common: Arc<Common>,
        wakeups: Wakeups,
        clients: Clients,
        control: SeqPacket,
        options: Options,
    ) -> Self {
        let daemon_uid = control.peer_credentials().ok().map(|peer| peer.uid);
        Self {
            common,
            wakeups,
            daemon_uid,
            refused_daemon: false,
            control,
            outbox: Outbox::default(),
            stop: options.stop,
            clients,
            ending: Ending::default(),
            daemon_gone: false,
            ends_for_want_of_daemon: false,
            next_daemon: (options.pipe_directory.join("control"), None),
            next_daemon_speaks: channel::PROTOCOL_VERSION,
            attribution: AttributionState::default(),
            may_leave: false,
            asked_for_replacement: false,
            spare: Vec::new(),
        }
    }

    fn run(mut self) -> Exit {
        // A daemon that is stuck must not hold up the clients' ends.
        if let Err(error) = self.control.set_nonblocking(true) {
            self.common.log.line(format!("The daemon may hold up this server: {error}"));
        }
        self.notify(&Message::Ready(std::process::id()));
        self.common.log.line("Server has started");
        after_start::measure(&self.common);
        after_start::load_ahead(&self.common);
        after_start::make_green_contexts(&self.common);
        while !self.is_over() {
            self.wait();
        }
        // Terminations that the last message of the daemon has brought to their end.
        for message in self.clients.settle(self.awaits_attribution()) {
            self.notify(&message);
        }
        self.clients.say_why();
        for message in self.clients.last_words().collect::<Vec<_>>() {
            self.notify(&message);
        }
        self.common.log.line("Exiting");
        self.notify(&Message::Exiting(()));
        if !self.daemon_gone {
            self.outbox.finish(&self.control, &self.common.log, DAEMON_SEND_MAX);
        }
        if self.common.fault().is_some() {
            return Exit::Fault;
        }
        self.common.set_ending();
        self.common.warm.finish();
        if self.ending == Ending::Moving || !self.clients.stuck().is_empty() {
            return Exit::Replaced;
        }
        self.common.join_threads();
        let all_ended = self.clients.join_ended(FORCED_END_MAX);
        if all_ended && self.clients.all_inactive() {
            self.common.device.unload_unused(0);
        }
        if all_ended && self.clients.is_empty() {
            self.common.device.close();
        }
        Exit::Clean
    }

    /// True if there is nothing more to do.
    fn is_over(&self) -> bool {
        let (listed, inactive) = (self.clients.are_listed(), self.clients.all_inactive());
        self.ending.is_over(self.attribution, listed, inactive, Instant::now())
    }

    /// Waits for something to happen, and sees to it.
    fn wait(&mut self) {
        let wakes = [
            self.ending.deadline(),
            self.clients.next_enforcement(),
            self.attribution.deadline(),
            self.next_daemon.1,
            self.clients.next_count(),
            self.clients.next_stall(),
        ];
        let wakes = wakes.into_iter().flatten().min();
        let timeout = wakes.map(|at| at.saturating_duration_since(Instant::now()));
        let mut interests =
            vec![Interest::readable(&self.wakeups), Interest::readable(self.clients.hang_ups())];
        let control = (!self.daemon_gone).then(|| {
            interests.push(Interest::readable(&self.control));
            interests.len() - 1
        });
        let room = (!self.daemon_gone && self.outbox.waits()).then(|| {
            interests.push(Interest::writable(&self.control));
            interests.len() - 1
        });
        let stop = self.stop.as_ref().map(|stop| {
            interests.push(Interest::readable(stop));
            interests.len() - 1
        });
        let ready = match poll(&interests, timeout) {
            Ok(ready) => ready,
            Err(error) => {
                self.common.log.line(format!("Waiting failed: {error}"));
                return self.end_now(End::ServerEnds);
            }
        };
        let is_ready =
            |index: Option<usize>| index.is_some_and(|i| ready[i].readable || ready[i].hung_up);
        let (control, stop) = (is_ready(control), is_ready(stop));
        if ready[0].readable {
            self.wakeups.clear();
        }
        if room.is_some_and(|index| ready[index].writable) {
            self.outbox.flush(&self.control, &self.common.log);
        }
        if ready[1].readable {
            self.clients.take_hang_ups();
        }
        self.clients.enforce_ends();
        self.clients.give_up_waiting();
        self.see_to_stalled();
        self.clients.count_if_due();
        self.settle();
        if control {
            self.listen();
        }
        self.look_for_daemon();
        if stop {
            // It stays readable.
            self.stop = None;
            if self.ending.deadline().is_none() {
                self.common.log.line("Server has been notified to shutdown");
                self.end_now(End::ServerEnds);
            }
        }
    }

    /// Sees what became of sessions: notifies the daemon of clients that are gone and of
    /// terminations that are done, and passes a fault of the context on.
    fn settle(&mut self) {
        // First: a client that hears of a fault may start anew at once.
        self.try_fault();
        self.ask_for_replacement();
        if self.ending == Ending::No
            && let Some(process) = self.clients.take_isolated()
        {
            self.notify(&Message::Isolate(process));
        }
        for message in self.clients.settle(self.awaits_attribution()) {
            self.notify(&message);
        }
    }

    /// True if there is a fault, and it is not said yet whose it was.
    fn awaits_attribution(&self) -> bool {
        self.common.fault().is_some() && !self.attribution.is_notified()
    }

    /// Has the daemon start another server in place of this one if work here has no end.
    fn ask_for_replacement(&mut self) {
        let stuck = self.clients.stuck();
        if stuck.is_empty() || self.asked_for_replacement {
            return;
        }
        self.asked_for_replacement = true;
        let stuck = stuck.join(", ");
        let reason =
            format!("work of client {stuck} does not end, and only the server's end ends it");
        self.common.log.line(&reason);
        self.notify(&Message::Replace(reason));
    }

    /// Takes one message from the daemon.
    fn listen(&mut self) {
        // What sessions have left is not enough to do without: a message whose descriptors find no
        // room is lost, and its client with it.
        self.spare.clear();
        let received = self.control.receive();
        let room = self.keep_spare();
        match received {
            Ok((message, files)) => self.obey(message, files, room),
            Err(ReceiveError::TimedOut) => {}
            Err(ReceiveError::Fds) => {
                self.common.log.line("A client is lost: no file descriptors are left");
            }
            Err(ReceiveError::Message(error)) => {
                self.common.log.line(format!("A message of the daemon is not understood: {error}"));
            }
            Err(error) => {
                self.common.log.line(format!(
                    "The control daemon is gone: {error}. This server ends with its last client, unless \
                     another daemon takes it over"
                ));
                self.lose_daemon();
            }
        }
    }

    /// Sees that there are as many spare descriptors as a message may have.
    fn keep_spare(&mut self) -> io::Result<()> {
        while self.spare.len() < FDS_MAX {
            self.spare.push(self.control.try_clone()?);
        }
        Ok(())
    }

    /// Ends all sessions and then the server.
    fn end_now(&mut self, reason: End) {
        if self.ending.at_once(Instant::now() + FORCED_END_MAX) {
            self.common.device.sync().hurry();
            self.clients.end_all(reason);
        }
    }

    fn notify(&mut self, message: &Message) {
        if self.daemon_gone {
            return;
        }
        self.outbox.send(&self.control, &self.common.log, message);
    }
}
