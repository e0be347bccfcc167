//! Launches as before CUDA 4.0: shape, shared memory and parameters are set one by one at a function,
//! then it is launched. A library keeps an [`OldLaunch`] with each function, and makes the launch.

use core::ffi::{c_int, c_uint, c_void};
use cuda_api::CudaError;
use cuda_api::constants::launch_param;
use cuda_api::pointer::Out;

/// Bytes that the parameters of such a launch may have.
const OLD_PARAMETER_BYTES_MAX: usize = 32764;
/// Most dynamic shared memory that can be set.
const SHARED_BYTES_MAX: c_uint = 228 << 10;
/// Largest block on each axis, and in all.
const BLOCK_MAX: [c_int; 3] = [1024, 1024, 64];
const THREADS_MAX: i64 = 1024;

/// What was set at a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldLaunch {
    block: Option<[u32; 3]>,
    shared_bytes: u32,
    /// As long as all parameters may be, once one was set.
    parameters: Vec<u8>,
    parameter_bytes: usize,
}

/// A launch that can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldLaunchReady {
    /// Blocks on each axis.
    pub grid: [u32; 3],
    /// Threads of a block on each axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The parameters as the kernel has them, and room behind them.
    pub parameters: Vec<u8>,
    /// How many bytes of them there are.
    pub parameter_bytes: usize,
}

impl OldLaunchReady {
    /// The parameters as the list that cuLaunchKernel takes as `extra`; it leads into this launch.
    pub fn extra(&mut self) -> [*mut c_void; 5] {
        [
            launch_param::BUFFER_POINTER as *mut c_void,
            self.parameters.as_mut_ptr().cast(),
            launch_param::BUFFER_SIZE as *mut c_void,
            (&raw mut self.parameter_bytes).cast(),
            launch_param::END as *mut c_void,
        ]
    }
}

impl OldLaunch {
    /// Sets the block's shape. CUDA_ERROR_INVALID_VALUE for one that no device has.
    pub fn set_block(&mut self, shape: [c_int; 3]) -> Result<(), CudaError> {
        let within = shape.iter().zip(BLOCK_MAX).all(|(n, max)| (1..=max).contains(n));
        let threads: i64 = shape.iter().map(|n| i64::from(*n)).product();
        if !within || threads > THREADS_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        self.block = Some(shape.map(|n| n as u32));
        Ok(())
    }

    /// Sets the dynamic shared memory of each block. CUDA_ERROR_INVALID_VALUE for more than any device
    /// has; a launch says if it is too much for this one.
    pub fn set_shared_bytes(&mut self, bytes: c_uint) -> Result<(), CudaError> {
        if bytes > SHARED_BYTES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        self.shared_bytes = bytes;
        Ok(())
    }

    /// Sets how long all parameters are.
    pub fn set_parameter_bytes(&mut self, bytes: c_uint) -> Result<(), CudaError> {
        if bytes as usize > OLD_PARAMETER_BYTES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        self.parameter_bytes = bytes as usize;
        Ok(())
    }

    /// Sets the `bytes` bytes of the parameters that the program passed (cuParamSetv).
    pub fn set_parameter_from(
        &mut self,
        offset: c_int,
        value: Out<c_void>,
        bytes: c_uint,
    ) -> Result<(), CudaError> {
        let value = value.cast::<u8>().as_in();
        let set = |value: &[u8]| self.set_parameter(offset, value);
        value.with_bytes(bytes as usize, OLD_PARAMETER_BYTES_MAX, set)?
    }

    /// Sets bytes of the parameters. CUDA_ERROR_INVALID_VALUE where there can be none.
    pub fn set_parameter(&mut self, offset: c_int, bytes: &[u8]) -> Result<(), CudaError> {
        let start = usize::try_from(offset).map_err(|_| CudaError::INVALID_VALUE)?;
        let end = start.checked_add(bytes.len()).filter(|end| *end <= OLD_PARAMETER_BYTES_MAX);
        let end = end.ok_or(CudaError::INVALID_VALUE)?;
        self.parameters.resize(OLD_PARAMETER_BYTES_MAX, 0);
        self.parameters[start..end].copy_from_slice(bytes);
        Ok(())
    }

    /// The launch of a grid of that width and height, of blocks of one thread unless their shape was
    /// set. CUDA_ERROR_INVALID_VALUE for a grid without blocks.
    pub fn ready(&self, width: c_int, height: c_int) -> Result<OldLaunchReady, CudaError> {
        let block = self.block.unwrap_or([1; 3]);
        if width < 1 || height < 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut parameters = self.parameters.clone();
        parameters.resize(OLD_PARAMETER_BYTES_MAX, 0);
        Ok(OldLaunchReady {
            grid: [width as u32, height as u32, 1],
            block,
            shared_bytes: self.shared_bytes,
            parameters,
            parameter_bytes: self.parameter_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_launched() {
        let mut old = OldLaunch::default();
        assert_eq!(old.ready(1, 1).map(|ready| ready.block), Ok([1; 3]), "no shape was set");
        old.set_block([4, 2, 1]).unwrap();
        old.set_shared_bytes(16).unwrap();
        old.set_parameter_bytes(12).unwrap();
        old.set_parameter(8, &[1, 2, 3, 4]).unwrap();
        let ready = old.ready(3, 2).unwrap();
        assert_eq!((ready.grid, ready.block, ready.shared_bytes), ([3, 2, 1], [4, 2, 1], 16));
        assert_eq!(ready.parameters[..ready.parameter_bytes], [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut old = OldLaunch::default();
        for shape in [[0, 1, 1], [-1, 1, 1], [1025, 1, 1], [1, 1, 65], [64, 32, 1]] {
            assert_eq!(old.set_block(shape), Err(CudaError::INVALID_VALUE), "{shape:?}");
        }
        old.set_block([1024, 1, 1]).unwrap();
        assert_eq!(old.set_shared_bytes(1 << 30), Err(CudaError::INVALID_VALUE));
        assert_eq!(old.set_parameter_bytes(32765), Err(CudaError::INVALID_VALUE));
        assert_eq!(old.set_parameter(-4, &[0; 4]), Err(CudaError::INVALID_VALUE));
        assert_eq!(old.set_parameter(32761, &[0; 4]), Err(CudaError::INVALID_VALUE));
        assert_eq!(old.set_parameter(32760, &[0; 4]), Ok(()));
        assert_eq!((old.ready(0, 1), old.ready(1, -1)).0, Err(CudaError::INVALID_VALUE));
    }
}
