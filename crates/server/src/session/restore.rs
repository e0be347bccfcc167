//! Restoring: a client that comes from another server registers what it had there, and how long each part takes.
//!
//! Its program waits meanwhile, so server.log says where the time goes.

use super::SessionLink;
use crate::common::Common;
use channel::request::{
    AdoptChunk, ChunkCreate, Copy3D, DeviceToHost, Fence, GetFunction, GraphLaunch, HostFunc,
    HostMap, HostToDevice, LaunchKernel, LoadModule, RecordEvent, Repeats, Request,
};
use cuda_api::row_of_number;
use ptx::module_state::State;
use std::time::{Duration, Instant};

/// What requests are of, for the log.
const KINDS: [&str; 5] = ["memory", "host memory", "modules", "functions", "the rest"];

/// The place of a request's kind in [`KINDS`].
fn kind_of(opcode: u16) -> usize {
    match opcode {
        AdoptChunk::OPCODE => 0,
        HostMap::OPCODE => 1,
        LoadModule::OPCODE => 2,
        GetFunction::OPCODE => 3,
        _ => 4,
    }
}

/// What was restored so far.
pub(super) struct Restored {
    since: Instant,
    /// When the last request was done.
    done: Instant,
    /// What the requests of each kind took.
    took: [Duration; KINDS.len()],
    /// What it took the client until it sent one of each kind.
    came: [Duration; KINDS.len()],
    modules: u32,
    /// Of them, those that the provider has loaded now.
    loaded: u32,
    /// Of these, those with variables, and those of which it is not known what can change.
    with_variables: u32,
    unknown: u32,
    /// What the client does with work that was in flight.
    repeats: Option<Repeats>,
}

impl Restored {
    /// Begins with the session of a client that comes from another server.
    pub(super) fn begin(now: Instant) -> Box<Self> {
        Box::new(Self {
            since: now,
            done: now,
            took: Default::default(),
            came: Default::default(),
            modules: 0,
            loaded: 0,
            with_variables: 0,
            unknown: 0,
            repeats: None,
        })
    }

    /// A module was loaded, in which this can change; `is_new`: by the provider, now.
    pub(super) fn has_module(&mut self, is_new: bool, state: &State) {
        self.modules += 1;
        self.loaded += u32::from(is_new);
        self.with_variables += u32::from(is_new && matches!(state, State::Variables(_)));
        self.unknown += u32::from(is_new && *state == State::Unknown);
    }

    /// A request came at `since`, and is done.
    pub(super) fn has_done(&mut self, opcode: u16, since: Instant, now: Instant) {
        let kind = kind_of(opcode);
        self.took[kind] += now.saturating_duration_since(since);
        self.came[kind] += since.saturating_duration_since(self.done);
        self.done = now;
    }

    /// The client's work goes on: reports what was restored.
    pub(super) fn finish(self, link: &SessionLink, common: &Common) {
        link.set_restored(self.repeats);
        common.wake_main();
        // Memory alone is what a program has of another device.
        if self.modules > 0 {
            let (name, text) = (link.name(), self.text());
            common.log.line(format!("Client {name} has restored what it had: {text}"));
        }
        if let Some(repeats) = self.repeats {
            let name = link.name();
            common.log.line(format!("Client {name} {}", repeats_text(repeats)));
        }
    }

    /// Notes what the client repeats. It counts once, with what is restored.
    pub(super) fn note_repeats(&mut self, repeats: Repeats) {
        self.repeats = Some(repeats);
    }

    /// How long it took, in words.
    fn text(&self) -> String {
        let ms = |times: &[Duration]| {
            let named = KINDS.iter().zip(times).filter(|(_, time)| time.as_millis() > 0);
            let named: Vec<_> =
                named.map(|(kind, ms)| format!("{kind} {} ms", ms.as_millis())).collect();
            if named.is_empty() { "less than 1 ms".to_owned() } else { named.join(", ") }
        };
        format!(
            "{} ms, {} modules ({} loaded now, {} of them with variables, {} that cannot be shared); of the server's \
             time {}; of the client's, before it sent {}",
            self.since.elapsed().as_millis(),
            self.modules,
            self.loaded,
            self.with_variables,
            self.unknown,
            ms(&self.took),
            ms(&self.came),
        )
    }
}

/// What becomes of work that was in flight, in words.
fn repeats_text(Repeats { operations, kernels, lost }: Repeats) -> String {
    match lost {
        0 => format!("repeats {operations} operations, {kernels} of them kernels and graphs"),
        _ => "has lost work that cannot be repeated: this is reported to it".to_owned(),
    }
}

/// True for work: what came before it is all that was restored.
pub(super) fn is_work(opcode: u16) -> bool {
    let is_memory = |row: &cuda_api::Row| row.symbol.starts_with("cuMem");
    let forwarded = row_of_number(opcode).is_some_and(is_memory);
    forwarded
        || [
            Copy3D::OPCODE,
            ChunkCreate::OPCODE,
            LaunchKernel::OPCODE,
            HostToDevice::OPCODE,
            DeviceToHost::OPCODE,
            Fence::OPCODE,
            GraphLaunch::OPCODE,
            HostFunc::OPCODE,
            RecordEvent::OPCODE,
        ]
        .contains(&opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_clients_memory_counts_as_the_servers_time_like_the_others() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut restored = Restored::begin(begin);
        restored.has_done(AdoptChunk::OPCODE, begin, at(30));
        restored.has_done(AdoptChunk::OPCODE, at(32), at(35));
        restored.has_done(LoadModule::OPCODE, at(40), at(41));
        let ms = |times: [Duration; KINDS.len()]| times.map(|time| time.as_millis());
        assert_eq!(ms(restored.took), [33, 0, 1, 0, 0]);
        assert_eq!(ms(restored.came), [2, 0, 5, 0, 0]);
    }
}
