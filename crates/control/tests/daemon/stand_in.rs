//! Stand-ins: the other programs that this one is, by the name it was started under.

use channel::message::{
    Answer, Answered, Ask, Change, Client, ClientLimits, ClientScheduling, ClientStatus, Device,
    DeviceStatus, Devices, Hello, MemoryGroup, Message, Question, Refused, Release,
    RequestedLimits, ServerStatus, Serving, SetBy, SubmittedCounts, Welcome, Window,
};
use channel::region::ServerState;
use channel::socket::{Interest, ReceiveError, SeqPacket, poll};
use control::daemon::{CONTROL_FD, DESCRIBE, DEVICE, Programs};
use cuda_api::CUuuid;
use cuda_api::attributes::{COMPUTE_CAPABILITY_MAJOR, MULTIPROCESSOR_COUNT};
use cuda_api::settings::{Percentage, Priority, parse_memory_limits};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

pub const CONTROL: &str = "stand-in-control";
pub const CLIENT: &str = "stand-in-client";
const SERVER: &str = "stand-in-server";
/// How the server misbehaves: a word of this variable.
pub const BEHAVIOUR: &str = "STAND_IN_BEHAVIOUR";
/// How many devices there are: a number, 1 if nothing is said.
pub const DEVICES: &str = "STAND_IN_DEVICES";

/// Runs as what the name says; `None` if it says nothing.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args();
    match arguments.next()?.as_str() {
        CONTROL => Some(control::program::run(arguments, Box::new(StandIns)).into()),
        SERVER => Some(server(&arguments.collect::<Vec<_>>())),
        CLIENT => Some(client()),
        _ => None,
    }
}

/// This program under another name. By the running file: a user who may not go where it lies can
/// still run it.
pub fn own(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name);
    command
}

struct StandIns;

impl Programs for StandIns {
    fn server(&self) -> Command {
        own(SERVER)
    }
    fn server_at(&self, _: &Path) -> Command {
        own(SERVER)
    }
    fn daemon(&self) -> Command {
        own(CONTROL)
    }
    fn successor(&self, _: Option<&Path>) -> Command {
        own(CONTROL)
    }
}

/// The devices' UUIDs: as many as the variable says.
fn uuids() -> Vec<CUuuid> {
    let count = std::env::var(DEVICES).map_or(1, |count| count.parse().expect("a number"));
    (0..count).map(uuid).collect()
}

/// The UUID of the device with this ordinal.
pub fn uuid(ordinal: u8) -> CUuuid {
    let mut bytes = *b"\xd0\xa1\xcf\x3e\xb7\x7a\x11\xc2\x91\xd0\x85\x87\x1b\xc9\x4d\x2d";
    bytes[15] += ordinal;
    CUuuid { bytes }
}

fn pci_bus_id(ordinal: usize) -> String {
    format!("0000:00:{:02x}.0", ordinal + 6)
}

/// Describes the devices and ends.
fn describe(daemon: &SeqPacket, behaviour: &str) -> ExitCode {
    match behaviour {
        "no devices" => {
            let _ = daemon.send(&Message::Failed("cuInit answered no".to_owned()), &[]);
            return ExitCode::from(1);
        }
        "describes for ever" => {
            let _ = daemon.receive();
        }
        "describes nothing" => return ExitCode::from(3),
        _ => {}
    }
    let mut attributes = Device::default().attributes;
    attributes[MULTIPROCESSOR_COUNT as usize] = 132;
    attributes[COMPUTE_CAPABILITY_MAJOR as usize] = 9;
    let devices = uuids().into_iter().enumerate().map(|(ordinal, uuid)| Device {
        name: "NVIDIA H200".to_owned(),
        uuid,
        pci_bus_id: pci_bus_id(ordinal),
        memory_bytes: 141 << 30,
        attributes,
        ..Device::default()
    });
    let devices = Devices { driver_version: 13000, devices: devices.collect() };
    daemon.send(&Message::Devices(devices), &[]).expect("to be heard");
    ExitCode::SUCCESS
}

struct Held {
    who: Client,
    socket: SeqPacket,
    id: u32,
    limits: ClientLimits,
}

