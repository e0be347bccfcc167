//! What drives a device here: the provider is loaded and asked.

use super::Finding;
use super::system::obstacle_to_files;
use crate::command::ptx::native_isa;
use crate::device_description;
use crate::libraries::{self, Libraries};
use cuda_api::attributes::{
    COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, COMPUTE_MODE, MULTIPROCESSOR_COUNT,
};
use cuda_api::environment::{
    CUDA_CACHE_PATH, CUDA_VISIBLE_DEVICES, OPENMPS_COMPILERS, OPENMPS_SOFT_DIR,
};
use cuda_api::extension::Extension;
use cuda_api::{CUresult, DriverTable};
use simt_jit::{Obstacle, SimdIsa};
use std::ffi::CStr;
use std::path::Path;

/// `CU_COMPUTEMODE_PROHIBITED`.
const PROHIBITED: i32 = 2;

pub(super) fn findings() -> Vec<Finding> {
    let (name, value) = provider::WITHOUT_DAEMON;
    // SAFETY: this program has started no thread yet that could read the environment.
    unsafe { std::env::set_var(name, value) };
    let provider = match provider::load() {
        Ok(provider) => provider,
        Err(error) => {
            return vec![Finding::problem(
                "provider",
                error.to_string(),
                "programs find no device without one",
            )];
        }
    };
    let kind = if provider.is_software() { "the software GPU" } else { "a CUDA driver" };
    let mut findings =
        vec![Finding::ok("provider", format!("{kind}, {}", provider.path().display()))];
    findings.extend(provider.extension().and_then(turns));
    if provider.is_software() {
        findings.push(native_code());
        findings.push(compilers());
    }
    findings.extend(provider.extension().and_then(code_store));
    if let Err(error) = devices(provider.table(), &mut findings) {
        let list = std::env::var(CUDA_VISIBLE_DEVICES).ok();
        let hidden = list.filter(|_| error == cuda_api::CudaError::NO_DEVICE);
        findings.push(Finding::problem(
            "device",
            format!("the provider answers {error}"),
            match hidden {
                Some(list) => {
                    format!("{CUDA_VISIBLE_DEVICES}={list} names none: unset it, or name one")
                }
                None => "nvidia-smi tells whether the driver works; OPENMPS_PROVIDER=soft runs \
                         without a GPU"
                    .to_owned(),
            },
        ));
    }
    findings
}

/// The directory in which processes meet that share the device without a daemon.
fn turns(extension: &Extension) -> Option<Finding> {
    let device = device_description::describe(extension, 0)?;
    let directory = CStr::from_bytes_until_nul(&device.shared_directory).ok()?.to_string_lossy();
    Some(if directory.is_empty() {
        Finding::warning(
            "turns",
            "there is no directory in which processes without a daemon can meet",
            format!(
                "they run all at once, and monitors see none; {OPENMPS_SOFT_DIR} names a directory"
            ),
        )
    } else {
        Finding::ok("turns", format!("processes without a daemon meet in {directory}"))
    })
}

/// Whether kernels become native code, and which.
fn native_code() -> Finding {
    let topic = "native code";
    let isa = native_isa();
    if let Some(obstacle) = Obstacle::to(isa) {
        let advice = "kernels are interpreted, which takes several times longer";
        return Finding::warning(topic, format!("none: {obstacle}"), advice);
    }
    let instructions = if isa == Some(SimdIsa::Avx512) { "AVX-512" } else { "AVX2" };
    Finding::ok(topic, format!("kernels that run for a while get some, for {instructions}"))
}

