//! The program's own memory, registered: the device reaches it like page-locked memory.

use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use cudarc::driver::sys::{
    CUdevice_attribute as Attribute, CUmemorytype as MemoryType, CUpointer_attribute as Pointer,
};

use crate::{
    Check,
    support::{Env, Outcome, Stop, Stream, Words, call, equal, holds, place, refused, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("register.both_sides", both_sides),
    ("register.copies", copies),
    ("register.contents", contents),
    ("register.pointer", pointer),
    ("register.wrong", wrong),
];

/// Words of the program's, registered while the value lives.
struct Registered {
    words: Vec<AtomicU32>,
}

impl Registered {
    fn new(env: &Env, words: Vec<u32>) -> Outcome<Self> {
        if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)? == 0 {
            return Err(Stop::Absent("no memory can be registered".to_owned()));
        }
        let words = Self { words: words.into_iter().map(AtomicU32::new).collect() };
        call!(cuMemHostRegister_v2(words.pointer(), size_of_val(&*words.words), 0))?;
        Ok(words)
    }

    fn pointer(&self) -> *mut c_void {
        self.words.as_ptr().cast_mut().cast()
    }

    /// The address by which the device knows them.
    fn device(&self) -> Outcome<u64> {
        let mut address = 0;
        call!(cuMemHostGetDevicePointer_v2(&mut address, self.pointer(), 0))?;
        Ok(address)
    }

    fn get(&self, index: usize) -> u32 {
        self.words[index].load(Ordering::SeqCst)
    }

    fn set(&self, index: usize, value: u32) {
        self.words[index].store(value, Ordering::SeqCst);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = synchronize();
        let _ = call!(cuMemHostUnregister(self.pointer()));
    }
}

fn both_sides(env: &Env) -> Outcome {
    let words = Registered::new(env, vec![7; 3000])?;
    let device = words.device()?;
    env.slow_write(device + 4 * 1500, 8, 1, ptr::null_mut())?;
    synchronize()?;
    equal("what the device wrote", (words.get(1499), words.get(1500)), (7, 8))?;
    words.set(2999, 9);
    let result = Words::filled(1, 0)?;
    env.copy_word(device + 4 * 2999, result.address, ptr::null_mut())?;
    equal("what the device read", result.first()?, 9)
}

fn copies(env: &Env) -> Outcome {
    let input: Vec<u32> = (0..100_000).collect();
    let words = Registered::new(env, input.clone())?;
    let (stream, device) = (Stream::non_blocking()?, Words::filled(100_000, 0)?);
    call!(cuMemcpyHtoDAsync_v2(device.address, words.pointer(), 400_000, stream.0))?;
    call!(cuMemsetD32Async(device.at(1), 5, 1, stream.0))?;
    call!(cuMemcpyDtoHAsync_v2(words.pointer(), device.address, 400_000, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal(
        "the words that came back",
        (words.get(0), words.get(1), words.get(99_999)),
        (0, 5, 99_999),
    )?;
    // Part of it, synchronously.
    let inside = words.pointer().wrapping_byte_add(4000);
    call!(cuMemcpyHtoD_v2(device.address, inside, 40))?;
    equal("the first words", device.read()?[..10].to_vec(), input[1000..1010].to_vec())
}

/// What lies around registered memory, and in it before and after, stays unchanged.
fn contents(env: &Env) -> Outcome {
    let all: Vec<AtomicU32> = (0..5000).map(AtomicU32::new).collect();
    for _ in 0..3 {
        let pointer: *mut c_void = all[100..4800].as_ptr().cast_mut().cast();
        drop(Registered::new(env, vec![1; 10])?);
        call!(cuMemHostRegister_v2(pointer, 4700 * 4, 0))?;
        let mut device = 0;
        call!(cuMemHostGetDevicePointer_v2(&mut device, pointer, 0))?;
        env.slow_write(device, 77, 0, ptr::null_mut())?;
        synchronize()?;
        call!(cuMemHostUnregister(pointer))?;
        equal("what the device wrote", all[100].swap(100, Ordering::SeqCst), 77)?;
        let words = all.iter().map(|word| word.load(Ordering::SeqCst));
        holds("all the rest is as it was", words.eq(0..5000))?;
    }
    Ok(())
}

fn pointer(env: &Env) -> Outcome {
    let words = Registered::new(env, vec![0; 100])?;
    let (address, device) = (words.pointer() as u64, words.device()?);
    let mut kind = 0u32;
    let attribute = Pointer::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    call!(cuPointerGetAttribute(place(&mut kind), attribute, address + 8))?;
    equal("memory type", kind, MemoryType::CU_MEMORYTYPE_HOST as u32)?;
    let mut got = 0u64;
    let attribute = Pointer::CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    call!(cuPointerGetAttribute(place(&mut got), attribute, address + 8))?;
    equal("device pointer", got, device + 8)?;
    let same =
        env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)?;
    holds("the address is the same if the attribute says so", same == 0 || device == address)
}

fn wrong(env: &Env) -> Outcome {
    let words = Registered::new(env, vec![0; 100])?;
    let pointer = words.pointer();
    refused!(cuMemHostRegister_v2(pointer, 400, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)?;
    refused!(cuMemHostRegister_v2(ptr::null_mut(), 400, 0), CUDA_ERROR_INVALID_VALUE)?;
    let mut other = 0u64;
    refused!(
        cuMemHostUnregister((&raw mut other).cast()),
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED | CUDA_ERROR_INVALID_VALUE
    )
}
