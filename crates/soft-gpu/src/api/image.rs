//! Images that programs load: PTX text, fat binaries, cubins; and what is said about them.

use std::ffi::{c_char, c_uint, c_void};
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use cuda_api::constants::jit_option;
use cuda_api::link::{LINK_INPUT_ENTRY, LINK_INPUTS_MAX};
use cuda_api::pointer::{FromProgram, In, Out};

use super::{Driver, thread};
use ptx::embedded::{self, ARCHIVE_MAGIC, EmbeddedError};
use ptx::fatbin::{EntryKind, Fatbin, PtxChoice, Wrapper};
use ptx::image::{self, Image, ImageKind};

use crate::device::limits::{COMPUTE_MAJOR, COMPUTE_MINOR, THREADS_PER_BLOCK_MAX};
use crate::device::memory::AllocationKind;
use crate::device::occupancy::threads_by_registers;
use crate::device::tenant::Tenant;
use crate::device::{Device, say};
use crate::error::{Error, Result};

use simt::CompileErrorKind;
use simt::heap::{DeviceHeap, HEAP_ALIGN, HEAP_BYTES};
use simt::kernel::{Module, ModuleMemory, OutOfMemory};
use simt::vector::Tier;
use simt_interpreter::{Checks, Interpreter};

/// What NVIDIA's driver has for the device runtime library of programs that are linked.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

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
    registers_max: Option<u32>,
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
    fn write(&self, text: &str) {
        let Some(place) = self.place else { return };
        // A buffer without room gets nothing; that is no error of the load.
        if place.set_text(self.bytes, text.as_bytes()).is_ok()
            && let Some(written) = self.written
        {
            written.set_if_wanted((text.len() + 1).min(self.bytes) as *mut c_void);
        }
    }
}

