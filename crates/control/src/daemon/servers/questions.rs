//! Questions to one server that are open: their numbers, and the answers that have come.
//!
//! An asker that waits no longer takes its question back; an answer to a question that is not open
//! is dropped. So a late answer is never taken for another question's, and what is kept is bounded
//! by the askers that wait.

use crate::status::{ListedClient, ListedDevice, ServerPhase, Status};
use channel::message::{Answer, Answered, CountsPart, ServerStatus, TracePart, pid_of_process};
use channel::region;
use std::collections::{BTreeMap, VecDeque};

/// Clients of one server that are reported. A server takes fewer; a broken one could go on for ever.
const REPORTED_CLIENTS_MAX: usize = 4096;
/// Messages of one answer that are kept, of 64 KiB at most.
const PARTS_MAX: usize = 4096;

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// How the server is.
    Status(Status),
    /// The result of a request: a CUresult.
    Done(u32),
    /// It was refused; why.
    Refused(String),
    /// What is counted by kernel and stream.
    Counts(Vec<CountsPart>),
    /// What work was done.
    Trace(Vec<TracePart>),
}

/// The open questions of one server.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Questions {
    last: u32,
    open: BTreeMap<u32, Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Parts of an answer that is not whole yet.
    partial: Option<Status>,
    counts: Vec<CountsPart>,
    trace: Vec<TracePart>,
    reply: Option<Reply>,
}

impl Questions {
    /// Opens a question and gives its number.
    pub fn open(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.open.insert(self.last, Open::default());
        self.last
    }

    /// Takes a question back, with its reply if that has come.
    pub fn close(&mut self, number: u32) -> Option<Reply> {
        self.open.remove(&number)?.reply
    }

    /// Whether the reply to a question is there.
    pub fn is_answered(&self, number: u32) -> bool {
        self.open.get(&number).is_some_and(|open| open.reply.is_some())
    }

    /// Takes in an answer, or a part of one.
    pub fn take(&mut self, answer: Answer) {
        let Some(open) = self.open.get_mut(&answer.number) else { return };
        match answer.answered {
            Answered::Refused(reason) => open.reply = Some(Reply::Refused(reason)),
            Answered::Done(result) => open.reply = Some(Reply::Done(result)),
            Answered::Counts(part) => {
                let whole = !part.more;
                if open.counts.len() < PARTS_MAX {
                    open.counts.push(part);
                }
                if whole {
                    open.reply = Some(Reply::Counts(std::mem::take(&mut open.counts)));
                }
            }
            Answered::Trace(part) => {
                let whole = !part.more;
                if open.trace.len() < PARTS_MAX {
                    open.trace.push(part);
                }
                if whole {
                    open.reply = Some(Reply::Trace(std::mem::take(&mut open.trace)));
                }
            }
            Answered::Status(part) => {
                let whole = !part.more;
                add(&mut open.partial, part);
                if whole {
                    open.reply = open.partial.take().map(Reply::Status);
                }
            }
        }
    }
}

/// What servers answered last that are gone: who asked may not have looked yet.
#[derive(Debug, Default)]
pub(in crate::daemon) struct LastAnswers(VecDeque<(u32, Questions)>);

/// Servers of which last answers are kept: askers look as soon as the answer has come.
const LAST_ANSWERS_MAX: usize = 16;

impl LastAnswers {
    /// Keeps those of a server that is gone.
    pub fn keep(&mut self, pid: u32, mut questions: Questions) {
        questions.open.retain(|_, open| open.reply.is_some());
        if questions.open.is_empty() {
            return;
        }
        if self.0.len() >= LAST_ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((pid, questions));
    }

    /// As [`Questions::close`].
    pub fn close(&mut self, pid: u32, number: u32) -> Option<Reply> {
        self.0.iter_mut().rev().filter(|(of, _)| *of == pid).find_map(|(_, q)| q.close(number))
    }
}

