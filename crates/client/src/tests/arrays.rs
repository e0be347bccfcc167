//! Arrays and objects: what the client answers by itself, and what it refuses.

use super::server::OBJECT;
use super::{out, passed, session, watched};
use crate::api::*;
use crate::boundary::In;
use crate::stream::DefaultStream::Legacy;
use cuda_api::constants::{array_format, resource_type};
use cuda_api::*;

fn shape(width: usize, height: usize, depth: usize) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: array_format::UNSIGNED_INT16,
        NumChannels: 2,
        Flags: 0,
    }
}

fn create(descriptor: CUDA_ARRAY3D_DESCRIPTOR) -> Result<CUarray, CudaError> {
    let mut array = CUarray::NULL;
    cuArray3DCreate_v2(out(&mut array), passed(&raw const descriptor)).map(|()| array)
}

fn extents(array: CUarray) -> Result<[usize; 3], CudaError> {
    let mut d = shape(0, 0, 0);
    cuArray3DGetDescriptor_v2(out(&mut d), array).map(|()| [d.Width, d.Height, d.Depth])
}

#[test]
fn an_array_is_known_while_it_is_there() {
    let _session = session();
    watched(|| {
        let array = create(shape(8, 4, 0)).unwrap();
        assert_eq!(extents(array), Ok([8, 4, 0]));
        let mut flat = CUDA_ARRAY_DESCRIPTOR::default();
        cuArrayGetDescriptor_v2(out(&mut flat), array).unwrap();
        assert_eq!((flat.Width, flat.Height, flat.NumChannels), (8, 4, 2));
        assert_eq!(cuArrayDestroy(array), Ok(()));
        assert_eq!(cuArrayDestroy(array), Err(CudaError::INVALID_HANDLE));
        assert_eq!(extents(array), Err(CudaError::INVALID_HANDLE));
        for wrong in [CUarray::NULL, CUarray(7), CUarray(usize::MAX)] {
            assert_eq!(extents(wrong), Err(CudaError::INVALID_HANDLE));
        }
        assert_eq!(create(shape(0, 4, 0)), Err(CudaError::INVALID_VALUE));
        let sparse = CUDA_ARRAY3D_DESCRIPTOR { Flags: 0x40, ..shape(8, 4, 0) };
        assert_eq!(create(sparse), Err(CudaError::NOT_SUPPORTED));
        let descriptor = shape(8, 4, 0);
        let nowhere = crate::boundary::Out::null();
        let refused = cuArray3DCreate_v2(nowhere, passed(&raw const descriptor));
        assert_eq!(refused, Err(CudaError::INVALID_VALUE));
    });
}

#[test]
fn copies_stay_in_their_array() {
    let _session = session();
    watched(|| {
        let array = create(shape(8, 0, 0)).unwrap();
        let bytes = [0u8; 64];
        let write = |offset, length| {
            cuMemcpyHtoA_v2(Legacy, array, offset, passed(bytes.as_ptr().cast()), length)
        };
        assert_eq!(write(0, 33), Err(CudaError::INVALID_VALUE));
        assert_eq!(write(4, 32), Err(CudaError::INVALID_VALUE));
        assert_eq!(write(usize::MAX, 2), Err(CudaError::INVALID_VALUE));
        assert_eq!(write(99, 0), Ok(()), "nothing is copied");
        let null = cuMemcpyHtoA_v2(Legacy, array, 0, In::null(), 4);
        assert_eq!(null, Err(CudaError::INVALID_VALUE));
        let gone = cuMemcpyAtoA_v2(Legacy, array, 0, CUarray(3), 0, 4);
        assert_eq!(gone, Err(CudaError::INVALID_HANDLE));
    });
}

#[test]
fn levels_are_the_same_arrays_each_time() {
    let _session = session();
    watched(|| {
        let (mut whole, descriptor) = (CUmipmappedArray::NULL, shape(8, 2, 0));
        cuMipmappedArrayCreate(out(&mut whole), passed(&raw const descriptor), 3).unwrap();
        let level = |number| {
            let mut array = CUarray::NULL;
            cuMipmappedArrayGetLevel(out(&mut array), whole, number).map(|()| array)
        };
        let second = level(1).unwrap();
        assert_eq!(level(1), Ok(second));
        assert_ne!(level(0), Ok(second));
        assert_eq!(extents(second), Ok([4, 1, 0]));
        assert_eq!(level(3), Err(CudaError::INVALID_VALUE));
        assert_eq!(cuArrayDestroy(second), Err(CudaError::INVALID_HANDLE));
        assert_eq!(cuMipmappedArrayDestroy(whole), Ok(()));
        assert_eq!(extents(second), Err(CudaError::INVALID_HANDLE));
        assert_eq!(cuMipmappedArrayDestroy(whole), Err(CudaError::INVALID_HANDLE));
    });
}

#[test]
fn objects_say_what_they_were_made_of() {
    let _session = session();
    watched(|| {
        let array = create(shape(8, 4, 0)).unwrap();
        let mut resource = CUDA_RESOURCE_DESC::default();
        resource.resource[0] = array.0 as u64;
        let texture = CUDA_TEXTURE_DESC { filterMode: 1, ..Default::default() };
        let (mut handle, mut surface) = (0, 0);
        let (r, t) = (passed(&raw const resource), passed(&raw const texture));
        cuTexObjectCreate(out(&mut handle), r, t, In::null()).unwrap();
        cuSurfObjectCreate(out(&mut surface), r).unwrap();
        assert_eq!((handle, surface), (OBJECT, OBJECT));
        let mut got = CUDA_RESOURCE_DESC::default();
        cuTexObjectGetResourceDesc(out(&mut got), handle).unwrap();
        assert_eq!(got, resource);
        let mut got = CUDA_TEXTURE_DESC::default();
        cuTexObjectGetTextureDesc(out(&mut got), handle).unwrap();
        assert_eq!(got, texture);
        let mut view = CUDA_RESOURCE_VIEW_DESC::default();
        let without = cuTexObjectGetResourceViewDesc(out(&mut view), handle);
        assert_eq!(without, Err(CudaError::INVALID_VALUE));
        assert_eq!(cuTexObjectDestroy(handle), Ok(()));
        assert_eq!(cuTexObjectDestroy(handle), Err(CudaError::INVALID_VALUE));
        // The surface is another object, although its handle is the same.
        let mut got = CUDA_RESOURCE_DESC::default();
        assert_eq!(cuSurfObjectGetResourceDesc(out(&mut got), surface), Ok(()));
        assert_eq!(cuSurfObjectDestroy(surface), Ok(()));
        // What shows nothing.
        resource.resource[0] = 12;
        let wrong = cuTexObjectCreate(out(&mut handle), passed(&raw const resource), t, In::null());
        assert_eq!(wrong, Err(CudaError::INVALID_HANDLE));
        resource.resType = resource_type::LINEAR;
        assert_eq!(
            cuSurfObjectCreate(out(&mut surface), passed(&raw const resource)),
            Err(CudaError::INVALID_VALUE)
        );
        let viewed = cuTexObjectCreate(
            out(&mut handle),
            passed(&raw const resource),
            t,
            passed(&raw const view),
        );
        assert_eq!(viewed, Err(CudaError::INVALID_VALUE), "views are of arrays");
    });
}
