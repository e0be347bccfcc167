//! The order between a client's legacy default stream and its blocking streams.
//!
//! CUDA says: work in the legacy stream waits for all work before it in every blocking stream,
//! and work in a blocking stream waits for all work before it in the legacy stream. The streams
//! at the provider know nothing of each other, so each such wait is an event. This module only
//! decides which waits are needed, so that a client that uses one stream pays for none; it knows
//! no provider. What is needed is asked first and noted only when the wait is in its stream: a wait
//! that failed is asked for again.

/// What one blocking stream remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocking {
    /// It has waited for legacy work up to this point.
    seen: u64,
    /// It has work that the legacy stream has not waited for.
    dirty: bool,
}

/// What a blocking stream must do before its next work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Nothing.
    Nothing,
    /// Wait for the legacy stream's event as it was recorded last.
    Wait,
    /// Record the legacy stream's event, then wait for it.
    RecordAndWait,
}

/// What the legacy stream remembers. `S` names a stream.
#[derive(Debug)]
pub struct StreamOrder<S> {
    /// Counts the legacy stream's submissions.
    submitted: u64,
    /// The submission behind which the legacy stream's event was recorded last.
    recorded: u64,
    dirty: Vec<S>,
}

impl<S: Copy + PartialEq> StreamOrder<S> {
    /// Nothing was submitted.
    pub const fn new() -> Self {
        Self { submitted: 0, recorded: 0, dirty: Vec::new() }
    }

    /// Before work in the legacy stream: a stream that it must wait for, until there is none.
    pub fn before_legacy(&self) -> Option<S> {
        self.dirty.first().copied()
    }

    /// The legacy stream waits for all work of a blocking stream.
    pub fn legacy_waits(&mut self, name: S, stream: &mut Blocking) {
        self.dirty.retain(|s| *s != name);
        stream.dirty = false;
    }

    /// The legacy stream got work.
    pub fn legacy_submitted(&mut self) {
        self.submitted += 1;
    }

    /// Before work in a blocking stream.
    pub fn before_blocking(&self, stream: &Blocking) -> Join {
        if stream.seen == self.submitted {
            Join::Nothing
        } else if self.recorded == self.submitted {
            Join::Wait
        } else {
            Join::RecordAndWait
        }
    }

    /// The legacy stream's event was recorded behind all of its work.
    pub fn legacy_recorded(&mut self) {
        self.recorded = self.submitted;
    }

    /// A blocking stream waits for all work of the legacy stream.
    pub fn blocking_waits(&self, stream: &mut Blocking) {
        stream.seen = self.submitted;
    }

    /// A blocking stream got work.
    pub fn blocking_submitted(&mut self, name: S, stream: &mut Blocking) {
        if !stream.dirty {
            stream.dirty = true;
            self.dirty.push(name);
        }
    }

    /// A blocking stream goes away; the legacy stream waits for what it had.
    pub fn forget(&mut self, name: S) {
        self.dirty.retain(|s| *s != name);
    }
}

impl Blocking {
    /// The legacy stream must still wait for work of this stream.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const STREAMS: usize = 4;

    /// What work waits for, by CUDA's rule and by the events that the module asks for: sets of
    /// the numbers of all work before it.
    #[derive(Default, Clone)]
    struct Model {
        stream: Vec<BTreeSet<usize>>,
        legacy: BTreeSet<usize>,
        event: BTreeSet<usize>,
    }

    proptest! {
        /// All that CUDA orders is ordered, and nothing is that CUDA does not; work whose wait fails is
        /// not submitted, and costs later work no order.
        #[test]
        fn waits_are_those_of_cuda(
            steps in prop::collection::vec((0usize..=STREAMS, prop::bool::weighted(0.2)), 0..60)
        ) {
            let mut order = StreamOrder::new();
            let mut blocking = [Blocking::default(); STREAMS];
            let mut ours = Model { stream: vec![BTreeSet::new(); STREAMS], ..Model::default() };
            let mut cuda = ours.clone();
            for (number, (who, fails)) in steps.into_iter().enumerate() {
                if who == STREAMS {
                    let mut done = 0;
                    while let Some(name) = order.before_legacy() {
                        let name: usize = name;
                        if fails && done == 1 {
                            break;
                        }
                        ours.legacy.extend(ours.stream[name].clone());
                        order.legacy_waits(name, &mut blocking[name]);
                        done += 1;
                    }
                    if order.before_legacy().is_some() {
                        continue;
                    }
                    cuda.legacy.extend(cuda.stream.iter().flatten().copied().collect::<Vec<_>>());
                    prop_assert_eq!(&ours.legacy, &cuda.legacy);
                    order.legacy_submitted();
                    ours.legacy.insert(number);
                    cuda.legacy.insert(number);
                } else {
                    let join = order.before_blocking(&blocking[who]);
                    if fails && join != Join::Nothing {
                        continue;
                    }
                    if join == Join::RecordAndWait {
                        ours.event = ours.legacy.clone();
                        order.legacy_recorded();
                    }
                    if join != Join::Nothing {
                        ours.stream[who].extend(ours.event.clone());
                        order.blocking_waits(&mut blocking[who]);
                    }
                    cuda.stream[who].extend(cuda.legacy.clone());
                    prop_assert_eq!(&ours.stream[who], &cuda.stream[who]);
                    order.blocking_submitted(who, &mut blocking[who]);
                    ours.stream[who].insert(number);
                    cuda.stream[who].insert(number);
                }
            }
        }
    }

    #[test]
    fn one_stream_alone_waits_for_nothing() {
        let mut order = StreamOrder::new();
        let mut stream = Blocking::default();
        for _ in 0..3 {
            assert_eq!(order.before_blocking(&stream), Join::Nothing);
            order.blocking_submitted(1, &mut stream);
        }
        assert_eq!(order.before_legacy(), Some(1));
        order.legacy_waits(1, &mut stream);
        order.legacy_submitted();
        assert_eq!(order.before_legacy(), None);
    }

    #[test]
    fn a_stream_that_goes_is_waited_for_once() {
        let mut order = StreamOrder::new();
        let mut stream = Blocking::default();
        order.blocking_submitted(7, &mut stream);
        assert!(stream.is_dirty());
        order.forget(7);
        assert_eq!(order.before_legacy(), None);
    }
}
