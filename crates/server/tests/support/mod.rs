//! A server on the test provider, and clients that speak to it as the client library does.
//!
//! The server's addresses are fixed, so a process has one server at a time: [`Server::start`]
//! waits for its turn, and when a server ends nothing may be left at the provider.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

pub mod client;
pub mod provider;

pub use client::{Client, LEGACY, event, function, graph, module, one_block, stream};

use channel::message::{
    Answer, Answered, Ask, ClientFault, Message, Question, ServerStatus, Settings,
};
use channel::region::Region;
use channel::socket::{ReceiveError, SeqPacket};
use cuda_api::settings::LaunchBatching;
use locks::{Mutex, MutexGuard};
use server::device::Driver;
use server::log::Log;
use server::{Exit, Options};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen before it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

static TURN: Mutex<()> = Mutex::new(());

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The answer that a request came to `result`.
pub fn done(number: u32, result: u32) -> Message {
    Message::Answer(Answer { number, answered: Answered::Done(result) })
}

/// A server, with this test as its daemon.
pub struct Server {
    pub daemon: SeqPacket,
    thread: Option<JoinHandle<Exit>>,
    log: Memory,
    stop: Option<std::os::unix::net::UnixStream>,
    before: [usize; 8],
    next_pid: u32,
    /// What clients to come are given.
    pub settings: Settings,
    /// Clients to come are from another server.
    pub comes_again: bool,
    /// Settings of scheduling of the next client.
    pub scheduling: String,
    /// What the server has said of clients' parts in faults, so far as it was received.
    pub faults: std::cell::RefCell<Vec<ClientFault>>,
    /// What the provider has may be left behind: its context is corrupted.
    pub corrupted: bool,
    _turn: MutexGuard<'static, ()>,
}

/// Cores of a machine on which no test's clients are too many.
pub const CORES_ENOUGH: usize = 1024;

/// Clients that may end before the test has read what the server says of it: a socket takes more.
const UNREAD_ENDS_MAX: u32 = 32;

impl Server {
    /// Starts a server on a provider with or without tenants.
    pub fn start(tenants: bool) -> Self {
        let extension = tenants.then(provider::extension);
        Self::start_on(Driver { table: provider::table(), extension })
    }

    /// Starts a server on a provider.
    pub fn start_on(driver: Driver) -> Self {
        Self::start_with(driver, server::warm::PreloadOptions::default())
    }

    /// Starts a server on a provider, with a warm list.
    pub fn start_with(driver: Driver, warm: server::warm::PreloadOptions) -> Self {
        Self::start_as(driver, warm, LaunchBatching::Off, None)
    }

    /// Starts a server on a provider, with batches as graphs.
    pub fn start_batched(driver: Driver) -> Self {
        // As many cores as no test needs: no oversubscription.
        Self::start_batching(driver, LaunchBatching::On, CORES_ENOUGH)
    }

    /// Starts a server on a provider, with batches as graphs if so, and with so many cores.
    pub fn start_batching(driver: Driver, batches: LaunchBatching, cores: usize) -> Self {
        Self::start_as(driver, server::warm::PreloadOptions::default(), batches, Some(cores))
    }

    fn start_as(
        driver: Driver,
        warm: server::warm::PreloadOptions,
        batches: LaunchBatching,
        cores: Option<usize>,
    ) -> Self {
        let turn = TURN.lock();
        let before = provider::census();
        let (daemon, control) = SeqPacket::pair().expect("a pair of sockets");
        daemon.set_receive_timeout(Some(PATIENCE)).expect("a timeout");
        let (stop, stopped) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        let log = Memory::default();
        let options = Options {
            device: None,
            log: Log::new(log.clone()),
            pipe_directory: "/tmp/test".into(),
            stop: Some(stopped.into()),
            warm,
            launch_batching: Some(batches),
            oversubscription: server::oversubscription::OversubscriptionOptions {
                cores,
                ..Default::default()
            },
        };
        let run = move || server::run::run_on(driver, control, options);
        let thread = Some(std::thread::spawn(run));
        let ready = daemon.receive().expect("the server says that it is ready").0;
        assert_eq!(ready, Message::Ready(std::process::id()));
        Self {
            daemon,
            thread,
            log,
            stop: Some(stop),
            before,
            next_pid: 5_000_000,
            settings: Settings::default(),
            comes_again: false,
            scheduling: String::new(),
            faults: Default::default(),
            corrupted: false,
            _turn: turn,
        }
    }

