//! Clients: those of a server, as its main thread sees them.
//!
//! A client is listed from when the daemon sends it until its process is gone, whether its
//! session still lives or not.

use super::counts::{self, BusyIntervals, Room};
use crate::common::Common;
use crate::device::{Device, SmCount};
use crate::session::{self, End, Identity, SessionLimits, SessionLink, Stage};
use channel::limits::WINDOW_ANY;
use channel::message::{
    Answer, Answered, Change, Client, ClientFault, ClientStatus, ClientWork, DeviceCounts,
    EndedClient, MemoryGroup, Message, Refused, SetBy, Settings, pid_of_process,
};
use channel::socket::{HangUps, SeqPacket};
use channel::system;
use cuda_api::settings::{Percentage, Priority};
use cuda_api::{CUuuid, CudaError, result_code};
use recovery::ClientAdmission;
use rustix::process::Resource;
use scheduling::{Class, ClientSettings};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// How long a session may take to see that it shall end.
const END_PATIENCE: Duration = Duration::from_millis(20);

/// The same where the provider cannot end a client's work: calls that load code take seconds.
const CALL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a call may wait for the context beside work that makes no progress, before its client goes on at a
/// server of its own.
const CONTEXT_CALL_MAX: Duration = Duration::from_secs(8);

/// How long work may take to make progress of clients that go elsewhere, beside work that has no end, and how often
/// that is looked at.
const BESIDE_ENDLESS_MAX: Duration = Duration::from_secs(3);
const BESIDE_ENDLESS_PERIOD: Duration = Duration::from_millis(100);
/// How long the thread of the last client's session may take to end before free memory is given back.
const LAST_END_MAX: Duration = Duration::from_millis(20);
/// From one look at what the device did to the next, where it does not count itself: in that time no more is
/// taken to have been done than it has room for.
const COUNT_EACH: Duration = Duration::from_secs(1);
/// Pause between two looks at threads that are to end.
const JOIN_PAUSE: Duration = Duration::from_millis(1);

/// Descriptors that must be free for a client to be taken: what its session has at its start (socket
/// twice, region, doorbells, a chunk or two of memory), and as many again to go on with.
const DESCRIPTORS_A_CLIENT: u64 = 16;

/// One client.
struct Entry {
    link: Arc<SessionLink>,
    /// The client's connection: the client does not see its end before this goes.
    _socket: SeqPacket,
    thread: Option<JoinHandle<()>>,
    /// Its process is gone.
    gone: bool,
    /// When it came.
    began: (Instant, SystemTime),
    /// What the device did for it.
    work: BusyIntervals,
    /// Since when its session has been asked to end, until that is enforced.
    asked: Option<Instant>,
    /// The daemon knows that it is to have a server of its own.
    isolated: bool,
    /// Kernels that it had in flight while it was to go elsewhere beside work without an end, and since when.
    left: Option<(u64, Instant)>,
}

impl Entry {
    fn end(&mut self, reason: End) {
        self.link.end(reason);
        self.asked.get_or_insert_with(Instant::now);
    }

    /// Sees what the device has done for it by now.
    fn count(&mut self, device: &Device) {
        let sum = counts::work(&self.link, device);
        let counters = &self.link.counters;
        let in_flight = (counters.in_flight.get(), counters.submitted().kernels);
        match sum.sampled {
            true => self.work.end(&sum, self.began.0.elapsed(), Room::of(device), in_flight),
            false => self.work = BusyIntervals::exact(sum),
        }
    }

    /// How long a session may take to begin its end.
    fn patience(&self) -> Duration {
        let is_tenant = self.link.tenant.get().is_some();
        if is_tenant { END_PATIENCE } else { CALL_PATIENCE }
    }

    /// True if the session still has to be made to end: it may wait within the provider.
    fn is_late(&self) -> bool {
        // Who goes elsewhere finishes what is in flight, however long that takes.
        let waits_for_work = self.link.ending() == Some(End::HandedOver);
        self.asked.is_some()
            && !waits_for_work
            && !self.link.ends()
            && self.link.stage() != Stage::Inactive
    }
}

