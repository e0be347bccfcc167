//! Memory of the driver's that another process may open: a chunk becomes a file when it is first
//! shared, and stays at its address.
//!
//! The other process opens that file as `/proc/PID/fd/N`, which the operating system allows to the
//! same user, and finds out whether it is the one that was meant: process ids and descriptors are
//! used again, files' identities are not while one of them is open. A chunk that is freed closes
//! its file; a process that has opened it keeps it. Nothing is left behind by a process that ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

use super::holding;
use super::vmm::{identity, new_file};
use super::{Access, pages};
use crate::device::Device;
use crate::device::limits::CHUNK_BYTES;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};

/// What is not zero is copied in pieces of this size: untouched memory costs nothing then.
const PIECE_BYTES: usize = 64 << 10;

/// Where a chunk of another process, or of this one, is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkFile {
    /// The process that shares it.
    pub pid: u32,
    /// Its descriptor.
    pub fd: u32,
    /// Device and inode.
    pub identity: (u64, u64),
}

/// A chunk of another process, mapped here until this is dropped.
pub struct OpenedChunk {
    device: Arc<Device>,
    /// Where it is here.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
}

impl Drop for OpenedChunk {
    fn drop(&mut self) {
        // Both can only fail if other code did the same before.
        let _ = self.device.unmap(self.start, self.bytes);
        let _ = self.device.free_addresses(self.start, self.bytes);
    }
}

impl Device {
    /// Makes the chunk that an address lies in one that another process can open: its file, and
    /// the address' offset in it. INVALID_VALUE if the driver has not allocated there.
    pub fn share_chunk(&self, tenant: &Arc<Tenant>, address: u64) -> Result<(ChunkFile, u64)> {
        let mut tables = self.memory.tables();
        let found = holding(&tables.chunks, address, |_, chunk| chunk.end);
        let (start, end) =
            found.map(|(start, chunk)| (start, chunk.end)).ok_or(Error::INVALID_VALUE)?;
        let chunk = tables.chunks.get_mut(&start).ok_or(Error::INVALID_VALUE)?;
        if chunk.file.is_none() {
            let number = self.settings.devices.get(tenant.device as usize).copied().unwrap_or(0);
            let moved = self.while_still(tenant, || move_to_file(start, end - start, number));
            let file = moved.map_err(|error| {
                self.log(&format!("cannot share {} bytes of memory: {error}", end - start));
                Error::OUT_OF_MEMORY
            })?;
            chunk.file = Some(file);
            if let Some(written) = &self.written {
                // From now on others may write it.
                written.write(start, end - start);
            }
        }
        let file = chunk.file.as_ref().ok_or(Error::INVALID_VALUE)?;
        let identity = identity(file.as_fd()).ok_or(Error::OPERATING_SYSTEM)?;
        let fd = file.as_raw_fd() as u32;
        Ok((ChunkFile { pid: std::process::id(), fd, identity }, address - start))
    }

    /// Maps a chunk that another process shares. INVALID_HANDLE if it does no longer,
    /// NOT_PERMITTED if this process may not open it.
    pub fn open_chunk(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        chunk: ChunkFile,
    ) -> Result<OpenedChunk> {
        let file = open_file(chunk).map_err(|error| {
            self.log(&format!("memory of process {}: {error}", chunk.pid));
            match error.kind() {
                io::ErrorKind::PermissionDenied => Error::NOT_PERMITTED,
                _ => Error::INVALID_HANDLE,
            }
        })?;
        let user = tenant.device;
        let key = self.import_physical(file.as_fd(), user).map_err(|_| Error::INVALID_HANDLE)?;
        let bytes = self.physical_properties(key)?.0;
        let mapped = self.reserve_addresses(bytes, CHUNK_BYTES, 0).and_then(|start| {
            let opened = OpenedChunk { device: self.clone(), start, bytes };
            self.map(tenant, start, bytes, 0, key)?;
            self.set_access(start, bytes, user, Access::ReadWrite)?;
            Ok(opened)
        });
        // A mapping keeps it.
        self.release_physical(key)?;
        mapped
    }
}

/// Puts what is in private memory into a file, and that in the memory's place. No thread may write
/// there meanwhile.
fn move_to_file(start: u64, bytes: u64, number: u32) -> io::Result<std::os::fd::OwnedFd> {
    let file = File::from(new_file(bytes, number)?);
    let zeroes = vec![0u8; PIECE_BYTES];
    for offset in (0..bytes).step_by(PIECE_BYTES) {
        let length = PIECE_BYTES.min((bytes - offset) as usize);
        // SAFETY: within a chunk, which is mapped and readable; no thread writes there now.
        let piece = unsafe { std::slice::from_raw_parts((start + offset) as *const u8, length) };
        if piece != &zeroes[..length] {
            file.write_all_at(piece, offset)?;
        }
    }
    // SAFETY: the range is a chunk; no thread uses it now, and afterwards it has the same bytes.
    unsafe { pages::remap(start, bytes, Some((file.as_fd(), 0)))? };
    pages::keep_from_children(start, bytes);
    Ok(file.into())
}

/// Opens the file that was meant, and no other one.
fn open_file(chunk: ChunkFile) -> io::Result<File> {
    let path = format!("/proc/{}/fd/{}", chunk.pid, chunk.fd);
    // Opening something that is no memory could have effects of its own.
    if !std::fs::read_link(&path)?.as_os_str().as_encoded_bytes().starts_with(b"/memfd:openmps") {
        return Err(io::Error::other("it is shared no longer"));
    }
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    match identity(file.as_fd()) == Some(chunk.identity) {
        true => Ok(file),
        false => Err(io::Error::other("it is shared no longer")),
    }
}
