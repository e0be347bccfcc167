//! Copies of boxes (the manual's cuMemcpy2D... and cuMemcpy3D...): slices of rows of bytes, each
//! side with distances of its own between rows and between slices.

use super::copy::{Ends, check_peers};
use crate::attach::Attached;
use crate::boundary::In;
use crate::graph_copy::Resolved;
use crate::memory::where_is::Side;
use crate::mode;
use crate::state::wire_stream;
use crate::threads::DefaultStream;
use channel::request::{Copy2d, CopyDirection};
use cuda_api::handle::Handle;
use cuda_api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUresult, CUstream};
use graph::{CopyEnd, CopyNode, NodeKind};

/// Copies a box, slice by slice.
fn copy(default: DefaultStream, stream: CUstream, node: &CopyNode, ends: Ends) -> CUresult {
    let client = mode::client()?;
    let stream = client.stream(stream, default)?;
    let resolved = Resolved::new(client, node)?;
    match ends {
        Ends::WithCall => client.check_not_capturing(stream)?,
        Ends::InStream if client.captured(stream, || Ok(NodeKind::Copy(*node)))? => return Ok(()),
        Ends::InStream => {}
    }
    let Some(Resolved { destination, source, extent: [width, height, depth] }) = resolved else {
        return Ok(());
    };
    let sides = (destination.side, source.side);
    if sides.0 != Side::Device && sides.1 != Side::Device {
        // Nobody but this thread copies: in its place in the stream.
        client.synchronize(stream)?;
    }
    for z in 0..depth {
        let slice = Copy2d {
            stream: wire_stream(stream),
            direction: CopyDirection::DeviceToDevice,
            source: source.address + z * source.rows * source.pitch,
            source_pitch: source.pitch,
            destination: destination.address + z * destination.rows * destination.pitch,
            destination_pitch: destination.pitch,
            width_bytes: width,
            height,
        };
        copy_slice(client, slice, sides, stream)?;
    }
    // Pageable memory is the program's again once it is staged; what the device itself reads or
    // writes must be waited for.
    let waits = matches!(
        sides,
        (Side::Device, Side::Pinned) | (Side::Pinned | Side::Pageable, Side::Device)
    );
    match ends == Ends::WithCall && waits {
        true => client.synchronize(stream),
        false => Ok(()),
    }
}

fn copy_slice(
    client: &Attached,
    slice: Copy2d,
    (to, from): (Side, Side),
    stream: Handle,
) -> CUresult {
    match (to, from) {
        (Side::Device, Side::Device) => client.state().push_in(stream, &slice).map(|_| ()),
        (Side::Device, side) => client.copy_rows_to_device(slice, side, stream),
        (side, Side::Device) => client.copy_rows_from_device(slice, side, stream),
        (_, _) => {
            for row in 0..slice.height {
                let source = (slice.source + row * slice.source_pitch) as *const u8;
                let destination = (slice.destination + row * slice.destination_pitch) as *mut u8;
                // SAFETY: the program passed both sides for a copy of these rows, in host memory
                // that this process can reach.
                unsafe { core::ptr::copy(source, destination, slice.width_bytes as usize) };
            }
            Ok(())
        }
    }
}

fn copy_2d(
    default: DefaultStream,
    stream: CUstream,
    copied: In<CUDA_MEMCPY2D>,
    ends: Ends,
) -> CUresult {
    let c = copied.get()?;
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
    copy(default, stream, &node, ends)
}

fn copy_3d(
    default: DefaultStream,
    stream: CUstream,
    copied: In<CUDA_MEMCPY3D>,
    ends: Ends,
) -> CUresult {
    copy(default, stream, &CopyNode::from(&copied.get()?), ends)
}

/// A copy between contexts is one within the addresses that all contexts share.
fn copy_3d_peer(
    default: DefaultStream,
    stream: CUstream,
    copied: In<CUDA_MEMCPY3D_PEER>,
) -> CUresult {
    let c = copied.get()?;
    check_peers(c.dstContext, c.srcContext)?;
    copy(default, stream, &CopyNode::from(&c.without_contexts()), Ends::InStream)
}

pub(crate) fn cuMemcpy2D_v2(default: DefaultStream, copied: In<CUDA_MEMCPY2D>) -> CUresult {
    copy_2d(default, CUstream::NULL, copied, Ends::WithCall)
}

/// Pitches that the aligned form refuses are allowed here; we refuse none in either.
pub(crate) fn cuMemcpy2DUnaligned_v2(
    default: DefaultStream,
    copied: In<CUDA_MEMCPY2D>,
) -> CUresult {
    copy_2d(default, CUstream::NULL, copied, Ends::WithCall)
}

pub(crate) fn cuMemcpy2DAsync_v2(
    default: DefaultStream,
    copied: In<CUDA_MEMCPY2D>,
    stream: CUstream,
) -> CUresult {
    copy_2d(default, stream, copied, Ends::InStream)
}

pub(crate) fn cuMemcpy3D_v2(default: DefaultStream, copied: In<CUDA_MEMCPY3D>) -> CUresult {
    copy_3d(default, CUstream::NULL, copied, Ends::WithCall)
}

pub(crate) fn cuMemcpy3DAsync_v2(
    default: DefaultStream,
    copied: In<CUDA_MEMCPY3D>,
    stream: CUstream,
) -> CUresult {
    copy_3d(default, stream, copied, Ends::InStream)
}

pub(crate) fn cuMemcpy3DPeer(default: DefaultStream, copied: In<CUDA_MEMCPY3D_PEER>) -> CUresult {
    copy_3d_peer(default, CUstream::NULL, copied)
}

pub(crate) fn cuMemcpy3DPeerAsync(
    default: DefaultStream,
    copied: In<CUDA_MEMCPY3D_PEER>,
    stream: CUstream,
) -> CUresult {
    copy_3d_peer(default, stream, copied)
}
