//! Device memory: reserved addresses, physical memory, and the one mapped at the other.

use super::share::{gone, made};
use super::{CheckedRange, Share, Stream};
use cuda_api::constants::vmm;
use cuda_api::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, CUresult, CUstream, CudaError,
};
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
        let reservation = Self::near(share, address, bytes)?;
        match reservation.address == address {
            true => Ok(reservation),
            false => Err(CudaError::OUT_OF_MEMORY),
        }
    }

    /// Reserves a range of that length, at `wanted` if the provider likes it; 0 for anywhere.
    pub fn near(share: &Rc<Share>, wanted: u64, bytes: u64) -> Result<Self, CudaError> {
        let t = share.device().table();
        let mut got = CUdeviceptr(0);
        // SAFETY: the local is written.
        unsafe {
            t.cuMemAddressReserve(&mut got, bytes as usize, 0, CUdeviceptr(wanted), 0)?;
        }
        made(&share.counts.reservations);
        Ok(Self { share: share.clone(), address: got.0, bytes })
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let t = self.share.device().table();
        // SAFETY: the range was reserved by `near`; mappings in it were dropped before, by the
        // order of their owner's fields.
        let result = unsafe { t.cuMemAddressFree(CUdeviceptr(self.address), self.bytes as usize) };
        gone(&self.share.counts.reservations, result);
    }
}

/// Physical memory of the device, which can be exported and mapped.
pub struct Physical {
    share: Rc<Share>,
    memory: u64,
}

/// Where the memory of a share is.
fn location(share: &Share) -> CUmemLocation {
    CUmemLocation { kind: vmm::LOCATION_DEVICE, id: share.device().ordinal() }
}

impl Physical {
    /// Makes physical memory, of which nothing is known but its length.
    pub fn new(share: &Rc<Share>, bytes: u64) -> Result<Self, CudaError> {
        let properties = CUmemAllocationProp {
            kind: vmm::ALLOCATION_PINNED,
            requestedHandleTypes: vmm::HANDLE_POSIX_FD,
            location: location(share),
            win32HandleMetaData: ptr::null_mut(),
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        };
        let mut memory = 0;
        let t = share.device().table();
        // SAFETY: the local is written, the properties are read during the call.
        unsafe { t.cuMemCreate(&mut memory, bytes as usize, &properties, 0)? };
        made(&share.counts.chunks);
        Ok(Self { share: share.clone(), memory })
    }

    /// Makes physical memory that reads as zeros, and an fd that stands for it. Device memory may
    /// hold what another client left.
    pub fn zeroed(
        share: &Rc<Share>,
        bytes: u64,
        stream: Option<&Stream>,
    ) -> Result<(Self, OwnedFd), CudaError> {
        let memory = Rc::new(Self::new(share, bytes)?);
        let fd = memory.export()?;
        if !is_untouched_file(&fd) {
            let scratch = Reservation::near(share, 0, bytes)?;
            let mapping = DeviceMapping::new(&memory, scratch.address, bytes, 0)?;
            mapping.set_access(vmm::ACCESS_READ_WRITE)?;
            if let Err(error) = mapping.clear(stream) {
                if error == CudaError::MPS_CLIENT_TERMINATED {
                    // The fill goes on: what it writes stays until this process ends.
                    std::mem::forget((mapping, scratch, memory));
                }
                return Err(error);
            }
        }
        // The mapping is gone, so this is the only owner.
        Rc::try_unwrap(memory).map(|memory| (memory, fd)).map_err(|_| CudaError::UNKNOWN)
    }

    /// The physical memory that an fd of a client's stands for; the provider checks what it is.
    pub fn import(share: &Rc<Share>, fd: &OwnedFd) -> Result<Self, CudaError> {
        let mut memory = 0;
        let t = share.device().table();
        // The descriptor travels as a pointer.
        let handle = ptr::without_provenance_mut(fd.as_raw_fd() as usize);
        // SAFETY: the local is written; the fd stays open during the call.
        unsafe {
            t.cuMemImportFromShareableHandle(&mut memory, handle, vmm::HANDLE_POSIX_FD)?;
        }
        made(&share.counts.chunks);
        Ok(Self { share: share.clone(), memory })
    }

    /// A new fd that stands for the memory.
    pub fn export(&self) -> Result<OwnedFd, CudaError> {
        let mut fd = -1i32;
        let (t, place) = (self.share.device().table(), ptr::from_mut(&mut fd).cast());
        // SAFETY: the fd is written to the local, whose size is that of the handle type.
        unsafe { t.cuMemExportToShareableHandle(place, self.memory, vmm::HANDLE_POSIX_FD, 0)? };
        if fd < 0 {
            return Err(CudaError::UNKNOWN);
        }
        // SAFETY: the provider made this fd for its caller.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: made by `new` or `import`, released once. Mappings keep what they map.
        let result = unsafe { self.share.device().table().cuMemRelease(self.memory) };
        gone(&self.share.counts.chunks, result);
    }
}