/// All clients.
pub(super) struct Clients {
    common: Arc<Common>,
    entries: Vec<Entry>,
    /// Their connections, watched for their ends.
    hang_ups: HangUps,
    /// Threads of sessions that are gone, which may still wait for an idle context.
    ended: Vec<JoinHandle<()>>,
    last_id: u32,
    /// Terminations that the daemon waits for.
    terminations: Vec<Termination>,
    /// Processes that were refused, of which the daemon has not heard yet.
    refused: Vec<u32>,
    /// The clients were asked to go on elsewhere.
    moving: bool,
    /// What was done for clients that are gone.
    past: ClientWork,
    since: Instant,
    /// What the device did for all, and when that was looked at.
    done: (BusyIntervals, Instant),
}

/// One termination that the daemon asked for.
#[derive(Clone, Copy, Debug)]
struct Termination {
    /// The daemon's number of the question.
    number: u32,
    /// The client's number here.
    client: u32,
    /// There was no such client.
    unknown: bool,
}

impl Clients {
    pub(super) fn new(common: Arc<Common>, hang_ups: HangUps) -> Self {
        Self {
            common,
            entries: Vec::new(),
            hang_ups,
            ended: Vec::new(),
            last_id: 0,
            terminations: Vec::new(),
            refused: Vec::new(),
            moving: false,
            past: ClientWork::default(),
            since: Instant::now(),
            done: (BusyIntervals::default(), Instant::now()),
        }
    }

    /// Takes a client with its socket and its region, or refuses it.
    pub(super) fn take(
        &mut self,
        client: Client,
        files: Vec<OwnedFd>,
        admission: ClientAdmission,
        room: io::Result<()>,
    ) {
        let log = self.common.log.clone();
        let Ok([socket, region]) = <[OwnedFd; 2]>::try_from(files) else {
            self.turn_away(&client);
            return log.line("A client came without its files");
        };
        let socket = match SeqPacket::from_fd(socket) {
            Ok(socket) => socket,
            Err(error) => {
                self.turn_away(&client);
                return log.line(format!("A client's socket is refused: {error}"));
            }
        };
        // A daemon that does not say it speaks the oldest version, and admits none but that.
        socket.speak(match client.protocol {
            0 => channel::PROTOCOL_VERSION_MIN,
            version => version,
        });
        match client.request {
            0 => log.line("Received new client request"),
            request => log.line(format!("Received new client request (request {request:08x})")),
        }
        self.common.warm.serve();
        match admission {
            ClientAdmission::Taken => {}
            ClientAdmission::TurnedAway => return self.turn_away(&client),
            ClientAdmission::Refused => {
                self.turn_away(&client);
                let reason = "the server is ending and takes no more clients";
                return refuse(&socket, CudaError::MPS_SERVER_NOT_READY, reason);
            }
        }
        if self.common.device.is_prohibited() {
            self.turn_away(&client);
            let reason =
                "the device's compute mode is PROHIBITED: an administrator can set another one";
            log.line(format!("Client {} is refused: {reason}", pid_of_process(client.pid)));
            return refuse(&socket, CudaError::DEVICE_UNAVAILABLE, reason);
        }
        if let Err(reason) = room.map_err(|error| error.to_string()).and_then(|()| room_for_one()) {
            self.turn_away(&client);
            log.line(format!("Client {} is refused: {reason}", pid_of_process(client.pid)));
            return refuse(
                &socket,
                CudaError::MPS_MAX_CLIENTS_REACHED,
                &format!("the server: {reason}"),
            );
        }
        let (link_pid, window) = (client.pid, client.window);
        self.last_id += 1;
        let limits = self.limits_of(&client.settings, client.uid);
        self.common.green_ahead.expect(limits.sms());
        let mut scheduling = ClientSettings::default();
        if let Err(error) = scheduling.change(&client.scheduling) {
            log.line(format!(
                "Scheduling of client {} is not used: {error}",
                pid_of_process(client.pid)
            ));
        }
        let member = self.common.scheduler.join(scheduling);
        let identity = Identity {
            id: self.last_id,
            pid: client.pid,
            uid: client.uid,
            gid: client.gid,
            command: client.command_line,
            window: client.window,
            comes_again: client.comes_again,
        };
        let link = Arc::new(SessionLink::new(identity, limits, member));
        let name = link.name();
        log.line(format!("Client {name} connected"));
        log.line(format!("Creating worker thread for client {name}"));
        let watched = self.hang_ups.watch(&socket, link.identity.id);
        let started = watched
            .and_then(|()| socket.try_clone())
            .and_then(|own| session::spawn(self.common.clone(), link.clone(), own, region));
        match started {
            Ok(thread) => self.entries.push(Entry {
                link,
                _socket: socket,
                thread: Some(thread),
                gone: false,
                began: (Instant::now(), SystemTime::now()),
                work: BusyIntervals::default(),
                asked: None,
                isolated: false,
                left: None,
            }),
            Err(error) => {
                self.refused.push(link_pid);
                self.common.windows.give_back(window);
                log.line(format!("Client {name} is refused: {error}"));
                refuse(&socket, system::result_of(&error), &error.to_string());
            }
        }
    }

