//! What the tables behind cuGetExportTable ask of this driver.

use std::ffi::c_void;
use std::sync::OnceLock;

use cuda_api::attributes::{PCI_DEVICE_ID, PCI_DOMAIN_ID};
use cuda_api::driver_version::API_VERSION;
use cuda_api::pointer::In;
use cuda_api::{CUcontext, CUdevice, CUfunction, CUmodule, CudaError};
use export_tables::{DeviceIdentity, Host};

use super::{devices, driver, module, thread};
use crate::device::{attributes, identity, say};

/// The version of the driver API that the software GPU presents: that of the table of functions, unless
/// the environment asks for a later one, which has no other functions here.
pub(super) fn driver_version() -> i32 {
    static VERSION: OnceLock<i32> = OnceLock::new();
    *VERSION.get_or_init(|| match provider::asked_driver_version() {
        Ok(asked) => asked.unwrap_or(API_VERSION),
        Err(why) => {
            say(format_args!("{why}; 13.0 is reported"));
            API_VERSION
        }
    })
}

/// The host of the tables.
pub(super) struct Tables;

impl Host for Tables {
    fn driver_version(&self) -> i32 {
        driver_version()
    }

    fn devices(&self) -> Vec<DeviceIdentity> {
        let Ok(driver) = driver() else { return Vec::new() };
        let settings = &driver.device.settings;
        let attribute = |number| attributes::attribute(settings, number).unwrap_or_default();
        let identity = |number: &u32| DeviceIdentity {
            uuid: identity::uuid(*number),
            pci_domain: attribute(PCI_DOMAIN_ID),
            pci_bus: identity::pci_bus(*number),
            pci_device: attribute(PCI_DEVICE_ID),
        };
        settings.devices.iter().map(identity).collect()
    }

    fn primary_context(&self, device: CUdevice) -> Result<CUcontext, CudaError> {
        let driver = driver()?;
        Ok(CUcontext(driver.primary(devices::check(device)?)?.handle))
    }

    fn current_context(&self) -> Option<CUcontext> {
        thread::top().ok().flatten().map(|context| CUcontext(context.handle))
    }

    fn context_id(&self, context: CUcontext) -> Result<u64, CudaError> {
        Ok(driver()?.context_or_current(context)?.number())
    }

    fn module_functions(&self, module: CUmodule) -> Result<Vec<CUfunction>, CudaError> {
        driver()?.functions_of(module)
    }

    fn load_module(&self, image: In<c_void>) -> Result<CUmodule, CudaError> {
        let mut module = CUmodule::NULL;
        // SAFETY: the handle goes to a local; the runtime passes an image as the function takes it.
        unsafe { module::cuModuleLoadData(&mut module, image.pointer()) }?;
        Ok(module)
    }
}
