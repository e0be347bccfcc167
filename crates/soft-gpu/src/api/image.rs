//! Images: those that programs load, and their logs. Which of the texts in an image is taken
//! is the business of `image_choice`.

use std::ffi::{c_char, c_uint, c_void};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cuda_api::constants::jit_option;
use cuda_api::pointer::{FromProgram, In, Out};
use provider::ImageOrigin;

use super::image_choice::{Choice, Refusal};
use super::image_file::ImageFile;
use super::{Driver, thread};
use crate::device::capability::Capability;
use crate::device::limits::{REGISTERS_PER_THREAD_MAX, THREADS_PER_BLOCK_MAX};
use crate::device::memory::AllocationKind;
use crate::device::tenant::{Tenant, TenantId};
use crate::device::variable_place::VariablePlace;
use crate::device::{Device, say};
use crate::error::{Error, Result};

use simt::CompileErrorKind;
use simt::ir::vector::Tier;
use simt::kernel::{Module, ModuleMemory, OutOfMemory};
use simt::runtime::heap::{DeviceHeap, HEAP_ALIGN, HEAP_BYTES};
use simt_interpreter::{Checks, Interpreter};
use simt_jit::SimdIsa;

/// Options that one call may give: more than there are.
const OPTIONS_MAX: u32 = 64;

/// A module that was loaded, and the memory of its variables.
pub(crate) struct Loaded {
    pub(crate) module: Arc<dyn Module>,
    pub(crate) memory: Vec<u64>,
    /// Most registers a thread of its kernels may have.
    pub(crate) registers_max: u32,
}

/// What the program wants of a load, and the buffers in which it wants to read about it.
#[derive(Default)]
pub(crate) struct JitOptions {
    info: LogBuffer,
    error: LogBuffer,
    /// It wants to read more than what went wrong.
    verbose: bool,
    /// Where the milliseconds that the load took go: the option's own value.
    wall_time: Option<Out<*mut c_void>>,
    /// CU_JIT_MAX_REGISTERS.
    pub(super) registers_max: Option<u32>,
    /// CU_JIT_TARGET: a compute capability, 80 for 8.0.
    target: Option<u32>,
    /// CU_JIT_THREADS_PER_BLOCK: blocks of so many threads must fit on an SM.
    threads_per_block: Option<u32>,
}

#[derive(Default)]
struct LogBuffer {
    place: Option<Out<c_char>>,
    bytes: usize,
    /// Where the number of bytes written goes: the option's own value.
    written: Option<Out<*mut c_void>>,
}

impl LogBuffer {
    /// Writes a text with its NUL, cut to fit, and how many bytes of text these are.
    fn write(&self, text: &str) {
        let filled = self.place.is_some_and(|place| {
            // A buffer without room gets nothing; that is no error of the load.
            place.set_text(self.bytes, text.as_bytes()).is_ok()
        });
        // As NVIDIA's driver counts: all of the buffer where the text is cut.
        let bytes = if filled { text.len().min(self.bytes) } else { 0 };
        if let Some(written) = self.written {
            written.set_if_wanted(bytes as *mut c_void);
        }
    }
}

/// Kernels have no fewer registers than this, even if fewer are asked for.
const REGISTERS_MIN: u32 = 16;
/// A number that no option of any version has reached.
const OPTION_END: u32 = 64;

