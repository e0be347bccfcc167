//! Pointer attributes (the manual's "Unified Addressing").

use crate::boundary::{In, Out};
use crate::memory::address::Place;
use crate::memory::{HostKind, HostTag};
use crate::program::Client;
use crate::program::mode;
use core::ffi::{c_uint, c_void};
use cuda_api::constants::pointer_attribute as attribute;
use cuda_api::{CUcontext, CUdeviceptr, CUmemoryPool, CUresult, CudaError};
use driver_common::pointer::{self, PointerFacts};

/// What attributes say of an address.
fn facts(client: &Client, place: Place, address: u64) -> PointerFacts {
    let range = match place {
        Place::Device { start, bytes, .. }
        | Place::Mapped { start, bytes, .. }
        | Place::Global { start, bytes }
        | Place::Registered { start, bytes, .. }
        | Place::Pinned { start, bytes, .. } => (start, bytes),
        _ => (0, 0),
    };
    let (context, id) = match place {
        Place::Device { tag, .. } => (tag.context, tag.id),
        Place::Pinned { tag, .. } | Place::Registered { tag, .. } => (tag.context, tag.id),
        // Mappings belong to no context.
        Place::Mapped { id, .. } => (0, id),
        Place::Global { .. } => (client.contexts().primary(client.device).0 as u64, 0),
        _ => (0, 0),
    };
    let (device_address, host_address) = match place {
        Place::Registered { to_device, .. } => {
            (to_device.map(|offset| address.wrapping_add(offset)), Some(address))
        }
        Place::Pinned { .. } => (Some(address), Some(client.memory().host_address(address))),
        _ => (Some(address), None),
    };
    let managed =
        matches!(place, Place::Pinned { tag: HostTag { kind: HostKind::Managed, .. }, .. });
    PointerFacts {
        range,
        context: CUcontext(context as usize),
        id,
        on_device: managed
            || matches!(place, Place::Device { .. } | Place::Mapped { .. } | Place::Global { .. }),
        managed,
        device_address,
        host_address,
        device: match place {
            Place::Device { device, .. } => device,
            _ => client.device,
        },
        legacy_ipc: false,
        exportable: matches!(place, Place::Mapped { joins: true, .. }),
        pool: match place {
            Place::Device { tag, .. } => tag.pool,
            _ => CUmemoryPool::NULL,
        },
    }
}

/// The client that knows an address, which threads without a current context ask about too.
fn anywhere(pointer: CUdeviceptr) -> Result<&'static Client, CudaError> {
    mode::client_at(pointer.0)
}

pub(crate) fn cuPointerGetAttribute(
    data: Out<c_void>,
    number: c_uint,
    pointer: CUdeviceptr,
) -> CUresult {
    let client = anywhere(pointer)?;
    data.required()?;
    let place = client.memory().place(pointer.0)?;
    // Of what CUDA knows nothing of it stores nothing.
    match place {
        Place::Pageable => Err(CudaError::INVALID_VALUE),
        place => facts(client, place, pointer.0).attribute(number, data),
    }
}

pub(crate) fn cuPointerGetAttributes(
    count: c_uint,
    attributes: Out<c_uint>,
    data: Out<*mut c_void>,
    pointer: CUdeviceptr,
) -> CUresult {
    let client = anywhere(pointer)?;
    let place = client.memory().place(pointer.0).ok().filter(|place| *place != Place::Pageable);
    let facts = place.map(|place| facts(client, place, pointer.0));
    pointer::attributes(facts.as_ref(), count, attributes, data)
}

/// The one attribute that can be set says that copies shall not overtake the call: copies of
/// pageable memory never do here.
pub(crate) fn cuPointerSetAttribute(
    value: In<c_void>,
    number: c_uint,
    pointer: CUdeviceptr,
) -> CUresult {
    let (client, _) = mode::enter()?;
    if value.is_null() || number != attribute::SYNC_MEMOPS {
        return Err(CudaError::INVALID_VALUE);
    }
    client.check_device_range(pointer.0, 0)
}
