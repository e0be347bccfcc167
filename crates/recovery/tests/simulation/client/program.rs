//! Program of a client: what it posts and waits for, and how it compares what it finds with an undisturbed run.

use super::*;

impl Client {
    pub(super) fn bit_of(&mut self, set: u64) -> u64 {
        let bits: Vec<u64> = (0..ALLOCATIONS).filter(|bit| set >> bit & 1 == 1).collect();
        bits[self.random.below(bits.len() as u64) as usize]
    }

    pub(super) fn free_slice(&mut self) -> Option<u64> {
        let taken = |mark: &Option<Mark>| mark.is_some();
        self.slices.iter().position(|mark| !taken(mark)).map(|slice| slice as u64)
    }

    /// What the program does next.
    pub(super) fn draw(&mut self) -> VecDeque<(usize, Operation)> {
        let slot = self.random.below(STREAMS as u64) as usize;
        self.number = mix(self.number);
        let number = self.number;
        let owned = self.owned[slot];
        // Who says that all may be repeated never writes what it reads, but for what it has filled.
        let (sources, targets) = match self.policy {
            ReplayPolicy::Always => (owned & 0b1111, owned & 0b1111_0000),
            _ => (owned, owned),
        };
        let (source, target) = (self.bit_of(sources), self.bit_of(targets));
        let bad = self.bad_left > 0 && self.random.permille(80);
        let nature = match self.character {
            Character::Faulty if bad => Nature::Traps,
            Character::Endless if bad => Nature::Endless,
            _ if self.random.permille(if self.careful { 20 } else { 120 }) => Nature::Opaque,
            _ => Nature::Plain,
        };
        if matches!(nature, Nature::Traps | Nature::Endless) {
            self.bad_left -= 1;
            let writes = if self.random.permille(500) { 0 } else { 1 << target };
            return [(slot, Operation::Kernel { number, reads: 1 << source, writes, nature })]
                .into();
        }
        let cell = |allocation: u64, random: &mut Random| allocation * CELLS + random.below(CELLS);
        let one = |operation| VecDeque::from([(slot, operation)]);
        match self.random.below(100) {
            0..45 => {
                let mut reads = 1 << source | 1 << self.bit_of(sources);
                let writes = 1 << target;
                if self.careful && self.random.permille(800) {
                    reads &= !writes;
                }
                // Who says that all may be repeated changes in place what it has filled since it last waited.
                let is_fresh = self.fresh >> target & 1 == 1;
                if self.policy == ReplayPolicy::Always && is_fresh && self.random.permille(600) {
                    reads |= writes;
                }
                one(Operation::Kernel { number, reads, writes, nature })
            }
            45..65 => {
                let first = cell(target, &mut self.random);
                let whole = self.random.permille(700);
                let (first, count) = match whole {
                    true => (target * CELLS, CELLS),
                    false => (first, CELLS - first % CELLS),
                };
                one(Operation::Fill { number, first, count })
            }
            65..75 => {
                let (from, to) = (source * CELLS, target * CELLS);
                one(Operation::DeviceCopy { from, to, count: self.random.between(1, CELLS) })
            }
            75..83 => match self.free_slice() {
                Some(slice) => {
                    let values = (slice * CELLS..(slice + 1) * CELLS).zip(0..);
                    for (cell, index) in values {
                        self.memory.staging[cell as usize] = mix(number ^ index);
                        self.model.staging[cell as usize] = mix(number ^ index);
                    }
                    one(Operation::Upload { slice, allocation: target })
                }
                None => VecDeque::new(),
            },
            83..92 => match self.free_slice() {
                Some(slice) => one(Operation::Download { allocation: source, slice }),
                None => VecDeque::new(),
            },
            _ => {
                // Each stream comes after all of the other one: they may swap what they use.
                let (first, second) = (number & !1, number | 1);
                [
                    (0, Operation::Record { event: first }),
                    (1, Operation::Wait { event: first }),
                    (1, Operation::Record { event: second }),
                    (0, Operation::Wait { event: second }),
                ]
                .into()
            }
        }
    }
}

