//! Copies in two dimensions (the manual's cuMemcpy2D...): rows of bytes, each side with a pitch.

use super::copy::Ends;
use crate::attach::Attached;
use crate::boundary::In;
use crate::graph_copy::Resolved;
use crate::memory::where_is::Side;
use crate::mode;
use crate::state::wire_stream;
use crate::threads::DefaultStream;
use channel::request::{Copy2d, CopyDirection};
use core::ffi::c_uint;
use cuda_api::constants::memory_type;
use cuda_api::handle::Handle;
use cuda_api::{CUDA_MEMCPY2D, CUdeviceptr, CUresult, CUstream, CudaError};
use graph::{CopyEnd, CopyNode, NodeKind};

/// One side of a copy: address of the first byte, distance of rows, what is there.
struct End {
    address: u64,
    pitch: u64,
    side: Side,
}

/// Fields of one side of the program's structure.
struct Fields {
    kind: c_uint,
    host: u64,
    device: CUdeviceptr,
    pitch: usize,
    x: usize,
    y: usize,
}

/// What a side is. CUDA_ERROR_INVALID_VALUE for rows that overlap or reach out of what they begin
/// in, CUDA_ERROR_NOT_SUPPORTED for arrays.
fn end(client: &Attached, fields: &Fields, width: u64, height: u64) -> Result<End, CudaError> {
    let base = match fields.kind {
        memory_type::HOST => fields.host,
        memory_type::DEVICE | memory_type::UNIFIED => fields.device.0,
        memory_type::ARRAY => return Err(CudaError::NOT_SUPPORTED),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let invalid = CudaError::INVALID_VALUE;
    let (x, y) = (fields.x as u64, fields.y as u64);
    // Rows that lie against each other are what no pitch means.
    let pitch = if fields.pitch == 0 { x + width } else { fields.pitch as u64 };
    if pitch < x.checked_add(width).ok_or(invalid)? && height > 1 {
        return Err(invalid);
    }
    let offset = y.checked_mul(pitch).and_then(|rows| rows.checked_add(x)).ok_or(invalid)?;
    let address = base.checked_add(offset).filter(|_| base != 0).ok_or(invalid)?;
    let rows_before_last = (height - 1).checked_mul(pitch).ok_or(invalid)?;
    let bytes = rows_before_last.checked_add(width).ok_or(invalid)?;
    address.checked_add(bytes).ok_or(invalid)?;
    let side = client.memory().side(address, bytes)?;
    // A device pointer must be one.
    if fields.kind == memory_type::DEVICE && side == Side::Pageable {
        return Err(invalid);
    }
    Ok(End { address, pitch, side })
}

fn copy_rows(
    default: DefaultStream,
    stream: CUstream,
    copy: In<CUDA_MEMCPY2D>,
    ends: Ends,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let stream = client.stream(stream, default)?;
    let copy = copy.get()?;
    let (width, height) = (copy.WidthInBytes as u64, copy.Height as u64);
    if width == 0 || height == 0 {
        return Ok(());
    }
    let from = Fields {
        kind: copy.srcMemoryType,
        host: copy.srcHost as u64,
        device: copy.srcDevice,
        pitch: copy.srcPitch,
        x: copy.srcXInBytes,
        y: copy.srcY,
    };
    let to = Fields {
        kind: copy.dstMemoryType,
        host: copy.dstHost as u64,
        device: copy.dstDevice,
        pitch: copy.dstPitch,
        x: copy.dstXInBytes,
        y: copy.dstY,
    };
    match ends {
        Ends::WithCall => client.check_not_capturing(stream)?,
        Ends::InStream => {
            if client.captured(stream, || as_node(client, &copy))? {
                return Ok(());
            }
        }
    }
    let (from, to) = (end(client, &from, width, height)?, end(client, &to, width, height)?);
    let request = Copy2d {
        stream: wire_stream(stream),
        direction: CopyDirection::DeviceToDevice,
        source: from.address,
        source_pitch: from.pitch,
        destination: to.address,
        destination_pitch: to.pitch,
        width_bytes: width,
        height,
    };
    match (to.side, from.side) {
        (Side::Device, Side::Device) => client.state().push_in(stream, &request).map(|_| ()),
        (Side::Device, side) => {
            client.copy_rows_to_device(request, side, stream)?;
            match ends == Ends::WithCall && side == Side::Pinned {
                true => client.synchronize(stream),
                false => Ok(()),
            }
        }
        (side, Side::Device) => {
            client.copy_rows_from_device(request, side, stream)?;
            match ends {
                Ends::WithCall => client.synchronize(stream),
                Ends::InStream => Ok(()),
            }
        }
        (_, _) => copy_on_host(client, &request, stream),
    }
}

/// The copy as a graph has it, checked.
fn as_node(client: &Attached, c: &CUDA_MEMCPY2D) -> Result<NodeKind, CudaError> {
    let source = CopyEnd {
        offset: [c.srcXInBytes, c.srcY, 0],
        memory_type: c.srcMemoryType,
        host: c.srcHost as u64,
        device: c.srcDevice,
        pitch: c.srcPitch,
        ..CopyEnd::default()
    };
    let destination = CopyEnd {
        offset: [c.dstXInBytes, c.dstY, 0],
        memory_type: c.dstMemoryType,
        host: c.dstHost as u64,
        device: c.dstDevice,
        pitch: c.dstPitch,
        ..CopyEnd::default()
    };
    let node = CopyNode { destination, source, extent: [c.WidthInBytes, c.Height, 1] };
    Resolved::new(client, &node)?;
    Ok(NodeKind::Copy(node))
}

/// Copies rows within host memory, in its place in the stream.
fn copy_on_host(client: &Attached, copy: &Copy2d, stream: Handle) -> CUresult {
    client.synchronize(stream)?;
    for row in 0..copy.height {
        let source = copy.source + row * copy.source_pitch;
        let destination = copy.destination + row * copy.destination_pitch;
        // SAFETY: the program passed both sides for a copy of these rows, in host memory that
        // this process can reach.
        unsafe {
            core::ptr::copy(source as *const u8, destination as *mut u8, copy.width_bytes as usize);
        }
    }
    Ok(())
}

pub(crate) fn cuMemcpy2D_v2(default: DefaultStream, copy: In<CUDA_MEMCPY2D>) -> CUresult {
    copy_rows(default, CUstream::NULL, copy, Ends::WithCall)
}

/// Pitches that the aligned form refuses are allowed here; we refuse none in either.
pub(crate) fn cuMemcpy2DUnaligned_v2(default: DefaultStream, copy: In<CUDA_MEMCPY2D>) -> CUresult {
    copy_rows(default, CUstream::NULL, copy, Ends::WithCall)
}

pub(crate) fn cuMemcpy2DAsync_v2(
    default: DefaultStream,
    copy: In<CUDA_MEMCPY2D>,
    stream: CUstream,
) -> CUresult {
    copy_rows(default, stream, copy, Ends::InStream)
}