    fn limits_of(&self, settings: &Settings, uid: u32) -> SessionLimits {
        let device = &self.common.device;
        let ordinal = device.ordinal() as u32;
        let uuid = device.info().uuid_text();
        let (places, groups) = (&self.common.places, &self.common.groups);
        SessionLimits::new(settings, (ordinal, &uuid), places, groups, self.common.host.client(uid))
    }

    /// Notes that a client is not taken.
    fn turn_away(&mut self, client: &Client) {
        self.refused.push(client.pid);
        if client.window != WINDOW_ANY {
            self.common.windows.give_back(client.window);
        }
    }

    /// Process IDs of those that are there, and the numbers of their windows; with 0 the numbers of
    /// windows that are needed longer than their client, or for memory of another device.
    pub(super) fn windows(&self) -> Vec<(u32, u32)> {
        let links = self.entries.iter().map(|entry| &entry.link.identity);
        let of_clients = links.filter(|of| of.window != WINDOW_ANY).map(|of| (of.pid, of.window));
        let mut all: Vec<(u32, u32)> = of_clients.collect();
        for number in self.common.windows.report() {
            if !all.iter().any(|(_, window)| *window == number) {
                all.push((0, number));
            }
        }
        all
    }

    /// What is readable while the end of a client has not been taken.
    pub(super) fn hang_ups(&self) -> &HangUps {
        &self.hang_ups
    }

    /// Ends the sessions of clients whose process is gone, or that have closed their connection.
    pub(super) fn take_hang_ups(&mut self) {
        // An interrupted call finds them the next time.
        for id in self.hang_ups.take().unwrap_or_default() {
            if let Some(entry) = self.entries.iter_mut().find(|e| e.link.identity.id == id) {
                entry.gone = true;
                entry.end(End::ClientGone);
            }
        }
    }

    /// Ends a client's session for the daemon's question `number`. [`Clients::settle`] answers.
    pub(super) fn terminate(&mut self, number: u32, client: u32) {
        let mut entries = self.entries.iter_mut();
        let found = entries.find(|e| e.link.identity.id == client && !e.gone);
        let unknown = found.is_none();
        if let Some(entry) = found {
            entry.end(End::Terminated);
        }
        self.terminations.push(Termination { number, client, unknown });
    }

