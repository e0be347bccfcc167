//! What the daemon says, and what is done about it.

use super::{Server, counts};
use crate::cupti_windows;
use crate::session::End;
use channel::message::{
    Answer, Answered, Ask, DeviceStatus, Message, Question, Schedule, ServerStatus, Settings,
};
use channel::region::ServerState;
use cuda_api::CUuuid;
use std::io;
use std::os::fd::OwnedFd;

impl Server {
    /// Does what the daemon says; `room` says whether there are descriptors for a client more.
    pub(super) fn obey(&mut self, message: Message, files: Vec<OwnedFd>, room: io::Result<()>) {
        match message {
            Message::Client(client) => {
                let admission = self.ending.admits(self.common.fault().is_some());
                self.clients.take(client, files, admission, room);
                self.settle();
            }
            Message::Ask(Ask { number, question }) => match question {
                Question::Status => self.report(number),
                Question::Counts(client) => self.tell_counts(number, client),
                Question::Trace(from) => self.tell_trace(number, from),
                Question::Terminate(client) => {
                    self.clients.terminate(number, client);
                    self.settle();
                }
                Question::Set(client, change) => {
                    let answered = match self.clients.set(client, change) {
                        Ok(()) => Answered::Done(0),
                        Err(reason) => Answered::Refused(reason),
                    };
                    self.notify(&Message::Answer(Answer { number, answered }));
                }
                Question::Counters(counting) => {
                    let answered = match cupti_windows::set(&self.common, counting) {
                        Ok(()) => Answered::Done(0),
                        Err(reason) => Answered::Refused(reason),
                    };
                    self.clients.ring_all();
                    self.notify(&Message::Answer(Answer { number, answered }));
                }
                Question::Schedule(Schedule { client, settings }) => {
                    let answered = match self.clients.schedule(client, &settings) {
                        Ok(()) => Answered::Done(0),
                        Err(reason) => Answered::Refused(reason),
                    };
                    self.notify(&Message::Answer(Answer { number, answered }));
                }
            },
            Message::Settings(settings) => {
                self.is_taken_over();
                self.say_settings(&settings);
                self.clients.expect_share(settings.share.0);
                if settings.now {
                    self.clients.set_shares(settings.share);
                }
            }
            Message::Shutdown(force) => self.shut_down(force),
            Message::Move(()) => self.move_clients(),
            Message::Leave(()) => {
                self.may_leave = true;
                self.settle();
            }
            Message::Refused(refused) => self.is_refused(&refused.reason),
            Message::MoveOne(process) => self.clients.move_one(process),
            other => {
                let name = other.name();
                self.common.log.line(format!("The daemon sent {name}, which is not for servers"));
            }
        }
    }

    /// Says in the log what clients are given, in NVIDIA's words.
    fn say_settings(&self, settings: &Settings) {
        let log = &self.common.log;
        log.line(format!("Active Threads Percentage set to {}", settings.share.0));
        let (ordinal, info) = (self.common.device.ordinal(), self.common.device.info());
        if let Some((bytes, _)) = settings.memory_of(ordinal as u32, &info.uuid_text()) {
            let text = "Device pinned memory limit for device";
            log.line(format!("{text} {ordinal} set to {bytes:#x} bytes"));
        }
        log.line(format!("Server Priority set to {}", settings.priority.0.number()));
    }

    fn shut_down(&mut self, force: bool) {
        let log = &self.common.log;
        log.line("Server has been notified to shutdown");
        if force {
            return self.end_now(End::ServerEnds);
        }
        let clients = self.clients.count();
        if clients > 0 {
            log.line(format!("Server was unable to shutdown due to {clients} active clients"));
            log.line("Waiting for current clients to finish");
        }
        self.ending.when_idle();
    }

    /// Sends the clients to the next server, when what they have in flight is done, and ends.
    fn move_clients(&mut self) {
        self.common.log.line("The clients go on at another server");
        if self.ending.hand_over() {
            self.common.device.sync().hurry();
            self.clients.end_all(End::HandedOver);
        }
    }

    /// Tells the daemon how the server is.
    fn report(&mut self, number: u32) {
        let (counts, clients) = self.clients.status();
        let info = self.common.device.info();
        let uuid = CUuuid { bytes: info.uuid };
        let device = DeviceStatus {
            ordinal: self.common.device.ordinal() as u32,
            pci_bus_id: info.pci_bus_id.clone(),
            uuid,
            name: info.name.clone(),
            counts,
        };
        let state = match self.common.fault() {
            None => ServerState::Running,
            Some(_) => ServerState::Ended,
        };
        let context = (!self.common.device.has_tenants())
            .then(|| ServerStatus::of_context(state, counts::context(&self.common)));
        let parts = ServerStatus::split(state, vec![device], clients);
        for part in context.into_iter().chain(parts) {
            self.notify(&Message::Answer(Answer { number, answered: Answered::Status(part) }));
        }
    }
}