/// A server that welcomes all clients and does nothing for them.
fn server(arguments: &[String]) -> ExitCode {
    let behaviour = std::env::var(BEHAVIOUR).unwrap_or_default();
    let [CONTROL_FD, number, ref what @ ..] =
        arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        eprintln!("wrong arguments: {arguments:?}");
        return ExitCode::from(2);
    };
    let daemon = SeqPacket::inherit(number.parse().expect("a number")).expect("a socket");
    let place = match what {
        [DESCRIBE] => return describe(&daemon, &behaviour),
        [DEVICE, uuid] => uuids().iter().position(|own| own.to_string() == *uuid),
        _ => None,
    };
    let Some(ordinal) = place else {
        eprintln!("wrong arguments: {arguments:?}");
        return ExitCode::from(2);
    };
    eprintln!("Startup");
    match behaviour.as_str() {
        "crash" => return ExitCode::from(3),
        "fail" => {
            let _ = daemon.send(&Message::Failed("no device".to_owned()), &[]);
            return ExitCode::from(1);
        }
        "garbage" => {
            daemon.send_bytes(&[0xee; 100], &[]).expect("to be heard");
            std::thread::sleep(Duration::from_secs(30));
        }
        "slow" => std::thread::sleep(Duration::from_millis(300)),
        // Until the daemon ends.
        "never ready" => {
            let _ = daemon.receive();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    daemon.send(&Message::Ready(std::process::id()), &[]).expect("the daemon to be there");
    if behaviour == "hang" {
        std::thread::sleep(Duration::from_secs(30));
    }
    let clients = Vec::new();
    let (ending, last_id, may_leave) = (false, 0, true);
    Server { daemon, behaviour, ordinal, clients, ending, last_id, may_leave }.run()
}

/// A server that is ready.
struct Server {
    daemon: SeqPacket,
    behaviour: String,
    ordinal: usize,
    clients: Vec<Held>,
    ending: bool,
    last_id: u32,
    /// After a fault it is notified when it may.
    may_leave: bool,
}

impl Server {
    fn run(mut self) -> ExitCode {
        while !(self.ending && self.clients.is_empty() && self.may_leave) {
            if !self.wait() {
                continue;
            }
            match self.daemon.receive() {
                Ok((Message::Client(who), fds)) => self.take(who, fds),
                Ok((Message::Ask(Ask { question: Question::Terminate(_), .. }), _))
                    if self.behaviour == "fail later" =>
                {
                    let _ = self.daemon.send(&Message::Failed("no more".to_owned()), &[]);
                    let _ = self.daemon.send(&Message::Exiting(()), &[]);
                    return ExitCode::from(1);
                }
                Ok((Message::Ask(Ask { number, question }), _)) => {
                    for answered in self.ask(question) {
                        let answer = Message::Answer(Answer { number, answered });
                        self.daemon.send(&answer, &[]).expect("to be heard");
                    }
                }
                Ok((message, _)) => self.hear(message),
                Err(ReceiveError::Closed) if self.behaviour == "serves on" => {
                    let Some(next) = next_daemon(&mut self.clients) else { break };
                    let served = self.clients.iter().map(|held| (held.who.pid, held.who.window));
                    let (device, clients) = (uuids()[self.ordinal], served.collect());
                    let serving = Serving { device, clients, ..Serving::default() };
                    let _ = next.send(&Message::Serving(serving), &[]);
                    self.daemon = next;
                }
                Err(ReceiveError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let _ = self.daemon.send(&Message::Exiting(()), &[]);
        ExitCode::SUCCESS
    }

    /// Waits, and reports clients that are gone; true if the daemon has said something.
    fn wait(&mut self) -> bool {
        let mut interests = vec![Interest::readable(&self.daemon)];
        interests.extend(self.clients.iter().map(|held| Interest::hang_up(&held.socket)));
        let ready = poll(&interests, None).expect("poll");
        let mut index = 0;
        let daemon = &self.daemon;
        self.clients.retain(|held| {
            index += 1;
            if ready[index].hung_up {
                let _ = daemon.send(&Message::ClientGone(held.who.pid), &[]);
                let _ = daemon.send(&Message::WindowFree(held.who.window), &[]);
            }
            !ready[index].hung_up
        });
        ready[0].readable || ready[0].hung_up
    }

    fn take(&mut self, who: Client, fds: Vec<OwnedFd>) {
        let [socket, _region] = <[OwnedFd; 2]>::try_from(fds).expect("two files");
        let socket = SeqPacket::from_fd(socket).expect("the client's socket");
        self.last_id += 1;
        let promises = |group: &MemoryGroup| group.soft_bytes > 0;
        if who.settings.group.is_some() || who.settings.namespace.iter().any(promises) {
            // As if it found the device full.
            let _ = self.daemon.send(&Message::MemoryWanted(who.pid), &[]);
        }
        let welcome = Welcome {
            client_id: self.last_id,
            server_pid: std::process::id(),
            // The number of its windows, for want of addresses.
            window: Window { address: who.window.into(), bytes: 0 },
            ..Welcome::default()
        };
        socket.speak(who.protocol);
        let _ = socket.send(&Message::Welcome(welcome), &[]);
        let settings = &who.settings;
        let own = settings.memory_of(self.ordinal as u32, &uuids()[self.ordinal].to_string());
        let of_groups = settings.group.iter().chain(&settings.namespace);
        let of_groups = of_groups.map(|group| (group.hard_bytes, SetBy::Server));
        let all = own.into_iter().chain(of_groups).filter(|(bytes, _)| *bytes < u64::MAX);
        let memory = all.min_by_key(|(bytes, _)| *bytes);
        let sms = match settings.partition {
            Some((first, end)) => (end - first, SetBy::Server),
            None => (settings.share.0.sms(132, 2), settings.share.1),
        };
        let limits = ClientLimits { memory, sms, sms_of_device: 132, priority: settings.priority };
        self.clients.push(Held { who, socket, id: self.last_id, limits });
    }

    fn client(&mut self, id: u32) -> Option<&mut Held> {
        self.clients.iter_mut().find(|held| held.id == id)
    }

    fn ask(&mut self, question: Question) -> Vec<Answered> {
        vec![match question {
            Question::Status => {
                let parts = status(&self.clients, self.ordinal).into_iter();
                return parts.map(Answered::Status).collect();
            }
            Question::Terminate(id) => {
                let known = self.client(id).is_some();
                if self.behaviour == "fault" {
                    let fault = Message::Fault("CUDA_ERROR_ILLEGAL_ADDRESS".to_owned());
                    self.daemon.send(&fault, &[]).expect("to be heard");
                    (self.ending, self.may_leave) = (true, false);
                }
                eprintln!("terminate {id}");
                Answered::Done(if self.behaviour == "refuse" { 999 } else { u32::from(!known) })
            }
            Question::Set(id, change) => match (self.client(id), change) {
                (None, _) => Answered::Refused(format!("there is no client {id}")),
                (Some(_), Change::Sms(133..)) => {
                    Answered::Refused("the device has 132 SMs".to_owned())
                }
                (Some(held), change) => {
                    held.change(change);
                    Answered::Done(0)
                }
            },
            Question::Schedule(change) => match self.client(change.client) {
                Some(held) => {
                    held.who.scheduling = change.settings;
                    Answered::Done(0)
                }
                None if change.client == 0 => {
                    eprintln!("Scheduling: {}", change.settings);
                    Answered::Done(0)
                }
                None => Answered::Refused("no such client".to_owned()),
            },
            Question::Counters(counting) => {
                eprintln!("Counters: {}", counting.name());
                Answered::Done(0)
            }
            other => panic!("the daemon asked {other:?}"),
        }]
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Settings(settings) => {
                let own = |by| matches!(by, SetBy::Program | SetBy::Live);
                for held in self.clients.iter_mut().filter(|h| settings.now && !own(h.limits.sms.1))
                {
                    held.limits.sms = (settings.share.0.sms(132, 2), settings.share.1);
                }
            }
            Message::Move(()) => {
                // They come again, but these have nothing to come again for.
                self.clients.clear();
                self.ending = true;
            }
            Message::Leave(()) => self.may_leave = true,
            Message::Shutdown(_) if self.behaviour == "stay" => {}
            Message::Shutdown(force) => {
                self.ending = true;
                if force {
                    self.clients.clear();
                }
            }
            other => panic!("the daemon said {}", other.name()),
        }
    }
}

impl Held {
    fn change(&mut self, change: Change) {
        let by = SetBy::Live;
        match change {
            Change::Memory(bytes) => self.limits.memory = bytes.map(|bytes| (bytes, by)),
            Change::Sms(sms) => self.limits.sms = (sms, by),
            Change::Share(share) => self.limits.sms = (share.sms(132, 2), by),
            Change::Priority(priority) => self.limits.priority = (priority, by),
            Change::Group(group) => {
                let bytes = Some(group.hard_bytes).filter(|bytes| *bytes < u64::MAX);
                self.limits.memory = bytes.map(|bytes| (bytes, SetBy::Server));
            }
            Change::Partition(first, end) => self.limits.sms = (end - first, SetBy::Server),
        }
    }
}

/// Looks for the daemon that follows one that was killed, until the last client is gone.
fn next_daemon(clients: &mut Vec<Held>) -> Option<SeqPacket> {
    let pipe = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").expect("a directory");
    while !clients.is_empty() {
        let control = Path::new(&pipe).join("control");
        if let Ok(socket) = SeqPacket::connect(&control, Duration::from_secs(1)) {
            return Some(socket);
        }
        clients.retain(|held| !held.socket.is_hung_up());
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn status(clients: &[Held], ordinal: usize) -> Vec<ServerStatus> {
    let uuid = uuids()[ordinal];
    let device = DeviceStatus {
        ordinal: ordinal as u32,
        pci_bus_id: pci_bus_id(ordinal),
        uuid,
        name: "NVIDIA H200".to_owned(),
        counts: Default::default(),
    };
    let rows = clients.iter().map(|held| ClientStatus {
        pid: held.who.pid,
        id: held.id,
        uid: held.who.uid,
        device: uuid,
        memory_bytes: 1 << 20,
        host_bytes: 0,
        limits: held.limits,
        submitted: SubmittedCounts { kernels: 7, ..Default::default() },
        counts: Default::default(),
        work: None,
        scheduling: ClientScheduling {
            settings: held.who.scheduling.clone(),
            ..Default::default()
        },
        command_line: held.who.command_line.clone(),
    });
    ServerStatus::split(ServerState::Running, vec![device], rows.collect())
}

/// A client that says what became of it, and stays until its standard input ends.
fn client() -> ExitCode {
    match attach(Path::new(&std::env::var("PIPE").expect("PIPE"))) {
        Ok((welcome, _socket)) => {
            println!("welcome {}", welcome.server_pid);
            let _ = std::io::stdout().flush();
            let _ = std::io::stdin().read(&mut [0]);
        }
        Err(refused) => println!("refused {} {}", refused.result, refused.reason),
    }
    ExitCode::SUCCESS
}

/// What the environment asks for, as the client library reads it.
fn requested() -> RequestedLimits {
    let variable = |name| std::env::var(name).unwrap_or_default();
    RequestedLimits {
        share: Percentage::parse(&variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")).ok(),
        memory: parse_memory_limits(&variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")).unwrap(),
        priority: Priority::parse(&variable("CUDA_MPS_CLIENT_PRIORITY")).ok(),
        partition: variable("CUDA_MPS_SM_PARTITION"),
        connections: 0,
        job: variable("PMIX_NAMESPACE"),
    }
}

/// Does what the client library does at its start. The connection is the client's life.
pub fn attach(pipe_directory: &Path) -> Result<(Welcome, SeqPacket), Refused> {
    let named = std::env::var("STAND_IN_DEVICE").ok().and_then(|text| CUuuid::parse(&text));
    attach_to(pipe_directory, named.unwrap_or_default())
}

/// Attaches to a device's server.
pub fn attach_to(pipe_directory: &Path, device: CUuuid) -> Result<(Welcome, SeqPacket), Refused> {
    attach_as(pipe_directory, device, std::process::id().into())
}

/// The same as a process with that token.
pub fn attach_as(
    pipe_directory: &Path,
    device: CUuuid,
    token: u64,
) -> Result<(Welcome, SeqPacket), Refused> {
    let socket = SeqPacket::connect(&pipe_directory.join("control"), Duration::from_secs(10))
        .expect("connect");
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let region = rustix::fs::memfd_create("region", flags).expect("a memfd");
    let hello = Hello {
        device,
        pid: std::process::id(),
        command_line: "/tmp/hold".to_owned(),
        library_version: "test".to_owned(),
        requested: requested(),
        scheduling: std::env::var("STAND_IN_SCHEDULING").unwrap_or_default(),
        token,
        release: Release::of_this_build(),
        request: std::env::var("STAND_IN_REQUEST")
            .map_or(0, |text| text.parse().expect("a number")),
    };
    if let Ok(version) = std::env::var("STAND_IN_PROTOCOL") {
        socket.speak(version.parse().expect("a number"));
    }
    let said = socket.speaks();
    socket.send(&Message::Hello(hello), &[region.as_fd()]).expect("to be heard");
    match socket.receive() {
        Ok((Message::Welcome(welcome), _)) => {
            assert_eq!(socket.speaks(), said, "it is answered in its version");
            Ok((welcome, socket))
        }
        Ok((Message::Refused(refused), _)) => Err(refused),
        other => panic!("{other:?}"),
    }
}

/// Asks for the devices.
pub fn describe_to_client(pipe_directory: &Path) -> Result<Devices, Refused> {
    let socket = SeqPacket::connect(&pipe_directory.join("control"), Duration::from_secs(10))
        .expect("connect");
    socket.send(&Message::Describe(()), &[]).expect("to be heard");
    match socket.receive() {
        Ok((Message::Devices(devices), _)) => Ok(devices),
        Ok((Message::Refused(refused), _)) => Err(refused),
        other => panic!("{other:?}"),
    }
}
