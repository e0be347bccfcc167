//! Functions: kernels of a module, with the layout of their parameters.

use super::stream::LaunchShape;
use channel::request::{FUNCTION_ATTRIBUTES, PARAMETERS_MAX, ParameterLayout};
use cuda_api::constants::launch_param;
use cuda_api::{CUfunction, CUresult, CUstream, CudaError, DriverTable};
use std::ffi::c_void;
use std::ptr;

/// A kernel. It is good for as long as its module is loaded.
#[derive(Clone, Debug)]
pub struct Function {
    raw: CUfunction,
    attributes: [i32; FUNCTION_ATTRIBUTES],
    parameters: Vec<ParameterLayout>,
    parameter_bytes: usize,
}

impl Function {
    /// Reads attributes and layout.
    ///
    /// # Safety
    /// The handle must be the provider's, and the result must be dropped before its module.
    pub(super) unsafe fn read(t: &DriverTable, raw: CUfunction) -> Result<Self, CudaError> {
        let mut attributes = [0; FUNCTION_ATTRIBUTES];
        for (number, value) in attributes.iter_mut().enumerate() {
            let mut answer = 0;
            // SAFETY: the caller vouches for the handle; the local is written.
            if unsafe { t.cuFuncGetAttribute(&mut answer, number as u32, raw) }.is_ok() {
                *value = answer;
            }
        }
        let mut parameters = Vec::new();
        let mut parameter_bytes = 0;
        for index in 0..=PARAMETERS_MAX {
            let (mut offset, mut bytes) = (0usize, 0usize);
            // SAFETY: the caller vouches for the handle; the locals are written.
            match unsafe { t.cuFuncGetParamInfo(raw, index, &mut offset, &mut bytes) } {
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
        Ok(Self { raw, attributes, parameters, parameter_bytes })
    }

    /// The provider's handle.
    pub(crate) fn raw(&self) -> CUfunction {
        self.raw
    }

    /// Attributes by CUfunction_attribute; 0 where the provider knows none.
    pub fn attributes(&self) -> &[i32; FUNCTION_ATTRIBUTES] {
        &self.attributes
    }

    /// Its parameters in order.
    pub fn parameters(&self) -> &[ParameterLayout] {
        &self.parameters
    }

    /// Length of the flattened parameter buffer, bytes.
    pub fn parameter_bytes(&self) -> usize {
        self.parameter_bytes
    }

    pub(super) fn launch(
        &self,
        t: &DriverTable,
        shape: LaunchShape,
        stream: CUstream,
        parameters: &[u8],
    ) -> CUresult {
        if parameters.len() < self.parameter_bytes {
            return Err(CudaError::INVALID_VALUE);
        }
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        if shape.cooperative {
            let mut pointers: Vec<*mut c_void> = self
                .parameters
                .iter()
                .map(|p| parameters[p.offset_bytes as usize..].as_ptr().cast_mut().cast())
                .collect();
            // SAFETY: function and stream are alive; each pointer leads to as many bytes as its
            // parameter has (the buffer is at least parameter_bytes long), which are only read.
            return unsafe {
                t.cuLaunchCooperativeKernel(
                    self.raw,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    shape.shared_bytes,
                    stream,
                    pointers.as_mut_ptr(),
                )
            };
        }
        let mut bytes = self.parameter_bytes;
        let mut list = [
            launch_param::BUFFER_POINTER as *mut c_void,
            parameters.as_ptr().cast_mut().cast(),
            launch_param::BUFFER_SIZE as *mut c_void,
            ptr::from_mut(&mut bytes).cast(),
            launch_param::END as *mut c_void,
        ];
        // Without parameters there is nothing to point to, and drivers want no list at all.
        let extra = if bytes == 0 { ptr::null_mut() } else { list.as_mut_ptr() };
        // SAFETY: function and stream are alive; `extra` is null or a list as cuLaunchKernel
        // wants it, whose buffer is as long as its size says and is only read.
        unsafe {
            t.cuLaunchKernel(
                self.raw,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared_bytes,
                stream,
                ptr::null_mut(),
                extra,
            )
        }
    }
}