/// Kernels have no fewer registers than this, whatever is asked for.
const REGISTERS_MIN: u32 = 16;
/// Nor more than this.
const REGISTERS_MAX: u32 = 255;
/// Largest CU_JIT_OPTIMIZATION_LEVEL, and a number that no option of any version has reached.
const OPTIMIZATION_LEVEL_MAX: u32 = 4;
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
        let mut logs = Self::default();
        for index in 0..count as usize {
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
                jit_option::WALL_TIME => logs.wall_time = Some(values.offset(index)),
                jit_option::LOG_VERBOSE => logs.verbose = number != 0,
                jit_option::OPTIMIZATION_LEVEL if number > OPTIMIZATION_LEVEL_MAX => {
                    return Err(Error::INVALID_VALUE);
                }
                jit_option::INFO_LOG_BUFFER => logs.info.place = Some(place),
                jit_option::ERROR_LOG_BUFFER => logs.error.place = Some(place),
                jit_option::INFO_LOG_BUFFER_SIZE_BYTES => {
                    logs.info.bytes = value as usize & u32::MAX as usize;
                    logs.info.written = Some(values.offset(index));
                }
                jit_option::ERROR_LOG_BUFFER_SIZE_BYTES => {
                    logs.error.bytes = value as usize & u32::MAX as usize;
                    logs.error.written = Some(values.offset(index));
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
    fn registers(&self) -> u32 {
        let threads = self.threads_per_block.unwrap_or(1).min(THREADS_PER_BLOCK_MAX);
        let fitting = (REGISTERS_MIN..=REGISTERS_MAX)
            .rev()
            .find(|registers| threads_by_registers(*registers) >= threads)
            .unwrap_or(REGISTERS_MIN);
        self.registers_max.unwrap_or(REGISTERS_MAX).clamp(REGISTERS_MIN, fitting)
    }

    /// Says what came of a load: for each kernel what it needs, if that is wanted.
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
}

impl ModuleMemory for VariableMemory<'_> {
    fn allocate(
        &mut self,
        bytes: u64,
        align: u64,
        writable: bool,
    ) -> std::result::Result<u64, OutOfMemory> {
        let kind = AllocationKind::Module { writable };
        let address = self
            .device
            .allocate(self.tenant, self.context, bytes.max(1), align.max(1), kind)
            .map_err(|_| OutOfMemory)?;
        self.allocated.push(address);
        // A heap's memory may have been used before.
        // SAFETY: just allocated, `bytes` long, and known to nobody else.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        Ok(address)
    }

    fn allocate_managed(&mut self, bytes: u64) -> std::result::Result<u64, OutOfMemory> {
        match self.tenant.managed_place(bytes) {
            Some(0) => Err(OutOfMemory),
            // It is of whoever said it.
            Some(address) => Ok(address),
            None => {
                let kind = AllocationKind::Managed;
                let address = self.device.allocate(self.tenant, self.context, bytes, 1, kind);
                let address = address.map_err(|_| OutOfMemory)?;
                self.allocated.push(address);
                // SAFETY: just allocated, `bytes` long, and known to nobody else.
                unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
                Ok(address)
            }
        }
    }

    fn heap(&mut self) -> std::result::Result<Arc<DeviceHeap>, OutOfMemory> {
        let key = (self.context, self.tenant.id);
        let mut heaps = self.driver.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heap) = heaps.get(&key) {
            return Ok(heap.clone());
        }
        let bytes = thread::current().map_or(HEAP_BYTES, |context| context.heap_bytes());
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
        let mapped = self.tenant.space.access();
        if self.tenant.space.contains(address, bytes.len() as u64) {
            // SAFETY: checked, and mapped while `mapped` lives; nobody knows the module yet.
            unsafe { (address as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) };
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
        let text = read_image(image).inspect_err(|refusal| self.report(logs, refusal));
        let text = text.map_err(|refusal| refusal.error)?;
        self.load_text(tenant, context, &text, logs)
    }

    /// Loads the contents of a file.
    pub(crate) fn load_file(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        bytes: &[u8],
        logs: &JitOptions,
    ) -> Result<Loaded> {
        let text = choose_ptx(bytes).inspect_err(|refusal| self.report(logs, refusal));
        let text = text.map_err(|refusal| refusal.error)?;
        self.load_text(tenant, context, &text, logs)
    }

    /// What runs kernels. Findings are what the user asked to see, so they go to standard error
    /// also where nothing else does.
    fn tier(&self) -> Arc<dyn Tier> {
        if !self.device.settings.check {
            let settings = &self.device.settings;
            return settings.tiers.tier(settings.flavour, &self.code);
        }
        let report = Arc::new(|finding: &str| say(finding));
        let written = self.device.written.clone();
        Arc::new(Interpreter::new().checking(Checks { report, written }))
    }

    fn report(&self, logs: &JitOptions, refusal: &Refusal) {
        logs.error.write(&refusal.why);
        self.device.log(&refusal.why);
    }

    fn load_text(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        text: &str,
        logs: &JitOptions,
    ) -> Result<Loaded> {
        let start = Instant::now();
        let mut memory = VariableMemory {
            driver: self,
            device: &self.device,
            tenant,
            context,
            allocated: Vec::new(),
        };
        match simt::load_module(text, &mut memory, self.tier()) {
            Ok(module) => {
                let (memory, registers_max) = (memory.allocated, logs.registers());
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

/// Why an image cannot be loaded.
struct Refusal {
    error: Error,
    why: String,
}

/// Memory of the program's from an image's start on.
struct ProgramMemory(In<u8>);

impl image::Memory for ProgramMemory {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> bool {
        // The image says how long it is, and the program that it is there.
        match self.0.offset(offset as usize).slice(out.len(), out.len()) {
            Ok(bytes) => out.copy_from_slice(bytes),
            Err(_) => return false,
        }
        true
    }

    fn text_length(&mut self, limit: usize) -> Option<usize> {
        // SAFETY: text ends with a NUL (by the manual), beyond which strnlen does not look.
        let length = unsafe { libc::strnlen(self.0.address() as *const _, limit + 1) };
        (length <= limit).then_some(length)
    }
}

/// PTX text from a pointer to an image.
fn read_image(image: In<c_void>) -> std::result::Result<String, Refusal> {
    let at: In<u8> = image.cast();
    if at.address() == 0 {
        return Err(Refusal { error: Error::INVALID_VALUE, why: "the image is NULL".into() });
    }
    match image::measure(&mut ProgramMemory(at)) {
        Ok(Image::Whole { bytes, .. }) => choose_ptx(in_place(at, bytes)?),
        Ok(Image::Indirect(wrapper)) => read_wrapped(&wrapper),
        Err(error) => Err(invalid(&error)),
    }
}

/// PTX text from what a wrapper leads to: a fat binary, or those that were linked to make it.
fn read_wrapped(wrapper: &Wrapper) -> std::result::Result<String, Refusal> {
    const LINKED: u32 = 2;
    let whole = fatbin_at(in_program(wrapper.data))?;
    let has_ptx =
        Fatbin::read(whole).is_ok_and(|f| f.entries.iter().any(|e| e.kind == EntryKind::Ptx));
    if wrapper.version != LINKED || wrapper.second == 0 || has_ptx {
        return choose_ptx(whole);
    }
    let mut parts = Vec::new();
    let addresses: In<u64> = in_program(wrapper.second).cast();
    loop {
        match addresses.at(parts.len()).map_err(|_| invalid(&"the fat binaries end"))? {
            0 => return link(&parts),
            _ if parts.len() >= LINK_INPUTS_MAX => return Err(invalid(&"too many fat binaries")),
            address => parts.push(fatbin_at(in_program(address))?),
        }
    }
}

/// The place in the program's memory that an address in an image leads to.
fn in_program(address: u64) -> In<u8> {
    // SAFETY: an image holds the addresses of its parts (fatbinary wrappers), or NULL.
    unsafe { (address as *const u8).believe() }
}

/// The bytes of a fat binary.
fn fatbin_at<'a>(at: In<u8>) -> std::result::Result<&'a [u8], Refusal> {
    match image::measure(&mut ProgramMemory(at)) {
        Ok(Image::Whole { kind: ImageKind::Fatbin, bytes }) => in_place(at, bytes),
        Ok(_) => Err(invalid(&"a wrapper leads to what is no fat binary")),
        Err(error) => Err(invalid(&error)),
    }
}

fn in_place<'a>(at: In<u8>, bytes: usize) -> std::result::Result<&'a [u8], Refusal> {
    at.slice(bytes, bytes).map_err(|error| Refusal { error, why: "the image is NULL".into() })
}

/// PTX text from the bytes of an image.
fn choose_ptx(bytes: &[u8]) -> std::result::Result<String, Refusal> {
    match image::kind_of(bytes) {
        Some(ImageKind::Ptx) => text_of(bytes),
        Some(ImageKind::Fatbin) => {
            let fatbin = Fatbin::read(bytes).map_err(|error| invalid(&error))?;
            let to_link: Vec<&[u8]> = fatbin
                .entries
                .iter()
                .filter(|entry| entry.kind == EntryKind::Other(LINK_INPUT_ENTRY))
                .map(|entry| entry.stored)
                .collect();
            if to_link.is_empty() { choose_of(&fatbin) } else { link(&to_link) }
        }
        Some(ImageKind::Elf) => Err(no_binary("machine code only")),
        Some(ImageKind::Wrapper) | None => Err(Refusal {
            error: Error::INVALID_IMAGE,
            why: "the image is neither PTX text nor a fat binary".into(),
        }),
    }
}

/// The PTX text of a fat binary that suits the device best.
fn choose_of(fatbin: &Fatbin<'_>) -> std::result::Result<String, Refusal> {
    let sm = (COMPUTE_MAJOR * 10 + COMPUTE_MINOR) as u32;
    // PTX for later devices is taken too: what is in it that we lack traps when reached.
    match fatbin.ptx_for(sm, PtxChoice::Any) {
        Some(entry) => text_of(&entry.payload().map_err(|error| invalid(&error))?),
        None => Err(no_binary(&fatbin.architectures())),
    }
}

/// One PTX text of several images: PTX, or what has some in it; and of our part of the device
/// runtime, of which nothing stays that is not called.
fn link(images: &[&[u8]]) -> std::result::Result<String, Refusal> {
    let mut texts = Vec::new();
    for image in images {
        match image::kind_of(image) {
            Some(ImageKind::Ptx) => texts.push(text_of(image)?),
            Some(ImageKind::Fatbin) => {
                texts.push(choose_of(&Fatbin::read(image).map_err(|error| invalid(&error))?)?);
            }
            Some(ImageKind::Elf) => texts.push(choose_in_object(image)?),
            _ if image.starts_with(ARCHIVE_MAGIC) => {
                for member in embedded::archive_members(image) {
                    texts.push(choose_in_object(member)?);
                }
            }
            _ => return Err(invalid(&"what is to be linked is of no known kind")),
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).chain([DEVICE_RUNTIME]).collect();
    ptx::link::link(&texts)
        .map_err(|error| Refusal { error: Error::INVALID_PTX, why: error.to_string() })
}

/// The PTX text of an object file, which is of one source, that suits the device best: the latest
/// that is not later, else the earliest.
fn choose_in_object(object: &[u8]) -> std::result::Result<String, Refusal> {
    let texts = embedded::texts(object).map_err(|error| match error {
        EmbeddedError::NoPtx(_) => no_binary("machine code only among what is to be linked"),
        error => invalid(&error),
    })?;
    let sm = |text: &embedded::Text| -> u32 {
        let name = text.architecture.as_deref().unwrap_or_default();
        name.trim_start_matches("compute_").parse().unwrap_or(u32::MAX)
    };
    let own = (COMPUTE_MAJOR * 10 + COMPUTE_MINOR) as u32;
    let best = texts.iter().filter(|text| sm(text) <= own).max_by_key(|text| sm(text));
    match best.or_else(|| texts.iter().min_by_key(|text| sm(text))) {
        Some(text) => text_of(&text.bytes),
        None => Err(no_binary("nothing")),
    }
}

fn text_of(bytes: &[u8]) -> std::result::Result<String, Refusal> {
    // Text in fat binaries and files may have NULs at its end.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).map(str::to_owned).map_err(|error| Refusal {
        error: Error::INVALID_PTX,
        why: format!("the PTX is not UTF-8 text: {error}"),
    })
}

fn invalid(error: &dyn std::fmt::Display) -> Refusal {
    Refusal { error: Error::INVALID_IMAGE, why: error.to_string() }
}

fn no_binary(what: &str) -> Refusal {
    Refusal {
        error: Error::NO_BINARY_FOR_GPU,
        why: format!(
            "the image has no PTX (it has {what}), and the software GPU runs no machine code; \
             compile with -gencode arch=compute_80,code=compute_80"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

    #[test]
    fn several_inputs_become_one_text() {
        let caller = format!("{HEADER}.extern .func f();\n.visible .entry k() {{ call f; ret; }}");
        let callee = format!("{HEADER}.visible .func f() {{ ret; }}");
        let inputs = [caller.as_bytes(), callee.as_bytes()];
        let packed = cuda_api::link::pack(inputs.into_iter());
        let Ok(text) = choose_ptx(&packed) else { panic!("not linked") };
        let module = ptx::parse(&text).unwrap();
        let callee = module.find_function("f").unwrap();
        assert!(module.function(callee).body.is_some());
        assert_eq!(module.kernels().count(), 1);
    }

    #[test]
    fn what_cannot_be_linked_is_said() {
        let twice = format!("{HEADER}.visible .func f() {{ ret; }}");
        let inputs = [twice.as_bytes(), twice.as_bytes()];
        let refusal = choose_ptx(&cuda_api::link::pack(inputs.into_iter())).err().unwrap();
        assert_eq!(refusal.error, Error::INVALID_PTX);
        assert!(refusal.why.contains("defines f again"), "{}", refusal.why);
        let code = choose_ptx(&cuda_api::link::pack([&b"\x7fELF...."[..]].into_iter()));
        let error = code.err().unwrap().error;
        assert!(matches!(error, Error::INVALID_IMAGE | Error::NO_BINARY_FOR_GPU), "{error:?}");
    }
}
