//! Arrays, texture and surface objects of clients, on a real provider.

mod device;
mod support;

use channel::request::*;
use cuda_api::constants::{array_flags, array_format, resource_type};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray, CUdeviceptr,
    CUgraphExec, CUmipmappedArray, CUresult, CudaError,
};
use device::start;
use support::*;

const MIB: u64 = 1 << 20;
/// CU_RES_VIEW_FORMAT_FLOAT_1X32.
const VIEW_FLOAT_1X32: u32 = 0x16;

/// Reads a 4 by 3 texture of f32, texel by texel.
const READ: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 out)
{
    .reg .b64 %t, %out;
    .reg .b32 %x, %y;
    .reg .f32 %r<4>;
    ld.param.u64 %t, [texture];
    ld.param.u64 %out, [out];
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    tex.2d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];
    mad.lo.u32 %x, %y, 4, %x;
    mad.wide.u32 %out, %x, 4, %out;
    st.global.f32 [%out], %r0;
    ret;
}
";

fn array(place: u32) -> CUarray {
    CUarray(Handle { kind: HandleKind::Array, index: place, generation: 1 }.to_word() as usize)
}

fn mipmapped(place: u32) -> CUmipmappedArray {
    let kind = HandleKind::MipmappedArray;
    CUmipmappedArray(Handle { kind, index: place, generation: 1 }.to_word() as usize)
}

fn floats(width: usize, height: usize, depth: usize) -> CUDA_ARRAY3D_DESCRIPTOR {
    let format = array_format::FLOAT;
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: format,
        NumChannels: 1,
        Flags: array_flags::SURFACE_LDST,
    }
}

fn staged(offset: u32, pitch: u64) -> Copy3DEnd {
    Copy3DEnd::Host { reference: HostReference::Staging(offset), pitch, rows: 0 }
}

fn in_array(array: CUarray, offset: [u64; 3]) -> Copy3DEnd {
    Copy3DEnd::Array { array, offset }
}

fn copy(
    client: &mut Client,
    source: Copy3DEnd,
    destination: Copy3DEnd,
    extent: [u64; 3],
) -> CUresult {
    let copy = Copy3DParams { destination, source, extent };
    client.post(&Copy3D { stream: LEGACY, copy });
    client.synchronize(LEGACY);
    client.error()
}

/// 12 numbers from `first` on, as bytes.
fn numbers(first: u8) -> Vec<u8> {
    (first..first + 12).flat_map(|n| f32::from(n).to_le_bytes()).collect()
}

/// A client with an array of 4 by 3 numbers from `first` on, at place 0.
fn with_numbers(server: &mut Server, first: u8) -> Client {
    let mut client = server.connect();
    let made = client.call(&CreateArray::new(array(0), &floats(4, 3, 0)));
    made.expect("an array");
    client.region.write_staging(0, &numbers(first)).unwrap();
    copy(&mut client, staged(0, 16), in_array(array(0), [0; 3]), [16, 3, 1]).expect("a copy");
    client
}

fn read_back(client: &mut Client, from: CUarray) -> Vec<u8> {
    copy(client, in_array(from, [0; 3]), staged(4096, 16), [16, 3, 1]).expect("a copy");
    let mut bytes = vec![0; 48];
    client.region.read_staging(4096, &mut bytes).unwrap();
    bytes
}

fn of_handle(kind: u32, handle: usize) -> Resource {
    Resource { kind, flags: 0, words: [handle as u64, 0, 0, 0, 0] }
}

fn texture_of(client: &mut Client, resource: Resource) -> Result<u64, CudaError> {
    let texture = CUDA_TEXTURE_DESC::default();
    let (result, words) = client.ask(&CreateTexture { resource, texture, view: None });
    result.map(|()| words[0])
}

/// Runs the kernel on a texture; what it read.
fn run(client: &mut Client, texture: u64) -> Vec<u8> {
    let out = client.address(MIB);
    let parameters: Vec<u8> = [texture, out].iter().flat_map(|word| word.to_le_bytes()).collect();
    client.post(&LaunchKernel { block: [4, 3, 1], ..one_block(function(0), 1, &parameters) });
    client.read(MIB, 48)
}

fn load(client: &mut Client) {
    client.load_image(module(0), READ.as_bytes()).0.expect("a module");
    let request = GetFunction { function: function(0), module: module(0), name: b"read" };
    client.call(&request).expect("a kernel");
    client.chunk(0, 4 * MIB).expect("memory");
}

