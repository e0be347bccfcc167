//! What drives a device here: the provider is loaded and asked.

use super::{Finding, provider_advice};
use cuda_api::attributes::{
    COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, COMPUTE_MODE, MULTIPROCESSOR_COUNT,
};
use cuda_api::{CUresult, DriverTable};
use std::ffi::CStr;

/// `CU_COMPUTEMODE_PROHIBITED`.
const PROHIBITED: i32 = 2;

pub(super) fn findings() -> Vec<Finding> {
    let (name, value) = provider::WITHOUT_DAEMON;
    // SAFETY: this program has started no thread yet that could read the environment.
    unsafe { std::env::set_var(name, value) };
    let provider = match provider::load() {
        Ok(provider) => provider,
        Err(error) => {
            return vec![Finding::problem("provider", error.to_string(), provider_advice())];
        }
    };
    let kind = if provider.is_software() { "the software GPU" } else { "a CUDA driver" };
    let mut findings =
        vec![Finding::ok("provider", format!("{kind}, {}", provider.path().display()))];
    if let Err(error) = devices(provider.table(), &mut findings) {
        findings.push(Finding::problem(
            "device",
            format!("the provider answers {error}"),
            "nvidia-smi tells whether the driver works; OPENMPS_PROVIDER=soft runs without a GPU",
        ));
    }
    findings
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
                "an administrator can allow contexts: nvidia-smi -c DEFAULT",
            ));
        }
    }
    Ok(())
}
