//! Copies of bytes (the manual's "Memory Management", cuMemcpy...). Two-dimensional ones are in
//! [`super::copy_2d`], what moves the bytes in [`crate::memory::transfer`].

use crate::attach::Attached;
use crate::boundary::{In, Out};
use crate::memory::where_is::Side;
use crate::mode;
use crate::state::wire_stream;
use crate::threads::DefaultStream;
use core::ffi::c_void;
use cuda_api::constants::memory_type;
use cuda_api::handle::Handle;
use cuda_api::{CUdeviceptr, CUresult, CUstream, CudaError, Word, number};
use graph::{CopyEnd, CopyNode, NodeKind};

/// Whether a copy is done when the call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// When the stream gets there.
    InStream,
    /// When the call returns, where CUDA promises that.
    WithCall,
}

/// A copy of one range.
struct Copy {
    destination: u64,
    source: u64,
    bytes: u64,
}

/// Copies a range, whatever its sides are.
fn copy(
    client: &Attached,
    copy: &Copy,
    destination_side: Side,
    source_side: Side,
    stream: Handle,
    ends: Ends,
) -> CUresult {
    let &Copy { destination, source, bytes } = copy;
    match ends {
        Ends::WithCall => client.check_not_capturing(stream)?,
        Ends::InStream if client.captured(stream, || Ok(as_node(copy)))? => return Ok(()),
        Ends::InStream => {}
    }
    if bytes == 0 {
        return Ok(());
    }
    match (destination_side, source_side) {
        (Side::Device, Side::Device) => post_device_to_device(client, copy, stream),
        (Side::Device, side) => {
            client.copy_to_device(destination, source, side, bytes, stream)?;
            // Pageable memory is the program's again once it is staged; pinned memory is read by
            // the device itself.
            match ends == Ends::WithCall && side == Side::Pinned {
                true => client.synchronize_copy(stream, bytes),
                false => Ok(()),
            }
        }
        (side, Side::Device) => {
            client.copy_from_device(destination, side, source, bytes, stream)?;
            match ends {
                Ends::WithCall => client.synchronize_copy(stream, bytes),
                Ends::InStream => Ok(()),
            }
        }
        (_, _) => {
            client.synchronize(stream)?;
            // SAFETY: the program passed both addresses for a copy of that length, in host memory
            // that this process can reach.
            unsafe {
                core::ptr::copy(source as *const u8, destination as *mut u8, bytes as usize);
            }
            Ok(())
        }
    }
}

/// A copy as a graph has it: the addresses say what they are.
fn as_node(copy: &Copy) -> NodeKind {
    let end = |address| CopyEnd {
        memory_type: memory_type::UNIFIED,
        device: CUdeviceptr(address),
        ..CopyEnd::default()
    };
    let (destination, source) = (end(copy.destination), end(copy.source));
    NodeKind::Copy(CopyNode { destination, source, extent: [copy.bytes as usize, 1, 1] })
}

fn post_device_to_device(client: &Attached, copy: &Copy, stream: Handle) -> CUresult {
    let words = [copy.destination, copy.source, copy.bytes, wire_stream(stream).to_word()];
    client.state().push_words_in(stream, number::cuMemcpyDtoDAsync_v2, &words).map(|_| ())
}

/// Copies between what the addresses say they are.
fn unified(
    default: DefaultStream,
    stream: CUstream,
    destination: u64,
    source: u64,
    bytes: usize,
    ends: Ends,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let stream = client.stream(stream, default)?;
    let bytes = bytes as u64;
    let (to, from) = {
        let memory = client.memory();
        (memory.side(destination, bytes)?, memory.side(source, bytes)?)
    };
    if bytes > 0 && (destination == 0 || source == 0) {
        return Err(CudaError::INVALID_VALUE);
    }
    copy(client, &Copy { destination, source, bytes }, to, from, stream, ends)
}

/// Which side a device pointer can be: pinned memory's device address is one too.
fn device_side(client: &Attached, pointer: CUdeviceptr, bytes: u64) -> Result<Side, CudaError> {
    match client.memory().side(pointer.0, bytes)? {
        Side::Pageable => Err(CudaError::INVALID_VALUE),
        side => Ok(side),
    }
}

/// Which side a host pointer can be. A device address is one with unified addressing.
fn host_side(client: &Attached, address: u64, bytes: u64) -> Result<Side, CudaError> {
    if address == 0 && bytes > 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    client.memory().side(address, bytes)
}

fn host_to_device(
    default: DefaultStream,
    stream: CUstream,
    destination: CUdeviceptr,
    source: In<c_void>,
    bytes: usize,
    ends: Ends,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let stream = client.stream(stream, default)?;
    let bytes = bytes as u64;
    if bytes == 0 {
        return Ok(());
    }
    let to = device_side(client, destination, bytes)?;
    let from = host_side(client, source.address(), bytes)?;
    let request = Copy { destination: destination.0, source: source.address(), bytes };
    copy(client, &request, to, from, stream, ends)
}

fn device_to_host(
    default: DefaultStream,
    stream: CUstream,
    destination: Out<c_void>,
    source: CUdeviceptr,
    bytes: usize,
    ends: Ends,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let stream = client.stream(stream, default)?;
    let bytes = bytes as u64;
    if bytes == 0 {
        return Ok(());
    }
    let from = device_side(client, source, bytes)?;
    let to = host_side(client, destination.address(), bytes)?;
    let request = Copy { destination: destination.address(), source: source.0, bytes };
    copy(client, &request, to, from, stream, ends)
}

fn device_to_device(
    default: DefaultStream,
    stream: CUstream,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let stream = client.stream(stream, default)?;
    let bytes = bytes as u64;
    if bytes == 0 {
        return Ok(());
    }
    let to = device_side(client, destination, bytes)?;
    let from = device_side(client, source, bytes)?;
    let request = Copy { destination: destination.0, source: source.0, bytes };
    copy(client, &request, to, from, stream, Ends::InStream)
}

pub(crate) fn cuMemcpy(
    default: DefaultStream,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    unified(default, CUstream::NULL, destination.0, source.0, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyAsync(
    default: DefaultStream,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    unified(default, stream, destination.0, source.0, bytes, Ends::InStream)
}

pub(crate) fn cuMemcpyHtoD_v2(
    default: DefaultStream,
    destination: CUdeviceptr,
    source: In<c_void>,
    bytes: usize,
) -> CUresult {
    host_to_device(default, CUstream::NULL, destination, source, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyHtoDAsync_v2(
    default: DefaultStream,
    destination: CUdeviceptr,
    source: In<c_void>,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    host_to_device(default, stream, destination, source, bytes, Ends::InStream)
}

pub(crate) fn cuMemcpyDtoH_v2(
    default: DefaultStream,
    destination: Out<c_void>,
    source: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    device_to_host(default, CUstream::NULL, destination, source, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyDtoHAsync_v2(
    default: DefaultStream,
    destination: Out<c_void>,
    source: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    device_to_host(default, stream, destination, source, bytes, Ends::InStream)
}

/// Between device addresses nothing waits for the host, not even in the synchronous form.
pub(crate) fn cuMemcpyDtoD_v2(
    default: DefaultStream,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    device_to_device(default, CUstream::NULL, destination, source, bytes)
}

pub(crate) fn cuMemcpyDtoDAsync_v2(
    default: DefaultStream,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    device_to_device(default, stream, destination, source, bytes)
}