    /// A new client, welcome.
    pub fn connect(&mut self) -> Client {
        Client::welcome(self.introduce()).expect("the client is taken")
    }

    /// Sends a client as a daemon does; its side of everything.
    pub fn introduce(&mut self) -> (u32, SeqPacket, Region) {
        let (region, file) = Region::create().expect("a region");
        let (pid, socket) = self.hand_over(file);
        (pid, socket, region)
    }

    /// Sends a client with that region.
    pub fn hand_over(&mut self, region: OwnedFd) -> (u32, SeqPacket) {
        let (client, server) = SeqPacket::pair().expect("a pair of sockets");
        self.next_pid += 1;
        // A daemon reads what the server says of ended clients; unread it fills the socket, and the
        // server waits.
        if self.next_pid.is_multiple_of(UNREAD_ENDS_MAX) {
            self.status();
        }
        let message = Message::Client(channel::message::Client {
            window: channel::limits::WINDOW_ANY,
            pid: self.next_pid,
            uid: 1000,
            gid: 1000,
            command_line: "./test".into(),
            settings: self.settings.clone(),
            scheduling: std::mem::take(&mut self.scheduling),
            comes_again: self.comes_again,
            protocol: channel::PROTOCOL_VERSION,
            request: 0,
        });
        let server = server.into_fd();
        self.daemon.send(&message, &[server.as_fd(), region.as_fd()]).expect("a hand-over");
        client.set_receive_timeout(Some(PATIENCE)).expect("a timeout");
        (self.next_pid, client)
    }

    /// The next message of the server.
    pub fn receive(&self) -> Message {
        loop {
            match self.daemon.receive().expect("a message of the server").0 {
                // It comes when it comes.
                Message::WindowFree(_) | Message::Ended(_) | Message::Restored(_) => {}
                Message::ClientFault(fault) => self.faults.borrow_mut().push(fault),
                message => return message,
            }
        }
    }

    /// Asks the server for something.
    pub fn ask(&self, number: u32, question: Question) {
        self.daemon.send(&Message::Ask(Ask { number, question }), &[]).expect("a question");
    }

    /// Asks how the server is.
    pub fn status(&self) -> ServerStatus {
        self.ask(0, Question::Status);
        let (mut clients, mut context) = (Vec::new(), None);
        loop {
            if let Message::Answer(Answer { answered: Answered::Status(mut status), .. }) =
                self.receive()
            {
                clients.append(&mut status.clients);
                context = context.or(status.context.take());
                if !status.more {
                    return ServerStatus { clients, context, ..status };
                }
            }
        }
    }

    /// Waits until the server lists that many clients.
    pub fn wait_for_clients(&self, count: usize) {
        wait_until("the server's list of clients", || self.status().clients.len() == count);
    }

    /// All lines of the log.
    pub fn log(&self) -> String {
        let bytes = self.log.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asks the process to end, as a signal does.
    pub fn stop(&mut self) {
        let mut stop = self.stop.take().expect("asked once");
        stop.write_all(&[1]).expect("the server listens");
    }

    /// Waits for the server's end.
    pub fn wait(&mut self) -> Exit {
        // One that has a fault need not stay for its clients' sake. One that has ended does not hear it.
        let _ = self.daemon.send(&Message::Leave(()), &[]);
        loop {
            match self.daemon.receive() {
                Ok(_) => {}
                Err(ReceiveError::Closed) => break,
                Err(error) => panic!("the server does not end: {error}"),
            }
        }
        let thread = self.thread.take().expect("waited once");
        thread.join().expect("the server's main thread does not panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.daemon.send(&Message::Shutdown(true), &[]);
            let exit = self.wait();
            if !std::thread::panicking() && !self.corrupted {
                assert_eq!(exit, Exit::Clean, "{}", self.log());
            }
        }
        if std::thread::panicking() {
            eprintln!("server.log:\n{}", self.log());
        } else if !self.corrupted {
            assert_eq!(provider::census(), self.before, "left at the provider\n{}", self.log());
            assert!(!self.log().contains("left behind"), "{}", self.log());
            assert!(!self.log().contains("failed:"), "{}", self.log());
        }
    }
}

/// Waits until something is so; fails after [`PATIENCE`].
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
