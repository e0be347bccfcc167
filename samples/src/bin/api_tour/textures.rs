//! Texture and surface objects, mipmapped arrays, and arrays in graphs.

use std::ptr;

use cudarc::driver::sys::{
    self, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D_st as Copy3D, CUDA_RESOURCE_DESC,
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode as Address,
    CUarray_format as Format, CUfilter_mode as Filter, CUmemorytype as MemoryType,
    CUresourceViewFormat as ViewFormat, CUresourcetype as Resource, CUresult,
};
use samples::gpu::blank;

use crate::{
    Check,
    boxes::nothing,
    captures::Graph,
    support::{
        Env, Outcome, Stop, Stream, Words, call, equal, holds, load, place, refused, status,
        synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("texture.of_an_array", of_an_array),
    ("texture.of_memory", of_memory),
    ("texture.says_what_it_is", says_what_it_is),
    ("texture.wrong", wrong),
    ("surface.is_written", is_written),
    ("mipmap.levels", levels),
    ("mipmap.seen_by_a_view", seen_by_a_view),
    ("array.in_a_graph", in_a_graph),
    ("array.slices", slices),
];

/// Kernels of one thread: they read a texture at a point, and read and write a surface.
const KERNELS: &str = "
.version 7.0
.target sm_60
.address_size 64
.visible .entry sample(.param .u64 texture, .param .f32 x, .param .f32 y, .param .u64 out)
{
    .reg .b64 %t, %out;
    .reg .f32 %x, %y, %r<4>;
    ld.param.u64 %t, [texture];
    ld.param.f32 %x, [x];
    ld.param.f32 %y, [y];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];
    st.global.f32 [%out], %r0;
    ret;
}
.visible .entry fetch(.param .u64 texture, .param .u32 x, .param .u64 out)
{
    .reg .b64 %t, %out;
    .reg .b32 %x;
    .reg .f32 %r<4>;
    ld.param.u64 %t, [texture];
    ld.param.u32 %x, [x];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%x}];
    st.global.f32 [%out], %r0;
    ret;
}
.visible .entry swap(.param .u64 surface, .param .u32 x, .param .u32 y, .param .u64 out)
{
    .reg .b64 %s, %out;
    .reg .b32 %x, %y, %old, %new;
    ld.param.u64 %s, [surface];
    ld.param.u32 %x, [x];
    ld.param.u32 %y, [y];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    suld.b.2d.b32.trap %old, [%s, {%x, %y}];
    ld.global.b32 %new, [%out];
    sust.b.2d.b32.trap [%s, {%x, %y}], %new;
    st.global.b32 [%out], %old;
    ret;
}
";

/// Launches one of the kernels for one thread.
fn run(name: &std::ffi::CStr, arguments: &mut [*mut std::ffi::c_void]) -> Outcome {
    let module = load(KERNELS)?;
    let mut function = ptr::null_mut();
    call!(cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, ptr::null_mut(), arguments, extra))?;
    synchronize()?;
    call!(cuModuleUnload(module))
}

/// What a texture is at a point.
fn sample(mut texture: sys::CUtexObject, mut x: f32, mut y: f32) -> Outcome<f32> {
    let mut out = Words::filled(1, 0)?;
    let arguments =
        &mut [place(&mut texture), place(&mut x), place(&mut y), place(&mut out.address)];
    run(c"sample", arguments)?;
    Ok(f32::from_bits(out.first()?))
}

/// Numbers that an array is to be made of.
fn numbers(width: usize, height: usize, depth: usize) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: Format::CU_AD_FORMAT_FLOAT,
        NumChannels: 1,
        Flags: sys::CUDA_ARRAY3D_SURFACE_LDST,
    }
}

/// An array that is destroyed with the value.
struct Array(sys::CUarray);

