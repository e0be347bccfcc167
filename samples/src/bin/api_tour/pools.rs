//! Pools of stream-ordered memory.

use std::ptr;

use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUmemPool_attribute as PoolAttribute,
};
use samples::gpu::blank;

use crate::{
    Check,
    support::{Env, Outcome, Stop, Stream, call, equal, holds, place, refused},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("pool.own", own),
    ("pool.current", current),
    ("pool.attributes", attributes),
    ("pool.access", access),
    ("pool.wrong", wrong),
];

fn properties(env: &Env) -> Outcome<sys::CUmemPoolProps> {
    if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
        return Err(Stop::Absent("the device has no memory pools".to_owned()));
    }
    let mut properties: sys::CUmemPoolProps = blank();
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = env.device;
    Ok(properties)
}

/// A pool that is destroyed with the value.
struct Pool(sys::CUmemoryPool);

impl Pool {
    fn new(env: &Env) -> Outcome<Self> {
        let mut pool = ptr::null_mut();
        call!(cuMemPoolCreate(&mut pool, &properties(env)?))?;
        Ok(Self(pool))
    }

    fn attribute(&self, attribute: PoolAttribute) -> Outcome<u64> {
        let mut value = 0u64;
        call!(cuMemPoolGetAttribute(self.0, attribute, place(&mut value)))?;
        Ok(value)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = call!(cuMemPoolDestroy(self.0));
    }
}

fn own(env: &Env) -> Outcome {
    let (pool, stream) = (Pool::new(env)?, Stream::non_blocking()?);
    let used = PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    equal("used at first", pool.attribute(used)?, 0)?;
    let mut address = 0;
    call!(cuMemAllocFromPoolAsync(&mut address, 4000, pool.0, stream.0))?;
    holds("what is used is counted", pool.attribute(used)? >= 4000)?;
    call!(cuMemsetD32Async(address, 6, 1000, stream.0))?;
    let mut host = vec![0u32; 1000];
    call!(cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), address, 4000, stream.0))?;
    call!(cuMemFreeAsync(address, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    holds("the words are those written", host.iter().all(|&word| word == 6))?;
    equal("used at the end", pool.attribute(used)?, 0)?;
    let high = pool.attribute(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
    holds("the most is remembered", high >= 4000)?;
    call!(cuMemPoolTrimTo(pool.0, 0))
}

fn current(env: &Env) -> Outcome {
    let (pool, stream) = (Pool::new(env)?, Stream::non_blocking()?);
    let (mut default, mut now) = (ptr::null_mut(), ptr::null_mut());
    call!(cuDeviceGetDefaultMemPool(&mut default, env.device))?;
    call!(cuDeviceGetMemPool(&mut now, env.device))?;
    equal("the first pool", now, default)?;
    call!(cuDeviceSetMemPool(env.device, pool.0))?;
    call!(cuDeviceGetMemPool(&mut now, env.device))?;
    equal("the current pool", now, pool.0)?;
    let mut address = 0;
    call!(cuMemAllocAsync(&mut address, 1 << 20, stream.0))?;
    let used = pool.attribute(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
    holds("it is the pool that memory comes from", used >= 1 << 20)?;
    let mut of = ptr::null_mut::<sys::CUmemPoolHandle_st>();
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    call!(cuPointerGetAttribute(place(&mut of), attribute, address))?;
    equal("the pool of the memory", of, pool.0)?;
    call!(cuDeviceSetMemPool(env.device, default))?;
    call!(cuMemFreeAsync(address, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    let used = pool.attribute(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
    equal("used at the end", used, 0)
}

fn attributes(env: &Env) -> Outcome {
    let pool = Pool::new(env)?;
    let threshold = PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    equal("threshold at first", pool.attribute(threshold)?, 0)?;
    let mut bytes = u64::MAX;
    call!(cuMemPoolSetAttribute(pool.0, threshold, place(&mut bytes)))?;
    equal("threshold", pool.attribute(threshold)?, u64::MAX)?;
    let reuse = PoolAttribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
    let (mut off, mut got) = (0i32, 7i32);
    call!(cuMemPoolGetAttribute(pool.0, reuse, place(&mut got)))?;
    equal("reuse at first", got, 1)?;
    call!(cuMemPoolSetAttribute(pool.0, reuse, place(&mut off)))?;
    call!(cuMemPoolGetAttribute(pool.0, reuse, place(&mut got)))?;
    equal("reuse", got, 0)
}

fn access(env: &Env) -> Outcome {
    let pool = Pool::new(env)?;
    let mut location = properties(env)?.location;
    let mut flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
    call!(cuMemPoolGetAccess(&mut flags, pool.0, &mut location))?;
    let all = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    equal("the device's own access", flags, all)?;
    let access = sys::CUmemAccessDesc { location, flags: all };
    call!(cuMemPoolSetAccess(pool.0, &access, 1))
}

fn wrong(env: &Env) -> Outcome {
    let pool = Pool::new(env)?;
    let mut default = ptr::null_mut();
    call!(cuDeviceGetDefaultMemPool(&mut default, env.device))?;
    refused!(cuMemPoolDestroy(default), CUDA_ERROR_INVALID_VALUE)?;
    // No bytes at all are at no address, and to free them is nothing.
    let mut address = 1;
    call!(cuMemAllocFromPoolAsync(&mut address, 0, pool.0, ptr::null_mut()))?;
    equal("the address of nothing", address, 0)?;
    call!(cuMemFreeAsync(address, ptr::null_mut()))
}
