//! Copies of bytes: cuMemcpy and its like in the manual's "Memory Management". Pitched and 3-D copies are in
//! [`super::copy3d`], what moves the bytes in [`crate::program::memory::transfer`].

use super::peer_copy::Elsewhere;
use crate::boundary::{In, Out};
use crate::memory::address::{Side, copy_here};
use crate::program::Client;
use crate::program::launch::submission::wire_stream;
use crate::program::mode;
use crate::program::recovery::reported::Reports;
use crate::stream::DefaultStream;
use crate::stream::table::LEGACY;
use core::ffi::c_void;
use cuda_api::constants::memory_type;
use cuda_api::handle::Handle;
use cuda_api::{
    CUcontext, CUdevice, CUdeviceptr, CUmemcpyAttributes, CUresult, CUstream, CudaError, Word,
    number,
};
use driver_common::batch::read_during_call;
use graph::{CopyEnd, CopyNode, NodeKind};

/// Whether a copy is done when the call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// When the stream gets there.
    InStream,
    /// When the call returns, where CUDA promises that.
    WithCall,
    /// When the stream gets there; but its source has been read when the call returns.
    SourceWithCall,
}

/// One end of a copy, as the program names it.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// A device pointer. Pinned memory has one too.
    Device(u64),
    /// Host or device memory, as the address says: with unified addressing a host pointer may be
    /// either.
    Any(u64),
}

impl Named {
    /// The end of a copy that this is.
    fn end(self) -> CopyEnd {
        let (Self::Device(address) | Self::Any(address)) = self;
        let (memory_type, device) = (memory_type::UNIFIED, CUdeviceptr(address));
        CopyEnd { memory_type, device, ..CopyEnd::default() }
    }

    /// What `bytes` bytes from there on are, and where for server and device.
    /// CUDA_ERROR_INVALID_VALUE if they reach out of what they begin in, or are not the device's
    /// where they must be.
    pub(super) fn find(self, client: &Client, bytes: u64) -> Result<(Side, u64), CudaError> {
        let (Self::Device(address) | Self::Any(address)) = self;
        if address == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        match (self, client.end(address, bytes)?) {
            (Self::Device(_), (Side::Pageable, _)) => Err(CudaError::INVALID_VALUE),
            (_, end) => Ok(end),
        }
    }
}

/// Copies a range, regardless of what its ends are.
fn copy(
    default: DefaultStream,
    stream: CUstream,
    to: Named,
    from: Named,
    bytes: usize,
    ends: Ends,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    let bytes = bytes as u64;
    if bytes == 0 {
        return Ok(());
    }
    match ends {
        Ends::WithCall => client.check_not_capturing(stream)?,
        Ends::InStream | Ends::SourceWithCall => {
            if client.captured(stream, || as_node(client, to, from, bytes))? {
                return Ok(());
            }
        }
    }
    let devices = Elsewhere::of(client, [&to.end(), &from.end()]);
    devices.wait_before(stream)?;
    let named_to = to;
    let found = to.find(client, bytes).and_then(|to| Ok((to, from.find(client, bytes)?)));
    let ((to, destination), (from, source)) = match found {
        Ok(found) => found,
        Err(error) if devices.may_go_through_host(error) => {
            let (destination, source) = (to.end(), from.end());
            let node = CopyNode { destination, source, extent: [bytes as usize, 1, 1] };
            return devices.copy_through_host(client, stream, &node);
        }
        Err(error) => return Err(error),
    };
    // Pinned memory is staged then, as memory is that only this process reaches.
    let from = match (ends, from) {
        (Ends::SourceWithCall, Side::Pinned) => Side::Pageable,
        (_, from) => from,
    };
    let (Named::Device(named) | Named::Any(named)) = named_to;
    let copy = match to {
        Side::Device => client.copy_of_variable(named, bytes)?,
        Side::Pinned | Side::Pageable => None,
    };
    if let Some(copy) = copy {
        match from {
            Side::Device => post_device_to_device(client, copy, source, bytes, stream)?,
            side => client.copy_to_device(copy, source, side, bytes, stream)?,
        }
        post_device_to_device(client, destination, copy, bytes, stream)?;
        return match (ends, from) {
            (Ends::WithCall, Side::Pinned) | (Ends::SourceWithCall, Side::Device) => {
                client.synchronize_copy(stream, bytes)
            }
            _ => Ok(()),
        };
    }
    match (to, from) {
        (Side::Device, Side::Device) => {
            post_device_to_device(client, destination, source, bytes, stream)?;
            match devices.waits_behind(stream) || ends == Ends::SourceWithCall {
                true => client.synchronize(stream),
                false => Ok(()),
            }
        }
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
            match (ends, side) {
                (Ends::WithCall | Ends::SourceWithCall, _) => {
                    client.synchronize_copy(stream, bytes)
                }
                // It is done: what went wrong with what it copied is known.
                (Ends::InStream, Side::Pageable) => client.report_error(Reports::Once),
                (Ends::InStream, _) => Ok(()),
            }
        }
        (_, _) => {
            client.synchronize(stream)?;
            copy_here(destination, source, bytes);
            Ok(())
        }
    }
}

/// A copy as a graph has it, checked: the program's addresses say what they are.
fn as_node(client: &Client, to: Named, from: Named, bytes: u64) -> Result<NodeKind, CudaError> {
    let end = |named: Named| {
        named.find(client, bytes)?;
        Ok::<_, CudaError>(named.end())
    };
    let (destination, source) = (end(to)?, end(from)?);
    client.write_unseen(destination.device.0);
    // A graph made again at another server has the address that the program knows.
    client.write_unseen(source.device.0);
    let extent = [bytes as usize, 1, 1];
    Ok(NodeKind::Copy(CopyNode { destination, source, extent }))
}

