//! Recorder: every piece of a session's work with its times, by events, while a trace is wanted.
//!
//! Each piece has an event behind it. What comes to a stream with work begins when the work before it
//! ends, so that event says its start too; only what comes to an idle stream has a second one
//! before it, or what may wait for other streams. Times count from the last event that was read of the same stream; all streams'
//! place on the host's clock follows from what is known of the others: no work begins before it is submitted.

use crate::device::{Event, Share, Stream};
use crate::trace_log::{TraceLog, now_ns};
use channel::message::TraceEntry;
use cuda_api::{CUresult, CUstream, CudaError};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Most pieces of work with events that were not read yet. More are not recorded, and the trace says
/// how many.
const PENDING_MAX: usize = 8192;
/// An event says of so many pieces of work at once that they are done.
const BATCH: usize = 32;

/// What a record says of a piece of work before its time is known.
#[derive(Debug, Default)]
pub struct Subject {
    /// All but the times.
    pub entry: TraceEntry,
    /// The kernel's name.
    pub name: Option<Arc<str>>,
}

/// A piece of work.
pub struct TraceMark {
    subject: Subject,
    /// If the stream was idle.
    start: Option<Event>,
}

/// An event and its time, ns, on the clock that counts from the first event of the recording.
struct Anchor {
    event: Event,
    at_ns: i64,
}

/// One stream's.
struct Track {
    stream: CUstream,
    pending: VecDeque<(TraceMark, Event)>,
    /// The end that was read last.
    last: Option<Anchor>,
}

/// One session's.
pub struct Recorder {
    share: Rc<Share>,
    spare: Vec<Event>,
    tracks: Vec<Track>,
    pending: usize,
    /// The first event of the recording.
    first: Option<Event>,
    /// Its place on the host's clock, ns, as far as is known.
    first_host_ns: i64,
    ended: Vec<(TraceEntry, Arc<str>)>,
    lost: u64,
    launches: u64,
    nameless: Arc<str>,
}

impl Recorder {
    /// Nothing is recorded.
    pub fn new(share: &Rc<Share>) -> Self {
        Self {
            share: share.clone(),
            spare: Vec::new(),
            tracks: Vec::new(),
            pending: 0,
            first: None,
            first_host_ns: 0,
            ended: Vec::new(),
            lost: 0,
            launches: 0,
            nameless: "".into(),
        }
    }

    /// Whose it is.
    pub fn share(&self) -> &Rc<Share> {
        &self.share
    }

    fn record(&mut self, stream: &Stream) -> Result<Event, CudaError> {
        let event = self.spare.pop().map_or_else(|| Event::new(&self.share, 0), Ok)?;
        stream.record(&event)?;
        Ok(event)
    }

    /// A piece of work is about to be submitted. `None` if it cannot be recorded: it is counted as lost.
    pub fn begin(&mut self, stream: &Stream, mut subject: Subject) -> Option<TraceMark> {
        self.launches += 1;
        if self.pending >= PENDING_MAX {
            self.lost += 1;
            stream.interrupt();
            return None;
        }
        let now = now_ns();
        (subject.entry.launch, subject.entry.submitted_ns) = (self.launches, now);
        if self.first.is_none() {
            self.first = Some(self.record(stream).ok()?);
            self.first_host_ns = now as i64;
        }
        let track = self.tracks.iter().find(|track| track.stream == stream.raw());
        let end = track.and_then(|track| Some(&track.pending.back()?.1));
        let follows = !stream.take_interrupted();
        let is_busy = follows && end.is_some_and(|end| end.is_done() == Ok(false));
        let start = if is_busy { None } else { Some(self.record(stream).ok()?) };
        Some(TraceMark { subject, start })
    }

    /// It was submitted, or refused.
    pub fn end(&mut self, mark: TraceMark, stream: &Stream, submitted: bool) {
        if !submitted {
            self.spare.extend(mark.start);
            return;
        }
        let Ok(end) = self.record(stream) else {
            self.lost += 1;
            return;
        };
        self.pending += 1;
        match self.tracks.iter_mut().find(|track| track.stream == stream.raw()) {
            Some(track) => track.pending.push_back((mark, end)),
            None => {
                let pending = VecDeque::from([(mark, end)]);
                self.tracks.push(Track { stream: stream.raw(), pending, last: None });
            }
        }
    }

    /// Takes in the times of what is done. The error is that of the work.
    pub fn read(&mut self) -> CUresult {
        if self.pending == 0 {
            return Ok(());
        }
        let mut tracks = std::mem::take(&mut self.tracks);
        let read = tracks.iter_mut().try_for_each(|track| self.read_track(track));
        self.tracks = tracks;
        read
    }

    fn read_track(&mut self, track: &mut Track) -> CUresult {
        loop {
            let batch = match track.pending.get(BATCH - 1) {
                Some((_, last)) if last.is_done()? => BATCH,
                _ => match track.pending.front() {
                    Some((_, end)) if end.is_done()? => 1,
                    _ => return Ok(()),
                },
            };
            for (mark, end) in track.pending.drain(..batch) {
                self.pending -= 1;
                if self.take(mark, end, &mut track.last).is_none() {
                    self.lost += 1;
                }
            }
        }
    }

    /// `None` if its times cannot be read.
    fn take(&mut self, mark: TraceMark, end: Event, last: &mut Option<Anchor>) -> Option<()> {
        let after = |from: &Event, event: &Event| {
            Some((f64::from(from.elapsed_ms(event).ok()?) * 1e6) as i64)
        };
        let (start_ns, end_ns) = match (&mark.start, &*last) {
            (None, Some(Anchor { event, at_ns })) => (*at_ns, at_ns + after(event, &end)?),
            (None, None) => return None,
            (Some(start), before) => {
                let at_ns = match before {
                    Some(Anchor { event, at_ns }) => at_ns + after(event, start)?,
                    None => after(self.first.as_ref()?, start)?,
                };
                let took = u64::try_from(after(start, &end)?).unwrap_or(0);
                let cost = self.share.device().event_cost().unwrap_or_default();
                (at_ns, at_ns + cost.take_off(took) as i64)
            }
        };
        let Subject { mut entry, name } = mark.subject;
        let early = entry.submitted_ns as i64 - (self.first_host_ns + start_ns);
        self.first_host_ns += early.max(0);
        entry.start_ns = (self.first_host_ns + start_ns).max(0) as u64;
        entry.end_ns = (self.first_host_ns + end_ns).max(0) as u64;
        self.ended.push((entry, name.unwrap_or_else(|| self.nameless.clone())));
        self.spare.extend(mark.start);
        let before = last.replace(Anchor { event: end, at_ns: end_ns });
        self.spare.extend(before.map(|anchor| anchor.event));
        Some(())
    }

    /// Gives the log what has ended.
    pub fn give(&mut self, log: &TraceLog) {
        log.lost(std::mem::take(&mut self.lost));
        if !self.ended.is_empty() {
            log.add(self.ended.drain(..));
        }
    }

    /// Gives the events back. What was not read is forgotten.
    pub fn clear(&mut self) {
        self.tracks.clear();
        self.spare.clear();
        (self.first, self.pending) = (None, 0);
    }
}
