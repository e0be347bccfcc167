//! Exports: what clients of this server share with each other, chunks of device memory and events,
//! known by tokens.
//!
//! A token is 128 random bits: a client that has it was given it. What is exported is forgotten
//! when its owner frees it or ends; a client that has opened it before keeps it.

use crate::device::RawEvent;
use channel::system;
use cuda_api::CudaError;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most objects exported at a time, by all clients: each piece of memory is a file descriptor of
/// the server's.
pub const SHARED_MAX: usize = 8192;

/// What an exported object is known by.
pub type Token = [u64; 2];

/// An exported chunk.
struct SharedChunk {
    owner: u32,
    address: u64,
    bytes: u64,
    file: OwnedFd,
}

#[derive(Default)]
struct Tables {
    chunks: HashMap<Token, SharedChunk>,
    events: HashMap<Token, (u32, Arc<RawEvent>)>,
}

/// All that is exported.
#[derive(Default)]
pub struct Shared {
    tables: Mutex<Tables>,
}

/// A token that no process can guess.
fn new_token() -> Result<Token, CudaError> {
    let mut bytes = [0u8; size_of::<Token>()];
    // SAFETY: the buffer is writable for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(CudaError::OPERATING_SYSTEM);
    }
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Ok([word(low), word(high)])
}

impl Shared {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exports a chunk of the client `owner`; the same token as before if it is exported already.
    pub fn share_memory(
        &self,
        owner: u32,
        (address, bytes): (u64, u64),
        export: impl FnOnce() -> Result<OwnedFd, CudaError>,
    ) -> Result<Token, CudaError> {
        let mut tables = self.tables();
        let known = tables.chunks.iter().find(|(_, c)| c.owner == owner && c.address == address);
        if let Some((token, _)) = known {
            return Ok(*token);
        }
        if tables.chunks.len() + tables.events.len() >= SHARED_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let token = new_token()?;
        let chunk = SharedChunk { owner, address, bytes, file: export()? };
        tables.chunks.insert(token, chunk);
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
        self.tables().chunks.retain(|_, c| c.owner != owner || c.address != address);
    }

    /// Exports an event of the client `owner`; the same token as before if it is exported already.
    pub fn share_event(&self, owner: u32, event: &Arc<RawEvent>) -> Result<Token, CudaError> {
        let mut tables = self.tables();
        let known = tables.events.iter().find(|(_, (_, known))| Arc::ptr_eq(known, event));
        if let Some((token, _)) = known {
            return Ok(*token);
        }
        if tables.chunks.len() + tables.events.len() >= SHARED_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let token = new_token()?;
        tables.events.insert(token, (owner, event.clone()));
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
        self.tables().events.retain(|_, (of, known)| *of != owner || !Arc::ptr_eq(known, event));
    }

    /// Forgets all that a client exported.
    pub fn forget_client(&self, owner: u32) {
        let mut tables = self.tables();
        tables.chunks.retain(|_, chunk| chunk.owner != owner);
        tables.events.retain(|_, (of, _)| *of != owner);
    }
}
