//! Modules and libraries: loading PTX, its kernels and variables, and what the compiler says about
//! a text that is none.

use std::{ffi::CString, fs, ptr};

use cudarc::driver::sys::{
    self, CUdevice_attribute as DeviceAttribute, CUfunction_attribute as Attribute,
    CUjit_option as Option,
};
use samples::ptx;

use crate::{
    Check,
    support::{
        Env, Outcome, Stop, Words, call, equal, holds, load, one_of, only_strict, place, refused,
        status, synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("module.load", load_and_launch),
    ("module.functions", functions),
    ("module.variables", variables),
    ("module.two_copies", two_copies),
    ("module.file", file),
    ("module.options", options),
    ("module.garbage", garbage),
    ("module.error_log", error_log),
    ("module.error_log_column", error_log_column),
    ("module.library", library),
    ("module.function_attributes", function_attributes),
    ("module.dynamic_shared", dynamic_shared),
    ("module.occupancy", occupancy),
    ("module.unloaded_handle", unloaded_handle),
];

/// The tour's own kernels were loaded and launched at its start.
fn load_and_launch(env: &Env) -> Outcome {
    match &env.kernels {
        None => Ok(()),
        Some(why) => Err(Stop::Wrong(why.clone())),
    }
}

fn functions(env: &Env) -> Outcome {
    let first = env.function(c"nothing")?;
    holds("a kernel has a handle", !first.is_null())?;
    equal("the same kernel's handle", env.function(c"nothing")?, first)?;
    let mut function = ptr::null_mut();
    refused!(
        cuModuleGetFunction(&mut function, env.module, c"no_such_kernel".as_ptr()),
        CUDA_ERROR_NOT_FOUND
    )?;
    refused!(
        cuModuleGetFunction(&mut function, env.module, ptr::null()),
        CUDA_ERROR_INVALID_VALUE
    )?;
    let mut module = ptr::null_mut();
    call!(cuFuncGetModule(&mut module, first))?;
    equal("the kernel's module", module, env.module)
}

fn variables(env: &Env) -> Outcome {
    let (mut address, mut bytes) = (0, 0);
    call!(cuModuleGetGlobal_v2(&mut address, &mut bytes, env.module, c"tour_variable".as_ptr()))?;
    equal("bytes of the variable", bytes, 16)?;
    let mut initial = [0u32; 4];
    call!(cuMemcpyDtoH_v2(initial.as_mut_ptr().cast(), address, 16))?;
    equal("initial value", initial, [10, 20, 30, 40])?;
    call!(cuMemsetD32_v2(address + 4, 21, 1))?;
    let mut constant = 0;
    let name = c"tour_constant".as_ptr();
    call!(cuModuleGetGlobal_v2(&mut constant, &mut bytes, env.module, name))?;
    equal("bytes of the constant", bytes, 8)?;
    call!(cuMemsetD32_v2(constant, 8, 1))?;

    let out = Words::filled(6, 0)?;
    let mut argument = out.address;
    env.launch(c"read_variables", 1, 1, ptr::null_mut(), &mut [place(&mut argument)])?;
    equal("what the kernel sees", out.read()?, vec![10, 21, 30, 40, 8, 9])?;
    call!(cuMemsetD32_v2(address + 4, 20, 1))?;
    call!(cuMemsetD32_v2(constant, 7, 1))?;

    // Either result may be left out.
    let none = ptr::null_mut();
    call!(cuModuleGetGlobal_v2(&mut address, none, env.module, name))?;
    equal("address", address, constant)?;
    let none = ptr::null_mut();
    call!(cuModuleGetGlobal_v2(none, &mut bytes, env.module, name))?;
    refused!(
        cuModuleGetGlobal_v2(&mut address, &mut bytes, env.module, c"no_such_variable".as_ptr()),
        CUDA_ERROR_NOT_FOUND
    )
}

/// Loading a text twice makes two sets of variables.
fn two_copies(env: &Env) -> Outcome {
    let second = load(ptx::TOUR)?;
    let (mut here, mut there, mut bytes) = (0, 0, 0);
    let name = c"tour_variable".as_ptr();
    call!(cuModuleGetGlobal_v2(&mut here, &mut bytes, env.module, name))?;
    call!(cuModuleGetGlobal_v2(&mut there, &mut bytes, second, name))?;
    holds("each copy has variables of its own", here != there)?;
    call!(cuMemsetD32_v2(there, 1, 4))?;
    synchronize()?;
    let mut words = [0u32; 4];
    call!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), here, 16))?;
    equal("the first copy's variable", words, [10, 20, 30, 40])?;
    call!(cuModuleUnload(second))
}

