//! A kernel's parameters: from a program's array of pointers to one buffer.

use crate::boundary::{In, Out};
use core::ffi::c_void;
use cuda_api::constants::launch_param;
use cuda_api::{CUresult, CudaError};

pub(crate) use cuda_api::constants::PARAMETER_BYTES_MAX as PARAM_BYTES_MAX;

/// What parameters of basic types are aligned to at most, bytes.
const PARAM_ALIGNMENT_MAX: usize = 8;
/// Longest `extra` list followed: three kinds of entries, some room for repetition.
const EXTRA_ENTRIES_MAX: usize = 16;

/// Where a parameter lies in the buffer, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// The layout of a kernel's parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    params: Box<[Param]>,
    bytes: usize,
}

impl Layout {
    /// The layout with those parameters; `None` if one lies beyond [`PARAM_BYTES_MAX`].
    pub(crate) fn new(params: impl IntoIterator<Item = (u32, u32)>) -> Option<Self> {
        let params: Box<[Param]> =
            params.into_iter().map(|(offset, bytes)| Param { offset, bytes }).collect();
        let mut end = 0;
        for param in &params {
            end = end.max(u64::from(param.offset) + u64::from(param.bytes));
        }
        let bytes = usize::try_from(end).ok().filter(|bytes| *bytes <= PARAM_BYTES_MAX)?;
        Some(Self { params, bytes })
    }

    /// The parameters in order.
    pub(crate) fn params(&self) -> &[Param] {
        &self.params
    }

    /// Fills the front of `buffer` with a launch's parameters and returns how many bytes.
    ///
    /// They come as an array of pointers, one a parameter, or as `extra`: a list with the address
    /// and the length of a buffer that is laid out already, whose end may be missing: parameters
    /// beyond it are 0 (NCCL gives as much of its 4 KiB as a launch uses). CUDA_ERROR_INVALID_VALUE
    /// if neither gives parameters to a kernel that has some; CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES for
    /// a buffer that is longer than the parameters.
    #[inline]
    pub(crate) fn fill(
        &self,
        kernel_params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
        buffer: &mut [u8; PARAM_BYTES_MAX],
    ) -> Result<usize, CudaError> {
        if !extra.is_null() {
            return match kernel_params.is_null() {
                true => self.fill_from_extra(extra, buffer),
                // CUDA takes the one or the other.
                false => Err(CudaError::INVALID_VALUE),
            };
        }
        if self.params.is_empty() {
            return Ok(0);
        }
        let mut end = 0;
        let sources = kernel_params.as_in().array(self.params.len());
        for (index, param) in self.params.iter().enumerate() {
            let (offset, bytes) = (param.offset as usize, param.bytes as usize);
            if offset > end {
                buffer[end..offset].fill(0);
            }
            copy_param(sources.follow(index)?, &mut buffer[offset..offset + bytes])?;
            end = end.max(offset + bytes);
        }
        Ok(self.bytes)
    }

    fn fill_from_extra(
        &self,
        extra: Out<*mut c_void>,
        buffer: &mut [u8; PARAM_BYTES_MAX],
    ) -> Result<usize, CudaError> {
        let (mut source, mut bytes) = (In::null(), 0);
        // It ends where it says so.
        let list = extra.as_in().array(2 * EXTRA_ENTRIES_MAX);
        let mut ended = false;
        for entry in 0..EXTRA_ENTRIES_MAX {
            match list.at(2 * entry)? as usize {
                launch_param::END => {
                    ended = true;
                    break;
                }
                launch_param::BUFFER_POINTER => {
                    source = list.follow(2 * entry + 1)?.cast().as_in();
                }
                launch_param::BUFFER_SIZE => {
                    bytes = list.follow(2 * entry + 1)?.cast::<usize>().get()?;
                }
                _ => return Err(CudaError::INVALID_VALUE),
            }
        }
        if !ended {
            return Err(CudaError::INVALID_VALUE);
        }
        // A structure may be as much longer as the alignment of its largest member wants.
        if bytes > self.bytes.next_multiple_of(PARAM_ALIGNMENT_MAX) {
            return Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
        }
        if self.bytes > 0 {
            if source.is_null() || bytes == 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            let given = bytes.min(self.bytes);
            source.with_bytes(given, given, |from| buffer[..given].copy_from_slice(from))?;
            buffer[given..self.bytes].fill(0);
        }
        Ok(self.bytes)
    }
}