impl JitOptions {
    /// Reads the options of a load. Those about how code is made that have no meaning for this
    /// device, such as caching or line numbers, are checked and change nothing.
    pub(crate) fn read(
        count: c_uint,
        options: Out<c_uint>,
        values: Out<*mut c_void>,
    ) -> Result<Self> {
        if count > OPTIONS_MAX {
            return Err(Error::INVALID_VALUE);
        }
        let count = count as usize;
        let (options, values) = (options.array(count), values.array(count));
        let mut logs = Self::default();
        for index in 0..count {
            let option = options.at(index)?;
            let value = values.at(index)?;
            // SAFETY: for the options that are buffers the program gives one, or NULL; for others
            // the place is not used.
            let place = unsafe { value.cast::<c_char>().believe() };
            let number = value as usize as u32;
            match option {
                jit_option::MAX_REGISTERS => logs.registers_max = Some(number).filter(|n| *n > 0),
                jit_option::THREADS_PER_BLOCK => {
                    logs.threads_per_block = Some(number).filter(|n| *n > 0);
                }
                jit_option::WALL_TIME => logs.wall_time = Some(values.place(index)),
                jit_option::LOG_VERBOSE => logs.verbose = number != 0,
                jit_option::TARGET => logs.target = Some(number),
                jit_option::INFO_LOG_BUFFER => logs.info.place = Some(place),
                jit_option::ERROR_LOG_BUFFER => logs.error.place = Some(place),
                jit_option::INFO_LOG_BUFFER_SIZE_BYTES => {
                    logs.info.bytes = value as usize & u32::MAX as usize;
                    logs.info.written = Some(values.place(index));
                }
                jit_option::ERROR_LOG_BUFFER_SIZE_BYTES => {
                    logs.error.bytes = value as usize & u32::MAX as usize;
                    logs.error.written = Some(values.place(index));
                }
                OPTION_END.. => return Err(Error::INVALID_VALUE),
                _ => {}
            }
        }
        Ok(logs)
    }

    /// Leaves both logs empty.
    pub(crate) fn say_nothing(&self) {
        self.info.write("");
        self.error.write("");
    }

    /// Most registers a thread may have.
    fn registers(&self, capability: &Capability) -> u32 {
        let threads = self.threads_per_block.unwrap_or(1).min(THREADS_PER_BLOCK_MAX);
        let fitting = (REGISTERS_MIN..=REGISTERS_PER_THREAD_MAX)
            .rev()
            .find(|registers| capability.threads_by_registers(*registers) >= threads)
            .unwrap_or(REGISTERS_MIN);
        self.registers_max.unwrap_or(REGISTERS_PER_THREAD_MAX).clamp(REGISTERS_MIN, fitting)
    }

    /// Logs the result of a load: for each kernel what it needs, if that is wanted.
    fn tell(&self, loaded: &Loaded, took: Duration) {
        let mut text = String::new();
        if self.verbose {
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
        self.info.write(&text);
        self.error.write("");
        if let Some(place) = self.wall_time {
            // A float, in the place of a pointer.
            let ms = took.as_secs_f32() * 1e3;
            place.set_if_wanted(ms.to_bits() as usize as *mut c_void);
        }
    }
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
                self.store(address, bytes, |to| {
                    // SAFETY: [`Self::store`] says that the range is the tenant's, and mapped.
                    unsafe { to.write_bytes(0, bytes as usize) };
                });
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
        // SAFETY: just allocated, `bytes` long, and known to no other code.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
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
                // SAFETY: just allocated, `bytes` long, and known to no other code.
                unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
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
            self.store(address, bytes.len() as u64, |to| {
                // SAFETY: [`Self::store`] says that the range is the tenant's, and mapped.
                unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) };
            });
        }
    }
}

impl VariableMemory<'_> {
    /// Has `store` write a range, if it is the tenant's; it is mapped meanwhile, and no program knows the
    /// module yet.
    fn store(&self, address: u64, bytes: u64, store: impl FnOnce(*mut u8)) {
        let mapped = self.tenant.space.access();
        if self.tenant.space.contains(address, bytes) {
            store(address as *mut u8);
        }
        drop(mapped);
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

    /// Says on standard error which file of the program's has no PTX: most programs tell of that by a
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
        logs.error.write(&refusal.why);
        logs.info.write("");
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
        if let Some(target) = logs.target.filter(|target| *target != own) {
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
                    (memory.allocated, logs.registers(self.device.settings.capability));
                let loaded = Loaded { module, memory, registers_max };
                logs.tell(&loaded, start.elapsed());
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
