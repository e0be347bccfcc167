//! The shared library in use: loaded as a program loads it, where there is neither a daemon nor a
//! provider. What it answers then comes through trampolines, resolver and table.

use provider::DynamicLibrary;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The loaded library.
fn library() -> DynamicLibrary {
    static LIBRARY: OnceLock<DynamicLibrary> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        // SAFETY: every test comes here first, and none reads the environment on its own.
        unsafe {
            std::env::set_var("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent");
            std::env::set_var("OPENMPS_PROVIDER", "/nonexistent/libcuda.so.1");
        }
        let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let candidates = [deps.join("libcuda.so"), deps.join("../libcuda.so")];
        let path = candidates.iter().find(|p| p.is_file()).expect("libcuda.so is built");
        DynamicLibrary::open(&CString::new(path.to_str().unwrap()).unwrap()).unwrap()
    })
}

/// The address of a function of it.
fn address(name: &CStr) -> *mut c_void {
    library().symbol(name).expect("an exported function").cast_mut()
}

/// A function of the library, with its type.
macro_rules! function {
    ($name:ident($($ty:ty),*)) => {
        // SAFETY: cuda.h declares the function with that signature; pointers that tests pass are good.
        unsafe {
            core::mem::transmute::<*mut c_void, extern "C" fn($($ty),*) -> c_uint>(
                address(&CString::new(stringify!($name)).unwrap()),
            )
        }
    };
}

#[test]
fn without_daemon_and_provider_there_is_no_device() {
    let init = function!(cuInit(c_uint));
    let count = function!(cuDeviceGetCount(*mut c_int));
    let name = function!(cuGetErrorName(c_uint, *mut *const c_char));
    let mut n = 0;
    let mut text: *const c_char = core::ptr::null();
    assert_eq!(count(&mut n), 3, "not initialised");
    assert_eq!(init(1), 1);
    assert_eq!(init(0), 100);
    assert_eq!(count(&mut n), 3);
    assert_eq!(name(100, &mut text), 0);
    // SAFETY: names are C strings that stay.
    assert_eq!(unsafe { CStr::from_ptr(text) }, c"CUDA_ERROR_NO_DEVICE");
    assert_eq!(name(12345, &mut text), 1);
    assert!(text.is_null());
}

#[test]
fn what_is_not_implemented_says_so_whatever_its_parameters() {
    let create = function!(cuTexRefCreate(*mut c_void));
    let bias = function!(cuTexRefSetMipmapLevelBias(*mut c_void, f32));
    assert_eq!(create(core::ptr::null_mut()), 801);
    assert_eq!(bias(core::ptr::null_mut(), 1.0), 801);
}

#[test]
fn entry_points_are_found_by_name_and_version() {
    type Found = *mut *mut c_void;
    let old = function!(cuGetProcAddress(*const c_char, Found, c_int, u64));
    let new = function!(cuGetProcAddress_v2(*const c_char, Found, c_int, u64, *mut c_uint));
    let junk = 0x55 as *mut c_void;
    let (mut pointer, mut status) = (junk, 7);
    let mut ask = |name: &CStr, version, flags| {
        (pointer, status) = (junk, 7);
        let result = new(name.as_ptr(), &mut pointer, version, flags, &mut status);
        (result, status, pointer)
    };
    let null = core::ptr::null_mut();
    assert_eq!(ask(c"cuMemAlloc", 2000, 0), (0, 0, address(c"cuMemAlloc")));
    assert_eq!(ask(c"cuMemAlloc", 12000, 0), (0, 0, address(c"cuMemAlloc_v2")));
    let variant = address(c"cuMemcpyHtoD_v2_ptds");
    assert_eq!(ask(c"cuMemcpyHtoD", 12000, 2), (0, 0, variant));
    assert_eq!(ask(c"cuMemAlloc_v2", 12000, 0), (0, 1, null), "only base names");
    assert_eq!(ask(c"cuLaunchKernelEx", 4000, 0), (0, 2, null), "came later");
    assert_eq!(ask(c"cuMemAlloc", 99999, 0), (1, 7, junk), "of a later driver");
    assert_eq!(ask(c"cuMemAlloc", 12000, 64), (1, 7, junk), "no such flag");
    let mut pointer = junk;
    assert_eq!(old(c"cuInit".as_ptr(), &mut pointer, 12000, 0), 0);
    assert_eq!(pointer, address(c"cuInit"));
    pointer = junk;
    assert_eq!(old(c"cuNothing".as_ptr(), &mut pointer, 12000, 0), 500);
    assert_eq!(pointer, junk, "untouched");
    assert_eq!(old(core::ptr::null(), &mut pointer, 12000, 0), 1);
}

#[test]
fn a_forked_child_finds_out_for_itself() {
    let init = function!(cuInit(c_uint));
    assert_eq!(init(0), 100);
    // SAFETY: the child only calls the library, whose handler puts it back to its beginning, and
    // _exit.
    let child = unsafe {
        match libc::fork() {
            0 => libc::_exit((init(0) != 100).into()),
            child => rustix::process::Pid::from_raw(child),
        }
    };
    let ended = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
    assert_eq!(ended.unwrap().unwrap().1.as_raw(), 0);
}
