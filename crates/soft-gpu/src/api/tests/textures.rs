//! Texture and surface objects, made through the API and read by a kernel of PTX.

use super::*;
use crate::api::array::{cuArrayCreate_v2, cuArrayDestroy};
use crate::api::texture::{
    cuSurfObjectCreate, cuSurfObjectDestroy, cuTexObjectCreate, cuTexObjectDestroy,
};

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry read(.param .u64 t, .param .u64 s, .param .u64 l, .param .u64 out)
{
    .reg .b64 %t, %out;
    .reg .f32 %x, %y, %r<4>;
    .reg .b32 %i, %j, %v;
    ld.param.u64 %out, [out];
    ld.param.u64 %t, [t];
    mov.f32 %x, 0f40000000;
    mov.f32 %y, 0f3F800000;
    tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];
    st.global.f32 [%out], %r0;
    ld.param.u64 %t, [s];
    mov.u32 %i, 8;
    mov.u32 %j, 1;
    suld.b.2d.b32.trap %v, [%t, {%i, %j}];
    st.global.b32 [%out+4], %v;
    mov.b32 %v, 0f42280000;
    sust.b.2d.b32.trap [%t, {%i, %j}], %v;
    ld.param.u64 %t, [l];
    mov.u32 %i, 5;
    tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%i}];
    st.global.f32 [%out+8], %r0;
    mov.u32 %i, 12;
    tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%i}];
    st.global.f32 [%out+12], %r0;
    ret;
}
";

#[test]
fn kernels_read_textures_and_surfaces() {
    let _watchdog = start();
    // 4 by 3 numbers: 10 y + x.
    let numbers: Vec<f32> = (0..12).map(|i| (10 * (i / 4) + i % 4) as f32).collect();
    let shape = CUDA_ARRAY_DESCRIPTOR { Width: 4, Height: 3, Format: 0x20, NumChannels: 1 };
    let mut array = CUarray(0);
    cu!(cuArrayCreate_v2(&mut array, &shape)).unwrap();
    for row in 0..3 {
        let at = numbers[4 * row..].as_ptr().cast();
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: 1,
            srcHost: at,
            dstMemoryType: 3,
            dstArray: array,
            dstY: row,
            WidthInBytes: 16,
            Height: 1,
            ..Default::default()
        };
        cu!(cuMemcpy2D_v2(&copy)).unwrap();
    }
    let mut of_array = CUDA_RESOURCE_DESC::default();
    of_array.resource[0] = array.0 as u64;
    let blended = CUDA_TEXTURE_DESC { addressMode: [1; 3], filterMode: 1, ..Default::default() };
    let (mut texture, mut surface, mut linear) = (0, 0, 0);
    cu!(cuTexObjectCreate(&mut texture, &of_array, &blended, null_mut())).unwrap();
    cu!(cuSurfObjectCreate(&mut surface, &of_array)).unwrap();
    let memory = allocate(48);
    cu!(cuMemcpyHtoD_v2(memory, numbers.as_ptr().cast(), 48)).unwrap();
    let mut of_memory = CUDA_RESOURCE_DESC { resType: 2, ..Default::default() };
    of_memory.resource[..3].copy_from_slice(&[memory.0, 0x20 | 1 << 32, 48]);
    let plain = CUDA_TEXTURE_DESC::default();
    cu!(cuTexObjectCreate(&mut linear, &of_memory, &plain, null_mut())).unwrap();

    let text = std::ffi::CString::new(PTX).unwrap();
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    cu!(cuModuleGetFunction(&mut function, module, c"read".as_ptr())).unwrap();
    let out = allocate(16);
    let mut parameters = [texture, surface, linear, out.0];
    let mut pointers = parameters.each_mut().map(|p| std::ptr::from_mut(p).cast::<c_void>());
    let stream = CUstream::NULL;
    cu!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers.as_mut_ptr(), null_mut()))
        .unwrap();
    let mut results = [0f32; 4];
    cu!(cuMemcpyDtoH_v2(results.as_mut_ptr().cast(), out, 16)).unwrap();
    // Between four texels; the third of the second row; the sixth; nothing.
    assert_eq!(results, [6.5, 12.0, 11.0, 0.0]);
    let mut stored = [0f32; 4];
    let copy = CUDA_MEMCPY2D {
        srcMemoryType: 3,
        srcArray: array,
        srcY: 1,
        dstMemoryType: 1,
        dstHost: stored.as_mut_ptr().cast(),
        WidthInBytes: 16,
        Height: 1,
        ..Default::default()
    };
    cu!(cuMemcpy2D_v2(&copy)).unwrap();
    assert_eq!(stored, [10.0, 11.0, 42.0, 13.0]);

    for object in [texture, linear] {
        cu!(cuTexObjectDestroy(object)).unwrap();
        assert!(cu!(cuTexObjectDestroy(object)).is_err(), "destroyed twice");
    }
    cu!(cuSurfObjectDestroy(surface)).unwrap();
    // None is nothing to destroy, and no error.
    cu!(cuTexObjectDestroy(0)).unwrap();
    cu!(cuSurfObjectDestroy(0)).unwrap();
    // A surface needs an array.
    assert!(cu!(cuSurfObjectCreate(&mut surface, &of_memory)).is_err());
    cu!(cuModuleUnload(module)).unwrap();
    cu!(cuArrayDestroy(array)).unwrap();
}