    /// Changes what a client may have. An error says why it has what it had.
    pub(super) fn set(&mut self, id: u32, change: Change) -> Result<(), String> {
        let entry = self.entries.iter().find(|e| e.link.identity.id == id && !e.gone);
        let link = &entry.ok_or_else(|| format!("there is no client {id} any more"))?.link;
        let name = link.name();
        let text = match &change {
            Change::Memory(None) => "Device memory limit removed".to_owned(),
            Change::Memory(Some(bytes)) => format!("Device memory limit set to {bytes} bytes"),
            Change::Share(share) => format!("Active Threads Percentage set to {share}"),
            Change::Sms(0) => "SMs set to those that it was given at first".to_owned(),
            Change::Sms(sms) => format!("SMs set to {sms}"),
            Change::Priority(priority) => format!("Priority set to {}", priority.number()),
            Change::Group(MemoryGroup { name, soft_bytes, hard_bytes: u64::MAX }) => {
                format!("Device memory of {name}: soft limit {soft_bytes} bytes, no hard limit")
            }
            Change::Group(MemoryGroup { name, soft_bytes, hard_bytes }) => format!(
                "Device memory of {name}: soft limit {soft_bytes} bytes, hard limit {hard_bytes}"
            ),
            Change::Partition(first, end) => format!("SMs of its partition are {first}..{end}"),
        };
        match change {
            Change::Memory(bytes) => link.limits.set_memory(bytes),
            Change::Share(share) => link.limits.set_share(share),
            Change::Sms(sms) => link.limits.set_sms(sms)?,
            Change::Group(group) => {
                if !link.limits.set_group(&group) {
                    return Err(format!("its memory does not count for {}", group.name));
                }
            }
            Change::Partition(first, end) => link.limits.set_partition(first..end)?,
            Change::Priority(priority) => {
                link.limits.set_priority(priority);
                let class = match (priority, link.scheduling.class()) {
                    (_, Class::Latency) => Class::Latency,
                    (Priority::BelowNormal, _) => Class::Batch,
                    (Priority::Normal, _) => Class::Normal,
                };
                link.scheduling.change(class.word()).map_err(|error| error.to_string())?;
            }
        }
        self.common.green_ahead.expect(link.limits.sms());
        // Where the session has to do it, it does when it looks up.
        let _ = link.put_into_effect(&self.common.device);
        link.ring();
        self.common.log.line(format!("Client {name}: {text}"));
        Ok(())
    }

    /// Changes settings of a client's scheduling, or of the server's if the number is 0.
    pub(super) fn schedule(&self, client: u32, text: &str) -> Result<(), String> {
        let whose = if client == 0 { "Scheduling".into() } else { format!("Client {client}") };
        match client {
            0 => self.common.scheduler.change(text).map_err(|error| error.to_string())?,
            id => {
                let found = self.entries.iter().find(|e| e.link.identity.id == id && !e.gone);
                let link = &found.ok_or_else(|| format!("there is no client {id} any more"))?.link;
                link.scheduling.change(text).map_err(|error| error.to_string())?;
            }
        }
        self.common.green_ahead.look_again();
        self.common.log.line(format!("{whose}: {text}"));
        Ok(())
    }

    /// Clients that come will have that share.
    pub(super) fn expect_share(&self, share: Percentage) {
        let SmCount { all, step } = self.common.places.count();
        self.common.green_ahead.expect(share.sms(all, step));
    }

    /// Gives the share to all clients whose share is not their program's or an operator's.
    pub(super) fn set_shares(&mut self, (share, by): (Percentage, SetBy)) {
        for entry in self.entries.iter().filter(|entry| !entry.gone) {
            if entry.link.limits.follow_share(share, by) {
                let _ = entry.link.put_into_effect(&self.common.device);
                entry.link.ring();
            }
        }
    }

    /// Ends all sessions.
    pub(super) fn end_all(&mut self, reason: End) {
        self.moving |= reason == End::HandedOver;
        for entry in &mut self.entries {
            entry.end(reason);
        }
    }

    /// Sends a process to another server, when what it has in flight is done.
    pub(super) fn move_one(&mut self, process: u32) {
        for entry in self.entries.iter_mut().filter(|e| e.link.identity.pid == process) {
            let name = entry.link.name();
            self.common.log.line(format!("Client {name} goes on at a server of its own"));
            entry.end(End::HandedOver);
        }
    }

