//! What the driver knows of an address.

use std::{ffi::c_void, ptr};

use cudarc::driver::sys::{
    CUcontext, CUmemorytype as MemoryType, CUpointer_attribute as Attribute,
};

use crate::{
    Check,
    support::{Env, HostWords, Outcome, Words, call, equal, holds, place, refused},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("pointer.device", device),
    ("pointer.host", host),
    ("pointer.unknown", unknown),
    ("pointer.several", several),
];

/// The value of an attribute of an address; `T` is the type that the manual gives it.
fn get<T>(attribute: Attribute, address: u64, mut value: T) -> Outcome<T> {
    call!(cuPointerGetAttribute(place(&mut value), attribute, address))?;
    Ok(value)
}

fn device(env: &Env) -> Outcome {
    let words = Words::filled(100, 0)?;
    let inside = words.at(10);
    let device = MemoryType::CU_MEMORYTYPE_DEVICE as u32;
    let kind = get(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside, 0u32)?;
    equal("memory type", kind, device)?;
    let null: CUcontext = ptr::null_mut();
    let context = get(Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, inside, null)?;
    equal("context", context, env.context)?;
    let same = get(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside, 0u64)?;
    equal("device pointer", same, inside)?;
    let ordinal = get(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside, -1i32)?;
    equal("device", ordinal, 0)?;
    // A boolean: drivers write one byte or a word.
    let managed = get(Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, inside, 7u32)?;
    equal("managed", managed & 0xff, 0)?;
    let start = get(Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside, 0u64)?;
    equal("start of the range", start, words.address)?;
    let bytes = get(Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside, 0usize)?;
    equal("size of the range", bytes, 400)?;
    let other = Words::filled(1, 0)?;
    let id = get(Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, inside, 0u64)?;
    let other_id = get(Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, other.address, 0u64)?;
    holds("two allocations have two ids", id != other_id)
}

fn host(_: &Env) -> Outcome {
    let words = HostWords::zeroed(16)?;
    let address = words.host as u64 + 8;
    let kind = get(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, 0u32)?;
    equal("memory type", kind, MemoryType::CU_MEMORYTYPE_HOST as u32)?;
    let null: *mut c_void = ptr::null_mut();
    let pointer = get(Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, address, null)?;
    equal("host pointer", pointer as u64, address)?;
    let device = get(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address, 0u64)?;
    equal("device pointer", device, words.device + 8)
}

fn unknown(_: &Env) -> Outcome {
    let local = 0u64;
    let address = &raw const local as u64;
    let mut kind = 0u32;
    refused!(
        cuPointerGetAttribute(
            place(&mut kind),
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            address
        ),
        CUDA_ERROR_INVALID_VALUE
    )
}

/// The form that asks for several attributes answers for unknown addresses too, with zeros.
fn several(env: &Env) -> Outcome {
    let words = Words::filled(4, 0)?;
    let local = 0u64;
    for (address, known) in [(words.address, true), (&raw const local as u64, false)] {
        let mut context: CUcontext = ptr::dangling_mut();
        let mut kind = 99u32;
        let mut managed = 99u32;
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        ];
        let mut data = [place(&mut context), place(&mut kind), place(&mut managed)];
        call!(cuPointerGetAttributes(3, attributes.as_mut_ptr(), data.as_mut_ptr(), address))?;
        let device = MemoryType::CU_MEMORYTYPE_DEVICE as u32;
        equal("memory type", kind, if known { device } else { 0 })?;
        equal("context", context, if known { env.context } else { ptr::null_mut() })?;
        // A boolean of four bytes.
        equal("managed", managed, 0)?;
    }
    Ok(())
}
