//! Pitched and 3-D copies (the manual's cuMemcpy2D... and cuMemcpy3D...): slices of rows of bytes, each
//! end with distances of its own between rows and between slices, or in an array.

use super::copy::{Ends, check_peers};
use super::copy3d_post::post;
use super::peer_copy::Elsewhere;
use crate::boundary::In;
use crate::program::memory::copy3d::Resolved;
use crate::program::mode;
use crate::stream::DefaultStream;
use cuda_api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUresult, CUstream};
use graph::{CopyNode, NodeKind};

/// Makes a 3-D copy.
pub(super) fn copy(
    default: DefaultStream,
    stream: CUstream,
    node: &CopyNode,
    ends: Ends,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    let devices = Elsewhere::of(client, [&node.destination, &node.source]);
    let resolved = match Resolved::new(client, node) {
        Err(error) if !devices.may_go_through_host(error) => return Err(error),
        resolved => resolved,
    };
    match ends {
        Ends::WithCall => {
            client.check_not_capturing(stream)?;
            client.write_unseen(node.destination.device.0);
        }
        Ends::InStream | Ends::SourceWithCall
            if client.captured(stream, || Ok(NodeKind::Copy(*node)))? =>
        {
            client.write_unseen(node.destination.device.0);
            return Ok(());
        }
        Ends::InStream | Ends::SourceWithCall => client.write_unseen(node.destination.device.0),
    }
    devices.wait_before(stream)?;
    let waits = match resolved {
        Ok(Some(resolved)) => post(client, stream, &resolved)?,
        Ok(None) => return Ok(()),
        Err(_) => return devices.copy_through_host(client, stream, node),
    };
    match ends == Ends::WithCall && waits || devices.waits_behind(stream) {
        true => client.synchronize(stream),
        false => Ok(()),
    }
}

fn copy_2d(
    default: DefaultStream,
    stream: CUstream,
    copied: In<CUDA_MEMCPY2D>,
    ends: Ends,
) -> CUresult {
    copy(default, stream, &CopyNode::from(&copied.get()?), ends)
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