    /// The process that is to have a server of its own: one that waits for the context behind stalled work of
    /// others, or one whose kernels run for long beside others. One at a time, as another one may only have waited
    /// for the same.
    pub(super) fn take_isolated(&mut self) -> Option<u32> {
        let lives = |entry: &Entry| entry.link.stage() == Stage::Active && !entry.gone;
        let in_flight = self.entries.iter().any(|entry| lives(entry) && entry.isolated);
        if in_flight || self.active() < 2 {
            return None;
        }
        let device = &self.common.device;
        if let Some((client, stalled)) = device.sync().waits_behind_stalled(CONTEXT_CALL_MAX)
            && let Some(entry) =
                self.entries.iter_mut().find(|e| lives(e) && e.link.identity.process() == client)
        {
            entry.isolated = true;
            entry.link.let_call_go_along();
            self.common.log.line(format!(
                "Client {client} waits for the context behind work of {}, which makes no progress: it is to go \
                 on at a server of its own",
                stalled.join(", ")
            ));
            return Some(entry.link.identity.pid);
        }
        let long = |entry: &&mut Entry| lives(entry) && entry.link.long_kernel_ms() > 0;
        let longest = self.entries.iter_mut().filter(long);
        let entry = longest.max_by_key(|entry| entry.link.long_kernel_ms())?;
        entry.isolated = true;
        let (name, seconds) = (entry.link.name(), entry.link.long_kernel_ms() as f64 / 1e3);
        self.common.log.line(format!(
            "Client {name} has had a kernel for {seconds:.1} s beside others: it is to have a server of \
             its own, with which this one takes turns at the device"
        ));
        Some(entry.link.identity.pid)
    }

    /// Gives up waiting for the work of clients that go elsewhere, if it makes no progress beside work without an
    /// end: the device may have no room for it. What is left of it ends with the process.
    pub(super) fn give_up_waiting(&mut self) {
        if !self.waits_beside_endless() {
            return;
        }
        let log = &self.common.log;
        for entry in &mut self.entries {
            let link = &entry.link;
            if link.stage() == Stage::Inactive || link.is_stuck() {
                continue;
            }
            let now = link.counters.in_flight.get();
            let (before, since) = *entry.left.get_or_insert_with(|| (now, Instant::now()));
            if now != before {
                entry.left = Some((now, Instant::now()));
            } else if since.elapsed() >= BESIDE_ENDLESS_MAX {
                let name = link.name();
                log.line(format!(
                    "Client {name} has work that makes no progress: it goes on elsewhere"
                ));
                link.set_stuck();
            }
        }
    }

    fn waits_beside_endless(&self) -> bool {
        self.moving && !self.stuck().is_empty()
    }

    /// When [`Clients::enforce_ends`] or [`Clients::give_up_waiting`] has something to do at the latest, if it ever will.
    pub(super) fn next_enforcement(&self) -> Option<Instant> {
        let late = self.entries.iter().filter(|entry| entry.is_late());
        let enforced = late.filter_map(|entry| Some(entry.asked? + entry.patience())).min();
        let waits = self.waits_beside_endless().then(|| Instant::now() + BESIDE_ENDLESS_PERIOD);
        enforced.into_iter().chain(waits).min()
    }

    /// Ends the work of clients whose sessions were asked to end and do not: they wait for room in
    /// a stream that is full, or within a call of the provider. Where the provider cannot end it, only the
    /// end of this process does.
    pub(super) fn enforce_ends(&mut self) {
        for entry in &mut self.entries {
            let overdue = entry.asked.is_some_and(|asked| asked.elapsed() >= entry.patience());
            if !entry.is_late() || !overdue {
                continue;
            }
            entry.asked = None;
            let Some(tenant) = entry.link.tenant.get().copied() else {
                let name = entry.link.name();
                self.common.log.line(format!(
                    "Client {name} is to end, and a call of the driver does not return: the other clients go \
                     on at another server"
                ));
                entry.link.set_stuck();
                continue;
            };
            let device = self.common.device.clone();
            // It waits until the work has ended, and no thread waits for it.
            let ender = std::thread::Builder::new().name(format!("end {}", entry.link.identity.id));
            let _ = ender.spawn(move || device.end_tenant(tenant));
        }
    }

    /// Tells the clients why whose sessions have not ended in time.
    pub(super) fn say_why(&self) {
        let late = self.entries.iter().filter(|e| e.link.stage() != Stage::Inactive);
        late.for_each(|entry| entry.link.say_why());
    }

    /// What is shared with the sessions.
    pub(super) fn links(&self) -> impl Iterator<Item = &SessionLink> {
        self.entries.iter().map(|entry| &*entry.link)
    }