#[test]
fn colours_of_srgb_are_read_as_linear_ones() {
    let _watchdog = start();
    let texel = [0u8, 128, 255, 51];
    let memory = allocate(512);
    cu!(cuMemcpyHtoD_v2(memory, texel.as_ptr().cast(), 4)).unwrap();
    // Rows of memory: one texel of four unsigned bytes.
    let mut resource = CUDA_RESOURCE_DESC { resType: 3, ..Default::default() };
    resource.resource[..5].copy_from_slice(&[memory.0, 0x01 | 4 << 32, 1, 1, 512]);
    let text = std::ffi::CString::new(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry colour(.param .u64 t, .param .u64 out)\n{\n\
         .reg .b64 %t, %out;\n.reg .f32 %x, %r<4>;\n\
         ld.param.u64 %t, [t];\nld.param.u64 %out, [out];\nmov.f32 %x, 0f00000000;\n\
         tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %x}];\n\
         st.global.v4.f32 [%out], {%r0, %r1, %r2, %r3};\nret;\n}\n",
    )
    .unwrap();
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    cu!(cuModuleGetFunction(&mut function, module, c"colour".as_ptr())).unwrap();
    let out = allocate(16);
    let read = |flags| {
        let mut texture = 0;
        let described = CUDA_TEXTURE_DESC { flags, ..Default::default() };
        cu!(cuTexObjectCreate(&mut texture, &resource, &described, null_mut())).unwrap();
        let mut parameters = [texture, out.0];
        let mut params = parameters.each_mut().map(|p| std::ptr::from_mut(p).cast::<c_void>());
        let (at, none) = (params.as_mut_ptr(), null_mut());
        cu!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CUstream::NULL, at, none)).unwrap();
        let mut results = [0f32; 4];
        cu!(cuMemcpyDtoH_v2(results.as_mut_ptr().cast(), out, 16)).unwrap();
        cu!(cuTexObjectDestroy(texture)).unwrap();
        results
    };
    const SRGB: u32 = 0x10;
    assert_eq!(read(0), [0.0, 128.0 / 255.0, 1.0, 0.2]);
    let colour = read(SRGB);
    assert!((colour[1] - 0.215_860_5).abs() < 1e-7, "{colour:?}");
    assert_eq!((colour[0], colour[2], colour[3]), (0.0, 1.0, 0.2));
    cu!(cuModuleUnload(module)).unwrap();
    cu!(cuMemFree_v2(memory)).unwrap();
    cu!(cuMemFree_v2(out)).unwrap();
}
