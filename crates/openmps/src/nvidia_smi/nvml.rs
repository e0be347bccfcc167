//! NVML, as a program calls it: the project's libnvidia-ml.so.1, loaded from where its libraries are.

use crate::libraries::Libraries;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use thiserror::Error;

const FILE: &str = "libnvidia-ml.so.1";
/// Bytes of the longest text that is asked for.
const TEXT_BYTES: usize = 4096;
const INSUFFICIENT_SIZE: u32 = 7;
/// All ones: no limit.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NvmlError {
    #[error("{FILE} is neither beside this program nor where the loader looks: {0}")]
    Load(String),
    #[error("{1}")]
    Code(u32, String),
    #[error("{FILE} has no function {0}")]
    Function(&'static str),
}

impl NvmlError {
    /// NVML's number for it; that of a function that is not found where there is none.
    pub(super) fn code(&self) -> u32 {
        match self {
            Self::Load(_) => 12,
            Self::Code(code, _) => *code,
            Self::Function(_) => 13,
        }
    }
}

pub(crate) type Answer<T> = Result<T, NvmlError>;

/// The library, initialised until this is dropped.
pub(crate) struct Nvml {
    library: *mut c_void,
}

/// An `nvmlDevice_t`.
#[derive(Clone, Copy)]
pub(super) struct Device(*mut c_void);

/// Bytes of a device's memory.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) used: u64,
}

/// A process that uses a device: `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) memory_bytes: u64,
    instances: [u32; 2],
}

/// Limits of a cgroup's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) soft: u64,
    /// [`NO_LIMIT`]: none.
    pub(super) hard: u64,
    pub(super) used: u64,
}

/// `nvmlGetMemoryLimits_v1_t`; that for setting is the same without its end.
#[repr(C)]
struct RawLimits {
    name_space: *const c_char,
    soft: u64,
    hard: u64,
    used: u64,
}

/// Calls a function by its name, of these arguments; an error if it is missing or answers with one.
macro_rules! call {
    ($nvml:expr, $name:literal, $($argument:expr => $ty:ty),*) => {{
        let nvml: &Nvml = $nvml;
        let code = nvml.function($name)?;
        // SAFETY: nvml.h declares the function so. Pointers are of places that live across the call, and as long
        // as is said.
        let code = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> u32>(code)(
                $($argument),*
            )
        };
        nvml.check(code)
    }};
}

