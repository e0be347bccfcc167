//! Pointer attributes (the manual's "Unified Addressing").

use crate::boundary::{In, Out};
use crate::memory::address::Place;
use crate::memory::{HostKind, HostTag};
use crate::program::Client;
use crate::program::mode;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::{memory_type, pointer_attribute as attribute};
use cuda_api::{CUdeviceptr, CUresult, CudaError};

/// Most attributes asked for at once: there are 20.
const ATTRIBUTES_MAX: usize = 64;
/// CUmemAccess_flags: read and write.
const ACCESS_READ_WRITE: c_uint = 3;
/// What several attributes say of memory that is not CUDA's.
const NO_DEVICE: c_int = -2;

/// What attributes say of an address.
struct Facts {
    /// Where its memory begins, and how long it is, bytes; 0 of no memory.
    range: (u64, u64),
    context: u64,
    /// The memory's number; no other memory ever has it.
    id: u64,
    on_device: bool,
    managed: bool,
    /// The program's own memory, which the device may reach.
    pinned: bool,
    /// Where the device finds it.
    device_address: Option<u64>,
    /// Where the program finds it, if it is pinned.
    host_address: u64,
}

impl Facts {
    fn of(client: &Client, place: Option<Place>, address: u64) -> Self {
        let range = match place {
            Some(
                Place::Device { start, bytes, .. }
                | Place::Mapped { start, bytes, .. }
                | Place::Global { start, bytes }
                | Place::Registered { start, bytes, .. }
                | Place::Pinned { start, bytes, .. },
            ) => (start, bytes),
            _ => (0, 0),
        };
        let (context, id) = match place {
            Some(Place::Device { tag, .. }) => (tag.context, tag.id),
            Some(Place::Pinned { tag, .. } | Place::Registered { tag, .. }) => {
                (tag.context, tag.id)
            }
            // Mappings belong to no context.
            Some(Place::Mapped { id, .. }) => (0, id),
            Some(Place::Global { .. }) => (client.contexts().primary(client.device).0 as u64, 0),
            _ => (0, 0),
        };
        let (device_address, host_address) = match place {
            Some(Place::Registered { to_device, .. }) => {
                (to_device.map(|offset| address.wrapping_add(offset)), address)
            }
            Some(Place::Pinned { .. }) => (Some(address), client.memory().host_address(address)),
            Some(_) => (Some(address), address),
            None => (None, 0),
        };
        Self {
            range,
            context,
            id,
            on_device: matches!(
                place,
                Some(Place::Device { .. } | Place::Mapped { .. } | Place::Global { .. })
            ),
            managed: matches!(
                place,
                Some(Place::Pinned { tag: HostTag { kind: HostKind::Managed, .. }, .. })
            ),
            pinned: matches!(place, Some(Place::Pinned { .. } | Place::Registered { .. })),
            device_address,
            host_address,
        }
    }

    /// A CUmemorytype; 0 of no memory.
    fn memory_type(&self) -> c_uint {
        match (self.on_device || self.managed, self.pinned) {
            (true, _) => memory_type::DEVICE,
            (_, true) => memory_type::HOST,
            _ => 0,
        }
    }
}

/// Stores an attribute's value. CUDA_ERROR_INVALID_VALUE if the address has none; what is stored
/// for an address that CUDA knows nothing of is what cuPointerGetAttributes promises.
fn store(
    client: &Client,
    place: Option<Place>,
    number: c_uint,
    pointer: CUdeviceptr,
    data: Out<c_void>,
) -> CUresult {
    data.required()?;
    let place = place.filter(|place| *place != Place::Pageable);
    let facts = Facts::of(client, place, pointer.0);
    // Booleans are as wide as the runtime library reads them.
    let flag = |value: bool| data.cast::<c_uint>().set(value.into());
    // Whether the address has the attribute at all.
    let mut known = place.is_some();
    match number {
        attribute::CONTEXT => data.cast::<u64>().set(facts.context)?,
        attribute::MEMORY_TYPE => data.cast::<c_uint>().set(facts.memory_type())?,
        attribute::DEVICE_POINTER => {
            data.cast::<u64>().set(facts.device_address.unwrap_or(0))?;
            known = facts.device_address.is_some();
        }
        attribute::HOST_POINTER => {
            data.cast::<u64>().set(if facts.pinned { facts.host_address } else { 0 })?;
            known = facts.pinned;
        }
        attribute::IS_MANAGED => flag(facts.managed)?,
        attribute::IS_GPU_DIRECT_RDMA_CAPABLE | attribute::IS_LEGACY_CUDA_IPC_CAPABLE => {
            flag(false)?
        }
        attribute::SYNC_MEMOPS => data.cast::<c_uint>().set(0)?,
        attribute::BUFFER_ID | attribute::MEMORY_BLOCK_ID => data.cast::<u64>().set(facts.id)?,
        attribute::DEVICE_ORDINAL => {
            let ordinal = match place {
                Some(Place::Device { device, .. }) => device,
                Some(_) => client.device,
                None => NO_DEVICE,
            };
            data.cast::<c_int>().set(ordinal)?;
        }
        attribute::RANGE_START_ADDR | attribute::MAPPING_BASE_ADDR => {
            data.cast::<u64>().set(facts.range.0)?;
        }
        attribute::RANGE_SIZE | attribute::MAPPING_SIZE => data.cast::<u64>().set(facts.range.1)?,
        attribute::MAPPED => flag(facts.device_address.is_some())?,
        attribute::ALLOWED_HANDLE_TYPES => {
            let exportable = matches!(place, Some(Place::Mapped { joins: true, .. }));
            data.cast::<u64>().set(exportable.into())?;
        }
        attribute::ACCESS_FLAGS => {
            data.cast::<c_uint>().set(if known { ACCESS_READ_WRITE } else { 0 })?;
        }
        attribute::MEMPOOL_HANDLE => {
            let pool = match place {
                Some(Place::Device { tag, .. }) => tag.pool.0,
                _ => 0,
            };
            data.cast::<usize>().set(pool)?;
        }
        _ => return Err(CudaError::INVALID_VALUE),
    }
    match known {
        true => Ok(()),
        false => Err(CudaError::INVALID_VALUE),
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
    let place = client.memory().place(pointer.0)?;
    // Of what CUDA knows nothing of it stores nothing.
    if place == Place::Pageable {
        return Err(CudaError::INVALID_VALUE);
    }
    store(client, Some(place), number, pointer, data)
}

/// Never fails for want of an attribute: it stores what stands for none.
pub(crate) fn cuPointerGetAttributes(
    count: c_uint,
    attributes: Out<c_uint>,
    data: Out<*mut c_void>,
    pointer: CUdeviceptr,
) -> CUresult {
    let client = anywhere(pointer)?;
    if count == 0 || count as usize > ATTRIBUTES_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    let place = client.memory().place(pointer.0).ok();
    let count = count as usize;
    for index in 0..count {
        let number = attributes.array(count).at(index)?;
        // SAFETY: the program passed an array of places for the attributes' values.
        let value: Out<c_void> =
            unsafe { crate::boundary::FromProgram::believe(data.array(count).at(index)?) };
        value.required()?;
        // The value for an address without the attribute is stored as well.
        let _ = store(client, place, number, pointer, value);
    }
    Ok(())
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
