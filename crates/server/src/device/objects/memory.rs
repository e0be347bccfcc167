//! Device memory: reserved addresses, physical memory, and the one mapped at the other.

use crate::device::safe_calls::{DEFAULT_STREAM, Owned};
use crate::device::share::{gone, made};
use crate::device::{CheckedRange, Share, Stream};
use cuda_api::constants::vmm;
use cuda_api::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemLocation,
    CUresult, CUstream, CudaError,
};
use rustix::fs::FileType;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

/// A range of device addresses that nothing else of this process gets.
pub struct DeviceReservation {
    share: Rc<Share>,
    address: u64,
    bytes: u64,
}

impl DeviceReservation {
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
        let mut got = CUdeviceptr(0);
        let calls = share.device().calls();
        calls.cuMemAddressReserve(&mut got, bytes as usize, CUdeviceptr(wanted))?;
        made(&share.counts.reservations);
        Ok(Self { share: share.clone(), address: got.0, bytes })
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for DeviceReservation {
    fn drop(&mut self) {
        let (calls, address) = (self.share.device().calls(), CUdeviceptr(self.address));
        // Mappings in it were dropped before, by the order of their owner's fields.
        let result = calls.cuMemAddressFree(address, self.bytes as usize);
        gone(&self.share.counts.reservations, result);
    }
}

/// Physical memory of the device, which can be exported and mapped.
pub struct Physical {
    share: Rc<Share>,
    memory: Owned<CUmemGenericAllocationHandle>,
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
        let mut memory = Owned::default();
        share.device().calls().cuMemCreate(&mut memory, bytes as usize, &properties)?;
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
            let scratch = DeviceReservation::near(share, 0, bytes)?;
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
        let mut memory = Owned::default();
        share.device().calls().cuMemImportFromShareableHandle(&mut memory, fd)?;
        made(&share.counts.chunks);
        Ok(Self { share: share.clone(), memory })
    }

    /// A new fd that stands for the memory.
    pub fn export(&self) -> Result<OwnedFd, CudaError> {
        let mut fd = -1i32;
        self.share.device().calls().cuMemExportToShareableHandle(&mut fd, self.memory.live())?;
        if fd < 0 {
            return Err(CudaError::UNKNOWN);
        }
        // SAFETY: the provider made this fd for its caller.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // Mappings keep what they map.
        let result = self.share.device().calls().cuMemRelease(self.memory.take());
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
        let (calls, memory) = (physical.share.device().calls(), physical.memory.live());
        calls.cuMemMap(CUdeviceptr(address), bytes as usize, offset as usize, memory)?;
        made(&physical.share.counts.mappings);
        Ok(Self { physical: physical.clone(), address, bytes })
    }

    /// Sets what the device may do with it (CUmemAccess_flags).
    pub fn set_access(&self, flags: u32) -> CUresult {
        let share = &self.physical.share;
        let access = CUmemAccessDesc { location: location(share), flags };
        let (at, bytes) = (CUdeviceptr(self.address), self.bytes as usize);
        share.device().calls().cuMemSetAccess(at, bytes, &access)
    }

    /// Writes zeros over it and waits for that. In the provider's default stream if in no other:
    /// nothing else is in there, and no stream of a client synchronises with it.
    fn clear(&self, stream: Option<&Stream>) -> CUresult {
        let stream = stream.map_or(DEFAULT_STREAM, Stream::live);
        // SAFETY: it is mapped, and stays so until the fill has ended.
        let range = unsafe { CheckedRange::new_unchecked(self.address, self.bytes) };
        self.physical.share.device().calls().cuMemsetD8Async(range, 0, stream)?;
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
        // Nothing that was given the range runs any more, as the code that drops a mapping has made sure.
        let result = share.device().calls().cuMemUnmap(at, bytes);
        gone(&share.counts.mappings, result);
    }
}

/// True if the fd is a file in memory none of whose pages was ever written: it reads as zeros,
/// and writing zeros would only cost memory.
fn is_untouched_file(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_blocks == 0
    })
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