    /// Writes a line to the log.
    pub(super) fn log(&self, text: String) {
        self.common.log.line(text);
    }

    /// Makes all sessions look up.
    pub(super) fn ring_all(&self) {
        for entry in &self.entries {
            entry.link.ring();
        }
    }

    /// Sees what became of the sessions. Returns what the daemon is to be notified of.
    /// While a fault is being attributed, those stay in the list that may have caused it.
    pub(super) fn settle(&mut self, attribution: bool) -> Vec<Message> {
        self.ended.retain(|thread| !thread.is_finished());
        let mut messages: Vec<Message> = self.refused.drain(..).map(Message::ClientGone).collect();
        messages.extend(self.links().filter_map(fault_of).map(Message::ClientFault));
        // What is stuck ends with the process, which ends as soon as the others have gone.
        let moving = self.moving && self.all_inactive();
        let entries = &self.entries;
        self.terminations.retain(|&Termination { number, client, unknown }| {
            let lives = |e: &Entry| {
                e.link.identity.id == client
                    && e.link.stage() != Stage::Inactive
                    && !(moving && e.link.is_stuck())
            };
            if !unknown && entries.iter().any(lives) {
                return true;
            }
            let result = if unknown { Err(CudaError::INVALID_VALUE) } else { Ok(()) };
            let answered = Answered::Done(result_code(result));
            messages.push(Message::Answer(Answer { number, answered }));
            false
        });
        let (mut index, listed) = (0, self.entries.len());
        while index < self.entries.len() {
            let entry = &self.entries[index];
            if attribution || !(entry.gone && entry.link.stage() == Stage::Inactive) {
                index += 1;
                continue;
            }
            let mut entry = self.entries.remove(index);
            entry.count(&self.common.device);
            counts::add(&mut self.past, &entry.work.counted());
            // The thread may have something left to destroy.
            self.ended.extend(entry.thread.take());
            let (name, pid) = (entry.link.name(), pid_of_process(entry.link.identity.pid));
            let log = &self.common.log;
            let active = self.active();
            log.line(format!(
                "Client {name} exiting. Number of active client contexts is {active}."
            ));
            log.line(format!("Client process {pid} disconnected"));
            messages.extend(self.ends(&entry));
        }
        if self.entries.is_empty() && listed > 0 {
            self.join_ended(LAST_END_MAX);
            // SAFETY: gives back pages that hold nothing; the allocator's own locks make it safe beside
            // other threads.
            unsafe { libc::malloc_trim(0) };
        }
        let restored = self.links().filter_map(|link| link.take_restored());
        messages.extend(restored.map(Message::Restored));
        messages.extend(self.common.take_memory_wanted().into_iter().map(Message::MemoryWanted));
        messages.extend(self.common.windows.given_back().into_iter().map(Message::WindowFree));
        messages
    }

    /// At the server's end: what the daemon is to hear of those that are still listed, because they have not closed
    /// their connection yet or because only the process' end ends their work.
    pub(super) fn last_words(&self) -> impl Iterator<Item = Message> {
        self.entries.iter().flat_map(|entry| self.ends(entry))
    }

    /// What a client did, and that it is gone.
    fn ends(&self, entry: &Entry) -> [Message; 2] {
        let ended = Message::Ended(ended(entry, &self.common.device));
        [ended, Message::ClientGone(entry.link.identity.pid)]
    }

    /// Waits for the threads of sessions that are gone, for so long at most; true if none is left.
    pub(super) fn join_ended(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        for entry in self.entries.iter_mut().filter(|e| e.link.stage() == Stage::Inactive) {
            self.ended.extend(entry.thread.take());
        }
        while self.ended.iter().any(|thread| !thread.is_finished()) && start.elapsed() < patience {
            std::thread::sleep(JOIN_PAUSE);
        }
        self.ended.retain(|thread| !thread.is_finished());
        self.ended.is_empty()
    }

    fn active(&self) -> usize {
        self.entries.iter().filter(|e| e.link.stage() == Stage::Active).count()
    }