impl Nvml {
    pub(crate) fn load() -> Answer<Nvml> {
        let beside = Libraries::find().ok().map(|found| found.directory().join(FILE));
        let beside = beside.filter(|path| path.is_file());
        let name = beside.map_or_else(|| FILE.into(), |path| path.into_os_string());
        let failed = |reason: String| NvmlError::Load(reason);
        let name = CString::new(name.as_bytes()).map_err(|error| failed(error.to_string()))?;
        // SAFETY: a C string; the library is the project's own or the driver's. dlerror gives a C string
        // after a dlopen that failed, or NULL.
        let library = unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if library.is_null() {
                let text = libc::dlerror();
                let text = if text.is_null() { c"" } else { CStr::from_ptr(text) };
                return Err(failed(text.to_string_lossy().into_owned()));
            }
            library
        };
        let nvml = Nvml { library };
        call!(&nvml, "nvmlInit_v2",)?;
        Ok(nvml)
    }

    fn function(&self, name: &'static str) -> Answer<*mut c_void> {
        let text = CString::new(name).map_err(|_| NvmlError::Function(name))?;
        // SAFETY: the handle is of a library that stays loaded; the name is a C string.
        let code = unsafe { libc::dlsym(self.library, text.as_ptr()) };
        if code.is_null() { Err(NvmlError::Function(name)) } else { Ok(code) }
    }

    fn check(&self, code: u32) -> Answer<()> {
        if code == 0 {
            return Ok(());
        }
        let text = self.function("nvmlErrorString")?;
        // SAFETY: nvml.h declares it so; it returns a constant C string.
        let text = unsafe {
            let text = std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(c_uint) -> *const c_char,
            >(text)(code);
            CStr::from_ptr(text)
        };
        Err(NvmlError::Code(code, text.to_string_lossy().into_owned()))
    }

    /// A text that a function writes.
    fn text(&self, fill: impl FnOnce(*mut c_char, c_uint) -> Answer<()>) -> Answer<String> {
        let mut bytes = [0_u8; TEXT_BYTES];
        fill(bytes.as_mut_ptr().cast(), TEXT_BYTES as c_uint)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(TEXT_BYTES);
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    pub(crate) fn driver_version(&self) -> Answer<String> {
        self.text(|text, room| {
            call!(self, "nvmlSystemGetDriverVersion", text => *mut c_char, room => c_uint)
        })
    }

    /// `13.0`
    pub(super) fn cuda_version(&self) -> Answer<String> {
        let mut version: c_int = 0;
        call!(self, "nvmlSystemGetCudaDriverVersion_v2", &mut version => *mut c_int)?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// All devices, in their order.
    pub(super) fn devices(&self) -> Answer<Vec<Device>> {
        let mut count: c_uint = 0;
        call!(self, "nvmlDeviceGetCount_v2", &mut count => *mut c_uint)?;
        let one = |index: c_uint| {
            let mut device = Device(std::ptr::null_mut());
            let place = &mut device.0;
            call!(self, "nvmlDeviceGetHandleByIndex_v2",
                index => c_uint, place => *mut *mut c_void)?;
            Ok(device)
        };
        (0..count).map(one).collect()
    }

    pub(super) fn name(&self, device: Device) -> Answer<String> {
        self.text(|text, room| {
            call!(self, "nvmlDeviceGetName",
                device.0 => *mut c_void, text => *mut c_char, room => c_uint)
        })
    }

    pub(super) fn uuid(&self, device: Device) -> Answer<String> {
        self.text(|text, room| {
            call!(self, "nvmlDeviceGetUUID",
                device.0 => *mut c_void, text => *mut c_char, room => c_uint)
        })
    }

    pub(super) fn minor_number(&self, device: Device) -> Answer<u32> {
        let mut number: c_uint = 0;
        call!(self, "nvmlDeviceGetMinorNumber",
            device.0 => *mut c_void, &mut number => *mut c_uint)?;
        Ok(number)
    }

    /// `00000000:3B:00.0`
    pub(super) fn pci_bus_id(&self, device: Device) -> Answer<String> {
        // nvmlPciInfo_t: 16 bytes, five numbers, 32 bytes.
        let mut info = [0_u8; 68];
        call!(self, "nvmlDeviceGetPciInfo_v3",
            device.0 => *mut c_void, info.as_mut_ptr() => *mut u8)?;
        let text = &info[36..];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    pub(super) fn memory(&self, device: Device) -> Answer<Memory> {
        let mut memory = Memory::default();
        call!(self, "nvmlDeviceGetMemoryInfo",
            device.0 => *mut c_void, &mut memory => *mut Memory)?;
        Ok(memory)
    }

    /// Percent of the time in which a kernel ran.
    pub(super) fn busy(&self, device: Device) -> Answer<u32> {
        let mut rates = [0_u32; 2];
        call!(self, "nvmlDeviceGetUtilizationRates",
            device.0 => *mut c_void, rates.as_mut_ptr() => *mut u32)?;
        Ok(rates[0])
    }

    /// `9.0`
    pub(super) fn compute_capability(&self, device: Device) -> Answer<String> {
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        call!(self, "nvmlDeviceGetCudaComputeCapability",
            device.0 => *mut c_void, &mut major => *mut c_int, &mut minor => *mut c_int)?;
        Ok(format!("{major}.{minor}"))
    }

    pub(super) fn compute_mode(&self, device: Device) -> Answer<u32> {
        let mut mode: c_uint = 0;
        call!(self, "nvmlDeviceGetComputeMode",
            device.0 => *mut c_void, &mut mode => *mut c_uint)?;
        Ok(mode)
    }

    pub(super) fn set_compute_mode(&self, device: Device, mode: u32) -> Answer<()> {
        call!(self, "nvmlDeviceSetComputeMode", device.0 => *mut c_void, mode => c_uint)
    }

    /// MHz; `kind` is NVML's: 1 SM, 2 memory.
    pub(super) fn clock(&self, device: Device, kind: u32) -> Answer<u32> {
        let mut mhz: c_uint = 0;
        call!(self, "nvmlDeviceGetClockInfo",
            device.0 => *mut c_void, kind => c_uint, &mut mhz => *mut c_uint)?;
        Ok(mhz)
    }

    pub(super) fn processes(&self, device: Device) -> Answer<Vec<Process>> {
        let mut room = 64_u32;
        loop {
            let mut count = room;
            let mut processes = vec![Process::default(); room as usize];
            let answer = call!(self, "nvmlDeviceGetComputeRunningProcesses_v3",
                device.0 => *mut c_void, &mut count => *mut c_uint,
                processes.as_mut_ptr() => *mut Process);
            match answer {
                Err(NvmlError::Code(INSUFFICIENT_SIZE, _)) => room = count.max(room) * 2,
                answer => {
                    answer?;
                    processes.truncate(count as usize);
                    return Ok(processes);
                }
            }
        }
    }

    pub(super) fn process_name(&self, pid: u32) -> Answer<String> {
        self.text(|text, room| {
            call!(self, "nvmlSystemGetProcessName",
                pid => c_uint, text => *mut c_char, room => c_uint)
        })
    }

    /// Limits of the cgroup of a directory.
    pub(super) fn memory_limits(&self, device: Device, directory: &str) -> Answer<Limits> {
        let directory = CString::new(directory).unwrap_or_default();
        let mut raw = RawLimits { name_space: directory.as_ptr(), soft: 0, hard: 0, used: 0 };
        call!(self, "nvmlDeviceGetMemoryLimits_v1",
            device.0 => *mut c_void, &mut raw => *mut RawLimits)?;
        Ok(Limits { soft: raw.soft, hard: raw.hard, used: raw.used })
    }

    /// Sets them; what is used is none of them.
    pub(super) fn set_memory_limits(
        &self,
        device: Device,
        directory: &str,
        limits: Limits,
    ) -> Answer<()> {
        let directory = CString::new(directory).unwrap_or_default();
        let Limits { soft, hard, used } = limits;
        let mut raw = RawLimits { name_space: directory.as_ptr(), soft, hard, used };
        call!(self, "nvmlDeviceSetMemoryLimits_v1",
            device.0 => *mut c_void, &mut raw => *mut RawLimits)
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        let shut_down = || call!(self, "nvmlShutdown",);
        let _ = shut_down();
    }
}