#[test]
fn a_kernel_reads_an_array_by_a_texture() {
    let mut server = start();
    let mut client = with_numbers(&mut server, 1);
    load(&mut client);
    let of_array = of_handle(resource_type::ARRAY, array(0).0);
    let texture = texture_of(&mut client, of_array).unwrap();
    assert_eq!(run(&mut client, texture), numbers(1));
    client.post(&DestroyTexture { texture });
    client.post(&DestroyTexture { texture });
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE), "destroyed twice");
    // Rows of memory.
    client.write(0, &numbers(50));
    let format = u64::from(array_format::FLOAT) | 1 << 32;
    let mut rows = of_handle(resource_type::PITCH2D, client.address(0) as usize);
    rows.words = [rows.words[0], format, 4, 3, 32];
    let texture = texture_of(&mut client, rows);
    let expected = client.read(0, 256);
    let rows: Vec<u8> = (0..3).flat_map(|y| expected[32 * y..][..16].to_vec()).collect();
    assert_eq!(run(&mut client, texture.unwrap()), rows);
    let (result, words) = client.ask(&CreateSurface { resource: of_array });
    assert_eq!((result, words.len()), (Ok(()), 1));
    // The session's end takes away what is left; the server looks that nothing is.
}

#[test]
fn boxes_are_copied_between_arrays_memory_and_each_other() {
    let mut server = start();
    let mut client = with_numbers(&mut server, 1);
    client.chunk(0, 2 * MIB).unwrap();
    client.call(&CreateArray::new(array(1), &floats(6, 5, 4))).unwrap();
    let inner = in_array(array(1), [8, 1, 2]);
    assert_eq!(copy(&mut client, in_array(array(0), [0; 3]), inner, [16, 3, 1]), Ok(()));
    let own = Copy3DEnd::Device { address: CUdeviceptr(client.address(0)), pitch: 16, rows: 3 };
    assert_eq!(copy(&mut client, inner, own, [16, 3, 1]), Ok(()));
    assert_eq!(client.read(0, 48), numbers(1));
    // A new array is 0 elsewhere.
    let outer = in_array(array(1), [0, 0, 2]);
    assert_eq!(copy(&mut client, outer, own, [8, 1, 1]), Ok(()));
    assert_eq!(client.read(0, 12), [&[0; 8], &numbers(1)[8..12]].concat());
    for (offset, extent) in [
        ([8, 0, 0], [17, 1, 1]),
        ([0, 4, 0], [4, 2, 1]),
        ([0, 0, 3], [4, 1, 2]),
        ([u64::MAX, 0, 0], [4, 1, 1]),
    ] {
        let beyond = copy(&mut client, in_array(array(1), offset), own, extent);
        assert_eq!(beyond, Err(CudaError::INVALID_VALUE), "{offset:?} {extent:?}");
    }
}

#[test]
fn arrays_are_their_clients_own() {
    let mut server = start();
    let neighbour = with_numbers(&mut server, 100);
    let mut client = server.connect();
    let stranger = in_array(array(0), [0; 3]);
    let refused = copy(&mut client, stranger, staged(0, 16), [16, 3, 1]);
    assert_eq!(refused, Err(CudaError::INVALID_HANDLE), "the neighbour's number means nothing");
    let of_array = of_handle(resource_type::ARRAY, array(0).0);
    assert_eq!(texture_of(&mut client, of_array), Err(CudaError::INVALID_HANDLE));
    let mut linear = of_handle(resource_type::LINEAR, neighbour.address(0) as usize);
    linear.words[1] = u64::from(array_format::FLOAT) | 1 << 32;
    linear.words[2] = 48;
    assert_eq!(texture_of(&mut client, linear), Err(CudaError::INVALID_VALUE));
    linear.kind = resource_type::PITCH2D;
    linear.words[2..].copy_from_slice(&[u64::MAX, u64::MAX, u64::MAX]);
    assert_eq!(texture_of(&mut client, linear), Err(CudaError::INVALID_VALUE));
    linear.kind = 9;
    assert_eq!(texture_of(&mut client, linear), Err(CudaError::INVALID_VALUE));
    for (shape, error) in [
        (floats(0, 3, 0), CudaError::INVALID_VALUE),
        (floats(usize::MAX, 3, 0), CudaError::INVALID_VALUE),
        (CUDA_ARRAY3D_DESCRIPTOR { Format: 77, ..floats(4, 3, 0) }, CudaError::INVALID_VALUE),
        (CUDA_ARRAY3D_DESCRIPTOR { Flags: 0x40, ..floats(4, 3, 0) }, CudaError::NOT_SUPPORTED),
    ] {
        assert_eq!(client.call(&CreateArray::new(array(0), &shape)), Err(error), "{shape:?}");
    }
    let wrong_kind = CUarray(mipmapped(0).0);
    let request = CreateArray::new(wrong_kind, &floats(4, 3, 0));
    assert_eq!(client.call(&request), Err(CudaError::INVALID_HANDLE));
    client.call(&CreateArray::new(array(0), &floats(4, 3, 0))).unwrap();
    let again = CreateArray::new(array(0), &floats(4, 3, 0));
    assert_eq!(client.call(&again), Err(CudaError::INVALID_HANDLE), "the place is taken");
}

