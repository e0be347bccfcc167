//! Set-up of benches: the software GPU's functions, a context and a module.

#[macro_use]
mod call;

use anyhow::{Context, Result};
use cuda_api::*;
use openmps_soft as _;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::time::Instant;

cuda_api::linked_symbols! {
    cuInit cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxSynchronize cuModuleLoadData
    cuModuleGetFunction cuMemAlloc_v2 cuMemsetD8_v2 cuMemcpyDtoH_v2 cuLaunchKernel
}

/// A module on the software GPU, and memory for its kernels' results.
pub struct Bench {
    table: DriverTable,
    module: CUmodule,
    /// Words of 32 bits, `words` of them.
    data: CUdeviceptr,
    words: usize,
}

impl Bench {
    /// Loads PTX in the device's primary context.
    pub fn new(text: &CStr, words: usize) -> Result<Self> {
        let table = linked_table();
        let (mut context, mut module) = (CUcontext::NULL, CUmodule::NULL);
        let mut data = CUdeviceptr::default();
        cu!(table, cuInit(0))?;
        cu!(table, cuDevicePrimaryCtxRetain(&mut context, 0))?;
        cu!(table, cuCtxSetCurrent(context))?;
        cu!(table, cuModuleLoadData(&mut module, text.as_ptr().cast()))?;
        cu!(table, cuMemAlloc_v2(&mut data, 4 * words))?;
        Ok(Self { table, module, data, words })
    }

    /// Runs a kernel of the module with the memory's address and `n` as parameters, as far as it has
    /// them; the memory is 0 before. How long the launch took, ms, and what the memory has then.
    pub fn run(&self, name: &CStr, blocks: u32, threads: u32, n: u32) -> Result<(f64, Vec<u32>)> {
        let t = &self.table;
        let mut function = CUfunction::NULL;
        cu!(t, cuModuleGetFunction(&mut function, self.module, name.as_ptr()))?;
        cu!(t, cuMemsetD8_v2(self.data, 0, 4 * self.words))?;
        let (mut out, mut n) = (self.data, n);
        let mut parameters: [*mut c_void; 2] = [(&raw mut out).cast(), (&raw mut n).cast()];
        let (list, stream) = (parameters.as_mut_ptr(), CUstream::NULL);
        let begin = Instant::now();
        cu!(t, cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, list, null_mut()))?;
        cu!(t, cuCtxSynchronize())?;
        let took = begin.elapsed().as_secs_f64() * 1e3;
        let mut words = vec![0u32; self.words];
        cu!(t, cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), self.data, 4 * self.words))?;
        Ok((took, words))
    }
}
