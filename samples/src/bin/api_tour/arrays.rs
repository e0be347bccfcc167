//! Arrays: memory whose elements have a format.

use std::ptr;

use cudarc::driver::sys::{
    self, CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D_st as Copy2D,
    CUarray_format as Format, CUmemorytype as MemoryType, CUresult,
};

use crate::{
    Check,
    support::{Env, Outcome, Stop, Stream, Words, call, equal, refused, status, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] =
    &[("array.row", row), ("array.rows", rows), ("array.layers", layers), ("array.wrong", wrong)];

/// An array of 32-bit words that is destroyed with the value.
struct Array(sys::CUarray);

impl Array {
    fn new(width: usize, height: usize) -> Outcome<Self> {
        let descriptor = CUDA_ARRAY_DESCRIPTOR {
            Width: width,
            Height: height,
            Format: Format::CU_AD_FORMAT_UNSIGNED_INT32,
            NumChannels: 1,
        };
        let mut array = ptr::null_mut();
        match status!(cuArrayCreate_v2(&mut array, &descriptor)) {
            CUresult::CUDA_ERROR_NOT_SUPPORTED => {
                Err(Stop::Absent("there are no arrays".to_owned()))
            }
            status => {
                crate::support::succeeded("cuArrayCreate_v2", status)?;
                Ok(Self(array))
            }
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = call!(cuArrayDestroy(self.0));
    }
}

fn row(_: &Env) -> Outcome {
    let (array, words) = (Array::new(100, 0)?, Words::filled(100, 9)?);
    let input: Vec<u32> = (0..100).collect();
    call!(cuMemcpyHtoA_v2(array.0, 0, input.as_ptr().cast(), 400))?;
    call!(cuMemcpyDtoA_v2(array.0, 40, words.address, 8))?;
    let mut back = vec![0u32; 100];
    call!(cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), array.0, 0, 400))?;
    let mut expected = input.clone();
    expected[10..12].fill(9);
    equal("words", back, expected.clone())?;
    let other = Array::new(100, 0)?;
    call!(cuMemcpyAtoA_v2(other.0, 0, array.0, 0, 400))?;
    call!(cuMemcpyAtoD_v2(words.address, other.0, 0, 400))?;
    equal("words", words.read()?, expected)?;
    let stream = Stream::non_blocking()?;
    call!(cuMemcpyHtoAAsync_v2(array.0, 4, input.as_ptr().cast(), 8, stream.0))?;
    let mut back = [7u32; 3];
    call!(cuMemcpyAtoHAsync_v2(back.as_mut_ptr().cast(), array.0, 0, 12, stream.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("words", back, [0, 0, 1])
}

fn rows(_: &Env) -> Outcome {
    let array = Array::new(5, 4)?;
    let mut descriptor = CUDA_ARRAY_DESCRIPTOR {
        Width: 0,
        Height: 0,
        Format: Format::CU_AD_FORMAT_FLOAT,
        NumChannels: 4,
    };
    call!(cuArrayGetDescriptor_v2(&mut descriptor, array.0))?;
    equal("size", (descriptor.Width, descriptor.Height), (5, 4))?;
    equal("format", descriptor.Format as u32, 3)?;
    equal("channels", descriptor.NumChannels, 1)?;
    let input: Vec<u32> = (0..20).collect();
    let copy = Copy2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        srcHost: input.as_ptr().cast(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        srcPitch: 20,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: array.0,
        dstPitch: 0,
        WidthInBytes: 20,
        Height: 4,
    };
    call!(cuMemcpy2D_v2(&copy))?;
    // A part of it, to the device.
    let words = Words::filled(6, 0)?;
    let part = Copy2D {
        srcXInBytes: 4,
        srcY: 1,
        srcMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        srcArray: array.0,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
        dstArray: ptr::null_mut(),
        dstDevice: words.address,
        dstPitch: 12,
        WidthInBytes: 12,
        Height: 2,
        ..copy
    };
    call!(cuMemcpy2D_v2(&part))?;
    equal("words", words.read()?, vec![6, 7, 8, 11, 12, 13])?;
    let beyond = Copy2D { Height: 4, ..part };
    refused!(cuMemcpy2D_v2(&beyond), CUDA_ERROR_INVALID_VALUE)?;
    synchronize()
}

fn layers(_: &Env) -> Outcome {
    // Says by itself if there are no arrays.
    drop(Array::new(1, 0)?);
    let asked = CUDA_ARRAY3D_DESCRIPTOR {
        Width: 8,
        Height: 4,
        Depth: 3,
        Format: Format::CU_AD_FORMAT_HALF,
        NumChannels: 2,
        Flags: sys::CUDA_ARRAY3D_LAYERED,
    };
    let mut array = ptr::null_mut();
    call!(cuArray3DCreate_v2(&mut array, &asked))?;
    let array = Array(array);
    let mut got = CUDA_ARRAY3D_DESCRIPTOR { Depth: 0, Flags: 0, ..asked };
    call!(cuArray3DGetDescriptor_v2(&mut got, array.0))?;
    equal("size", (got.Width, got.Height, got.Depth), (8, 4, 3))?;
    equal("flags", got.Flags, asked.Flags)
}

fn wrong(_: &Env) -> Outcome {
    let array = Array::new(4, 0)?;
    let words = [0u32; 8];
    refused!(cuMemcpyHtoA_v2(array.0, 4, words.as_ptr().cast(), 16), CUDA_ERROR_INVALID_VALUE)?;
    let mut descriptor = CUDA_ARRAY_DESCRIPTOR {
        Width: 0,
        Height: 4,
        Format: Format::CU_AD_FORMAT_UNSIGNED_INT32,
        NumChannels: 1,
    };
    let mut none = ptr::null_mut();
    refused!(cuArrayCreate_v2(&mut none, &descriptor), CUDA_ERROR_INVALID_VALUE)?;
    descriptor.Width = 4;
    descriptor.NumChannels = 3;
    refused!(cuArrayCreate_v2(&mut none, &descriptor), CUDA_ERROR_INVALID_VALUE)
}