#[test]
fn arrays_count_as_memory_while_they_are_there() {
    let mut server = start();
    let mut client = server.connect();
    let before = server.status().clients[0].memory_bytes;
    client.call(&CreateArray::new(array(0), &floats(1024, 1024, 0))).unwrap();
    assert_eq!(server.status().clients[0].memory_bytes, before + 4 * MIB);
    client.call(&CreateMipmappedArray::new(mipmapped(0), &floats(1024, 512, 0), 2)).unwrap();
    let both = before + 4 * MIB + 2 * MIB + MIB / 2;
    assert_eq!(server.status().clients[0].memory_bytes, both);
    client.post(&DestroyArray { array: array(0) });
    client.post(&DestroyMipmappedArray { mipmapped: mipmapped(0) });
    assert_eq!(client.error(), Ok(()));
    assert_eq!(server.status().clients[0].memory_bytes, before);
}

#[test]
fn levels_are_arrays_and_go_with_the_whole() {
    let mut server = start();
    let mut client = with_numbers(&mut server, 1);
    load(&mut client);
    let whole = mipmapped(0);
    client.call(&CreateMipmappedArray::new(whole, &floats(8, 6, 0), 9)).unwrap();
    let name = |level, place| NameLevel { mipmapped: whole, level, array: array(place) };
    assert_eq!(client.call(&name(4, 7)), Err(CudaError::INVALID_VALUE), "8 has 4 levels");
    assert_eq!(client.call(&name(0, 1)), Ok(()));
    assert_eq!(client.call(&name(1, 2)), Ok(()));
    client.post(&DestroyArray { array: array(2) });
    assert_eq!(client.error(), Err(CudaError::INVALID_HANDLE), "a level goes with the whole");
    let (first, second) = (in_array(array(1), [0; 3]), in_array(array(2), [0; 3]));
    let own = in_array(array(0), [0; 3]);
    assert_eq!(copy(&mut client, own, second, [16, 3, 1]), Ok(()));
    assert_eq!(copy(&mut client, second, first, [16, 4, 1]), Err(CudaError::INVALID_VALUE));
    assert_eq!(read_back(&mut client, array(2)), numbers(1));
    // A view of the second level reads it as if it were the first one.
    let view = CUDA_RESOURCE_VIEW_DESC {
        format: VIEW_FLOAT_1X32,
        width: 8,
        height: 6,
        firstMipmapLevel: 1,
        lastMipmapLevel: 1,
        ..Default::default()
    };
    let (result, words) = client.ask(&CreateTexture {
        resource: of_handle(resource_type::MIPMAPPED_ARRAY, whole.0),
        texture: CUDA_TEXTURE_DESC::default(),
        view: Some(view),
    });
    result.unwrap();
    assert_eq!(run(&mut client, words[0]), numbers(1));
    client.post(&DestroyMipmappedArray { mipmapped: whole });
    assert_eq!(client.error(), Ok(()));
    let gone = copy(&mut client, own, second, [16, 3, 1]);
    assert_eq!(gone, Err(CudaError::INVALID_HANDLE));
}

#[test]
fn a_graph_copies_arrays_and_goes_with_them() {
    let mut server = start();
    let mut client = with_numbers(&mut server, 1);
    client.chunk(0, 2 * MIB).unwrap();
    let graph = graph(0);
    let address = CUdeviceptr(client.address(0));
    let destination = Copy3DEnd::Device { address, pitch: 16, rows: 3 };
    let (source, extent) = (in_array(array(0), [0; 3]), [16, 3, 1]);
    client.post(&GraphBegin { graph });
    client.post(&GraphCopy { graph, copy: Copy3DParams { destination, source, extent } });
    let ready = GraphInstantiate { graph, replaces: CUgraphExec::NULL };
    assert_eq!(client.call(&ready), Ok(()));
    let launch = |client: &mut Client| {
        client.post(&GraphLaunch { graph, stream: LEGACY });
        client.synchronize(LEGACY);
        client.error()
    };
    assert_eq!(launch(&mut client), Ok(()));
    assert_eq!(client.read(0, 48), numbers(1));
    client.post(&DestroyArray { array: array(0) });
    // One of the same name is another array.
    client.call(&CreateArray::new(array(0), &floats(4, 3, 0))).unwrap();
    assert_eq!(launch(&mut client), Err(CudaError::INVALID_HANDLE));
}