fn post_device_to_device(
    client: &Client,
    destination: u64,
    source: u64,
    bytes: u64,
    stream: Handle,
) -> CUresult {
    let words = [destination, source, bytes, wire_stream(stream).to_word()];
    client.posting()?.push_words_in(stream, number::cuMemcpyDtoDAsync_v2, &words).map(|_| ())
}

/// Functions in their synchronous and their asynchronous form: name, types of both ends, how the
/// program names them, and when the synchronous one ends. Between device addresses nothing waits
/// for the host.
macro_rules! copies {
    ($($name:ident, $in_stream:ident($to:ty => $named_to:expr, $from:ty => $named_from:expr),
        $ends:ident;)*) => {$(
        pub(crate) fn $name(
            default: DefaultStream,
            destination: $to,
            source: $from,
            bytes: usize,
        ) -> CUresult {
            let (to, from) = ($named_to(destination), $named_from(source));
            copy(default, CUstream::NULL, to, from, bytes, Ends::$ends)
        }

        pub(crate) fn $in_stream(
            default: DefaultStream,
            destination: $to,
            source: $from,
            bytes: usize,
            stream: CUstream,
        ) -> CUresult {
            let (to, from) = ($named_to(destination), $named_from(source));
            copy(default, stream, to, from, bytes, Ends::InStream)
        }
    )*};
}

fn device(pointer: CUdeviceptr) -> Named {
    Named::Device(pointer.0)
}

fn any(pointer: CUdeviceptr) -> Named {
    Named::Any(pointer.0)
}

fn host_in(pointer: In<c_void>) -> Named {
    Named::Any(pointer.address())
}

fn host_out(pointer: Out<c_void>) -> Named {
    Named::Any(pointer.address())
}

copies! {
    cuMemcpy, cuMemcpyAsync(CUdeviceptr => any, CUdeviceptr => any), WithCall;
    cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2(CUdeviceptr => device, In<c_void> => host_in), WithCall;
    cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2(Out<c_void> => host_out, CUdeviceptr => device), WithCall;
    cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2(CUdeviceptr => device, CUdeviceptr => device), InStream;
}

/// All contexts of a process share one set of addresses, so it does not matter which is said. The
/// copy comes after all that was issued to either device, and before all that is issued later.
pub(crate) fn cuMemcpyPeer(
    default: DefaultStream,
    destination: CUdeviceptr,
    destination_context: CUcontext,
    source: CUdeviceptr,
    source_context: CUcontext,
    bytes: usize,
) -> CUresult {
    let devices = check_peers(destination_context, source_context)?;
    let (client, _) = mode::enter()?;
    devices
        .iter()
        .try_for_each(|device| client.program.client_on(*device)?.wait_for_everything())?;
    cuMemcpyDtoD_v2(default, destination, source, bytes)?;
    match devices.iter().all(|device| *device == client.device) {
        true => Ok(()),
        false => client.synchronize(client.stream(CUstream::NULL, default)?),
    }
}

pub(crate) fn cuMemcpyPeerAsync(
    default: DefaultStream,
    destination: CUdeviceptr,
    destination_context: CUcontext,
    source: CUdeviceptr,
    source_context: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    check_peers(destination_context, source_context)?;
    cuMemcpyDtoDAsync_v2(default, destination, source, bytes, stream)
}

/// The devices of both contexts of a peer copy. CUDA_ERROR_INVALID_CONTEXT for what is none.
pub(super) fn check_peers(one: CUcontext, other: CUcontext) -> Result<[CUdevice; 2], CudaError> {
    let (client, _) = mode::enter()?;
    let device = |context: CUcontext| match context.is_null() {
        true => Err(CudaError::INVALID_CONTEXT),
        false => client.contexts().device_of(context),
    };
    Ok([device(one)?, device(other)?])
}

/// Copies each of a batch in turn: a stream promises more order than a batch asks for. Where the
/// first one failed goes to `failed`, or usize::MAX if it was none of them.
#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuMemcpyBatchAsync(
    default: DefaultStream,
    destinations: Out<CUdeviceptr>,
    sources: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    attribute_starts: Out<usize>,
    attribute_count: usize,
    failed: Out<usize>,
    stream: CUstream,
) -> CUresult {
    failed.set_if_wanted(usize::MAX);
    let during_call = read_during_call(count, attributes, attribute_starts, attribute_count)?;
    // A batch is for streams that have an order of their own.
    if mode::client_of(stream.0)?.stream(stream, default)? == LEGACY {
        return Err(CudaError::INVALID_VALUE);
    }
    let sizes = sizes.array(count);
    for index in 0..count {
        if sizes.at(index)? == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
    }
    for (index, during_call) in during_call.into_iter().enumerate() {
        let ends = if during_call { Ends::SourceWithCall } else { Ends::InStream };
        let copied = (|| {
            let to = Named::Any(destinations.array(count).at(index)?.0);
            let from = Named::Any(sources.array(count).at(index)?.0);
            copy(default, stream, to, from, sizes.at(index)?, ends)
        })();
        if copied.is_err() {
            failed.set_if_wanted(index);
            return copied;
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuMemcpyBatchAsync_v2(
    default: DefaultStream,
    destinations: Out<CUdeviceptr>,
    sources: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    attribute_starts: Out<usize>,
    attribute_count: usize,
    stream: CUstream,
) -> CUresult {
    cuMemcpyBatchAsync(
        default,
        destinations,
        sources,
        sizes,
        count,
        attributes,
        attribute_starts,
        attribute_count,
        Out::null(),
        stream,
    )
}
