//! Images: those that programs load, and their logs. Which of the texts in an image is taken
//! is the business of `image_choice`.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cuda_api::constants::jit_option;
use cuda_api::pointer::In;
use driver_common::jit_options::JitOptions;
use provider::ImageOrigin;

use super::image_choice::{Choice, Refusal};
use super::image_file::ImageFile;
use super::{Driver, thread};
use crate::device::capability::Capability;
use crate::device::limits::{REGISTERS_PER_THREAD_MAX, THREADS_PER_BLOCK_MAX};
use crate::device::memory::AllocationKind;
use crate::device::memory::variable_place::VariablePlace;
use crate::device::tenant::{Tenant, TenantId};
use crate::device::{Device, say};
use crate::error::{Error, Result};

use simt::CompileErrorKind;
use simt::ir::vector::Tier;
use simt::kernel::{Module, ModuleMemory, OutOfMemory};
use simt::runtime::heap::{DeviceHeap, HEAP_ALIGN, HEAP_BYTES};
use simt_interpreter::{Checks, Interpreter};
use simt_jit::SimdIsa;

/// A module that was loaded, and the memory of its variables.
pub(crate) struct Loaded {
    pub(crate) module: Arc<dyn Module>,
    pub(crate) memory: Vec<u64>,
    /// Most registers a thread of its kernels may have.
    pub(crate) registers_max: u32,
}

/// Kernels have no fewer registers than this, even if fewer are asked for.
const REGISTERS_MIN: u32 = 16;
/// Most registers a thread may have, by the options of a load: so many that blocks of the threads that
/// the program asks for fit on an SM.
fn registers(options: &JitOptions, capability: &Capability) -> u32 {
    let threads = options.scalar(jit_option::THREADS_PER_BLOCK).filter(|n| *n > 0);
    let threads = threads.unwrap_or(1).min(THREADS_PER_BLOCK_MAX);
    let fitting = (REGISTERS_MIN..=REGISTERS_PER_THREAD_MAX)
        .rev()
        .find(|registers| capability.threads_by_registers(*registers) >= threads)
        .unwrap_or(REGISTERS_MIN);
    options.registers_max().unwrap_or(REGISTERS_PER_THREAD_MAX).clamp(REGISTERS_MIN, fitting)
}

/// Logs the result of a load: for each kernel what it needs, if that is wanted.
fn log_loaded(options: &JitOptions, loaded: &Loaded, took: Duration) {
    let mut text = String::new();
    if options.scalar(jit_option::LOG_VERBOSE).is_some_and(|verbose| verbose != 0) {
        for name in loaded.module.kernel_names() {
            let Some(kernel) = loaded.module.kernel(&name) else { continue };
            let info = kernel.info();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{name}: {} registers, {} bytes shared, {} bytes local, {} bytes constant",
                info.registers.min(loaded.registers_max),
                info.shared_bytes,
                info.local_bytes,
                info.const_bytes
            );
        }
    }
    options.write_logs(text.as_bytes(), b"");
    options.write_time(took);
}

/// Memory for a module's variables while it is being compiled.
struct VariableMemory<'a> {
    driver: &'a Driver,
    device: &'a Device,
    tenant: &'a Arc<Tenant>,
    context: u64,
    allocated: Vec<u64>,
    /// Where the variables lie.
    place: VariablePlace,
}

impl ModuleMemory for VariableMemory<'_> {
    fn allocate(
        &mut self,
        bytes: u64,
        align: u64,
        writable: bool,
    ) -> std::result::Result<u64, OutOfMemory> {
        if let Some(address) = self.place.take(bytes, align) {
            if !self.place.keeps() {
                self.tenant.space.clear(address, bytes);
            }
            return Ok(address);
        }
        let kind = AllocationKind::Module { writable };
        let address = self
            .device
            .allocate(self.tenant, self.context, bytes.max(1), align.max(1), kind)
            .map_err(|_| OutOfMemory)?;
        self.allocated.push(address);
        // A heap's memory may have been used before.
        self.tenant.space.clear(address, bytes);
        Ok(address)
    }

    fn allocate_managed(&mut self, bytes: u64) -> std::result::Result<u64, OutOfMemory> {
        match self.tenant.managed_place(bytes) {
            Some(0) => Err(OutOfMemory),
            // The memory belongs to the tenant's owner, which gave the address.
            Some(address) => Ok(address),
            None => {
                let kind = AllocationKind::Managed;
                let address = self.device.allocate(self.tenant, self.context, bytes, 1, kind);
                let address = address.map_err(|_| OutOfMemory)?;
                self.allocated.push(address);
                self.tenant.space.clear(address, bytes);
                Ok(address)
            }
        }
    }

    fn heap(&mut self) -> std::result::Result<Arc<DeviceHeap>, OutOfMemory> {
        let key = (self.context, self.tenant.id);
        let mut heaps = self.driver.heaps.lock();
        if let Some(heap) = heaps.get(&key) {
            return Ok(heap.clone());
        }
        let bytes = match self.tenant.heap_bytes.load(Ordering::Relaxed) {
            0 => thread::current().map_or(HEAP_BYTES, |context| context.heap_bytes()),
            own => own,
        };
        let kind = AllocationKind::Module { writable: true };
        let address = self
            .device
            .allocate(self.tenant, self.context, bytes.max(1), HEAP_ALIGN, kind)
            .map_err(|_| OutOfMemory)?;
        let heap = Arc::new(DeviceHeap::new(address, bytes));
        heaps.insert(key, heap.clone());
        Ok(heap)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let own = self.allocated.contains(&address);
        if own || !self.place.keeps() {
            self.tenant.space.write(address, bytes);
        }
    }
}

