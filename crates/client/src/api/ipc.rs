//! Sharing between processes (the manual's cuIpc...): memory and events of one client of a server
//! that another process opens, on the same device or on one that reaches it.
//!
//! A handle is 64 bytes that a program carries to another process as it likes. Ours say which
//! object is meant by a token that the server gave out, which no process can guess.

use crate::boundary::Out;
use crate::memory::address::Place;
use crate::program::Client;
use crate::program::launch::submission::{Event, wire_event};
use crate::program::mode;
use channel::request::{OpenEvent, ShareEvent, ShareMemory, Token};
use core::ffi::c_uint;
use cuda_api::constants::event_flags;
use cuda_api::extension::memory_note;
use cuda_api::{CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUresult, CudaError};

/// First word of a handle of memory: "OMPSIPCM".
const MEMORY_MAGIC: u64 = u64::from_le_bytes(*b"OMPSIPCM");
/// First word of what stands for a pool's block: "OMPSIPCP".
pub(super) const POINTER_MAGIC: u64 = u64::from_le_bytes(*b"OMPSIPCP");
/// First word of a handle of an event: "OMPSIPCE".
const EVENT_MAGIC: u64 = u64::from_le_bytes(*b"OMPSIPCE");
/// The one flag of cuIpcOpenMemHandle: peer access is enabled when it is needed.
const LAZY_ENABLE_PEER_ACCESS: c_uint = 1;

/// The words of a handle: magic, the exporting client with its device, the token's halves, and for memory the
/// chunk's length, the allocation's offset in it and its length; for a pool's block then the pool's
/// number.
pub(super) type Words = [u64; 8];

pub(super) fn to_bytes(words: Words) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The words of a handle; CUDA_ERROR_INVALID_VALUE if it is none of that kind.
pub(super) fn to_words(bytes: &[u8; 64], magic: u64) -> Result<Words, CudaError> {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    if words[0] == magic { Ok(words) } else { Err(CudaError::INVALID_VALUE) }
}

/// The client on the device of what another process exported, connected now if it is the first time.
/// CUDA_ERROR_INVALID_CONTEXT if this process made the handle, which has the object already;
/// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED if this process does not see the device, or `client`'s device
/// does not reach it.
fn owner_of(client: &'static Client, name: u64) -> Result<&'static Client, CudaError> {
    if name == client.shared_name() {
        return Err(CudaError::INVALID_CONTEXT);
    }
    let unreachable = CudaError::PEER_ACCESS_UNSUPPORTED;
    let device = client.program.device_of_shared(name).ok_or(unreachable)?;
    if device == client.device {
        return Ok(client);
    }
    if !client.can_access(device) {
        return Err(unreachable);
    }
    let owner = mode::client_on(device)?;
    if name == owner.shared_name() { Err(CudaError::INVALID_CONTEXT) } else { Ok(owner) }
}

/// Memory of cuMemAlloc can be exported, and nothing else, as with CUDA.
pub(crate) fn cuIpcGetMemHandle(handle: Out<CUipcMemHandle>, pointer: CUdeviceptr) -> CUresult {
    let (client, _) = mode::enter()?;
    handle.required()?;
    let (start, bytes) = match client.memory().place(pointer.0)? {
        Place::Device { start, bytes, tag, .. } if tag.pool.is_null() => (start, bytes),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let words = share(client, MEMORY_MAGIC, (start, bytes), 0)?;
    handle.set(CUipcMemHandle { reserved: to_bytes(words) })
}

/// Exports the chunk that an allocation lies in, and says where it is.
pub(super) fn share(
    client: &Client,
    magic: u64,
    (start, bytes): (u64, u64),
    tag: u64,
) -> Result<Words, CudaError> {
    let chunk = client.memory().chunk_of(start).ok_or(CudaError::INVALID_VALUE)?;
    let shared = client.call(&ShareMemory { address: CUdeviceptr(chunk) })?;
    client.note_memory(start, bytes, memory_note::UNKNOWN);
    let own = client.shared_name();
    Ok([magic, own, shared.low, shared.high, shared.bytes, start - chunk, bytes, tag])
}

pub(crate) fn cuIpcOpenMemHandle_v2(
    pointer: Out<CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> CUresult {
    let (client, _) = mode::enter()?;
    pointer.required()?;
    if flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let words = to_words(&handle.reserved, MEMORY_MAGIC)?;
    pointer.set(open(client, words)?)
}

/// Opens what [`share`] of another process described.
pub(super) fn open(client: &'static Client, words: Words) -> Result<CUdeviceptr, CudaError> {
    let [_, name, low, high, chunk_bytes, offset, bytes, _] = words;
    if offset.checked_add(bytes).is_none_or(|end| end > chunk_bytes) {
        return Err(CudaError::INVALID_VALUE);
    }
    let owner = owner_of(client, name)?;
    let token = Token { low, high };
    let address = owner.open_shared(token, chunk_bytes, (offset, bytes))?;
    if owner.device != client.device
        && let Err(error) = owner.show_opened(client, token, address)
    {
        owner.close_shared(address)?;
        return Err(error);
    }
    Ok(CUdeviceptr(address))
}

pub(crate) fn cuIpcCloseMemHandle(pointer: CUdeviceptr) -> CUresult {
    let (client, _) = mode::enter()?;
    client.wait_for_everything()?;
    let owner = mode::client_at(pointer.0)?;
    if owner.device != client.device {
        owner.wait_for_everything()?;
    }
    owner.close_shared(pointer.0)
}

pub(crate) fn cuIpcGetEventHandle(handle: Out<CUipcEventHandle>, event: CUevent) -> CUresult {
    let (client, _) = mode::enter()?;
    handle.required()?;
    // Of no event at all it is a wrong value, not a wrong handle.
    if event.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let flags = client.state().events.lookup(event.0)?.flags;
    if flags & event_flags::INTERPROCESS == 0 {
        return Err(CudaError::INVALID_HANDLE);
    }
    let Token { low, high } = client.call(&ShareEvent { event })?;
    let words = [EVENT_MAGIC, client.shared_name(), low, high, 0, 0, 0, 0];
    handle.set(CUipcEventHandle { reserved: to_bytes(words) })
}

pub(crate) fn cuIpcOpenEventHandle(event: Out<CUevent>, handle: CUipcEventHandle) -> CUresult {
    let (client, context) = mode::enter()?;
    event.required()?;
    let [_, name, low, high, ..] = to_words(&handle.reserved, EVENT_MAGIC)?;
    let client = owner_of(client, name)?;
    let flags = event_flags::INTERPROCESS | event_flags::DISABLE_TIMING;
    let opened = client.state().events.insert(Event::new(context, flags))?;
    let request = OpenEvent { event: wire_event(opened), low, high };
    if let Err(error) = client.call(&request) {
        client.state().events.remove(opened);
        return Err(error);
    }
    event.set(wire_event(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_by_others_and_only_as_what_it_is() {
        let words = [MEMORY_MAGIC, 7, 1, 2, 3, 4, 5, 0];
        let bytes = to_bytes(words);
        assert_eq!(to_words(&bytes, MEMORY_MAGIC), Ok(words));
        assert_eq!(to_words(&bytes, EVENT_MAGIC), Err(CudaError::INVALID_VALUE));
        assert_eq!(to_words(&[0; 64], MEMORY_MAGIC), Err(CudaError::INVALID_VALUE));
    }
}