/// Physical memory at addresses.
pub struct DeviceMapping {
    physical: Rc<Physical>,
    address: u64,
    bytes: u64,
}

impl DeviceMapping {
    /// Maps memory at a free range of a reservation, without access.
    pub fn new(
        physical: &Rc<Physical>,
        address: u64,
        bytes: u64,
        offset: u64,
    ) -> Result<Self, CudaError> {
        let t = physical.share.device().table();
        let (at, length) = (CUdeviceptr(address), bytes as usize);
        // SAFETY: the memory is alive; that the range is free and reserved, and the memory long
        // enough, is checked by the provider too.
        unsafe { t.cuMemMap(at, length, offset as usize, physical.memory, 0)? };
        made(&physical.share.counts.mappings);
        Ok(Self { physical: physical.clone(), address, bytes })
    }

    /// Sets what the device may do with it (CUmemAccess_flags).
    pub fn set_access(&self, flags: u32) -> CUresult {
        let share = &self.physical.share;
        let access = CUmemAccessDesc { location: location(share), flags };
        let (at, bytes) = (CUdeviceptr(self.address), self.bytes as usize);
        // SAFETY: the range is mapped; the description is read during the call.
        unsafe { share.device().table().cuMemSetAccess(at, bytes, &access, 1) }
    }

    /// Writes zeros over it and waits for that. In the provider's default stream if in no other:
    /// nothing else is in there, and no stream of a client synchronises with it.
    fn clear(&self, stream: Option<&Stream>) -> CUresult {
        let t = self.physical.share.device().table();
        let stream = stream.map_or(CUstream::NULL, Stream::raw);
        let (at, bytes) = (CUdeviceptr(self.address), self.bytes as usize);
        // SAFETY: the range is mapped, and stays so until the fill has ended; the stream is alive.
        unsafe { t.cuMemsetD8Async(at, 0, bytes, stream)? };
        self.physical.share.wait_for(stream)
    }

    /// The memory behind it.
    pub fn physical(&self) -> &Rc<Physical> {
        &self.physical
    }

    /// Its length, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceMapping {
    fn drop(&mut self) {
        let share = &self.physical.share;
        let (at, bytes) = (CUdeviceptr(self.address), self.bytes as usize);
        // SAFETY: mapped by `new`; nothing that was given the range runs any more, as the code that
        // drops a mapping has made sure.
        let result = unsafe { share.device().table().cuMemUnmap(at, bytes) };
        gone(&share.counts.mappings, result);
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

/// Writes bytes into a client's device memory, at once.
pub fn write(share: &Share, to: CheckedRange, bytes: &[u8]) -> CUresult {
    debug_assert_eq!(to.bytes(), bytes.len() as u64);
    let t = share.device().table();
    // SAFETY: the range is the session's (CheckedRange), the bytes are there until the copy has been
    // waited for. The default stream has no other work than such copies and fills, which end.
    unsafe {
        let to = CUdeviceptr(to.address());
        t.cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), CUstream::NULL)?;
        t.cuStreamSynchronize(CUstream::NULL)
    }
}

/// A chunk of a client's device memory: physical memory of its own, mapped, readable and
/// writable.
pub fn new_chunk(
    share: &Rc<Share>,
    address: u64,
    bytes: u64,
    stream: Option<&Stream>,
) -> Result<(DeviceMapping, OwnedFd), CudaError> {
    let physical = Rc::new(Physical::new(share, bytes)?);
    let chunk = DeviceMapping::new(&physical, address, bytes, 0)?;
    chunk.set_access(vmm::ACCESS_READ_WRITE)?;
    let fd = physical.export()?;
    if !is_untouched_file(&fd)
        && let Err(error) = chunk.clear(stream)
    {
        if error == CudaError::MPS_CLIENT_TERMINATED {
            // The fill goes on: what it writes stays until this process ends.
            std::mem::forget(chunk);
        }
        return Err(error);
    }
    Ok((chunk, fd))
}

/// A chunk that an fd stands for, which another server made, mapped, readable and writable.
pub fn old_chunk(
    share: &Rc<Share>,
    address: u64,
    bytes: u64,
    fd: &OwnedFd,
) -> Result<DeviceMapping, CudaError> {
    let physical = Rc::new(Physical::import(share, fd)?);
    let chunk = DeviceMapping::new(&physical, address, bytes, 0)?;
    chunk.set_access(vmm::ACCESS_READ_WRITE)?;
    Ok(chunk)
}
