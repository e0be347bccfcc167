//! Options of a module's loading.

use super::*;
use cuda_api::constants::jit_option;
use std::fmt::Write;

/// A kernel in which that many values are needed at a time.
fn ptx(values: usize) -> String {
    let mut text = String::from(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry wide(.param .u64 p)\n{\n\
         .reg .b64 %p; .reg .b32 %v<999>;\nld.param.u64 %p, [p];\n",
    );
    for value in 0..values {
        writeln!(text, "ld.global.u32 %v{value}, [%p+{}];", 4 * value).unwrap();
    }
    for value in 1..values {
        writeln!(text, "add.u32 %v0, %v0, %v{value};").unwrap();
    }
    text + "st.global.u32 [%p], %v0;\nret;\n}\n\0"
}

/// Registers and largest block of the kernel when it is loaded with such options.
fn load(options: &mut [(u32, usize)]) -> Result<(i32, i32), Error> {
    let text = ptx(80);
    let mut names: Vec<u32> = options.iter().map(|option| option.0).collect();
    let mut values: Vec<*mut c_void> = options.iter().map(|option| option.1 as *mut _).collect();
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    let (image, count) = (text.as_ptr().cast(), names.len() as u32);
    cu!(cuModuleLoadDataEx(&mut module, image, count, names.as_mut_ptr(), values.as_mut_ptr()))?;
    for (option, value) in options.iter_mut().zip(values) {
        option.1 = value as usize;
    }
    cu!(cuModuleGetFunction(&mut function, module, c"wide".as_ptr())).unwrap();
    let (mut registers, mut threads) = (0, 0);
    cu!(cuFuncGetAttribute(&mut registers, function_attribute::NUM_REGS, function)).unwrap();
    let most = function_attribute::MAX_THREADS_PER_BLOCK;
    cu!(cuFuncGetAttribute(&mut threads, most, function)).unwrap();
    cu!(cuModuleUnload(module)).unwrap();
    Ok((registers, threads))
}

#[test]
fn registers_are_no_more_than_was_asked_for() {
    let _alive = start();
    let (natural, threads) = load(&mut []).unwrap();
    // More than are left for each of 1024 threads; but they are an estimate.
    assert!(natural > 80 && threads == 1024, "{natural} {threads}");
    assert_eq!(load(&mut [(jit_option::MAX_REGISTERS, 32)]), Ok((32, 1024)));
    assert_eq!(load(&mut [(jit_option::MAX_REGISTERS, 250)]), Ok((natural, threads)));
    // A block of that size has to fit.
    assert_eq!(load(&mut [(jit_option::THREADS_PER_BLOCK, 1024)]), Ok((64, 1024)));
    assert_eq!(load(&mut [(jit_option::OPTIMIZATION_LEVEL, 9)]), Ok((natural, threads)));
    assert_eq!(load(&mut [(jit_option::TARGET, 80)]), Ok((natural, threads)));
    assert_eq!(load(&mut [(jit_option::TARGET, 90)]), Err(Error::INVALID_SOURCE));
    assert_eq!(load(&mut [(1000, 0)]), Err(Error::INVALID_VALUE));
}

/// Registers of a kernel are an estimate: who launches as many threads as a compiler's count allows is not refused.
#[test]
fn a_block_is_refused_where_no_estimate_lets_it_fit() {
    let _alive = start();
    let launch = |values: usize| {
        let text = ptx(values);
        let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
        cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
        cu!(cuModuleGetFunction(&mut function, module, c"wide".as_ptr())).unwrap();
        let (mut most, mut blocks) = (0, 0);
        let attribute = function_attribute::MAX_THREADS_PER_BLOCK;
        cu!(cuFuncGetAttribute(&mut most, attribute, function)).unwrap();
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 1024, 0)).unwrap();
        let mut memory = allocate(4096);
        let mut params = [(&raw mut memory).cast::<c_void>()];
        let (stream, params) = (CUstream::NULL, params.as_mut_ptr());
        let launched =
            cu!(cuLaunchKernel(function, 1, 1, 1, 1024, 1, 1, 0, stream, params, null_mut()));
        cu!(cuCtxSynchronize()).unwrap();
        (most, blocks, launched)
    };
    assert_eq!(launch(80), (1024, 1, Ok(())));
    let (most, blocks, launched) = launch(400);
    assert!(most < 1024 && blocks == 0, "{most} {blocks}");
    assert_eq!(launched, Err(Error::LAUNCH_OUT_OF_RESOURCES));
}

#[test]
fn what_no_version_of_ptx_has_is_refused_when_it_is_loaded() {
    let _alive = start();
    let load = |body: &str, comment: &str| {
        let text = format!(
            "{comment}.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{ {body} }}\n\0"
        );
        let mut module = CUmodule::NULL;
        cu!(cuModuleLoadData(&mut module, text.as_ptr().cast()))
    };
    assert_eq!(load("ret;", ""), Ok(()));
    assert_eq!(load("rat; ret;", ""), Err(Error::INVALID_PTX));
    assert_eq!(load("ret;", "//\u{fc}\n"), Err(Error::INVALID_PTX));
    assert_eq!(load("ret; // \u{fc}\n", ""), Err(Error::INVALID_PTX));
}

#[test]
fn a_verbose_log_lists_each_kernel_and_the_time_is_said() {
    let _alive = start();
    let mut log = [0u8; 200];
    let mut options = [
        (jit_option::INFO_LOG_BUFFER, log.as_mut_ptr() as usize),
        (jit_option::INFO_LOG_BUFFER_SIZE_BYTES, log.len()),
        (jit_option::LOG_VERBOSE, 1),
        (jit_option::WALL_TIME, 0),
    ];
    load(&mut options).unwrap();
    let text = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert!(text.starts_with("wide: ") && text.contains(" registers, "), "{text}");
    assert_eq!(options[1].1, text.len());
    assert!(f32::from_bits(options[3].1 as u32) > 0.0);
}
