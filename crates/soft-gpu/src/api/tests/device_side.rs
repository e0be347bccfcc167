//! What kernels themselves ask for: memory, printf, assert, launches.

use cuda_api::constants::limit;
use cuda_api::extension::standard;

use super::*;

const PTX: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 p, .param .b64 s);
.global .align 1 .b8 format[14] = {98, 108, 111, 99, 107, 32, 37, 100, 44, 32, 37, 100, 10, 0};
.global .align 1 .b8 message[7] = {120, 32, 61, 61, 32, 49, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 function[4] = {102, 40, 41, 0};

// Takes `bytes` at a time until there is no more; stores how often that went well, and where the
// last one was.
.visible .entry exhaust(.param .u64 bytes, .param .u64 out)
{
    .reg .b64 %bytes, %out, %p, %last, %n;
    .reg .pred %none;
    ld.param.u64 %bytes, [bytes];
    ld.param.u64 %out, [out];
    mov.u64 %n, 0;
    mov.u64 %last, 0;
AGAIN:
    {
        .param .b64 pn; .param .b64 pr;
        st.param.b64 [pn], %bytes;
        call (pr), malloc, (pn);
        ld.param.b64 %p, [pr];
    }
    setp.eq.u64 %none, %p, 0;
    @%none bra DONE;
    st.u8 [%p], 1;
    add.u64 %n, %n, 1;
    mov.u64 %last, %p;
    bra AGAIN;
DONE:
    st.global.u64 [%out], %n;
    st.global.u64 [%out+8], %last;
    ret;
}

.visible .entry give_back(.param .u64 p)
{
    .reg .b64 %p;
    ld.param.u64 %p, [p];
    {
        .param .b64 pp;
        st.param.b64 [pp], %p;
        call free, (pp);
    }
    ret;
}

// Reports its block and thread, and stores what printf gives back.
.visible .entry report(.param .u64 out)
{
    .local .align 8 .b8 arguments[8];
    .reg .b64 %f, %a, %out;
    .reg .b32 %b, %t, %r;
    mov.u32 %b, %ctaid.x;
    mov.u32 %t, %tid.x;
    st.local.u32 [arguments], %b;
    st.local.u32 [arguments+4], %t;
    mov.u64 %f, format;
    cvta.global.u64 %f, %f;
    mov.u64 %a, arguments;
    cvta.local.u64 %a, %a;
    {
        .param .b64 pf; .param .b64 pa; .param .b32 pr;
        st.param.b64 [pf], %f;
        st.param.b64 [pa], %a;
        call (pr), vprintf, (pf, pa);
        ld.param.b32 %r, [pr];
    }
    ld.param.u64 %out, [out];
    st.global.u32 [%out], %r;
    ret;
}

.visible .entry check(.param .u64 unused)
{
    .reg .b64 %m, %f, %n;
    .reg .b32 %t;
    .reg .pred %low;
    mov.u32 %t, %tid.x;
    setp.lt.u32 %low, %t, 30;
    @%low bra DONE;
    mov.u64 %m, message;
    mov.u64 %f, file;
    mov.u64 %n, function;
    {
        .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
        st.param.b64 [p0], %m;
        st.param.b64 [p1], %f;
        st.param.b32 [p2], 12;
        st.param.b64 [p3], %n;
        st.param.b64 [p4], 1;
        call __assertfail, (p0, p1, p2, p3, p4);
    }
DONE:
    ret;
}

.visible .entry launch(.param .u64 unused)
{
    {
        .param .b64 p0; .param .b64 p1; .param .b32 pr;
        st.param.b64 [p0], 0;
        st.param.b64 [p1], 0;
        call (pr), cudaGraphLaunch, (p0, p1);
    }
    ret;
}
"#;

struct Loaded(CUmodule);

impl Loaded {
    fn new() -> Self {
        let text = std::ffi::CString::new(PTX).unwrap();
        let mut module = CUmodule::NULL;
        cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
        Self(module)
    }

    fn run(&self, name: &CStr, threads: u32, params: &[u64]) -> CUresult {
        let mut function = CUfunction::NULL;
        cu!(cuModuleGetFunction(&mut function, self.0, name.as_ptr())).unwrap();
        let mut values = params.to_vec();
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let (stream, pointers) = (CUstream::NULL, pointers.as_mut_ptr());
        cu!(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, pointers, null_mut()))?;
        cu!(cuCtxSynchronize())
    }
}

/// A context of its own, so that its heap is.
fn new_context() -> CUcontext {
    let mut context = CUcontext::NULL;
    cu!(cuCtxCreate_v2(&mut context, 0, 0)).unwrap();
    context
}

fn words<const N: usize>(at: CUdeviceptr) -> [u64; N] {
    let mut words = [0u64; N];
    cu!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), at, 8 * N)).unwrap();
    words
}

