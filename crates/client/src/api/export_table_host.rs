//! What the tables behind cuGetExportTable ask of this driver.

use crate::boundary::In;
use crate::context::current;
use crate::program::mode;
use crate::program::modules::module_handle;
use core::ffi::c_void;
use cuda_api::attributes as attribute;
use cuda_api::handle::HandleKind;
use cuda_api::{CUcontext, CUdevice, CUfunction, CUmodule, CudaError};
use driver_common::jit_options::JitOptions;
use export_tables::{DeviceIdentity, Host};

/// The host of the tables in an attached process.
pub(crate) struct Tables;

impl Host for Tables {
    fn driver_version(&self) -> i32 {
        mode::driver_version()
    }

    fn devices(&self) -> Vec<DeviceIdentity> {
        let devices = mode::program_even_before_init().map_or(&[][..], |program| program.devices());
        devices
            .iter()
            .map(|device| DeviceIdentity {
                uuid: device.uuid.bytes,
                pci_domain: device.attributes[attribute::PCI_DOMAIN_ID as usize],
                pci_bus: device.attributes[attribute::PCI_BUS_ID as usize],
                pci_device: device.attributes[attribute::PCI_DEVICE_ID as usize],
            })
            .collect()
    }

    fn primary_context(&self, device: CUdevice) -> Result<CUcontext, CudaError> {
        let contexts = mode::program()?.contexts();
        contexts.primary_state(device)?;
        Ok(contexts.primary(device))
    }

    fn current_context(&self) -> Option<CUcontext> {
        match current::word() {
            0 => None,
            word => Some(CUcontext(word as usize)),
        }
    }

    fn context_id(&self, context: CUcontext) -> Result<u64, CudaError> {
        mode::program()?.contexts().id(context)
    }

    fn module_functions(&self, module: CUmodule) -> Result<Vec<CUfunction>, CudaError> {
        let (client, _) = mode::enter()?;
        let module = module_handle(client, module.0, HandleKind::Module)?;
        let functions = client.all_functions(module)?;
        Ok(functions.into_iter().map(|handle| CUfunction(handle.to_word() as usize)).collect())
    }

    fn load_module(&self, image: In<c_void>) -> Result<CUmodule, CudaError> {
        let (client, context) = mode::enter()?;
        let handle = client.load_image_at(image.cast(), context, &JitOptions::none())?;
        Ok(CUmodule(handle.to_word() as usize))
    }
}
