//! Sharing between processes: each has a software GPU of its own (the manual's cuIpc...).
//!
//! A handle is 64 bytes that a program carries to another process as it likes. Ours say which
//! process has the memory, and which file of it. Several allocations of one chunk are opened
//! through one mapping, and an allocation that is opened again is where it was.

use locks::MutexGuard;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use cuda_api::constants::event_flags;
use cuda_api::*;

use super::event::Event;
use super::shared_words::SharedWords;
use super::{Driver, driver, exports, thread};
use crate::device::memory::{AllocationKind, ChunkFile, OpenedChunk, PointerKind};
use crate::error::{Error, Result};

/// First words of handles: of memory, of an event, of a pool's block.
const MEMORY: u64 = u64::from_le_bytes(*b"OMPSSOFM");
const EVENT: u64 = u64::from_le_bytes(*b"OMPSSOFE");
pub(super) const POINTER: u64 = u64::from_le_bytes(*b"OMPSSOFP");
/// The one flag of cuIpcOpenMemHandle: peer access is enabled when it is needed.
const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
/// Allocations of other processes that are open at a time: each may need a mapping.
const OPENED_MAX: usize = 32_768;

/// What a handle says: a piece of a shared chunk. The tag is what the kind of handle needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    chunk: ChunkFile,
    offset: u64,
    pub(super) bytes: u64,
    pub(super) tag: u64,
}

impl Shared {
    pub(super) fn to_bytes(self, magic: u64) -> [u8; 64] {
        let process = u64::from(self.chunk.pid) << 32 | u64::from(self.chunk.fd);
        let (device, inode) = self.chunk.identity;
        let words = [magic, process, device, inode, self.offset, self.bytes, self.tag, 0];
        let mut bytes = [0; 64];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// What another process wrote. INVALID_CONTEXT if it was this one, which has the memory
    /// already; INVALID_VALUE for what is no handle of that kind.
    pub(super) fn from_bytes(bytes: &[u8; 64], magic: u64) -> Result<Self> {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [found, process, device, inode, offset, bytes, tag, _] = words;
        let chunk = ChunkFile {
            pid: (process >> 32) as u32,
            fd: process as u32,
            identity: (device, inode),
        };
        match found == magic {
            true if chunk.pid == std::process::id() => Err(Error::INVALID_CONTEXT),
            true => Ok(Self { chunk, offset, bytes, tag }),
            false => Err(Error::INVALID_VALUE),
        }
    }
}

/// An allocation of another process.
struct Opened {
    _chunk: Arc<OpenedChunk>,
    bytes: u64,
    /// It is a pool's block: freeing it closes it.
    pooled: bool,
    /// How often it was opened and not closed.
    times: u32,
}

/// What this process has opened of others.
#[derive(Default)]
pub(crate) struct OpenedTables {
    chunks: BTreeMap<ChunkFile, Weak<OpenedChunk>>,
    /// By address here.
    allocations: BTreeMap<u64, Opened>,
    /// Chunks with events. They stay: work that looks at an event may be there when the program has
    /// no handle of it any more.
    events: Vec<Arc<OpenedChunk>>,
}

impl Driver {
    fn opened(&self) -> MutexGuard<'_, OpenedTables> {
        self.opened.lock()
    }

    /// Lets other processes open an allocation.
    pub(super) fn share(&self, address: u64, bytes: u64, tag: u64) -> Result<Shared> {
        let (chunk, offset) = self.device.share_chunk(&self.tenant(), address)?;
        Ok(Shared { chunk, offset, bytes, tag })
    }

    /// The chunk of a handle, and where its piece is here.
    fn open_chunk(
        &self,
        tables: &mut OpenedTables,
        shared: &Shared,
    ) -> Result<(Arc<OpenedChunk>, u64)> {
        tables.chunks.retain(|_, chunk| chunk.strong_count() > 0);
        let chunk = match tables.chunks.get(&shared.chunk).and_then(Weak::upgrade) {
            Some(chunk) => chunk,
            None => {
                let tenant = self.working_tenant()?;
                let chunk = Arc::new(self.device.open_chunk(&tenant, shared.chunk)?);
                tables.chunks.insert(shared.chunk, Arc::downgrade(&chunk));
                chunk
            }
        };
        let end = shared.offset.checked_add(shared.bytes).filter(|end| *end <= chunk.bytes);
        end.ok_or(Error::INVALID_VALUE)?;
        let address = chunk.start + shared.offset;
        Ok((chunk, address))
    }

    /// Opens an allocation of another process.
    pub(super) fn open(&self, shared: &Shared, pooled: bool) -> Result<CUdeviceptr> {
        let mut tables = self.opened();
        let (chunk, address) = self.open_chunk(&mut tables, shared)?;
        if tables.allocations.len() >= OPENED_MAX {
            return Err(Error::OUT_OF_MEMORY);
        }
        let opened = Opened { _chunk: chunk, bytes: shared.bytes, pooled, times: 0 };
        tables.allocations.entry(address).or_insert(opened).times += 1;
        Ok(CUdeviceptr(address))
    }