fn file(_: &Env) -> Outcome {
    let path = std::env::temp_dir().join(format!("api_tour-{}.ptx", std::process::id()));
    fs::write(&path, ptx::TOUR).map_err(|error| Stop::Wrong(error.to_string()))?;
    let name = CString::new(path.as_os_str().as_encoded_bytes());
    let name = name.map_err(|error| Stop::Wrong(error.to_string()))?;
    let mut module = ptr::null_mut();
    let loaded = call!(cuModuleLoad(&mut module, name.as_ptr()));
    let _ = fs::remove_file(&path);
    loaded?;
    let mut function = ptr::null_mut();
    call!(cuModuleGetFunction(&mut function, module, c"fill".as_ptr()))?;
    call!(cuModuleUnload(module))?;
    refused!(cuModuleLoad(&mut module, name.as_ptr()), CUDA_ERROR_FILE_NOT_FOUND)
}

fn options(_: &Env) -> Outcome {
    let text = CString::new(ptx::TOUR).map_err(|error| Stop::Wrong(error.to_string()))?;
    let mut log = vec![0u8; 4096];
    let mut names = [
        Option::CU_JIT_INFO_LOG_BUFFER,
        Option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        Option::CU_JIT_LOG_VERBOSE,
        Option::CU_JIT_MAX_REGISTERS,
    ];
    let length = log.len();
    let mut values = [
        log.as_mut_ptr().cast(),
        ptr::without_provenance_mut(length),
        ptr::without_provenance_mut(1),
        ptr::without_provenance_mut(64),
    ];
    let mut module = ptr::null_mut();
    let image = text.as_ptr().cast();
    call!(cuModuleLoadDataEx(&mut module, image, 4, names.as_mut_ptr(), values.as_mut_ptr()))?;
    holds("no more is said to be in the log than fits", values[1] as usize <= length)?;
    call!(cuModuleUnload(module))
}

fn garbage(_: &Env) -> Outcome {
    let mut module = ptr::null_mut();
    for text in [
        c"this is no PTX",
        c".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { .reg .b32 %r; add.s32 %r; }\n",
        c".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret;\n",
        c"",
    ] {
        refused!(
            cuModuleLoadData(&mut module, text.as_ptr().cast()),
            CUDA_ERROR_INVALID_PTX | CUDA_ERROR_INVALID_IMAGE | CUDA_ERROR_NO_BINARY_FOR_GPU
        )?;
    }
    refused!(cuModuleLoadData(&mut module, ptr::null()), CUDA_ERROR_INVALID_VALUE)
}

/// A text with an error in line 6, at column 16.
const WRONG_TEXT: &std::ffi::CStr = c".version 7.0
.target sm_80
.address_size 64
.visible .entry k() {
  .reg .b32 %r<2>;
  add.u32 %r1, ?;
  ret;
}
";

/// The error log of loading `WRONG_TEXT`, and the size that was reported for it.
fn log_of_wrong_text(capacity: usize) -> Outcome<(String, usize)> {
    // A guard behind the buffer must stay as it is.
    let mut log = vec![0x7fu8; capacity + 16];
    let mut names = [Option::CU_JIT_ERROR_LOG_BUFFER, Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(capacity)];
    let mut module = ptr::null_mut();
    refused!(
        cuModuleLoadDataEx(
            &mut module,
            WRONG_TEXT.as_ptr().cast(),
            2,
            names.as_mut_ptr(),
            values.as_mut_ptr()
        ),
        CUDA_ERROR_INVALID_PTX
    )?;
    holds("nothing is written behind the buffer", log[capacity..].iter().all(|&b| b == 0x7f))?;
    let end = log[..capacity].iter().position(|&byte| byte == 0).unwrap_or(capacity);
    Ok((String::from_utf8_lossy(&log[..end]).into_owned(), values[1] as usize))
}