impl Driver {
    /// Loads what a pointer without a length points to.
    pub(crate) fn load_image(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        image: In<c_void>,
        logs: &JitOptions,
    ) -> Result<Loaded> {
        self.load_text(tenant, context, &self.text_of_image(image, logs)?, logs)
    }

    /// The PTX of what a pointer without a length points to.
    pub(super) fn text_of_image(&self, image: In<c_void>, logs: &JitOptions) -> Result<String> {
        let choice = Choice(&self.device.settings);
        choice.read_image(image).map_err(|refusal| {
            self.say_unusable(&refusal, || ImageOrigin::of_address(image.address() as usize));
            self.report(logs, &refusal);
            refusal.error
        })
    }

    /// Loads a file.
    pub(crate) fn load_file(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        file: &ImageFile,
        logs: &JitOptions,
    ) -> Result<Loaded> {
        self.load_text(tenant, context, &self.text_of_file(file, logs)?, logs)
    }

    /// The PTX of the contents of a file.
    pub(super) fn text_of_file(&self, file: &ImageFile, logs: &JitOptions) -> Result<String> {
        let choice = Choice(&self.device.settings);
        choice.ptx_of(&file.bytes).map_err(|refusal| {
            self.say_unusable(&refusal, || ImageOrigin::of_file(&file.path));
            self.report(logs, &refusal);
            refusal.error
        })
    }

    /// Says on standard error which file of the program's has no PTX: most programs report that by a
    /// number, if at all. In a server it is for the client to say.
    fn say_unusable(&self, refusal: &Refusal, origin: impl FnOnce() -> ImageOrigin) {
        if refusal.error != Error::NO_BINARY_FOR_GPU || self.tenant().family != TenantId(0) {
            return;
        }
        let origin = origin();
        if origin.is_new() {
            say(format_args!("{origin}: {}", refusal.why));
        }
    }

    /// What runs kernels. Findings are what the user asked to see, so they go to standard error
    /// also where nothing else does.
    fn tier(&self) -> Arc<dyn Tier> {
        let settings = &self.device.settings;
        if !settings.check {
            return settings.tiers.tier(settings.isa, &self.code);
        }
        let report = Arc::new(|finding: &str| say(finding));
        let written = self.device.written.clone();
        let estimating = settings.isa.is_some_and(SimdIsa::estimates);
        Arc::new(Interpreter::new().estimating(estimating).checking(Checks { report, written }))
    }

    fn report(&self, logs: &JitOptions, refusal: &Refusal) {
        logs.write_logs(b"", refusal.why.as_bytes());
        self.device.log(&refusal.why);
    }

    pub(super) fn load_text(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        text: &str,
        logs: &JitOptions,
    ) -> Result<Loaded> {
        let start = Instant::now();
        let capability = self.device.settings.capability;
        let own = capability.major * 10 + capability.minor;
        if let Some(target) = logs.scalar(jit_option::TARGET).filter(|target| *target != own) {
            let why = format!("code for compute capability {target} is asked for, this is {own}");
            self.report(logs, &Refusal { error: Error::INVALID_SOURCE, why });
            return Err(Error::INVALID_SOURCE);
        }
        let place = std::mem::take(&mut *tenant.variables.lock());
        let mut memory = VariableMemory {
            driver: self,
            device: &self.device,
            tenant,
            context,
            allocated: Vec::new(),
            place,
        };
        let loaded = simt::load_module(text, &mut memory, self.tier());
        if loaded.is_ok() && memory.place.needed() > 0 {
            for address in memory.allocated {
                let _ = self.device.free(address, |_| true);
            }
            *tenant.variables.lock() = memory.place;
            return Err(Error::OUT_OF_MEMORY);
        }
        match loaded {
            Ok(module) => {
                let (memory, registers_max) =
                    (memory.allocated, registers(logs, self.device.settings.capability));
                let loaded = Loaded { module, memory, registers_max };
                log_loaded(logs, &loaded, start.elapsed());
                Ok(loaded)
            }
            Err(error) => {
                for address in memory.allocated {
                    let _ = self.device.free(address, |_| true);
                }
                let code = match error.kind {
                    CompileErrorKind::OutOfMemory => Error::OUT_OF_MEMORY,
                    CompileErrorKind::InvalidPtx => Error::INVALID_PTX,
                };
                self.report(logs, &Refusal { error: code, why: error.log });
                Err(code)
            }
        }
    }
}
