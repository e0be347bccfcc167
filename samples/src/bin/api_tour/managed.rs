//! Managed memory: what the host writes the device sees, and the reverse.

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUmem_advise as Advice, CUmem_range_attribute as Range,
    CUpointer_attribute as Pointer,
};

use crate::{
    Check,
    support::{Env, Outcome, Stop, Stream, Words, call, equal, holds, place, refused, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("managed.both_sides", both_sides),
    ("managed.copies", copies),
    ("managed.pointer", pointer),
    ("managed.advice", advice),
    ("managed.wrong", wrong),
];

/// Words that host and device reach at one address.
struct Managed {
    address: sys::CUdeviceptr,
    length: usize,
}

impl Managed {
    fn zeroed(env: &Env, length: usize) -> Outcome<Self> {
        if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)? == 0 {
            return Err(Stop::Absent("the device has no managed memory".to_owned()));
        }
        let mut address = 0;
        let global = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        call!(cuMemAllocManaged(&mut address, length * 4, global))?;
        let words = Self { address, length };
        (0..length).for_each(|index| words.set(index, 0));
        Ok(words)
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.length);
        // SAFETY: within the allocation, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr((self.address as *mut u32).add(index)) }
    }

    fn set(&self, index: usize, value: u32) {
        self.word(index).store(value, Ordering::SeqCst);
    }

    fn get(&self, index: usize) -> u32 {
        self.word(index).load(Ordering::SeqCst)
    }

    fn at(&self, index: usize) -> u64 {
        self.address + index as u64 * 4
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        let _ = synchronize();
        let _ = call!(cuMemFree_v2(self.address));
    }
}

fn both_sides(env: &Env) -> Outcome {
    let words = Managed::zeroed(env, 5000)?;
    env.slow_write(words.at(1), 77, 1, ptr::null_mut())?;
    synchronize()?;
    equal("what the device wrote", words.get(1), 77)?;
    words.set(4999, 78);
    env.copy_word(words.at(4999), words.at(2), ptr::null_mut())?;
    synchronize()?;
    equal("what the device read of the host's", words.get(2), 78)?;
    // Many small ones, as programs with managed structures have.
    let many = (0..50).map(|_| Managed::zeroed(env, 1)).collect::<Outcome<Vec<_>>>()?;
    for (index, words) in many.iter().enumerate() {
        env.slow_write(words.address, index as u32, 0, ptr::null_mut())?;
    }
    synchronize()?;
    holds("each has its own", many.iter().enumerate().all(|(i, w)| w.get(0) == i as u32))
}

fn copies(env: &Env) -> Outcome {
    let (managed, device) = (Managed::zeroed(env, 1000)?, Words::filled(1000, 5)?);
    call!(cuMemcpyDtoD_v2(managed.address, device.address, 4000))?;
    synchronize()?;
    equal("from the device", managed.get(999), 5)?;
    call!(cuMemsetD32_v2(managed.at(10), 6, 10))?;
    synchronize()?;
    equal("filled", (managed.get(9), managed.get(10), managed.get(20)), (5, 6, 5))?;
    let host = [1u32, 2, 3];
    call!(cuMemcpyHtoD_v2(managed.address, host.as_ptr().cast(), 12))?;
    let mut back = [0u32; 4];
    call!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), managed.address, 16))?;
    equal("there and back", back, [1, 2, 3, 5])?;
    call!(cuMemcpy(device.address, managed.address, 16))?;
    equal("to the device", device.read()?[..4].to_vec(), vec![1, 2, 3, 5])
}

fn pointer(env: &Env) -> Outcome {
    let words = Managed::zeroed(env, 100)?;
    let inside = words.at(10);
    let mut managed = 0u32;
    let attribute = Pointer::CU_POINTER_ATTRIBUTE_IS_MANAGED;
    call!(cuPointerGetAttribute(place(&mut managed), attribute, inside))?;
    equal("managed", managed, 1)?;
    for attribute in
        [Pointer::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, Pointer::CU_POINTER_ATTRIBUTE_HOST_POINTER]
    {
        let mut address = 0u64;
        call!(cuPointerGetAttribute(place(&mut address), attribute, inside))?;
        equal("the address on that side", address, inside)?;
    }
    let (mut base, mut bytes) = (0, 0);
    call!(cuMemGetAddressRange_v2(&mut base, &mut bytes, inside))?;
    equal("range", (base, bytes), (words.address, 400))
}

fn advice(env: &Env) -> Outcome {
    if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)? == 0 {
        return Err(Stop::Absent("host and device may not use it at a time".to_owned()));
    }
    // Whole large pages, which advice is about.
    const BYTES: usize = 4 << 20;
    let words = Managed::zeroed(env, BYTES / 4)?;
    let read = |attribute: Range, bytes: usize| {
        let mut value = 99i32;
        call!(cuMemRangeGetAttribute(place(&mut value), 4, attribute, words.address, bytes))?;
        Ok::<_, Stop>(value)
    };
    let mostly = Range::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    equal("mostly read", read(mostly, BYTES)?, 0)?;
    let set = Advice::CU_MEM_ADVISE_SET_READ_MOSTLY;
    call!(cuMemAdvise(words.address, BYTES / 2, set, env.device))?;
    equal("mostly read, its half", read(mostly, BYTES / 2)?, 1)?;
    equal("mostly read, all of it", read(mostly, BYTES)?, 0)?;
    call!(cuMemAdvise(words.address, BYTES / 2, Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0))?;
    equal("mostly read no more", read(mostly, BYTES / 2)?, 0)?;

    let preferred = Range::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    equal("no preference", read(preferred, BYTES)?, -2)?;
    let set = Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    call!(cuMemAdvise(words.address, BYTES, set, env.device))?;
    equal("preferred location", read(preferred, BYTES)?, env.device)?;

    let stream = Stream::non_blocking()?;
    call!(cuMemPrefetchAsync(words.address, BYTES, env.device, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    let prefetched = Range::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    equal("prefetched to", read(prefetched, BYTES)?, env.device)?;
    env.slow_write(words.address, 3, 0, stream.0)?;
    // To the host, by its number.
    call!(cuMemPrefetchAsync(words.address, BYTES, -1, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("prefetched to the host", read(prefetched, BYTES)?, -1)?;
    equal("what lies there", words.get(0), 3)
}

fn wrong(env: &Env) -> Outcome {
    let words = Managed::zeroed(env, 1)?;
    let mut address = 0;
    refused!(cuMemAllocManaged(&mut address, 0, 1), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemAllocManaged(&mut address, 4, 0x80), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemFreeHost(words.address as *mut _), CUDA_ERROR_INVALID_VALUE)
}
