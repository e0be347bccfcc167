//! Device memory: reserved addresses, and chunks of physical memory mapped there.

use super::share::{gone, made};
use super::{CheckedRange, Share, Stream};
use cuda_api::constants::vmm;
use cuda_api::{CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, CudaError};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

/// A range of device addresses that nothing else of this process gets.
pub struct Reservation {
    share: Rc<Share>,
    address: u64,
    bytes: u64,
}

impl Reservation {
    /// Reserves exactly this range; OUT_OF_MEMORY if the provider gives another one.
    pub fn at(share: &Rc<Share>, address: u64, bytes: u64) -> Result<Self, CudaError> {
        let t = share.device().table();
        let mut got = CUdeviceptr(0);
        // SAFETY: the local is written.
        unsafe {
            t.cuMemAddressReserve(&mut got, bytes as usize, 0, CUdeviceptr(address), 0)?;
        }
        made(&share.counts.reservations);
        let reservation = Self { share: share.clone(), address: got.0, bytes };
        if got.0 == address { Ok(reservation) } else { Err(CudaError::OUT_OF_MEMORY) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let t = self.share.device().table();
        // SAFETY: the range was reserved by `at`; chunks in it were dropped before, by the
        // order of a session's fields.
        let result = unsafe { t.cuMemAddressFree(CUdeviceptr(self.address), self.bytes as usize) };
        gone(&self.share.counts.reservations, result);
    }
}

/// A chunk of device memory: physical memory that can be exported, mapped at an address.
pub struct Chunk {
    share: Rc<Share>,
    memory: u64,
    address: u64,
    bytes: u64,
    mapped: bool,
}

impl Chunk {
    /// Makes a chunk and maps it, readable and writable, at `address`, which lies in a
    /// reservation. Returns it with an fd that stands for the memory.
    pub fn new(share: &Rc<Share>, address: u64, bytes: u64) -> Result<(Self, OwnedFd), CudaError> {
        let t = share.device().table();
        let location = CUmemLocation { kind: vmm::LOCATION_DEVICE, id: share.device().ordinal() };
        let properties = CUmemAllocationProp {
            kind: vmm::ALLOCATION_PINNED,
            requestedHandleTypes: vmm::HANDLE_POSIX_FD,
            location,
            win32HandleMetaData: ptr::null_mut(),
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        };
        let mut memory = 0;
        // SAFETY: the local is written, the properties are read during the call.
        unsafe { t.cuMemCreate(&mut memory, bytes as usize, &properties, 0)? };
        made(&share.counts.chunks);
        // From here on dropping the chunk undoes what was done.
        let mut chunk = Self { share: share.clone(), memory, address, bytes, mapped: false };
        // SAFETY: the memory is the chunk's; the address lies in a reservation of the session
        // and is free, as the caller has checked.
        unsafe { t.cuMemMap(CUdeviceptr(address), bytes as usize, 0, memory, 0)? };
        chunk.mapped = true;
        let access = CUmemAccessDesc { location, flags: vmm::ACCESS_READ_WRITE };
        let mut fd = -1i32;
        // SAFETY: the range is mapped; the descriptor is read during the call; the fd is
        // written to the local, whose size is that of the handle type.
        unsafe {
            t.cuMemSetAccess(CUdeviceptr(address), bytes as usize, &access, 1)?;
            t.cuMemExportToShareableHandle(
                ptr::from_mut(&mut fd).cast(),
                memory,
                vmm::HANDLE_POSIX_FD,
                0,
            )?;
        }
        if fd < 0 {
            return Err(CudaError::UNKNOWN);
        }
        // SAFETY: the provider made this fd for its caller.
        Ok((chunk, unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Writes zeros over the chunk and waits for it, unless the memory is known to be new:
    /// device memory may hold what another client left.
    pub fn clear(&self, fd: &OwnedFd, stream: &Stream) -> Result<(), CudaError> {
        if is_untouched_file(fd) {
            return Ok(());
        }
        stream.fill(CheckedRange::vouched(self.address, self.bytes), 0)?;
        // SAFETY: the stream is alive. What it waits for is a fill, which ends.
        unsafe { self.share.device().table().cuStreamSynchronize(stream.raw()) }
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let t = self.share.device().table();
        let mut result = Ok(());
        if self.mapped {
            // SAFETY: mapped by `new`; nothing that was given the range runs any more, as
            // whoever drops a chunk has made sure.
            result = unsafe { t.cuMemUnmap(CUdeviceptr(self.address), self.bytes as usize) };
        }
        // SAFETY: made by `new`, released once.
        let released = unsafe { t.cuMemRelease(self.memory) };
        gone(&self.share.counts.chunks, result.and(released));
    }
}

/// True if the fd is a file in memory none of whose pages was ever written: it reads as zeros,
/// and writing zeros would only cost memory.
fn is_untouched_file(fd: &OwnedFd) -> bool {
    // SAFETY: stat is plain data, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the fd is open, the local is written.
    let answer = unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) };
    answer == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_blocks == 0
}
