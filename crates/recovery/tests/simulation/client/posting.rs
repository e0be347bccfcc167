//! Posting: records in a client's ring, fences, and the journal that is looked through.

use super::*;

impl World {
    pub(super) fn has_room(&self, client: usize, current: usize) -> bool {
        let ring = &self.connections[current].ring;
        let used = ring.position(Position::Head) - ring.position(Position::Tail);
        let head = self.clients[client].producer.as_ref().map_or(0, Producer::head);
        debug_assert_eq!(head, ring.position(Position::Head), "client {client}");
        used + ROOM_BYTES <= Ring::RING_BYTES
    }

    pub(super) fn push(&mut self, client: usize, opcode: u16, words: &[u64], mark: Option<Mark>) {
        let of = &mut self.clients[client];
        let Some(producer) = &mut of.producer else { return };
        if producer.push(opcode, words, &[], &|| true).is_err() {
            return self.fail(format!("client {client} cannot push"));
        }
        if let Some(mark) = mark {
            of.journal.note(producer.last_position(), mark);
        }
        if let Some(pid) = of.current.and_then(|current| self.connections[current].server) {
            self.wake_server(pid);
        }
    }

    /// A fence behind all that was posted to a stream; without one underway, or if `due`.
    pub(super) fn fence(&mut self, client: usize, slot: usize, due: bool) {
        let progress = &mut self.clients[client].progress[slot];
        if !progress.is_unfenced() && !due {
            return;
        }
        let value = progress.posted();
        let (opcode, words) = Operation::Fence { value }.encode(slot as u64);
        self.push(client, opcode, &words, None);
        self.clients[client].progress[slot].fenced(value);
    }

    /// What `journal_is_due` does.
    pub(super) fn look_through(&mut self, client: usize, current: usize) {
        let of = &self.clients[client];
        let head = of.producer.as_ref().map_or(0, Producer::head);
        if !of.journal.is_due(head) {
            return;
        }
        for slot in 0..STREAMS {
            self.fence(client, slot, false);
        }
        let connection = &self.connections[current];
        let words = Completed(connection.words);
        let of = &mut self.clients[client];
        let keeps_waited = of.policy == ReplayPolicy::Always;
        let waited = of.progress.each_ref().map(Progress::waited);
        let was_waited_for = |mark: Mark| waited[mark.slot as usize] >= mark.value;
        let (journal, progress) = (&mut of.journal, &mut of.progress);
        let done = |mark: Mark| {
            progress[mark.slot as usize].passed(mark, &words)
                && (!keeps_waited || was_waited_for(mark))
        };
        let head = of.producer.as_ref().map_or(0, Producer::head);
        journal.look_through(head, &connection.ring, done, was_waited_for);
    }

    pub(super) fn post(&mut self, client: usize, slot: usize, operation: Operation) {
        let Some(current) = self.clients[client].current else { return };
        if !self.has_room(client, current) {
            self.clients[client].phase = Phase::Room(slot, operation);
            return self.wake_client(client);
        }
        self.look_through(client, current);
        let value = self.clients[client].progress[slot].issue();
        let mark = Mark { slot: slot as u32, value };
        let (opcode, words) = operation.encode(slot as u64);
        self.push(client, opcode, &words, Some(mark));
        self.note(|| format!("client {client}, stream {slot}: {operation:?}"));
        let of = &mut self.clients[client];
        operation.apply(&mut of.model, None);
        match operation {
            Operation::Upload { slice, .. } => of.slices[slice as usize] = Some(mark),
            Operation::Download { slice, .. } => {
                of.slices[slice as usize] = Some(mark);
                of.downloads.push((slice, mark));
            }
            Operation::Record { event } => drop(of.recorded.insert(event, mark)),
            Operation::Wait { event } => {
                if let Some(recorded) = of.recorded.remove(&event) {
                    of.order[slot].comes_behind(value, recorded);
                }
            }
            Operation::Fill { first, count: CELLS, .. } => of.fresh |= 1 << (first / CELLS),
            Operation::Kernel { nature: Nature::Traps, .. } => of.owed = true,
            Operation::Kernel { nature: Nature::Endless, .. } => {
                let delay = self.random.between(50_000, 900_000);
                self.schedule(delay, Event::Terminate(client));
            }
            _ => {}
        }
        self.wake_client(client);
    }
}
