//! What is preferred for caches: of functions (the manual's cuFuncSetCacheConfig) and of contexts,
//! for functions without a preference of their own. The server's functions get it, since how many
//! blocks an SM takes depends on it; the context there is shared by all clients.

use crate::program::Client;
use crate::program::forwarded::{Travels, Words};
use crate::program::launch::submission::wire_function;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::c_uint;
use cuda_api::handle::Handle;
use cuda_api::{CUcontext, CUdevice, CUfunction, CUkernel, CUresult, CudaError, number};

/// CU_FUNC_CACHE_PREFER_NONE.
const NONE: c_uint = 0;
/// CU_FUNC_CACHE_PREFER_EQUAL, the last.
const LAST: c_uint = 3;

fn checked(config: c_uint) -> CUresult {
    if config <= LAST { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

pub(crate) fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) -> CUresult {
    let client = mode::client_of(function.0)?;
    client.health()?;
    checked(config)?;
    let handle = {
        let mut state = client.state();
        let handle = state.function(function.0)?.0;
        if let Some(function) = state.functions.get_mut(handle) {
            function.cache = config;
        }
        handle
    };
    client.send_cache(handle)
}

pub(crate) fn cuKernelSetCacheConfig(
    kernel: CUkernel,
    config: c_uint,
    device: CUdevice,
) -> CUresult {
    let here = mode::client_on(device)?.function_here(CUfunction(kernel.0))?;
    cuFuncSetCacheConfig(here, config)
}

pub(crate) fn cuCtxSetCacheConfig(config: c_uint) -> CUresult {
    checked(config)?;
    let (client, _) = mode::enter()?;
    client.contexts().with(CUcontext::NULL, |context| context.cache_config = config)?;
    let followers: Vec<Handle> = {
        let state = client.state();
        let undecided = state.functions.iter().filter(|(_, function)| function.cache == NONE);
        undecided.map(|(handle, _)| handle).collect()
    };
    followers.into_iter().try_for_each(|function| client.send_cache(function))
}

impl Client {
    /// Sends the server what is preferred for a function: by itself, or by the current context.
    fn send_cache(&self, function: Handle) -> CUresult {
        let of_context = self.contexts().with(CUcontext::NULL, |context| context.cache_config);
        let config = {
            let mut state = self.state();
            let known = state.functions.get_mut(function).ok_or(CudaError::INVALID_HANDLE)?;
            known.occupancy.forget();
            if known.cache == NONE { of_context.unwrap_or(NONE) } else { known.cache }
        };
        let (mut words, default) = (Words::new(), DefaultStream::Legacy);
        wire_function(function).encode(self, default, &mut words)?;
        config.encode(self, default, &mut words)?;
        words.post(&mut self.posting()?, number::cuFuncSetCacheConfig)
    }

    /// Has a function that was just looked up follow its context's preference, if there is one.
    pub(crate) fn follow_cache(&self, function: Handle) -> CUresult {
        let config = self.contexts().with(CUcontext::NULL, |context| context.cache_config);
        if config.unwrap_or(NONE) == NONE { Ok(()) } else { self.send_cache(function) }
    }
}