/// Adds a part of an answer to those before it.
fn add(partial: &mut Option<Status>, part: ServerStatus) {
    let status = partial.get_or_insert_with(|| Status {
        state: ServerPhase::Active,
        devices: Vec::new(),
        clients: Vec::new(),
        context: None,
    });
    status.state = match part.state {
        region::ServerState::Starting => ServerPhase::Initializing,
        region::ServerState::Running => ServerPhase::Active,
        // It serves those that it has until they are gone; only a fault makes it so.
        region::ServerState::Ended => ServerPhase::Fault,
    };
    status.context = status.context.take().or(part.context);
    if status.devices.is_empty() {
        status.devices = part
            .devices
            .into_iter()
            .map(|device| ListedDevice {
                ordinal: device.ordinal,
                pci: device.pci_bus_id,
                uuid: device.uuid.to_string(),
                name: device.name,
                counts: device.counts.into(),
            })
            .collect();
    }
    let room = REPORTED_CLIENTS_MAX.saturating_sub(status.clients.len());
    status.clients.extend(part.clients.into_iter().take(room).map(|client| ListedClient {
        pid: Some(pid_of_process(client.pid)).filter(|pid| *pid != 0),
        process: client.pid,
        id: client.id,
        uid: client.uid,
        device_uuid: client.device.to_string(),
        memory_bytes: client.memory_bytes,
        host_bytes: client.host_bytes,
        limits: client.limits,
        submitted: client.submitted,
        counts: client.counts,
        work: client.work,
        scheduling: client.scheduling,
        command: client.command_line,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::message::{ClientStatus, ContextStatus, DeviceStatus, WaitingCall};
    use cuda_api::CUuuid;

    fn answer(number: u32, part: ServerStatus) -> Answer {
        Answer { number, answered: Answered::Status(part) }
    }

    #[test]
    fn what_a_server_answered_before_it_ended_is_still_an_answer() {
        let mut questions = Questions::default();
        let (answered, open) = (questions.open(), questions.open());
        questions.take(Answer { number: answered, answered: Answered::Done(0) });
        let mut last = LastAnswers::default();
        last.keep(7, questions);
        assert_eq!((last.close(8, answered), last.close(7, open)), (None, None));
        assert_eq!(last.close(7, answered), Some(Reply::Done(0)));
        assert_eq!(last.close(7, answered), None);
    }

    #[test]
    fn an_answer_in_parts_is_put_together() {
        let mut uuid = CUuuid::default();
        for (byte, value) in uuid.bytes.iter_mut().zip(1..) {
            *byte = value;
        }
        let device = DeviceStatus { ordinal: 0, uuid, name: "soft".into(), ..Default::default() };
        let clients: Vec<ClientStatus> = (0..100)
            .map(|pid| ClientStatus { pid, id: pid + 1, device: uuid, ..Default::default() })
            .collect();
        let context = ContextStatus {
            waiting: vec![WaitingCall { client: "7".into(), ..Default::default() }],
            ..Default::default()
        };
        let mut parts = ServerStatus::split(region::ServerState::Running, vec![device], clients);
        assert!(parts.len() > 1);
        parts.insert(0, ServerStatus::of_context(region::ServerState::Running, context.clone()));
        let last = parts.len() - 1;
        let mut questions = Questions::default();
        let number = questions.open();
        for (index, part) in parts.into_iter().enumerate() {
            questions.take(answer(number, part));
            assert_eq!(questions.is_answered(number), index == last);
        }
        let Some(Reply::Status(status)) = questions.close(number) else { panic!("a status") };
        assert_eq!((status.devices.len(), status.clients.len()), (1, 100));
        assert_eq!(status.context, Some(context));
        assert_eq!(status.devices[0].uuid, "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
        assert_eq!(status.clients[99].device_uuid, status.devices[0].uuid);
        assert_eq!((status.clients[0].pid, status.clients[99].pid), (None, Some(99)));
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let part = ServerStatus {
            state: region::ServerState::Running,
            more: true,
            devices: vec![],
            clients: vec![Default::default(); 32],
            context: None,
        };
        let mut questions = Questions::default();
        let number = questions.open();
        for _ in 0..1000 {
            questions.take(answer(number, part.clone()));
            assert!(!questions.is_answered(number));
        }
        let clients = questions.open[&number].partial.as_ref().unwrap().clients.len();
        assert_eq!(clients, REPORTED_CLIENTS_MAX);
    }

    #[test]
    fn answers_find_their_questions_in_any_order_and_late_ones_none() {
        let done = |number, result| Answer { number, answered: Answered::Done(result) };
        let mut questions = Questions::default();
        let [one, two, three] = [(); 3].map(|()| questions.open());
        questions.take(done(three, 30));
        questions.take(done(one, 10));
        assert_eq!(questions.close(two), None, "given up");
        questions.take(done(two, 20));
        assert_eq!(questions.close(one), Some(Reply::Done(10)));
        assert_eq!(questions.close(three), Some(Reply::Done(30)));
        assert_eq!((questions.close(two), questions.open.len()), (None, 0));
    }
}
