//! Kernels that launch kernels.

use super::*;

/// Each thread of `parent` has a child that writes what it finds in a word, and one that comes last
/// and counts.
const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f,
    .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2GetLastError();
.visible .entry child(.param .u64 out, .param .u32 place)
{
    .reg .b64 %o; .reg .b32 %v;
    ld.param.u64 %o, [out];
    ld.param.u32 %v, [place];
    mad.wide.u32 %o, %v, 4, %o;
    ld.global.u32 %v, [%o];
    add.u32 %v, %v, 7;
    st.global.u32 [%o], %v;
    ret;
}
.visible .entry last(.param .u64 out, .param .u32 place)
{
    .reg .b64 %o, %p; .reg .b32 %v, %n; .reg .pred %q;
    ld.param.u64 %o, [out];
    ld.param.u32 %v, [place];
    mad.wide.u32 %p, %v, 4, %o;
    ld.global.u32 %n, [%p];
    add.u32 %v, %v, 107;
    setp.eq.u32 %q, %n, %v;
    @%q atom.global.add.u32 %n, [%o+256], 1;
    ret;
}
.func start(.param .b64 f, .param .b64 out, .param .b32 place, .param .b32 threads, .param .b64 s)
{
    .reg .b64 %f, %b, %o, %s; .reg .b32 %p, %t;
    ld.param.b64 %f, [f]; ld.param.b64 %o, [out]; ld.param.b32 %p, [place];
    ld.param.b32 %t, [threads]; ld.param.b64 %s, [s];
    {
        .param .b64 a; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 n;
        .param .b64 r;
        st.param.b64 [a], %f;
        st.param.b32 [g], 1; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1;
        st.param.b32 [b], %t; st.param.b32 [b+4], 1; st.param.b32 [b+8], 1;
        st.param.b32 [n], 0;
        call (r), __cudaCDP2GetParameterBufferV2, (a, g, b, n);
        ld.param.b64 %b, [r];
    }
    st.u64 [%b], %o;
    st.u32 [%b+8], %p;
    {
        .param .b64 a; .param .b64 c; .param .b32 r;
        st.param.b64 [a], %b;
        st.param.b64 [c], %s;
        call (r), __cudaCDP2LaunchDeviceV2, (a, c);
    }
    ret;
}
.visible .entry parent(.param .u64 out)
{
    .reg .b64 %o, %p, %f; .reg .b32 %t, %v;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x;
    mov.u64 %f, last;
    call start, (%f, %o, %t, 1, 3);
    mad.wide.u32 %p, %t, 4, %o;
    add.u32 %v, %t, 100;
    st.global.u32 [%p], %v;
    mov.u64 %f, child;
    call start, (%f, %o, %t, 1, 0);
    call start, (%f, %o, %t, 5000, 0);
    {
        .param .b32 r;
        call (r), __cudaCDP2GetLastError, ();
        ld.param.b32 %v, [r];
    }
    st.global.u32 [%p+128], %v;
    ret;
}
";

#[test]
fn children_run_behind_their_parent_and_before_what_follows() {
    let _watchdog = start();
    let text = std::ffi::CString::new(PTX).unwrap();
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    cu!(cuModuleGetFunction(&mut function, module, c"parent".as_ptr())).unwrap();
    let mut out = allocate(260);
    cu!(cuMemsetD8_v2(out, 0, 260)).unwrap();
    let mut pointers = [std::ptr::from_mut(&mut out).cast::<c_void>()];
    let (stream, params) = (CUstream::NULL, pointers.as_mut_ptr());
    cu!(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, null_mut())).unwrap();
    let mut seen = [0u32; 65];
    cu!(cuMemcpyDtoH_v2(seen.as_mut_ptr().cast(), out, 260)).unwrap();
    for thread in 0..32 {
        assert_eq!(seen[thread], thread as u32 + 107, "its child came after it, once");
        // More threads than a block may have: cudaErrorInvalidConfiguration.
        assert_eq!(seen[32 + thread], 9);
    }
    assert_eq!(seen[64], 32, "what was launched to come last has seen all children");
    cu!(cuModuleUnload(module)).unwrap();
    cu!(cuMemFree_v2(out)).unwrap();
}
