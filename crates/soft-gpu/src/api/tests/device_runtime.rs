//! Programs that are linked with the device runtime library, and call through it into the driver.

use super::*;
use crate::api::link::*;

/// Each block counts itself, meets the others, and stores what it then sees; with it the grid's
/// size and its threads' ranks.
const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 h) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 scope);
.extern .func (.param .b32 s) __cuda_syscall_CGS_sync(.param .b64 h, .param .b32 flags);
.extern .func (.param .b32 s) __cuda_syscall_CGS_get_size(
    .param .b64 threads, .param .b64 grids, .param .b64 h);
.extern .func (.param .b32 s) __cuda_syscall_CGS_get_rank(
    .param .b64 thread, .param .b64 grid, .param .b64 h);
.global .u32 arrived;
.visible .entry meet(.param .u64 out)
{
    .reg .b64 %h, %out;
    .reg .b32 %s, %n;
    .local .align 4 .b8 place[4];
    .reg .b64 %place;
    ld.param.u64 %out, [out];
    cvta.local.u64 %place, place;
    call (%h), __cuda_syscall_CGS_get_intrinsic_handle, (1);
    call (%s), __cuda_syscall_CGS_get_rank, (%place, 0, %h);
    ld.local.u32 %n, [place];
    mad.wide.u32 %out, %n, 4, %out;
    atom.global.add.u32 %n, [arrived], 1;
    call (%s), __cuda_syscall_CGS_sync, (%h, 0);
    ld.global.u32 %n, [arrived];
    st.global.u32 [%out], %n;
    call (%s), __cuda_syscall_CGS_sync, (%h, 0);
    call (%s), __cuda_syscall_CGS_get_size, (%place, 0, %h);
    ld.local.u32 %n, [place];
    atom.global.add.u32 %s, [%out], %n;
    ret;
}
";

#[test]
fn a_grid_meets_through_the_device_runtime() {
    const BLOCKS: u32 = 6;
    const THREADS: u32 = 40;
    const ALL: u32 = BLOCKS * THREADS;
    let _watchdog = start();
    let text = std::ffi::CString::new(PTX).unwrap();
    let bytes = text.as_bytes();
    let mut link = CUlinkState::NULL;
    let (mut image, mut size) = (null_mut(), 0);
    cu!(cuLinkCreate_v2(0, null_mut(), null_mut(), &mut link)).unwrap();
    let data = bytes.as_ptr().cast_mut().cast();
    let ptx = 1; // CU_JIT_INPUT_PTX
    cu!(cuLinkAddData_v2(link, ptx, data, bytes.len(), null(), 0, null_mut(), null_mut())).unwrap();
    // One input alone would be handed on as it is.
    let more = b".version 7.0\n.target sm_70\n.address_size 64\n\0";
    let data = more.as_ptr().cast_mut().cast();
    cu!(cuLinkAddData_v2(link, ptx, data, more.len(), null(), 0, null_mut(), null_mut())).unwrap();
    cu!(cuLinkComplete(link, &mut image, &mut size)).unwrap();
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    cu!(cuModuleLoadData(&mut module, image)).unwrap();
    cu!(cuLinkDestroy(link)).unwrap();
    cu!(cuModuleGetFunction(&mut function, module, c"meet".as_ptr())).unwrap();
    let mut out = allocate(4 * ALL as usize);
    let mut pointers = [std::ptr::from_mut(&mut out).cast::<c_void>()];
    let stream = CUstream::NULL;
    let (x, y) = (BLOCKS / 2, 2);
    let params = pointers.as_mut_ptr();
    cu!(cuLaunchCooperativeKernel(function, x, y, 1, THREADS, 1, 1, 0, stream, params)).unwrap();
    let mut seen = [0u32; ALL as usize];
    cu!(cuMemcpyDtoH_v2(seen.as_mut_ptr().cast(), out, size_of_val(&seen))).unwrap();
    // Each thread saw all that arrived, and stored it in a place of its own.
    assert_eq!(seen, [2 * ALL; ALL as usize]);
    cu!(cuModuleUnload(module)).unwrap();
    cu!(cuMemFree_v2(out)).unwrap();
}
