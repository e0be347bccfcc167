//! Functions: kernels of a module, with the layout of their parameters.

use crate::device::objects::code_cache::SharedCode;
use crate::device::objects::launch_shape::LaunchShape;
use crate::device::safe_calls::{Description, Live, SafeCalls};
use channel::request::{FUNCTION_ATTRIBUTES, PARAMETERS_MAX, ParameterLayout};
use cuda_api::constants::{function_attribute, launch_param};
use cuda_api::{CUfunction, CUresult, CUstream, CudaError};
use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

/// The last CUfunc_cache, CU_FUNC_CACHE_PREFER_EQUAL.
const CACHE_PREFERENCE_MAX: c_uint = 3;

/// A kernel. It is good for as long as its module is loaded.
#[derive(Clone, Debug)]
pub struct Function {
    raw: Live<'static, CUfunction>,
    attributes: [i32; FUNCTION_ATTRIBUTES],
    parameters: Vec<ParameterLayout>,
    parameter_bytes: usize,
    /// Its module's code, if other clients use it too.
    shared: Option<Arc<SharedCode>>,
    /// The cluster that a client asked for of a shared kernel, where a launch names none; 0: unset.
    required_cluster: [u32; 3],
}

/// A flattened parameter buffer as cuLaunchKernel's `extra` list: null, or a list whose buffer is as long as
/// its size says.
pub(in crate::device) struct ParameterList<'a>(*const *mut c_void, PhantomData<&'a [u8]>);

// SAFETY: the list and the buffer are there for as long as it.
unsafe impl Description<*mut c_void> for ParameterList<'_> {
    fn get(&self) -> *const *mut c_void {
        self.0
    }
}

/// What is asked of the clusters of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterQuestion {
    /// How many of them the stream's SMs hold at a time.
    Most,
    /// How many blocks one could have.
    Largest,
}

impl Function {
    /// Reads attributes and layout.
    ///
    /// # Safety
    /// The handle must be the provider's, and the result must be dropped before its module.
    pub(in crate::device) unsafe fn read(
        calls: SafeCalls,
        raw: CUfunction,
        shared: Option<Arc<SharedCode>>,
    ) -> Result<Self, CudaError> {
        // SAFETY: the caller vouches for the handle, as long as the result is there.
        let function = unsafe { Live::new_unchecked(raw) };
        let mut attributes = [0; FUNCTION_ATTRIBUTES];
        for (number, value) in attributes.iter_mut().enumerate() {
            let mut answer = 0;
            if calls.cuFuncGetAttribute(&mut answer, number as u32, function).is_ok() {
                *value = answer;
            }
        }
        let mut parameters = Vec::new();
        let mut parameter_bytes = 0;
        for index in 0..=PARAMETERS_MAX {
            let (mut offset, mut bytes) = (0usize, 0usize);
            match calls.cuFuncGetParamInfo(function, index, &mut offset, &mut bytes) {
                Ok(()) if index < PARAMETERS_MAX => {}
                // The index behind the last parameter is an invalid value.
                Err(CudaError::INVALID_VALUE) => break,
                Ok(()) => return Err(CudaError::NOT_SUPPORTED),
                Err(error) => return Err(error),
            }
            let (Ok(offset), Ok(bytes)) = (u32::try_from(offset), u32::try_from(bytes)) else {
                return Err(CudaError::NOT_SUPPORTED);
            };
            parameter_bytes = parameter_bytes.max(offset as usize + bytes as usize);
            parameters.push(ParameterLayout { offset_bytes: offset, size_bytes: bytes });
        }
        if let Some(shared) = &shared {
            attributes[function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES as usize] = shared
                .initial_dynamic_memory(
                    raw.0,
                    attributes[function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES as usize],
                );
        }
        let required_cluster = [0; 3];
        let raw = function;
        Ok(Self { raw, attributes, parameters, parameter_bytes, shared, required_cluster })
    }

    /// Sets an attribute for this client. Of a kernel that others use too, only what changes nothing
    /// for them is set at the provider.
    pub(crate) fn set_attribute(
        &mut self,
        calls: SafeCalls,
        attribute: c_uint,
        value: c_int,
    ) -> CUresult {
        use function_attribute::*;
        let set = || calls.cuFuncSetAttribute(self.raw, attribute, value);
        let Some(shared) = &self.shared else { return set() };
        match attribute {
            MAX_DYNAMIC_SHARED_SIZE_BYTES => shared.raise_dynamic_memory(self.raw().0, value, set),
            REQUIRED_CLUSTER_WIDTH | REQUIRED_CLUSTER_HEIGHT | REQUIRED_CLUSTER_DEPTH => {
                let extent = u32::try_from(value).map_err(|_| CudaError::INVALID_VALUE)?;
                self.required_cluster[(attribute - REQUIRED_CLUSTER_WIDTH) as usize] = extent;
                Ok(())
            }
            NON_PORTABLE_CLUSTER_SIZE_ALLOWED if value == 0 => Ok(()),
            // A preference changes no result, but it would be the others' too.
            PREFERRED_SHARED_MEMORY_CARVEOUT => match (-1..=100).contains(&value) {
                true => Ok(()),
                false => Err(CudaError::INVALID_VALUE),
            },
            CLUSTER_SCHEDULING_POLICY_PREFERENCE => match (0..=2).contains(&value) {
                true => Ok(()),
                false => Err(CudaError::INVALID_VALUE),
            },
            _ => set(),
        }
    }

