//! Exports: what clients of this server share with each other, chunks of device memory and events,
//! known by tokens.
//!
//! A token is 128 random bits: a client that has it was given it. What is exported is forgotten
//! when its owner frees it or ends; a client that has opened it before keeps it.

use crate::device::RawEvent;
use channel::system;
use cuda_api::CudaError;
use locks::{Mutex, MutexGuard};
use rustix::rand::GetRandomFlags;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most objects exported at a time, by all clients: each piece of memory is a file descriptor of
/// the server's. A client may have as many as are left free then, so that each finds room.
pub const SHARED_MAX: usize = 8192;

/// What an exported object is known by.
pub type Token = [u64; 2];

/// An exported chunk.
struct SharedChunk {
    bytes: u64,
    file: OwnedFd,
}

/// By what an object is found again: its owner, and its address.
type Place = (u32, usize);

#[derive(Default)]
struct Tables {
    chunks: HashMap<Token, SharedChunk>,
    events: HashMap<Token, (u32, Arc<RawEvent>)>,
    chunks_by_place: HashMap<Place, Token>,
    events_by_place: HashMap<Place, Token>,
    /// How many each client has exported.
    counts: HashMap<u32, usize>,
}

impl Tables {
    /// Counts one more of a client's, if it may have one.
    fn count(&mut self, owner: u32) -> Result<(), CudaError> {
        let all: usize = self.chunks.len() + self.events.len();
        let count = self.counts.entry(owner).or_default();
        if *count >= SHARED_MAX.saturating_sub(all) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        *count += 1;
        Ok(())
    }

    fn uncount(&mut self, owner: u32) {
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
    }
}

fn place_of(owner: u32, event: &Arc<RawEvent>) -> Place {
    (owner, Arc::as_ptr(event).addr())
}

/// All that is exported.
#[derive(Default)]
pub struct Shared {
    tables: Mutex<Tables>,
}

/// A token that no process can guess.
fn new_token() -> Result<Token, CudaError> {
    let mut bytes = [0u8; size_of::<Token>()];
    let got = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty());
    if got != Ok(bytes.len()) {
        return Err(CudaError::OPERATING_SYSTEM);
    }
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Ok([word(low), word(high)])
}

impl Shared {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }

    /// Exports a chunk of the client `owner`; the same token as before if it is exported already.
    pub fn share_memory(
        &self,
        owner: u32,
        (address, bytes): (u64, u64),
        export: impl FnOnce() -> Result<OwnedFd, CudaError>,
    ) -> Result<Token, CudaError> {
        let mut tables = self.tables();
        let place = (owner, address as usize);
        if let Some(token) = tables.chunks_by_place.get(&place) {
            return Ok(*token);
        }
        tables.count(owner)?;
        let made = new_token().and_then(|token| Ok((token, export()?)));
        let (token, file) = made.inspect_err(|_| tables.uncount(owner))?;
        tables.chunks.insert(token, SharedChunk { bytes, file });
        tables.chunks_by_place.insert(place, token);
        Ok(token)
    }

    /// A descriptor of an exported chunk of that length.
    pub fn open_memory(&self, token: Token, bytes: u64) -> Result<OwnedFd, CudaError> {
        let tables = self.tables();
        let chunk = tables.chunks.get(&token).filter(|chunk| chunk.bytes == bytes);
        let chunk = chunk.ok_or(CudaError::INVALID_HANDLE)?;
        chunk.file.try_clone().map_err(|error| system::result_of(&error))
    }

    /// Forgets a chunk that its owner gives up.
    pub fn forget_memory(&self, owner: u32, address: u64) {
        let mut tables = self.tables();
        if let Some(token) = tables.chunks_by_place.remove(&(owner, address as usize)) {
            tables.chunks.remove(&token);
            tables.uncount(owner);
        }
    }

    /// Exports an event of the client `owner`; the same token as before if it is exported already.
    pub fn share_event(&self, owner: u32, event: &Arc<RawEvent>) -> Result<Token, CudaError> {
        let mut tables = self.tables();
        let place = place_of(owner, event);
        if let Some(token) = tables.events_by_place.get(&place) {
            return Ok(*token);
        }
        tables.count(owner)?;
        let token = new_token().inspect_err(|_| tables.uncount(owner))?;
        // What is kept here is alive, so no other event has its address.
        tables.events.insert(token, (owner, event.clone()));
        tables.events_by_place.insert(place, token);
        Ok(token)
    }

    /// An exported event.
    pub fn open_event(&self, token: Token) -> Result<Arc<RawEvent>, CudaError> {
        let tables = self.tables();
        let (_, event) = tables.events.get(&token).ok_or(CudaError::INVALID_HANDLE)?;
        Ok(event.clone())
    }

    /// Forgets an event that its owner destroys.
    pub fn forget_event(&self, owner: u32, event: &Arc<RawEvent>) {
        let mut tables = self.tables();
        if let Some(token) = tables.events_by_place.remove(&place_of(owner, event)) {
            tables.events.remove(&token);
            tables.uncount(owner);
        }
    }

    /// Forgets all that a client exported.
    pub fn forget_client(&self, owner: u32) {
        let mut tables = self.tables();
        if tables.counts.remove(&owner).is_none() {
            return;
        }
        let Tables { chunks, events, chunks_by_place, events_by_place, .. } = &mut *tables;
        chunks_by_place.retain(|(of, _), token| {
            let stays = *of != owner;
            if !stays {
                chunks.remove(token);
            }
            stays
        });
        events_by_place.retain(|(of, _), token| {
            let stays = *of != owner;
            if !stays {
                events.remove(token);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Result<OwnedFd, CudaError> {
        let file = std::fs::File::open("/dev/null").map_err(|_| CudaError::OPERATING_SYSTEM)?;
        Ok(file.into())
    }

    #[test]
    fn one_client_that_exports_much_leaves_room_for_the_others() {
        let shared = Shared::default();
        let export = |owner, address| shared.share_memory(owner, (address, 1), file);
        // A descriptor each: fewer than a process may have.
        let taken: usize = (0..).take_while(|at| *at < 500 && export(1, *at).is_ok()).count();
        assert_eq!(taken, 500);
        let tokens = [export(1, 7).unwrap(), export(1, 8).unwrap()];
        assert_eq!(export(1, 7).unwrap(), tokens[0], "it is exported already");
        // The rest of what one may have, without its files.
        shared.tables().counts.insert(1, SHARED_MAX - taken);
        assert_eq!(export(1, 1000), Err(CudaError::OUT_OF_MEMORY));
        assert!(export(2, 7).is_ok(), "another one's");
        shared.forget_memory(1, 7);
        assert_eq!(shared.open_memory(tokens[0], 1).err(), Some(CudaError::INVALID_HANDLE));
        assert!(shared.open_memory(tokens[1], 1).is_ok());
        shared.forget_client(1);
        assert_eq!(shared.open_memory(tokens[1], 1).err(), Some(CudaError::INVALID_HANDLE));
        assert_eq!(shared.tables().chunks.len(), 1);
    }
}
