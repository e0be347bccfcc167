//! Activation of a function in a warp: its registers, and which lanes are pending at which block.

use crate::register_file::RegisterFile;
use crate::run::program::{CodeId, Program};
use std::sync::Arc;

/// A function that a warp is in.
pub(super) struct Activation {
    pub(super) code: CodeId,
    pub(super) file: RegisterFile,
    /// Lanes at the start of each block.
    pub(super) pending: Vec<u32>,
    /// The lowest block with pending lanes, or more than any.
    pub(super) lowest: u32,
    /// Blocks whose lanes wait for others to come.
    pub(super) parked: Vec<u32>,
    /// Lanes that have neither returned nor exited.
    pub(super) live: u32,
    /// Lanes that entered.
    pub(super) entered: u32,
    /// Where its frame starts in local memory.
    pub(super) frame: u64,
    /// Index of the call that is running, in the caller's call sites.
    pub(super) site: u32,
    /// Block of the caller to go on at.
    pub(super) next: u32,
    /// The prologue has run for this block of the grid.
    pub(super) prepared: bool,
    /// The caller's number.
    pub(super) parent: usize,
    /// Calls that led here.
    pub(super) depth: usize,
    /// All lanes have left it.
    pub(super) over: bool,
    /// The block of a group that has had its turn: the next one is for others.
    pub(super) rotate_from: Option<u32>,
}

impl Activation {
    pub(super) fn new(program: &Arc<Program>, code: CodeId, lanes: u32, frame: u64) -> Self {
        let file = program.file(code);
        let mut pending = vec![0; program.code(code).blocks.len()];
        pending[0] = lanes;
        Self {
            code,
            file,
            pending,
            lowest: 0,
            parked: Vec::new(),
            live: lanes,
            entered: lanes,
            frame,
            site: 0,
            next: 0,
            prepared: false,
            parent: 0,
            depth: 0,
            over: false,
            rotate_from: None,
        }
    }

    pub(super) fn add(&mut self, block: u32, mask: u32) {
        self.pending[block as usize] |= mask;
        self.lowest = self.lowest.min(block);
        // The lanes that came may be those that were waited for.
        self.parked.retain(|b| *b != block);
    }

    pub(super) fn find_lowest(&mut self, from: u32) {
        let found = self.pending[from as usize..].iter().position(|m| *m != 0);
        self.lowest = found.map_or(u32::MAX, |offset| from + offset as u32);
    }

    pub(super) fn take(&mut self, block: u32) -> u32 {
        let mask = std::mem::take(&mut self.pending[block as usize]);
        if block == self.lowest {
            self.find_lowest(block);
        }
        mask
    }

    /// Lanes are at the start of some block.
    pub(super) fn has_pending(&self) -> bool {
        (self.lowest as usize) < self.pending.len()
    }

    /// Lanes are at the start of a block, and do not wait there for others to come.
    fn can_run(&self, block: usize) -> bool {
        self.pending[block] != 0 && !self.parked.contains(&(block as u32))
    }

    /// Some lanes do not wait for others to come.
    pub(super) fn has_runnable(&self) -> bool {
        (0..self.pending.len()).any(|block| self.can_run(block))
    }

    /// The next block to run and whether it must run with the lanes it has.
    pub(super) fn choose(&mut self) -> Option<(u32, bool)> {
        let after = self.rotate_from.take();
        if self.lowest as usize >= self.pending.len() {
            return None;
        }
        if self.parked.is_empty() && after.is_none() {
            return Some((self.lowest, false));
        }
        let n = self.pending.len();
        let first = after.map_or(0, |b| b as usize + 1);
        let mut blocks = (first..n).chain(0..first.min(n));
        match blocks.find(|block| self.can_run(*block)) {
            Some(b) => Some((b as u32, false)),
            // All lanes here wait for others: the first go on, unless those others can come.
            None => Some((self.lowest, true)),
        }
    }
}