#[test]
fn kernels_allocate_from_a_heap_of_the_size_that_was_asked_for() {
    let _watchdog = start();
    let context = new_context();
    let size = || {
        let mut bytes = 0;
        cu!(cuCtxGetLimit(&mut bytes, limit::MALLOC_HEAP_SIZE)).unwrap();
        bytes
    };
    assert_eq!(size(), 8 << 20);
    cu!(cuCtxSetLimit(limit::MALLOC_HEAP_SIZE, 5 << 20)).unwrap();
    assert_eq!(size(), 5 << 20);
    let out = allocate(16);
    let (first, second) = (Loaded::new(), Loaded::new());
    // NULL when nothing is left.
    first.run(c"exhaust", 1, &[100_000, out.0]).unwrap();
    let [count, last] = words(out);
    assert_eq!(count, (5 << 20) / 100_000);
    second.run(c"exhaust", 1, &[100_000, out.0]).unwrap();
    assert_eq!(words(out), [0, 0], "all modules have one heap");
    // What one module took another one may give back.
    second.run(c"give_back", 1, &[last]).unwrap();
    second.run(c"give_back", 1, &[0]).unwrap();
    second.run(c"exhaust", 1, &[100_000, out.0]).unwrap();
    assert_eq!(words(out), [1, last]);
    // Too late.
    let refused = cu!(cuCtxSetLimit(limit::MALLOC_HEAP_SIZE, 2 << 20));
    assert_eq!(refused, Err(Error::INVALID_VALUE));
    cu!(cuCtxDestroy_v2(context)).unwrap();
    // A context of its own has a heap of its own.
    let other = new_context();
    let (out, module) = (allocate(16), Loaded::new());
    module.run(c"exhaust", 1, &[1 << 20, out.0]).unwrap();
    let [count, _] = words(out);
    assert_eq!(count, 8);
    cu!(cuCtxDestroy_v2(other)).unwrap();
}

/// Runs `body` as a tenant of its own, so that what it prints and corrupts is its own.
fn as_tenant(body: impl FnOnce(u64)) {
    let mut tenant = 0;
    cu!(openmpsTenantCreate(&mut tenant)).unwrap();
    cu!(openmpsTenantBind(tenant)).unwrap();
    body(tenant);
    cu!(openmpsTenantEnd(tenant)).unwrap();
    cu!(openmpsTenantBind(0)).unwrap();
}

fn printed(tenant: u64) -> String {
    said(tenant, standard::OUTPUT)
}

fn said(tenant: u64, standard: u32) -> String {
    let mut text = vec![0u8; 1 << 16];
    let mut length = 0usize;
    let to = text.as_mut_ptr().cast();
    cu!(openmpsTenantPrintf(tenant, standard, to, text.len(), &mut length)).unwrap();
    String::from_utf8(text[..length].to_vec()).unwrap()
}

#[test]
fn printf_keeps_order_and_its_limit() {
    let _watchdog = start();
    as_tenant(|tenant| {
        let (module, out) = (Loaded::new(), allocate(8));
        module.run(c"report", 32, &[out.0]).unwrap();
        let expected: String = (0..32).map(|t| format!("block 0, {t}\n")).collect();
        assert_eq!(printed(tenant), expected, "a warp's lanes in order");
        assert_eq!(words::<1>(out)[0] as u32, 2, "two arguments");
        // The newest output stays.
        let mut bytes = 0;
        cu!(cuCtxSetLimit(limit::PRINTF_FIFO_SIZE, 100)).unwrap();
        cu!(cuCtxGetLimit(&mut bytes, limit::PRINTF_FIFO_SIZE)).unwrap();
        assert_eq!(bytes, 1 << 20, "the least that can be had");
        let fifo = driver().unwrap().tenant();
        fifo.printf.set_limit_bytes(100);
        module.run(c"report", 32, &[out.0]).unwrap();
        let text = printed(tenant);
        assert!(text.len() <= 100 && expected.ends_with(&text) && text.len() > 80, "{text}");
        cu!(cuCtxSetLimit(limit::PRINTF_FIFO_SIZE, 1 << 20)).unwrap();
    });
}

#[test]
fn a_failed_assertion_says_what_cuda_says() {
    let _watchdog = start();
    as_tenant(|tenant| {
        let module = Loaded::new();
        assert_eq!(module.run(c"check", 32, &[0]), Err(Error::ASSERT));
        let line = |thread| {
            format!(
                "a.cu:12: f(): block: [0,0,0], thread: [{thread},0,0] Assertion `x == 1` failed.\n"
            )
        };
        assert_eq!(said(tenant, standard::ERROR), format!("{}{}", line(30), line(31)));
        assert_eq!(printed(tenant), "");
        // The error stays.
        assert_eq!(cu!(cuCtxSynchronize()), Err(Error::ASSERT));
    });
}

#[test]
fn kernels_cannot_launch_graphs_and_get_an_error() {
    let _watchdog = start();
    as_tenant(|tenant| {
        let module = Loaded::new();
        assert_eq!(module.run(c"launch", 32, &[0]), Err(Error::NOT_SUPPORTED));
        let mut text = [0u8; 512];
        cu!(openmpsTenantFault(tenant, text.as_mut_ptr().cast(), text.len())).unwrap();
        let text = CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap();
        assert!(text.contains("kernel launch") && text.contains("device runtime"), "{text}");
    });
}
