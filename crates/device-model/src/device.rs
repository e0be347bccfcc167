//! Room on the device: which kernels have blocks to place, and where there is room for them.

use std::collections::BTreeMap;

/// A kernel at the device: a number that grows with its start.
pub type KernelId = u64;

/// A kernel some of whose blocks have no place yet, or run.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The client whose it is.
    pub client: usize,
    /// Blocks without a place.
    pub waiting: u32,
    /// Blocks that run.
    pub running: u32,
    /// Threads of a block.
    pub threads: u32,
    /// What a block takes, ns.
    pub block_ns: u64,
    /// Priority of its stream; smaller numbers go first.
    pub priority: i32,
    /// Room, in threads, that its blocks and all others with such a bound keep off together: they run in
    /// a green context. 0: they run anywhere.
    pub keep_free: u64,
    /// Blocks that have ended since places were given.
    pub ended: u32,
}

/// Blocks that were given places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// Of which kernel.
    pub kernel: KernelId,
    /// How many.
    pub blocks: u32,
    /// How full the SMs are that they may be on, 0 to 1, with them.
    pub fullness: f64,
}

/// The room of all SMs, in threads.
#[derive(Debug)]
pub struct Room {
    all: u64,
    free: u64,
    /// What blocks in green contexts have.
    green: u64,
    kernels: BTreeMap<KernelId, Resident>,
    /// Those that have blocks to place, the first to be served first.
    queue: BTreeMap<(i32, KernelId), ()>,
}

impl Room {
    /// An idle device.
    pub fn new(sms: u32, threads_per_sm: u32) -> Self {
        let all = u64::from(sms) * u64::from(threads_per_sm);
        Self { all, free: all, green: 0, kernels: BTreeMap::new(), queue: BTreeMap::new() }
    }

    /// A kernel starts.
    pub fn start(&mut self, id: KernelId, kernel: Resident) {
        self.queue.insert((kernel.priority, id), ());
        self.kernels.insert(id, kernel);
    }

    /// A kernel that has not ended.
    pub fn kernel(&self, id: KernelId) -> Option<&Resident> {
        self.kernels.get(&id)
    }

    /// Gives places to blocks, as long as there is room. What blocks in a green context have left goes to the
    /// next ones of their kernel, regardless of what waits elsewhere: priorities order the kernels
    /// of one context. The rest goes by priority and then in the order of starts.
    pub fn place(&mut self) -> Vec<Placed> {
        let mut placed = Vec::new();
        let mut done = Vec::new();
        for own in [true, false] {
            for key @ (_, id) in self.queue.keys() {
                if self.free == 0 {
                    break;
                }
                let Some(kernel) = self.kernels.get_mut(id) else { continue };
                let is_green = kernel.keep_free > 0;
                let most = match own {
                    true if is_green => std::mem::take(&mut kernel.ended),
                    true => continue,
                    false => u32::MAX,
                };
                let bound = match is_green {
                    true => self.all.saturating_sub(kernel.keep_free + self.green),
                    false => self.free,
                };
                let room = self.free.min(bound) / u64::from(kernel.threads);
                let room = u32::try_from(room).unwrap_or(u32::MAX);
                let blocks = room.min(most).min(kernel.waiting);
                if blocks == 0 {
                    continue;
                }
                let threads = u64::from(blocks) * u64::from(kernel.threads);
                self.free -= threads;
                self.green += if is_green { threads } else { 0 };
                kernel.waiting -= blocks;
                kernel.running += blocks;
                let (used, room) = match is_green {
                    true => (self.green, self.all.saturating_sub(kernel.keep_free)),
                    false => (self.all - self.free - self.green, self.all - self.green),
                };
                let fullness = (used as f64 / room.max(1) as f64).min(1.0);
                placed.push(Placed { kernel: *id, blocks, fullness });
                if kernel.waiting == 0 {
                    done.push(*key);
                }
            }
            for key in done.drain(..) {
                self.queue.remove(&key);
            }
        }
        placed
    }

    /// Blocks of a kernel end. The kernel, if these were its last ones.
    pub fn end(&mut self, id: KernelId, blocks: u32) -> Option<Resident> {
        let kernel = self.kernels.get_mut(&id)?;
        let threads = u64::from(blocks) * u64::from(kernel.threads);
        kernel.running -= blocks;
        kernel.ended += blocks;
        self.free += threads;
        self.green -= if kernel.keep_free > 0 { threads } else { 0 };
        match kernel.running + kernel.waiting {
            0 => self.kernels.remove(&id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(waiting: u32, priority: i32) -> Resident {
        Resident {
            client: 0,
            waiting,
            running: 0,
            threads: 512,
            block_ns: 1,
            priority,
            keep_free: 0,
            ended: 0,
        }
    }

    fn places(room: &mut Room) -> Vec<(KernelId, u32)> {
        room.place().iter().map(|placed| (placed.kernel, placed.blocks)).collect()
    }

    #[test]
    fn room_goes_to_the_most_urgent_then_to_the_first() {
        let mut room = Room::new(2, 2048);
        room.start(1, kernel(6, 0));
        assert_eq!(places(&mut room), [(1, 6)]);
        room.start(2, kernel(9, 0));
        room.start(3, kernel(3, -1));
        assert_eq!(places(&mut room), [(3, 2)]);
        assert!(room.end(1, 2).is_none());
        let next = [(3, 1), (2, 1)];
        assert_eq!(places(&mut room), next);
        assert!(room.end(1, 4).is_some());
        assert_eq!(places(&mut room), [(2, 4)]);
    }

    #[test]
    fn a_floor_is_left_free() {
        let mut room = Room::new(2, 2048);
        room.start(1, Resident { keep_free: 2048, ..kernel(8, 0) });
        assert_eq!(places(&mut room), [(1, 4)]);
        room.start(2, kernel(4, 0));
        assert_eq!(places(&mut room), [(2, 4)]);
        // What a block of the first one leaves is its own again, regardless of what is more urgent.
        room.start(3, kernel(2, -1));
        assert!(room.end(1, 1).is_none());
        assert_eq!(places(&mut room), [(1, 1)]);
        assert!(room.end(2, 4).is_some());
        assert_eq!(places(&mut room), [(3, 2)], "the floor is not the first one's");
    }

    #[test]
    fn blocks_are_told_how_full_their_sms_are() {
        let mut room = Room::new(4, 2048);
        room.start(1, kernel(4, 0));
        assert_eq!(room.place()[0].fullness, 0.25);
        assert!(room.end(1, 4).is_some());
        // A green context fills its three SMs; what has the fourth one is not beside it.
        room.start(2, Resident { keep_free: 2048, ..kernel(20, 0) });
        assert_eq!(room.place()[0].fullness, 1.0);
        room.start(3, kernel(2, -1));
        assert_eq!(room.place()[0].fullness, 0.5);
    }
}
