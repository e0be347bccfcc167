//! Device memory and page-locked host memory: allocation, sizes, filling.

use std::ptr;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};

use crate::{
    Check,
    support::{
        Env, HostWords, Outcome, Stop, Stream, Words, call, equal, holds, one_of, refused, status,
        synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("memory.alloc", alloc),
    ("memory.wrong_free", wrong_free),
    ("memory.out_of_memory", out_of_memory),
    ("memory.info", info),
    ("memory.address_range", address_range),
    ("memory.alloc_pitch", alloc_pitch),
    ("memory.alloc_async", alloc_async),
    ("memory.fill", fill),
    ("memory.fill_2d", fill_2d),
    ("memory.fill_async", fill_async),
    ("memory.wrong_fill", wrong_fill),
    ("memory.host", host),
    ("memory.external", external),
];

/// So large that it shares its pages with nothing.
const LARGE: usize = 64 << 20;

fn alloc(_: &Env) -> Outcome {
    let mut addresses = Vec::new();
    for bytes in [1, 4, 255, 256, 4096, 1 << 20, LARGE] {
        let mut address = 0;
        call!(cuMemAlloc_v2(&mut address, bytes))?;
        holds("the address is not null", address != 0)?;
        holds("the address is a multiple of 256", address % 256 == 0)?;
        addresses.push((address, bytes as u64));
    }
    addresses.sort_unstable();
    let apart = addresses.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
    holds("allocations do not overlap", apart)?;
    for (address, _) in addresses {
        call!(cuMemFree_v2(address))?;
    }
    many_at_once()?;
    let mut address = 0;
    refused!(cuMemAlloc_v2(&mut address, 0), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemAlloc_v2(ptr::null_mut(), 256), CUDA_ERROR_INVALID_VALUE)
}

/// Hundreds of allocations that share nothing, as far as half of what is free allows.
fn many_at_once() -> Outcome {
    const BYTES: usize = 9 << 20;
    let (mut free, mut total) = (0, 0);
    call!(cuMemGetInfo_v2(&mut free, &mut total))?;
    let mut addresses = vec![0; (free / 2 / BYTES).min(300)];
    for address in &mut addresses {
        call!(cuMemAlloc_v2(address, BYTES))?;
    }
    for address in addresses {
        call!(cuMemFree_v2(address))?;
    }
    Ok(())
}

fn wrong_free(_: &Env) -> Outcome {
    let mut address = 0;
    call!(cuMemAlloc_v2(&mut address, LARGE))?;
    refused!(cuMemFree_v2(address + 256), CUDA_ERROR_INVALID_VALUE)?;
    call!(cuMemFree_v2(address))?;
    refused!(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE)?;
    let host = [0u8; 16];
    refused!(cuMemcpyHtoD_v2(address, host.as_ptr().cast(), host.len()), CUDA_ERROR_INVALID_VALUE)
}

fn out_of_memory(env: &Env) -> Outcome {
    let mut total = 0;
    call!(cuDeviceTotalMem_v2(&mut total, env.device))?;
    let mut address = 0;
    refused!(cuMemAlloc_v2(&mut address, 2 * total), CUDA_ERROR_OUT_OF_MEMORY)?;
    // It passes.
    equal("words", Words::filled(4, 1)?.read()?, vec![1; 4])
}

fn info(env: &Env) -> Outcome {
    let (mut free, mut total, mut whole) = (0, 0, 0);
    call!(cuMemGetInfo_v2(&mut free, &mut total))?;
    call!(cuDeviceTotalMem_v2(&mut whole, env.device))?;
    holds("some memory is free", free > 0)?;
    holds("no more is free than there is", free <= total)?;
    holds("there is no more than the device has", total <= whole)
}

fn address_range(_: &Env) -> Outcome {
    let words = Words::filled(1000, 0)?;
    let (mut base, mut bytes) = (0, 0);
    call!(cuMemGetAddressRange_v2(&mut base, &mut bytes, words.at(10)))?;
    equal("base", base, words.address)?;
    equal("size", bytes, 4000)?;
    refused!(
        cuMemGetAddressRange_v2(&mut base, &mut bytes, 64),
        CUDA_ERROR_NOT_FOUND | CUDA_ERROR_INVALID_VALUE
    )
}

fn alloc_pitch(_: &Env) -> Outcome {
    let (mut address, mut pitch) = (0, 0);
    call!(cuMemAllocPitch_v2(&mut address, &mut pitch, 100, 20, 4))?;
    holds("a row fits the pitch", pitch >= 100)?;
    holds("the pitch is a multiple of the element", pitch % 4 == 0)?;
    call!(cuMemsetD8_v2(address, 1, pitch * 20))?;
    call!(cuMemFree_v2(address))?;
    refused!(cuMemAllocPitch_v2(&mut address, &mut pitch, 100, 20, 3), CUDA_ERROR_INVALID_VALUE)
}

fn alloc_async(env: &Env) -> Outcome {
    if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
        return Err(Stop::Absent("the device has no memory pools".to_owned()));
    }
    let stream = Stream::non_blocking()?;
    let mut host = vec![0u32; 1000];
    for round in 0..10u32 {
        let mut address = 0;
        call!(cuMemAllocAsync(&mut address, 4000, stream.0))?;
        call!(cuMemsetD32Async(address, round, 1000, stream.0))?;
        call!(cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), address, 4000, stream.0))?;
        call!(cuMemFreeAsync(address, stream.0))?;
        call!(cuStreamSynchronize(stream.0))?;
        holds("the words are those written", host.iter().all(|&word| word == round))?;
    }
    // Freed by the synchronous call, and the reverse.
    let (mut first, mut second) = (0, 0);
    call!(cuMemAllocAsync(&mut first, 4000, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    call!(cuMemFree_v2(first))?;
    call!(cuMemAlloc_v2(&mut second, 4000))?;
    call!(cuMemFreeAsync(second, stream.0))?;
    call!(cuStreamSynchronize(stream.0))
}

fn fill(_: &Env) -> Outcome {
    let words = Words::filled(8, 0)?;
    call!(cuMemsetD32_v2(words.address, 0x0102_0304, 8))?;
    call!(cuMemsetD16_v2(words.at(1), 0xaabb, 3))?;
    call!(cuMemsetD8_v2(words.at(4) + 1, 0xcc, 2))?;
    // Nothing at all is allowed.
    call!(cuMemsetD8_v2(words.address, 0xff, 0))?;
    let expected = [
        0x0102_0304,
        0xaabb_aabb,
        0x0102_aabb,
        0x0102_0304,
        0x01cc_cc04,
        0x0102_0304,
        0x0102_0304,
        0x0102_0304,
    ];
    equal("words", words.read()?, expected.to_vec())
}

fn fill_2d(_: &Env) -> Outcome {
    // Four rows of 8 words, of which three, in the middle, are filled.
    let words = Words::filled(32, 1)?;
    call!(cuMemsetD2D32_v2(words.at(2), 32, 7, 3, 2))?;
    call!(cuMemsetD2D8_v2(words.at(16), 32, 0xee, 4, 2))?;
    call!(cuMemsetD2D16_v2(words.at(17), 32, 0x1234, 2, 1))?;
    let mut expected = vec![1u32; 32];
    expected[2..5].fill(7);
    expected[10..13].fill(7);
    expected[16] = 0xeeee_eeee;
    expected[24] = 0xeeee_eeee;
    expected[17] = 0x1234_1234;
    equal("words", words.read()?, expected)
}

fn fill_async(_: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let words = Words::filled(1024, 0)?;
    call!(cuMemsetD32Async(words.address, 9, 1024, stream.0))?;
    call!(cuMemsetD16Async(words.at(1), 0x0101, 2, stream.0))?;
    call!(cuMemsetD8Async(words.at(2), 3, 4, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    let got = words.read()?;
    equal("words", got[..4].to_vec(), vec![9, 0x0101_0101, 0x0303_0303, 9])?;
    holds("all the rest is filled", got[4..].iter().all(|&word| word == 9))
}

fn wrong_fill(_: &Env) -> Outcome {
    let words = Words::filled(4, 0)?;
    refused!(cuMemsetD32_v2(words.address + 2, 1, 1), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemsetD16_v2(words.address + 1, 1, 1), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuMemsetD8_v2(64, 1, 16), CUDA_ERROR_INVALID_VALUE)?;
    equal("words", words.read()?, vec![0; 4])
}

fn host(env: &Env) -> Outcome {
    let words = HostWords::zeroed(64)?;
    // The device writes, the host reads.
    env.slow_write(words.device + 4, 77, 1, ptr::null_mut())?;
    synchronize()?;
    equal("what the device wrote", words.get(1), 77)?;
    // The host writes, the device reads.
    words.set(2, 78);
    let result = Words::filled(1, 0)?;
    env.copy_word(words.device + 8, result.address, ptr::null_mut())?;
    equal("what the device read", result.first()?, 78)?;

    let mut flags = 0;
    call!(cuMemHostGetFlags(&mut flags, words.host.cast()))?;
    let mapped = flags & sys::CU_MEMHOSTALLOC_DEVICEMAP != 0;
    holds("the memory is mapped for the device", mapped)?;

    let mut memory = ptr::null_mut();
    call!(cuMemAllocHost_v2(&mut memory, 4096))?;
    // SAFETY: 4096 bytes were just allocated.
    unsafe { memory.cast::<u8>().write_bytes(1, 4096) };
    call!(cuMemFreeHost(memory))?;
    refused!(cuMemHostAlloc(&mut memory, 4096, 0x8000_0000), CUDA_ERROR_INVALID_VALUE)?;
    let mut local = 0u64;
    refused!(cuMemFreeHost((&raw mut local).cast()), CUDA_ERROR_INVALID_VALUE)
}

fn external(_: &Env) -> Outcome {
    let mut memory = ptr::null_mut();
    match status!(cuImportExternalMemory(&mut memory, ptr::null())) {
        CUresult::CUDA_ERROR_NOT_SUPPORTED => {
            Err(Stop::Absent("memory of other APIs cannot be imported".to_owned()))
        }
        status => one_of("cuImportExternalMemory", status, &[CUresult::CUDA_ERROR_INVALID_VALUE]),
    }
}