/// What programs get that compile at run time, since no machine code runs here.
fn compilers() -> Finding {
    let topic = "compilers";
    let left = std::env::var(OPENMPS_COMPILERS).is_ok_and(|value| value == "own");
    let there = Libraries::find().is_ok_and(|libraries| libraries.compilers().is_some());
    match (left, there) {
        (true, _) => Finding::ok(
            topic,
            format!("NVRTC, nvJitLink and ptxas are left alone ({OPENMPS_COMPILERS}=own)"),
        ),
        (false, true) => Finding::ok(
            topic,
            "`openmps run` has NVRTC, nvJitLink and ptxas make PTX in the place of machine code",
        ),
        (false, false) => Finding::warning(
            topic,
            "programs that have NVRTC, nvJitLink or ptxas make machine code find no device for it",
            if libraries::has_loader_for_auditors() {
                "`cargo xtask dist` makes an installation with libraries in front of them"
            } else {
                "libraries in front of them need glibc 2.34 or later; ptxas alone is replaced"
            },
        ),
    }
}

/// Native code that is kept for later processes.
fn code_store(extension: &Extension) -> Option<Finding> {
    let store = device_description::code_store(extension, 0)?;
    let topic = "code cache";
    let directory = CStr::from_bytes_until_nul(&store.directory).ok()?.to_string_lossy();
    let size = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    Some(if directory.is_empty() {
        Finding::ok(topic, "off: each process makes its native code itself")
    } else if store.refused != 0 {
        Finding::warning(
            topic,
            format!("{directory} is not used: it is not this user's alone"),
            format!("remove it if it is there, or name another in {CUDA_CACHE_PATH}"),
        )
    } else if let Some(obstacle) = obstacle_to_files(Path::new(directory.as_ref())) {
        Finding::warning(
            topic,
            format!("nothing more is kept in {directory}: {obstacle}"),
            format!("each process makes its native code itself; {CUDA_CACHE_PATH} names another"),
        )
    } else {
        Finding::ok(
            topic,
            format!(
                "{directory}: {} functions, {} of them found again since; {} of at most {}",
                store.functions,
                store.found_again,
                size(store.bytes),
                size(store.bytes_max)
            ),
        )
    })
}

fn devices(driver: &DriverTable, findings: &mut Vec<Finding>) -> CUresult {
    let mut version = 0;
    let mut count = 0;
    // SAFETY: the results are written to locals that live through the calls.
    unsafe {
        driver.cuInit(0)?;
        driver.cuDriverGetVersion(&mut version)?;
        driver.cuDeviceGetCount(&mut count)?;
    }
    findings.push(Finding::ok(
        "provider",
        format!("CUDA {}.{}, {count} device(s)", version / 1000, version % 1000 / 10),
    ));
    for ordinal in 0..count {
        let mut device = 0;
        let mut name = [0; 256];
        let mut bytes = 0;
        // SAFETY: as above; name holds as many bytes as are said.
        unsafe {
            driver.cuDeviceGet(&mut device, ordinal)?;
            driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device)?;
            driver.cuDeviceTotalMem_v2(&mut bytes, device)?;
        }
        let attribute = |number: u32| -> Result<i32, cuda_api::CudaError> {
            let mut value = 0;
            // SAFETY: the value is written to a local.
            unsafe { driver.cuDeviceGetAttribute(&mut value, number, device) }?;
            Ok(value)
        };
        let name = name.map(|c| c as u8);
        let name = CStr::from_bytes_until_nul(&name).map_or_else(
            |_| "a device without a name".into(),
            |name| name.to_string_lossy().into_owned(),
        );
        findings.push(Finding::ok(
            "device",
            format!(
                "{ordinal}: {name}, {} MiB, compute capability {}.{}, {} SMs",
                bytes >> 20,
                attribute(COMPUTE_CAPABILITY_MAJOR)?,
                attribute(COMPUTE_CAPABILITY_MINOR)?,
                attribute(MULTIPROCESSOR_COUNT)?,
            ),
        ));
        if attribute(COMPUTE_MODE)? == PROHIBITED {
            findings.push(Finding::problem(
                "device",
                format!("{ordinal}: its compute mode is PROHIBITED"),
                "an administrator can allow contexts: nvidia-smi -c DEFAULT, for the software GPU \
                 openmps set --compute-mode DEFAULT",
            ));
        }
    }
    Ok(())
}