impl Array {
    fn new(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Outcome<Self> {
        let mut array = ptr::null_mut();
        match status!(cuArray3DCreate_v2(&mut array, descriptor)) {
            CUresult::CUDA_ERROR_NOT_SUPPORTED => {
                Err(Stop::Absent("there are no arrays".to_owned()))
            }
            status => {
                crate::support::succeeded("cuArray3DCreate_v2", status)?;
                Ok(Self(array))
            }
        }
    }

    /// 4 by 3 numbers: 10 y + x.
    fn tens() -> Outcome<Self> {
        let array = Self::new(&numbers(4, 3, 0))?;
        fill(array.0, 4, 3, |x, y| (10 * y + x) as f32)?;
        Ok(array)
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = call!(cuArrayDestroy(self.0));
    }
}

/// Writes the numbers of an array.
fn fill(array: sys::CUarray, width: usize, height: usize, at: fn(usize, usize) -> f32) -> Outcome {
    let host: Vec<f32> = (0..width * height).map(|i| at(i % width, i / width)).collect();
    let copy = Copy3D {
        srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        srcHost: host.as_ptr().cast(),
        srcPitch: 4 * width,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        dstArray: array,
        WidthInBytes: 4 * width,
        Height: height,
        Depth: 1,
        ..nothing()
    };
    call!(cuMemcpy3D_v2(&copy))
}

fn of_array(array: sys::CUarray) -> CUDA_RESOURCE_DESC {
    let mut resource: CUDA_RESOURCE_DESC = blank();
    resource.resType = Resource::CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    resource
}

fn reading(filter: Filter) -> CUDA_TEXTURE_DESC {
    let mut texture: CUDA_TEXTURE_DESC = blank();
    texture.addressMode = [Address::CU_TR_ADDRESS_MODE_CLAMP; 3];
    texture.filterMode = filter;
    texture
}

/// A texture object that is destroyed with the value.
struct Texture(sys::CUtexObject);

impl Texture {
    fn new(resource: &CUDA_RESOURCE_DESC, texture: &CUDA_TEXTURE_DESC) -> Outcome<Self> {
        let mut object = 0;
        match status!(cuTexObjectCreate(&mut object, resource, texture, ptr::null())) {
            CUresult::CUDA_ERROR_NOT_SUPPORTED => {
                Err(Stop::Absent("there are no texture objects".to_owned()))
            }
            status => {
                crate::support::succeeded("cuTexObjectCreate", status)?;
                Ok(Self(object))
            }
        }
    }
}

impl Drop for Texture {
    fn drop(&mut self) {
        let _ = call!(cuTexObjectDestroy(self.0));
    }
}

fn of_an_array(_: &Env) -> Outcome {
    let array = Array::tens()?;
    let nearest = Texture::new(&of_array(array.0), &reading(Filter::CU_TR_FILTER_MODE_POINT))?;
    equal("a texel", sample(nearest.0, 2.5, 1.5)?, 12.0)?;
    equal("the edge", sample(nearest.0, 99.0, 99.0)?, 23.0)?;
    let blended = Texture::new(&of_array(array.0), &reading(Filter::CU_TR_FILTER_MODE_LINEAR))?;
    equal("between four texels", sample(blended.0, 2.0, 1.0)?, 6.5)?;
    let mut normalized = reading(Filter::CU_TR_FILTER_MODE_POINT);
    normalized.flags = sys::CU_TRSF_NORMALIZED_COORDINATES;
    normalized.addressMode = [Address::CU_TR_ADDRESS_MODE_WRAP; 3];
    let normalized = Texture::new(&of_array(array.0), &normalized)?;
    equal("a coordinate that wraps", sample(normalized.0, 1.375, 0.5)?, 11.0)?;
    // A texture shows what is in the array, and sees it change.
    fill(array.0, 4, 3, |x, y| (x * y) as f32)?;
    equal("another texel", sample(nearest.0, 3.5, 2.5)?, 6.0)
}

fn of_memory(env: &Env) -> Outcome {
    let alignment = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT;
    let pitch = env.attribute(alignment)? as usize;
    let words = Words::filled(3 * pitch / 4, 0)?;
    let rows: Vec<f32> = (0..3 * pitch / 4).map(|i| i as f32).collect();
    call!(cuMemcpyHtoD_v2(words.address, rows.as_ptr().cast(), 3 * pitch))?;
    let mut resource: CUDA_RESOURCE_DESC = blank();
    resource.resType = Resource::CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D.devPtr = words.address;
    resource.res.pitch2D.format = Format::CU_AD_FORMAT_FLOAT;
    resource.res.pitch2D.numChannels = 1;
    resource.res.pitch2D.width = 4;
    resource.res.pitch2D.height = 3;
    resource.res.pitch2D.pitchInBytes = pitch;
    let texture = Texture::new(&resource, &reading(Filter::CU_TR_FILTER_MODE_POINT))?;
    let expected = (2 * pitch / 4 + 1) as f32;
    equal("a texel of rows", sample(texture.0, 1.5, 2.5)?, expected)?;
    let mut resource: CUDA_RESOURCE_DESC = blank();
    resource.resType = Resource::CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = words.address;
    resource.res.linear.format = Format::CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 3 * pitch;
    let texture = Texture::new(&resource, &blank())?;
    let (mut object, mut x, mut out) = (texture.0, 5u32, Words::filled(1, 0)?);
    run(c"fetch", &mut [place(&mut object), place(&mut x), place(&mut out.address)])?;
    equal("a word", f32::from_bits(out.first()?), 5.0)
}

fn says_what_it_is(_: &Env) -> Outcome {
    let array = Array::tens()?;
    let asked = reading(Filter::CU_TR_FILTER_MODE_LINEAR);
    let texture = Texture::new(&of_array(array.0), &asked)?;
    let mut resource: CUDA_RESOURCE_DESC = blank();
    call!(cuTexObjectGetResourceDesc(&mut resource, texture.0))?;
    equal("kind", resource.resType as u32, Resource::CU_RESOURCE_TYPE_ARRAY as u32)?;
    // SAFETY: the resource is an array, so that member was written.
    holds("the same array", unsafe { resource.res.array.hArray } == array.0)?;
    let mut got: CUDA_TEXTURE_DESC = blank();
    call!(cuTexObjectGetTextureDesc(&mut got, texture.0))?;
    equal("filter", got.filterMode as u32, asked.filterMode as u32)?;
    equal("addresses", got.addressMode[0] as u32, asked.addressMode[0] as u32)
}

fn wrong(_: &Env) -> Outcome {
    let array = Array::tens()?;
    let texture = reading(Filter::CU_TR_FILTER_MODE_POINT);
    let mut object = 0;
    let none = ptr::null();
    refused!(
        cuTexObjectCreate(&mut object, none, &texture, ptr::null()),
        CUDA_ERROR_INVALID_VALUE
    )?;
    let mut resource = of_array(array.0);
    resource.flags = 1;
    refused!(
        cuTexObjectCreate(&mut object, &resource, &texture, ptr::null()),
        CUDA_ERROR_INVALID_VALUE
    )?;
    let mut linear: CUDA_RESOURCE_DESC = blank();
    linear.resType = Resource::CU_RESOURCE_TYPE_LINEAR;
    linear.res.linear.format = Format::CU_AD_FORMAT_FLOAT;
    linear.res.linear.numChannels = 1;
    linear.res.linear.sizeInBytes = 64;
    refused!(cuSurfObjectCreate(&mut object, &linear), CUDA_ERROR_INVALID_VALUE)
}

fn is_written(_: &Env) -> Outcome {
    let array = Array::tens()?;
    let mut surface = 0;
    call!(cuSurfObjectCreate(&mut surface, &of_array(array.0)))?;
    let mut out = Words::filled(1, 42f32.to_bits())?;
    // Surfaces count bytes along rows.
    let (mut object, mut x, mut y) = (surface, 8u32, 1u32);
    let arguments =
        &mut [place(&mut object), place(&mut x), place(&mut y), place(&mut out.address)];
    run(c"swap", arguments)?;
    equal("what was there", f32::from_bits(out.first()?), 12.0)?;
    call!(cuSurfObjectDestroy(surface))?;
    let texture = Texture::new(&of_array(array.0), &reading(Filter::CU_TR_FILTER_MODE_POINT))?;
    equal("what is there", sample(texture.0, 2.5, 1.5)?, 42.0)?;
    equal("beside it", sample(texture.0, 3.5, 1.5)?, 13.0)
}

/// A mipmapped array that is destroyed with the value.
struct Mipmapped(sys::CUmipmappedArray);

impl Mipmapped {
    fn new(descriptor: &CUDA_ARRAY3D_DESCRIPTOR, levels: u32) -> Outcome<Self> {
        let mut whole = ptr::null_mut();
        match status!(cuMipmappedArrayCreate(&mut whole, descriptor, levels)) {
            CUresult::CUDA_ERROR_NOT_SUPPORTED => {
                Err(Stop::Absent("there are no mipmapped arrays".to_owned()))
            }
            status => {
                crate::support::succeeded("cuMipmappedArrayCreate", status)?;
                Ok(Self(whole))
            }
        }
    }