    /// True for a block of another process' pool.
    pub(super) fn is_imported(&self, address: u64) -> bool {
        self.opened().allocations.get(&address).is_some_and(|opened| opened.pooled)
    }

    /// Closes what was opened; false if nothing was opened there. No work uses it any more.
    pub(super) fn close_opened(&self, address: u64) -> bool {
        let mut tables = self.opened();
        let Some(opened) = tables.allocations.get_mut(&address) else { return false };
        opened.times -= 1;
        let gone = match opened.times {
            0 => tables.allocations.remove(&address),
            _ => None,
        };
        // Not before the tables are let go: unmapping waits for blocks to give way.
        drop(tables);
        drop(gone);
        true
    }

    /// The opened allocation that an address lies in: its address and length.
    pub(super) fn opened_range(&self, address: u64) -> Option<(u64, u64)> {
        let tables = self.opened();
        let (start, opened) = tables.allocations.range(..=address).next_back()?;
        (address - start < opened.bytes).then_some((*start, opened.bytes))
    }

    /// Closes an opened allocation behind all work of its context.
    pub(super) fn close_after_work(&self, pointer: CUdeviceptr) -> Result {
        let context = thread::current()?;
        if !self.opened().allocations.contains_key(&pointer.0) {
            return Err(Error::INVALID_VALUE);
        }
        let tenant = self.tenant();
        let group = self.device.group(context.number(), &tenant)?;
        let waited = self.device.synchronize_group(group, &tenant);
        self.close_opened(pointer.0);
        waited
    }
}

exports! {
    fn cuIpcGetMemHandle(handle: *mut CUipcMemHandle, pointer: CUdeviceptr) {
        let driver = driver()?;
        thread::current()?;
        handle.required()?;
        let found = driver.device.memory.pointer(pointer.0).ok_or(Error::INVALID_VALUE)?;
        let own = found.tenant.family == driver.tenant().family;
        if !own || found.kind != PointerKind::Allocation(AllocationKind::Device) {
            return Err(Error::INVALID_VALUE);
        }
        let shared = driver.share(found.base, found.bytes, 0)?;
        handle.set(CUipcMemHandle { reserved: shared.to_bytes(MEMORY) })
    }

    fn cuIpcOpenMemHandle_v2(
        pointer: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint,
    ) {
        let driver = driver()?;
        thread::current()?;
        pointer.required()?;
        if flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        pointer.set(driver.open(&Shared::from_bytes(&handle.reserved, MEMORY)?, false)?)
    }

    fn cuIpcCloseMemHandle(pointer: CUdeviceptr) {
        driver()?.close_after_work(pointer)
    }

    fn cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent) {
        let driver = driver()?;
        thread::current()?;
        handle.required()?;
        // Of no event at all it is a wrong value, not a wrong handle.
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let event = driver.events.get(event.0)?;
        let words = event.shared_words().ok_or(Error::INVALID_HANDLE)?;
        let shared = driver.share(words.address, SharedWords::BYTES, 0)?;
        handle.set(CUipcEventHandle { reserved: shared.to_bytes(EVENT) })
    }

    fn cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle) {
        let driver = driver()?;
        let context = thread::current()?;
        event.required()?;
        let shared = Shared::from_bytes(&handle.reserved, EVENT)?;
        if shared.bytes != SharedWords::BYTES || !shared.offset.is_multiple_of(SharedWords::BYTES) {
            return Err(Error::INVALID_VALUE);
        }
        let address = {
            let mut tables = driver.opened();
            let (chunk, address) = driver.open_chunk(&mut tables, &shared)?;
            if !tables.events.iter().any(|known| Arc::ptr_eq(known, &chunk)) {
                tables.events.push(chunk);
            }
            address
        };
        let words = SharedWords { address };
        let flags = event_flags::DISABLE_TIMING | event_flags::INTERPROCESS;
        let made = Event::new(context.number(), flags, driver.working_tenant()?, Some(words));
        event.set(CUevent(driver.events.insert(made)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_it_is_to_others_and_nothing_else() {
        let chunk = ChunkFile { pid: 1, fd: 7, identity: (3, 4) };
        let shared = Shared { chunk, offset: 512, bytes: 100, tag: 5 };
        let bytes = shared.to_bytes(MEMORY);
        assert_eq!(Shared::from_bytes(&bytes, MEMORY), Ok(shared));
        assert_eq!(Shared::from_bytes(&bytes, EVENT), Err(Error::INVALID_VALUE));
        let own = ChunkFile { pid: std::process::id(), ..chunk };
        let bytes = Shared { chunk: own, ..shared }.to_bytes(MEMORY);
        assert_eq!(Shared::from_bytes(&bytes, MEMORY), Err(Error::INVALID_CONTEXT));
    }
}