impl World {
    pub(super) fn step(&mut self, client: usize) {
        let words = self.clients[client].current.map(|current| self.connections[current].words);
        let of = &mut self.clients[client];
        // Slices whose uploads are done are free; those of downloads when they were looked at.
        if let Some(words) = words.map(Completed) {
            for (slice, mark) in of.slices.iter_mut().enumerate() {
                let looked_at = !of.downloads.iter().any(|(of, _)| *of == slice as u64);
                let passed = |mark: Mark| of.progress[mark.slot as usize].passed(mark, &words);
                *mark = mark.filter(|_| true);
                if looked_at && mark.is_some_and(passed) {
                    *mark = None;
                }
            }
        }
        if let Some((slot, operation)) = of.pending.pop_front() {
            if of.pending.is_empty()
                && matches!(operation, Operation::Wait { .. })
                && of.policy != ReplayPolicy::Always
                && of.random.permille(700)
            {
                let first = of.random.any() & 0xff;
                if first != 0 && first != 0xff {
                    of.owned = [first, 0xff & !first];
                }
            }
            return self.post(client, slot, operation);
        }
        if of.steps == 0 {
            return self.wait_for_all(client, Why::Last);
        }
        of.steps -= 1;
        if of.character == Character::Slow && of.random.permille(60) {
            let pause = of.random.between(500_000, 4_000_000);
            of.due_us = None;
            return self.client_by(client, self.now_us + pause);
        }
        match of.random.below(100) {
            0..12 => {
                let slot = of.random.below(STREAMS as u64) as usize;
                let mark = Mark { slot: slot as u32, value: of.progress[slot].issued() };
                self.wait_for(client, vec![mark], Why::Stream(slot));
            }
            12..20 => self.wait_for_all(client, Why::All),
            20..25 => {
                let pause = of.random.between(1_000, 60_000);
                of.due_us = None;
                self.client_by(client, self.now_us + pause);
            }
            _ => {
                let drawn = of.draw();
                of.pending = drawn;
                self.wake_client(client);
            }
        }
    }

    pub(super) fn wait_for_all(&mut self, client: usize, why: Why) {
        let ends = (0..STREAMS).map(|slot| Mark {
            slot: slot as u32,
            value: self.clients[client].progress[slot].issued(),
        });
        self.wait_for(client, ends.collect(), why);
    }

    pub(super) fn wait_for(&mut self, client: usize, marks: Vec<Mark>, why: Why) {
        self.fences_for(client, &marks);
        self.clients[client].phase = Phase::Waiting(marks, why);
        self.wake_client(client);
    }

    pub(super) fn fences_for(&mut self, client: usize, marks: &[Mark]) {
        for mark in marks {
            let slot = mark.slot as usize;
            if self.clients[client].progress[slot].fence_for(mark.value).is_some() {
                self.fence(client, slot, true);
            }
        }
    }

    /// What it waited for is done: the program hears of errors, and looks at its memory.
    pub(super) fn finish_wait(&mut self, client: usize, marks: &[Mark], why: Why) {
        let Some(current) = self.clients[client].current else { return };
        let of = &mut self.clients[client];
        marks.iter().for_each(|mark| of.waited_for(*mark));
        of.fresh = 0;
        of.phase = Phase::Thinking;
        if std::mem::take(&mut self.connections[current].to_report) {
            of.reports += 1;
            of.owed = false;
            if !of.rough {
                return self.fail(format!("client {client} has lost work by a planned end"));
            }
            self.note(|| format!("client {client} gets the report, and catches it"));
            self.clients[client].pending.clear();
            return self.wait_for_all(client, Why::Catch);
        }
        if why == Why::Catch {
            of.model = of.memory.clone();
            of.downloads.clear();
            of.slices = Default::default();
            return self.wake_client(client);
        }
        if of.owed && matches!(why, Why::All | Why::Last) {
            return self.fail(format!("nothing is said of the fault of client {client}"));
        }
        let owned = match why {
            Why::Stream(slot) => of.owned[slot],
            _ => 0xff,
        };
        // What the stream owns now may have been the other one's before, which it came after.
        for cell in 0..(ALLOCATIONS * CELLS) as usize {
            if owned >> (cell as u64 / CELLS) & 1 == 1
                && of.memory.device[cell] != of.model.device[cell]
            {
                return self.fail(format!("client {client}: cell {cell} is wrong, {why:?}"));
            }
        }
        let mut wrong = None;
        of.downloads.retain(|(slice, mark)| {
            let seen = marks.iter().any(|end| end.slot == mark.slot && end.value >= mark.value);
            let cells = (slice * CELLS) as usize..((slice + 1) * CELLS) as usize;
            if seen && of.memory.staging[cells.clone()] != of.model.staging[cells] {
                wrong = Some(*slice);
            }
            !seen
        });
        if let Some(slice) = wrong {
            return self.fail(format!("client {client}: slice {slice} is wrong, {why:?}"));
        }
        if why == Why::Last {
            return self.end_client(client, Fate::Finished);
        }
        self.wake_client(client);
    }
}