    fn level(&self, level: u32) -> Outcome<sys::CUarray> {
        let mut array = ptr::null_mut();
        call!(cuMipmappedArrayGetLevel(&mut array, self.0, level))?;
        Ok(array)
    }
}

impl Drop for Mipmapped {
    fn drop(&mut self) {
        let _ = call!(cuMipmappedArrayDestroy(self.0));
    }
}

fn levels(_: &Env) -> Outcome {
    let whole = Mipmapped::new(&numbers(20, 6, 0), 3)?;
    for (level, size) in [(20, 6), (10, 3), (5, 1)].into_iter().enumerate() {
        let array = whole.level(level as u32)?;
        let mut got = numbers(0, 0, 0);
        call!(cuArray3DGetDescriptor_v2(&mut got, array))?;
        equal("size of a level", (got.Width, got.Height), size)?;
    }
    let mut array = ptr::null_mut();
    refused!(cuMipmappedArrayGetLevel(&mut array, whole.0, 3), CUDA_ERROR_INVALID_VALUE)?;
    let second = whole.level(1)?;
    fill(second, 10, 3, |x, y| (100 * y + x) as f32)?;
    let texture = Texture::new(&of_array(second), &reading(Filter::CU_TR_FILTER_MODE_POINT))?;
    equal("a texel of a level", sample(texture.0, 7.5, 2.5)?, 207.0)
}

fn seen_by_a_view(_: &Env) -> Outcome {
    let whole = Mipmapped::new(&numbers(8, 8, 0), 4)?;
    fill(whole.level(0)?, 8, 8, |_, _| 1.0)?;
    fill(whole.level(2)?, 2, 2, |x, y| (7 + x + y) as f32)?;
    let mut resource: CUDA_RESOURCE_DESC = blank();
    resource.resType = Resource::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = whole.0;
    let mut texture = reading(Filter::CU_TR_FILTER_MODE_POINT);
    texture.flags = sys::CU_TRSF_NORMALIZED_COORDINATES;
    texture.maxMipmapLevelClamp = 3.0;
    let first = Texture::new(&resource, &texture)?;
    equal("the first level", sample(first.0, 0.75, 0.75)?, 1.0)?;
    let mut view: CUDA_RESOURCE_VIEW_DESC = blank();
    view.format = ViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32;
    (view.width, view.height) = (8, 8);
    (view.firstMipmapLevel, view.lastMipmapLevel) = (2, 3);
    let mut object = 0;
    call!(cuTexObjectCreate(&mut object, &resource, &texture, &view))?;
    let seen = Texture(object);
    equal("the view's first level", sample(seen.0, 0.75, 0.75)?, 9.0)?;
    let mut got: CUDA_RESOURCE_VIEW_DESC = blank();
    call!(cuTexObjectGetResourceViewDesc(&mut got, seen.0))?;
    equal("levels", (got.firstMipmapLevel, got.lastMipmapLevel), (2, 3))?;
    view.lastMipmapLevel = 4;
    refused!(cuTexObjectCreate(&mut object, &resource, &texture, &view), CUDA_ERROR_INVALID_VALUE)
}

fn in_a_graph(_: &Env) -> Outcome {
    let (from, to, words) = (Array::tens()?, Array::new(&numbers(4, 3, 0))?, Words::filled(12, 0)?);
    let stream = Stream::non_blocking()?;
    let between = Copy3D {
        srcMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        srcArray: from.0,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        dstArray: to.0,
        WidthInBytes: 16,
        Height: 3,
        Depth: 1,
        ..nothing()
    };
    let out = Copy3D {
        srcArray: to.0,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
        dstArray: ptr::null_mut(),
        dstDevice: words.address,
        dstPitch: 16,
        ..between
    };
    let host: Vec<f32> = vec![5.0; 4];
    let graph = Graph::captured(&stream, || {
        call!(cuMemcpy3DAsync_v2(&between, stream.0))?;
        call!(cuMemcpyHtoAAsync_v2(to.0, 0, host.as_ptr().cast(), 8, stream.0))?;
        call!(cuMemcpy3DAsync_v2(&out, stream.0))
    })?;
    equal("nodes", graph.nodes()?.len(), 3)?;
    let exec = graph.instantiate()?;
    equal("before the launch", words.first()?, 0)?;
    for first in [0, 50] {
        fill(
            from.0,
            4,
            3,
            if first == 0 { |x, y| (10 * y + x) as f32 } else { |x, y| (50 + 10 * y + x) as f32 },
        )?;
        // A copy of pageable memory may go on after the call, and this stream does not wait for it.
        synchronize()?;
        call!(cuGraphLaunch(exec.0, stream.0))?;
        let expected = (0..12).map(|i| if i < 2 { 5 } else { first + 10 * (i / 4) + i % 4 });
        let got = words.read()?.into_iter().map(|bits| f32::from_bits(bits) as usize);
        equal("after the launch", got.collect::<Vec<_>>(), expected.collect())?;
    }
    Ok(())
}

fn slices(_: &Env) -> Outcome {
    let array = Array::new(&numbers(4, 3, 5))?;
    let host: Vec<f32> = (0..60).map(|i| i as f32).collect();
    let whole = Copy3D {
        srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        srcHost: host.as_ptr().cast(),
        srcPitch: 16,
        srcHeight: 3,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        dstArray: array.0,
        WidthInBytes: 16,
        Height: 3,
        Depth: 5,
        ..nothing()
    };
    call!(cuMemcpy3D_v2(&whole))?;
    let mut back = vec![0f32; 8];
    let part = Copy3D {
        srcMemoryType: MemoryType::CU_MEMORYTYPE_ARRAY,
        srcArray: array.0,
        srcXInBytes: 4,
        srcY: 1,
        srcZ: 3,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        dstHost: back.as_mut_ptr().cast(),
        dstPitch: 8,
        dstHeight: 2,
        WidthInBytes: 8,
        Height: 2,
        Depth: 2,
        ..nothing()
    };
    call!(cuMemcpy3D_v2(&part))?;
    equal("a box", back, vec![41.0, 42.0, 45.0, 46.0, 53.0, 54.0, 57.0, 58.0])?;
    let beyond = Copy3D { srcZ: 4, ..part };
    refused!(cuMemcpy3D_v2(&beyond), CUDA_ERROR_INVALID_VALUE)
}