    /// Number of clients listed.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// True if clients are listed, but for those whose work only the end of the process ends.
    pub(super) fn are_listed(&self) -> bool {
        self.links().any(|link| !link.is_stuck())
    }

    /// True if no client is listed.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if no session lives, but for those whose work only the end of the process ends.
    pub(super) fn all_inactive(&self) -> bool {
        self.entries.iter().all(|e| e.link.stage() == Stage::Inactive || e.link.is_stuck())
    }

    /// Clients whose work only the end of the process ends, by their names.
    pub(super) fn stuck(&self) -> Vec<String> {
        self.links().filter(|link| link.is_stuck()).map(SessionLink::name).collect()
    }

    /// When it is to be seen next what the device did; never while it counts itself, or there is no client.
    pub(super) fn next_count(&self) -> Option<Instant> {
        let is_wanted = !self.entries.is_empty() && !self.common.device.has_tenants();
        is_wanted.then(|| self.done.1 + COUNT_EACH)
    }

    /// Sees what the device did, if it is time.
    pub(super) fn count_if_due(&mut self) {
        if self.next_count().is_some_and(|at| at <= Instant::now()) {
            self.count_work();
        }
    }

    /// Sees what the device has done by now, for all clients that there are and were.
    fn count_work(&mut self) {
        let device = &self.common.device;
        let mut sum = self.past;
        for entry in &mut self.entries {
            entry.count(device);
            counts::add(&mut sum, &entry.work.counted());
        }
        self.done.0.end(&sum, self.since.elapsed(), Room::of(device), (0, 0));
        self.done.1 = Instant::now();
    }

    /// What the device is and did, and how the clients are.
    pub(super) fn status(&mut self) -> (DeviceCounts, Vec<ClientStatus>) {
        self.count_work();
        let device = &self.common.device;
        let clients = self.entries.iter().map(|entry| status_of(entry, device)).collect();
        (counts::device(device, &self.done.0), clients)
    }
}

/// Refuses a client that would run out of descriptors in the middle of its session.
fn room_for_one() -> Result<(), String> {
    let allowed = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let left = allowed.saturating_sub(open);
    if left >= DESCRIPTORS_A_CLIENT {
        return Ok(());
    }
    Err(format!(
        "only {} open files are allowed and {open} are in use: raise the limit (ulimit -Hn) where \
         the daemon is started",
        allowed
    ))
}

/// How a client is.
fn status_of(entry: &Entry, device: &Device) -> ClientStatus {
    let link = &entry.link;
    ClientStatus {
        pid: link.identity.pid,
        id: link.identity.id,
        uid: link.identity.uid,
        device: CUuuid { bytes: device.info().uuid },
        memory_bytes: link.limits.memory.used_bytes(),
        host_bytes: link.limits.host.used_bytes(),
        limits: link.limits.report(),
        scheduling: link.scheduling.status(),
        submitted: counts::submitted(&link.counters.submitted()),
        counts: counts::requests(&link.counters),
        work: Some(entry.work.counted()),
        command_line: link.identity.command.clone(),
    }
}

/// A client's part in a fault, if there is news of one.
fn fault_of(link: &SessionLink) -> Option<ClientFault> {
    let part = link.take_fault()?;
    Some(ClientFault {
        pid: pid_of_process(link.identity.pid),
        command: link.identity.command.clone(),
        is_faulting: part.is_faulting,
        error: part.error.to_string(),
        why: part.why,
    })
}

/// What a client that has ended has used.
fn ended(entry: &Entry, device: &Device) -> EndedClient {
    let (began, at) = entry.began;
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    EndedClient {
        status: status_of(entry, device),
        began_ms: since_1970.as_millis() as u64,
        wall_ms: began.elapsed().as_millis() as u64,
        peak_memory_bytes: entry.link.limits.memory.peak_bytes(),
    }
}

fn refuse(socket: &SeqPacket, error: CudaError, reason: &str) {
    // A client that does not read has gone, or will see the socket close.
    let _ = socket.set_nonblocking(true);
    let refused = Refused { result: error.code(), reason: reason.to_owned() };
    let _ = socket.send(&Message::Refused(refused), &[]);
}
