//! What programs ask of a device to hand it on: the SMs of a device, a context, a stream, and parts
//! of them. No range of memory has a handle of its own.

use super::device::device;
use super::stream::description;
use crate::boundary::{In, Out};
use crate::context::affinity::SM_COUNT;
use crate::context::current;
use crate::program::attributes::attribute_of;
use crate::program::mode;
use crate::stream::DefaultStream;
use channel::message::Device;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::attributes as attribute;
use cuda_api::resource::{Partition, check_range_handle};
use cuda_api::{
    CUcontext, CUdevResource, CUdevSmGroupParams, CUdevice, CUdeviceptr, CUresult, CUstream,
    CudaError,
};

pub(crate) fn cuDeviceGetDevResource(
    d: CUdevice,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    resource.set(partition(d)?.whole(kind, &[])?)
}

/// How the SMs of a device can be parted.
pub(super) fn partition(d: CUdevice) -> Result<Partition, CudaError> {
    let known = device(d)?;
    let client = mode::program()?.client_at(d as usize);
    Ok(partition_of(client.map_or(known, |client| client.description())))
}

fn partition_of(device: &Device) -> Partition {
    let sms = attribute_of(device, attribute::MULTIPROCESSOR_COUNT).max(0) as c_uint;
    let by_kind = Partition::of(sms, attribute_of(device, attribute::COMPUTE_CAPABILITY_MAJOR));
    match device.sm_groups {
        0 => by_kind,
        groups => Partition { groups, ..by_kind },
    }
}

/// What there is of a resource in a context; 0 is the current one.
fn resource_of(word: u64, kind: c_uint) -> Result<CUdevResource, CudaError> {
    let contexts = mode::program()?.contexts();
    let word = if word == 0 { current::word() } else { word };
    let device = contexts.device_of(CUcontext(word as usize))?;
    let sms = contexts.with_green(word, |green| green.sms.clone()).ok();
    let sms = sms.or_else(|| contexts.sms_of(word));
    partition(device)?.whole(kind, sms.as_slice())
}

pub(crate) fn cuDevSmResourceSplitByCount(
    result: Out<CUdevResource>,
    groups: Out<c_uint>,
    input: In<CUdevResource>,
    remainder: Out<CUdevResource>,
    flags: c_uint,
    sms_min: c_uint,
) -> CUresult {
    mode::program()?;
    partition(0)?.answer_split_by_count(result, groups, input, remainder, flags, sms_min)
}

pub(crate) fn cuDevSmResourceSplit(
    result: Out<CUdevResource>,
    groups: c_uint,
    input: In<CUdevResource>,
    remainder: Out<CUdevResource>,
    flags: c_uint,
    params: Out<CUdevSmGroupParams>,
) -> CUresult {
    mode::program()?;
    partition(0)?.answer_split(result, groups, input, remainder, flags, params)
}

pub(crate) fn cuCtxGetDevResource(
    context: CUcontext,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    resource.set(resource_of(context.0 as u64, kind)?)
}

pub(crate) fn cuStreamGetDevResource(
    default: DefaultStream,
    stream: CUstream,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    let found = description(default, stream)?;
    let word = if found.green != 0 { found.green } else { found.context };
    resource.set(resource_of(word, kind)?)
}

/// A dma-buf is for other devices' drivers; the memory is the server's to export.
pub(crate) fn cuMemGetHandleForAddressRange(
    handle: Out<c_void>,
    pointer: CUdeviceptr,
    bytes: usize,
    handle_type: c_uint,
    flags: u64,
) -> CUresult {
    let (client, _) = mode::enter()?;
    handle.required()?;
    check_range_handle(pointer, bytes, handle_type, flags)?;
    client.memory().place(pointer.0)?;
    Err(CudaError::NOT_SUPPORTED)
}

/// Contexts are made for a number of SMs.
pub(crate) fn cuDeviceGetExecAffinitySupport(
    supported: Out<c_int>,
    kind: c_uint,
    d: CUdevice,
) -> CUresult {
    device(d)?;
    supported.set((kind == SM_COUNT).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_knows_how_many_groups_of_sms_there_are() {
        let mut device = Device { sm_groups: 15, ..Device::default() };
        device.attributes[attribute::MULTIPROCESSOR_COUNT as usize] = 132;
        device.attributes[attribute::COMPUTE_CAPABILITY_MAJOR as usize] = 9;
        let by_kind = Partition::of(132, 9);
        assert_eq!(partition_of(&device), Partition { groups: 15, ..by_kind });
        assert_ne!(by_kind.groups, 15);
        // One that does not say.
        assert_eq!(partition_of(&Device { sm_groups: 0, ..device }), by_kind);
    }
}