/// Whether a number stands in the text by itself.
fn names_number(text: &str, number: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits == number)
}

fn error_log(_: &Env) -> Outcome {
    let (log, size) = log_of_wrong_text(4096)?;
    holds("the log says something", !log.is_empty())?;
    holds(&format!("the log names line 6: {log:?}"), names_number(&log, "6"))?;
    holds("the reported size is that of the log", size > 0 && size <= 4096)?;
    // Small buffers are filled no further than they reach.
    log_of_wrong_text(16).map(|_| ())
}

fn error_log_column(env: &Env) -> Outcome {
    only_strict(env)?;
    let (log, _) = log_of_wrong_text(4096)?;
    holds(&format!("the log names column 16: {log:?}"), names_number(&log, "16"))
}

fn library(env: &Env) -> Outcome {
    let text = CString::new(ptx::TOUR).map_err(|error| Stop::Wrong(error.to_string()))?;
    let mut library = ptr::null_mut();
    let (no_options, no_values) = (ptr::null_mut(), ptr::null_mut());
    let (no_library_options, no_library_values) = (ptr::null_mut(), ptr::null_mut());
    let image = text.as_ptr().cast();
    call!(cuLibraryLoadData(
        &mut library,
        image,
        no_options,
        no_values,
        0,
        no_library_options,
        no_library_values,
        0
    ))?;
    let mut kernel = ptr::null_mut();
    call!(cuLibraryGetKernel(&mut kernel, library, c"fill".as_ptr()))?;
    refused!(
        cuLibraryGetKernel(&mut kernel.clone(), library, c"no_such_kernel".as_ptr()),
        CUDA_ERROR_NOT_FOUND
    )?;

    // A kernel's handle does where a function's is expected, and can be turned into one.
    let mut function = ptr::null_mut();
    call!(cuKernelGetFunction(&mut function, kernel))?;
    for (handle, value) in [(kernel.cast(), 5u32), (function, 6)] {
        let words = Words::filled(64, 0)?;
        let (mut address, mut length, mut value) = (words.address, 64i32, value);
        let mut arguments = [place(&mut address), place(&mut length), place(&mut value)];
        let (stream, extra) = (ptr::null_mut(), ptr::null_mut());
        let arguments = arguments.as_mut_ptr();
        call!(cuLaunchKernel(handle, 2, 1, 1, 32, 1, 1, 0, stream, arguments, extra))?;
        equal("words", words.read()?, vec![value; 64])?;
    }
    let mut module = ptr::null_mut();
    call!(cuLibraryGetModule(&mut module, library))?;
    call!(cuModuleGetFunction(&mut function, module, c"add_one".as_ptr()))?;
    let (mut address, mut bytes) = (0, 0);
    call!(cuLibraryGetGlobal(&mut address, &mut bytes, library, c"tour_variable".as_ptr()))?;
    equal("bytes of the variable", bytes, 16)?;
    let mut threads = 0;
    call!(cuKernelGetAttribute(
        &mut threads,
        Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        kernel,
        env.device
    ))?;
    holds("the kernel has a largest block", threads > 0)?;
    call!(cuLibraryUnload(library))
}

fn get(function: sys::CUfunction, attribute: Attribute) -> Outcome<i32> {
    let mut value = -1;
    call!(cuFuncGetAttribute(&mut value, attribute, function))?;
    Ok(value)
}

