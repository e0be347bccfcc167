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
    /// Room, in threads, that its blocks must leave free.
    pub keep_free: u64,
}

/// Blocks that were given places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Of which kernel.
    pub kernel: KernelId,
    /// How many.
    pub blocks: u32,
}

/// The room of all SMs.
#[derive(Debug)]
pub struct Room {
    free: u64,
    kernels: BTreeMap<KernelId, Resident>,
    /// Those that have blocks to place, the first to be served first.
    queue: BTreeMap<(i32, KernelId), ()>,
}

impl Room {
    /// An idle device.
    pub fn new(sms: u32, threads_per_sm: u32) -> Self {
        let free = u64::from(sms) * u64::from(threads_per_sm);
        Self { free, kernels: BTreeMap::new(), queue: BTreeMap::new() }
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

    /// Gives places to blocks, by priority and then in the order of starts, as long as there is room.
    pub fn place(&mut self) -> Vec<Placed> {
        let mut placed = Vec::new();
        let mut done = Vec::new();
        for key @ (_, id) in self.queue.keys() {
            if self.free == 0 {
                break;
            }
            let Some(kernel) = self.kernels.get_mut(id) else { continue };
            let room = self.free.saturating_sub(kernel.keep_free) / u64::from(kernel.threads);
            let blocks = u32::try_from(room).unwrap_or(u32::MAX).min(kernel.waiting);
            if blocks == 0 {
                continue;
            }
            self.free -= u64::from(blocks) * u64::from(kernel.threads);
            kernel.waiting -= blocks;
            kernel.running += blocks;
            placed.push(Placed { kernel: *id, blocks });
            if kernel.waiting == 0 {
                done.push(*key);
            }
        }
        for key in done {
            self.queue.remove(&key);
        }
        placed
    }

    /// Blocks of a kernel end. The kernel, if these were its last ones.
    pub fn end(&mut self, id: KernelId, blocks: u32) -> Option<Resident> {
        let kernel = self.kernels.get_mut(&id)?;
        kernel.running -= blocks;
        self.free += u64::from(blocks) * u64::from(kernel.threads);
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
        }
    }

    #[test]
    fn room_goes_to_the_most_urgent_then_to_the_first() {
        let mut room = Room::new(2, 2048);
        room.start(1, kernel(6, 0));
        assert_eq!(room.place(), [Placed { kernel: 1, blocks: 6 }]);
        room.start(2, kernel(9, 0));
        room.start(3, kernel(3, -1));
        assert_eq!(room.place(), [Placed { kernel: 3, blocks: 2 }]);
        assert!(room.end(1, 2).is_none());
        let next = [Placed { kernel: 3, blocks: 1 }, Placed { kernel: 2, blocks: 1 }];
        assert_eq!(room.place(), next);
        assert!(room.end(1, 4).is_some());
        assert_eq!(room.place(), [Placed { kernel: 2, blocks: 4 }]);
    }

    #[test]
    fn a_floor_is_left_free() {
        let mut room = Room::new(2, 2048);
        room.start(1, Resident { keep_free: 2048, ..kernel(8, 0) });
        assert_eq!(room.place(), [Placed { kernel: 1, blocks: 4 }]);
        room.start(2, kernel(4, 0));
        assert_eq!(room.place(), [Placed { kernel: 2, blocks: 4 }]);
    }
}