    /// Sets what is preferred for caches, a CUfunc_cache: not of a kernel that others use too.
    pub(crate) fn set_cache(&self, calls: SafeCalls, preferred: c_uint) -> CUresult {
        match self.shared {
            None => calls.cuFuncSetCacheConfig(self.raw, preferred),
            Some(_) if preferred <= CACHE_PREFERENCE_MAX => Ok(()),
            Some(_) => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Blocks of such a launch that an SM has room for at a time; 0 if the provider does not say.
    pub fn blocks_per_sm(&self, calls: SafeCalls, shape: &LaunchShape) -> u32 {
        let threads = shape.block.iter().map(|extent| u64::from(*extent)).product::<u64>();
        let Ok(threads) = c_int::try_from(threads) else { return 0 };
        let mut blocks = 0;
        let (raw, shared_bytes) = (self.raw, shape.shared_bytes as usize);
        let answer = calls.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            raw,
            threads,
            shared_bytes,
        );
        if answer.is_ok() { u32::try_from(blocks).unwrap_or(0) } else { 0 }
    }

    /// The provider's handle.
    pub(crate) fn raw(&self) -> CUfunction {
        self.raw.raw()
    }

    /// Attributes by CUfunction_attribute; 0 where the provider knows none.
    pub fn attributes(&self) -> &[i32; FUNCTION_ATTRIBUTES] {
        &self.attributes
    }

    /// Local memory of a thread, bytes.
    pub(in crate::device) fn local_bytes(&self) -> u32 {
        let bytes = self.attributes[function_attribute::LOCAL_SIZE_BYTES as usize];
        u32::try_from(bytes).unwrap_or(0)
    }

    /// Its parameters in order.
    pub fn parameters(&self) -> &[ParameterLayout] {
        &self.parameters
    }

    /// Length of the flattened parameter buffer, bytes.
    pub fn parameter_bytes(&self) -> usize {
        self.parameter_bytes
    }

    /// What the provider says of the clusters of such a launch.
    pub(super) fn clusters(
        &self,
        calls: SafeCalls,
        question: ClusterQuestion,
        shape: LaunchShape,
        stream: Live<'_, CUstream>,
    ) -> Result<i32, CudaError> {
        let mut attributes = shape.attributes();
        let config = shape.config(stream, &mut attributes);
        let mut answer = 0;
        match question {
            ClusterQuestion::Most => {
                calls.cuOccupancyMaxActiveClusters(&mut answer, self.raw, &config)?;
            }
            ClusterQuestion::Largest => {
                calls.cuOccupancyMaxPotentialClusterSize(&mut answer, self.raw, &config)?;
            }
        }
        Ok(answer)
    }

    /// Calls `f` with a flattened parameter buffer. CUDA_ERROR_INVALID_VALUE if the buffer is too short.
    pub(in crate::device) fn with_parameters(
        &self,
        parameters: &[u8],
        f: impl FnOnce(&ParameterList<'_>) -> CUresult,
    ) -> CUresult {
        if parameters.len() < self.parameter_bytes {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut bytes = self.parameter_bytes;
        let list = [
            launch_param::BUFFER_POINTER as *mut c_void,
            parameters.as_ptr().cast_mut().cast(),
            launch_param::BUFFER_SIZE as *mut c_void,
            ptr::from_mut(&mut bytes).cast(),
            launch_param::END as *mut c_void,
        ];
        // Without parameters there is nothing to point to, and drivers want no list at all.
        let list = if bytes == 0 { ptr::null() } else { list.as_ptr() };
        f(&ParameterList(list, PhantomData))
    }

    pub(in crate::device) fn launch(
        &self,
        calls: SafeCalls,
        shape: LaunchShape,
        stream: Live<'_, CUstream>,
        parameters: &[u8],
    ) -> CUresult {
        self.with_parameters(parameters, |list| self.launch_with(calls, shape, stream, list))
    }

    /// The launch with the cluster that the client asked for of the function, if it names none.
    pub(in crate::device) fn with_required_cluster(&self, shape: LaunchShape) -> LaunchShape {
        let required = Some(self.required_cluster).filter(|cluster| !cluster.contains(&0));
        LaunchShape { cluster: shape.cluster.or(required), ..shape }
    }

    fn launch_with(
        &self,
        calls: SafeCalls,
        shape: LaunchShape,
        stream: Live<'_, CUstream>,
        parameters: &ParameterList<'_>,
    ) -> CUresult {
        let shape = self.with_required_cluster(shape);
        if shape.is_plain() {
            let LaunchShape { grid, block, shared_bytes, .. } = shape;
            return calls.cuLaunchKernel(self.raw, grid, block, shared_bytes, stream, parameters);
        }
        let mut attributes = shape.attributes();
        let config = shape.config(stream, &mut attributes);
        calls.cuLaunchKernelEx(&config, self.raw, parameters)
    }
}