fn function_attributes(env: &Env) -> Outcome {
    let bounded = env.function(c"bounded")?;
    let threads = get(bounded, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
    equal("largest block of `bounded`", threads, 128)?;
    let shared = get(bounded, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
    equal("static shared memory of `bounded`", shared, 4096)?;
    let nothing = env.function(c"nothing")?;
    equal(
        "static shared memory of `nothing`",
        get(nothing, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        0,
    )?;
    let local = get(env.function(c"local_array")?, Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
    holds("`local_array` has its array in local memory", local >= 128)?;
    let registers = get(bounded, Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
    holds("`bounded` has registers", registers > 0)?;
    equal("PTX version", get(bounded, Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)?, 80)?;
    let binary = get(bounded, Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?;
    holds("the binary version is that of a device that runs it", binary >= 80)?;
    let config = sys::CUfunc_cache::CU_FUNC_CACHE_PREFER_SHARED;
    call!(cuFuncSetCacheConfig(bounded, config))
}

fn dynamic_shared(env: &Env) -> Outcome {
    let module = load(ptx::TOUR)?;
    let mut reverse = ptr::null_mut();
    call!(cuModuleGetFunction(&mut reverse, module, c"reverse".as_ptr()))?;
    let limit = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let optin =
        env.attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let words = Words::filled(64, 0)?;
    let mut address = words.address;
    let mut arguments = [place(&mut address)];
    let arguments = arguments.as_mut_ptr();
    let (stream, extra) = (ptr::null_mut(), ptr::null_mut());

    // More than 48 KiB must be asked for first.
    let bytes = 49 << 10;
    refused!(
        cuLaunchKernel(reverse, 1, 1, 1, 64, 1, 1, bytes, stream, arguments, extra),
        CUDA_ERROR_INVALID_VALUE
    )?;
    refused!(cuFuncSetAttribute(reverse, limit, optin + 1), CUDA_ERROR_INVALID_VALUE)?;
    if optin >= bytes as i32 {
        call!(cuFuncSetAttribute(reverse, limit, bytes as i32))?;
        equal("the limit that was set", get(reverse, limit)?, bytes as i32)?;
        call!(cuLaunchKernel(reverse, 1, 1, 1, 64, 1, 1, bytes, stream, arguments, extra))?;
        synchronize()?;
    }
    call!(cuModuleUnload(module))
}

fn occupancy(env: &Env) -> Outcome {
    let bounded = env.function(c"bounded")?;
    let blocks = |function, threads, shared: usize| -> Outcome<i32> {
        let mut blocks = -1;
        call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads, shared))?;
        let mut again = -1;
        let flags = 0;
        call!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &mut again, function, threads, shared, flags
        ))?;
        equal("the same with flags", again, blocks)?;
        Ok(blocks)
    };
    let small = blocks(bounded, 128, 0)?;
    holds("a block of `bounded` fits", small >= 1)?;
    let heavy = blocks(bounded, 128, 40 << 10)?;
    holds("with much shared memory no more blocks fit", heavy <= small && heavy >= 1)?;
    let nothing = env.function(c"nothing")?;
    let wide = blocks(nothing, 1024, 0)?;
    let threads_max = DeviceAttribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    let threads = env.attribute(threads_max)?;
    holds("the threads of all blocks fit", wide >= 1 && wide * 1024 <= threads)?;

    let (mut grid, mut block) = (0, 0);
    call!(cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, bounded, None, 0, 0))?;
    holds("the best block is one that can be launched", (1..=128).contains(&block))?;
    holds("the best grid has blocks", grid >= 1)?;
    let mut bytes = 0;
    call!(cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, nothing, 1, 128))?;
    holds("a single block has shared memory to use", bytes > 0)
}

/// The manual promises nothing about handles that are gone; a careful driver refuses them.
fn unloaded_handle(env: &Env) -> Outcome {
    only_strict(env)?;
    let module = load(ptx::TOUR)?;
    let mut function = ptr::null_mut();
    call!(cuModuleGetFunction(&mut function, module, c"nothing".as_ptr()))?;
    call!(cuModuleUnload(module))?;
    let gone = [
        sys::CUresult::CUDA_ERROR_INVALID_HANDLE,
        sys::CUresult::CUDA_ERROR_NOT_FOUND,
        sys::CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    ];
    one_of("unloading twice", status!(cuModuleUnload(module)), &gone)?;
    let (stream, arguments, extra) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let launched = status!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, extra));
    one_of("launching a kernel that is gone", launched, &gone)
}