/// Copies one parameter; most are 4 or 8 bytes.
#[inline(always)]
fn copy_param(source: Out<c_void>, target: &mut [u8]) -> CUresult {
    source.required()?;
    match target.len() {
        8 => target.copy_from_slice(&source.cast::<u64>().get()?.to_ne_bytes()),
        4 => target.copy_from_slice(&source.cast::<u32>().get()?.to_ne_bytes()),
        bytes => {
            let copy = |from: &[u8]| target.copy_from_slice(from);
            source.cast().as_in().with_bytes(bytes, bytes, copy)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::passed;

    fn out(array: &mut [*mut c_void]) -> Out<*mut c_void> {
        passed(array.as_mut_ptr())
    }

    fn null() -> Out<*mut c_void> {
        Out::null()
    }

    fn address<T>(value: &mut T) -> *mut c_void {
        core::ptr::from_mut(value).cast()
    }

    #[test]
    fn parameters_go_to_their_offsets_with_zeros_between() {
        let layout = Layout::new([(0, 1), (8, 8), (16, 4), (20, 12)]).unwrap();
        let mut buffer = [0xee; PARAM_BYTES_MAX];
        let (mut a, mut b, mut c, mut d) = (7u8, 0x1122_3344_5566_7788u64, 9u32, [1u8; 12]);
        let mut pointers = [address(&mut a), address(&mut b), address(&mut c), address(&mut d)];
        assert_eq!(layout.fill(out(&mut pointers), null(), &mut buffer), Ok(32));
        assert_eq!(buffer[..8], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer[8..16], b.to_le_bytes());
        assert_eq!(buffer[16..20], 9u32.to_le_bytes());
        assert_eq!(buffer[20..32], d);
        assert_eq!(buffer[32], 0xee);
        pointers[2] = core::ptr::null_mut();
        let invalid = Err(CudaError::INVALID_VALUE);
        assert_eq!(layout.fill(out(&mut pointers), null(), &mut buffer), invalid);
        assert_eq!(layout.fill(null(), null(), &mut buffer), invalid);
        assert_eq!(Layout::default().fill(null(), null(), &mut buffer), Ok(0));
    }

    #[test]
    fn a_ready_buffer_is_taken_and_what_it_lacks_is_zero() {
        let layout = Layout::new([(0, 4), (4, 4)]).unwrap();
        let mut buffer = [0xee; PARAM_BYTES_MAX];
        let (mut values, mut bytes) = ([3u32, 4], 8usize);
        let mut extra = [
            launch_param::BUFFER_POINTER as *mut c_void,
            address(&mut values),
            launch_param::BUFFER_SIZE as *mut c_void,
            address(&mut bytes),
            launch_param::END as *mut c_void,
        ];
        assert_eq!(layout.fill(null(), out(&mut extra), &mut buffer), Ok(8));
        assert_eq!(buffer[..8], [3, 0, 0, 0, 4, 0, 0, 0]);
        let invalid = Err(CudaError::INVALID_VALUE);
        buffer.fill(0xee);
        bytes = 5;
        extra[3] = address(&mut bytes);
        assert_eq!(layout.fill(null(), out(&mut extra), &mut buffer), Ok(8));
        assert_eq!(buffer[..9], [3, 0, 0, 0, 4, 0, 0, 0, 0xee]);
        bytes = 0;
        extra[3] = address(&mut bytes);
        assert_eq!(layout.fill(null(), out(&mut extra), &mut buffer), invalid);
        bytes = 12;
        extra[3] = address(&mut bytes);
        let too_long = Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
        assert_eq!(layout.fill(null(), out(&mut extra), &mut buffer), too_long);
        let mut pointers = [address(&mut values)];
        assert_eq!(layout.fill(out(&mut pointers), out(&mut extra), &mut buffer), invalid);
        let mut nonsense = [77 as *mut c_void; 40];
        assert_eq!(layout.fill(null(), out(&mut nonsense), &mut buffer), invalid);
    }

    #[test]
    fn a_layout_has_a_largest_size() {
        assert!(Layout::new([(32760, 4)]).is_some());
        assert!(Layout::new([(32761, 4)]).is_none());
        assert!(Layout::new([(u32::MAX, u32::MAX)]).is_none());
    }
}
