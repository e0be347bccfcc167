//! The driver API on top of the device: one thin C function for each row of the table that the
//! software GPU implements, grouped as the manual groups them.
//!
//! Each checks its arguments, does its work through [`crate::device`], and answers a CUresult; a
//! panic does not leave it. Handles are index and generation, never pointers. Symbols of the
//! table that are not exported here answer CUDA_ERROR_NOT_SUPPORTED wherever the table is loaded.

mod array;
mod children;
mod conditional;
mod context;
mod context_object;
mod context_waits;
mod copy;
mod device_use;
mod devices;
mod event;
mod extension;
mod fill;
mod function;
mod graph;
mod graph_exec;
mod green;
mod host_memory;
mod host_op;
mod image;
mod image_choice;
mod image_file;
mod init;
mod ipc;
mod launch;
mod library;
mod link;
mod managed;
mod memory;
mod module;
mod occupancy;
mod old_launch;
mod pointer_attributes;
mod pool;
mod pool_memory;
mod pool_share;
mod prepare;
mod registry;
mod resource;
mod shared_words;
mod stream;
mod stream_values;
mod tables;
mod tensor_map;
mod texture;
mod thread;
mod virtual_memory;

use locks::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ::graph::Graphs;
use cuda_api::advice::AdviceMap;
use cuda_api::handle::HandleKind;
use driver_common::stream_attributes::StreamAttributes;

use self::array::{Array, MipmappedArray};
use self::context::Primary;
use self::context_object::Context;
use self::event::Event;
use self::function::Function;
use self::graph_exec::GraphExec;
use self::ipc::OpenedTables;
use self::library::Library;
use self::link::LinkState;
use self::module::LoadedModule;
use self::pool_memory::Pool;
use self::registry::Registry;
use self::shared_words::WordSource;
use self::stream::StreamEntry;
use self::texture::ImageObject;
use crate::device::Device;
use crate::device::settings::{CodeStore, Settings};
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::tenant::{Tenant, TenantId};
use crate::error::{Error, Result};
use simt::runtime::heap::DeviceHeap;

/// The one driver of the process.
pub(crate) struct Driver {
    pub(crate) device: Arc<Device>,
    contexts: Registry<Context>,
    streams: Registry<StreamEntry>,
    events: Registry<Event>,
    modules: Registry<LoadedModule>,
    libraries: Registry<Library>,
    /// Functions; CUkernel handles name the same objects by another kind.
    functions: Registry<Function>,
    pools: Registry<Pool>,
    graphs: Graphs<GraphExec>,
    links: Registry<LinkState>,
    /// The SMs of what green contexts are to be made of.
    descriptions: Registry<Vec<Range<u32>>>,
    arrays: Registry<Array>,
    mipmapped: Registry<MipmappedArray>,
    /// Texture and surface objects by their handles, which are addresses.
    images: Mutex<HashMap<u64, ImageObject>>,
    /// What kernels' `malloc` takes from, by the number of the context and the tenant.
    heaps: Mutex<HashMap<(u64, TenantId), Arc<DeviceHeap>>>,
    advice: Mutex<AdviceMap>,
    stream_attributes: Mutex<HashMap<Key<Stream>, StreamAttributes>>,
    /// Memory and events of other processes.
    opened: Mutex<OpenedTables>,
    event_words: WordSource,
    /// By device.
    default_pools: Vec<OnceLock<usize>>,
    current_pools: Mutex<HashMap<u32, usize>>,
    /// By device.
    primaries: Vec<Mutex<Primary>>,
    uses: device_use::Uses,
    /// Numbers of contexts: the first may touch the second one's memory.
    peers: Mutex<HashSet<(u64, u64)>>,
    numbers: AtomicU64,
    /// Native code of kernels.
    code: Arc<simt_jit::Cache>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
/// Set in the child of a fork: the device's threads are not there, so nothing works.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The driver, once cuInit has been called.
pub(crate) fn driver() -> Result<&'static Driver> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Error::NOT_INITIALIZED);
    }
    DRIVER.get().ok_or(Error::NOT_INITIALIZED)
}

/// Leaves behind what was asked for.
extern "C" fn at_exit() {
    if let Ok(driver) = driver() {
        driver.device.write_profile();
    }
}

/// Makes the driver if there is none yet.
fn initialize() -> Result {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Error::NOT_INITIALIZED);
    }
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let settings = Settings::from_environment();
    if settings.devices.is_empty() {
        return Err(Error::NO_DEVICE);
    }
    DRIVER.get_or_init(move || {
        // SAFETY: the library is never unloaded, so the handlers are there when they are called; that of the
        // child only stores to atomics and closes descriptors.
        unsafe {
            libc::pthread_atfork(None, None, Some(after_fork_in_child));
            libc::atexit(at_exit);
        }
        if settings.context_waits {
            context_waits::begin();
        }
        let count = settings.devices.len();
        let store = settings.code_store.as_ref().map(CodeStore::open);
        Driver {
            code: Arc::new(simt_jit::Cache::new(store)),
            device: Device::new(settings),
            contexts: Registry::new(HandleKind::Context),
            streams: Registry::new(HandleKind::Stream),
            events: Registry::new(HandleKind::Event),
            modules: Registry::new(HandleKind::Module),
            libraries: Registry::new(HandleKind::Library),
            functions: Registry::new(HandleKind::Function),
            pools: Registry::new(HandleKind::MemoryPool),
            graphs: Graphs::new(),
            links: Registry::new(HandleKind::LinkState),
            descriptions: Registry::new(HandleKind::ResourceDescription),
            arrays: Registry::new(HandleKind::Array),
            mipmapped: Registry::new(HandleKind::MipmappedArray),
            images: Mutex::default(),
            heaps: Mutex::default(),
            advice: Mutex::default(),
            stream_attributes: Mutex::default(),
            opened: Mutex::default(),
            event_words: WordSource::default(),
            default_pools: (0..count).map(|_| OnceLock::new()).collect(),
            current_pools: Mutex::default(),
            primaries: (0..count).map(|_| Mutex::default()).collect(),
            uses: device_use::Uses::new(count),
            peers: Mutex::default(),
            numbers: AtomicU64::new(1),
        }
    });
    Ok(())
}

extern "C" fn after_fork_in_child() {
    FORKED.store(true, Ordering::Relaxed);
    if let Some(driver) = DRIVER.get() {
        driver.device.close_locked_files_after_fork();
        driver.uses.forget_after_fork();
    }
}

impl Driver {
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn lock_primary(&self, device: u32) -> Result<MutexGuard<'_, Primary>> {
        let primary = self.primaries.get(device as usize).ok_or(Error::INVALID_DEVICE)?;
        Ok(primary.lock())
    }

    /// Shows what kernels of the default tenant printed; another tenant's output is asked for
    /// through the extension.
    fn flush_printf(&self, tenant: &Tenant) {
        if self.device.is_default(tenant) {
            tenant.printf.flush();
        }
    }
}

/// Runs the body of a C function; a panic in it is CUDA_ERROR_UNKNOWN.
fn entry(waits: context_waits::Waits, body: impl FnOnce() -> Result) -> Result {
    let run = || context_waits::run(waits, body);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Error::UNKNOWN))
}

/// An exported function by name, for cuGetProcAddress.
pub(crate) struct Export {
    name: &'static str,
    address: *const c_void,
}

// SAFETY: the address is that of a function, which is the same for all threads.
unsafe impl Sync for Export {}

/// Defines one exported function, whose body has the arguments as the program's word for them.
macro_rules! export {
    ($name:ident($($param:ident: $ty:ty),* $(,)?), $waits:expr, $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "C's signature")]
        pub(crate) unsafe extern "C" fn $name($($param: $ty),*) -> cuda_api::CUresult {
            $(
                // SAFETY: the program promises what the function's documentation asks of this argument.
                let $param = unsafe { cuda_api::pointer::FromProgram::believe($param) };
            )*
            crate::api::entry($waits, move || $body)
        }
    };
}
use export;

/// Defines exported functions. `fn name(..) | variant per_thread` also exports the variant for the
/// per-thread default stream; in the body `per_thread` says which of the two was called.
macro_rules! exports {
    ($(
        fn $name:ident $params:tt $(| $variant:ident $flag:ident)? $body:block
    )*) => {
        use std::ffi::*;

        /// What this file exports.
        pub(crate) static EXPORTS: &[crate::api::Export] = &[
            $(
                crate::api::Export {
                    name: stringify!($name),
                    address: $name as *const c_void,
                },
                $(crate::api::Export {
                    name: stringify!($variant),
                    address: $variant as *const c_void,
                },)?
            )*
        ];

        $(
            exports!(@one $name, ($($flag = false)?), $params, $body);
            $(exports!(@one $variant, ($flag = true), $params, $body);)?
            const _: cuda_api::signature::$name = $name;
        )*
    };
    (@one $name:ident, ($($flag:ident = $value:literal)?), $params:tt, $body:block) => {
        crate::api::export! {
            $name $params, const { crate::api::context_waits::Waits::of(stringify!($name)) }, {
                $(let $flag = $value;)?
                $body
            }
        }
    };
}
use exports;

/// Every function that the software GPU exports.
static EXPORTS: &[&[Export]] = &[
    array::EXPORTS,
    context::EXPORTS,
    copy::EXPORTS,
    devices::EXPORTS,
    event::EXPORTS,
    fill::EXPORTS,
    function::EXPORTS,
    graph::EXPORTS,
    green::EXPORTS,
    host_memory::EXPORTS,
    init::EXPORTS,
    ipc::EXPORTS,
    launch::EXPORTS,
    library::EXPORTS,
    link::EXPORTS,
    managed::EXPORTS,
    memory::EXPORTS,
    module::EXPORTS,
    occupancy::EXPORTS,
    old_launch::EXPORTS,
    pointer_attributes::EXPORTS,
    pool::EXPORTS,
    pool_share::EXPORTS,
    resource::EXPORTS,
    stream::EXPORTS,
    stream_values::EXPORTS,
    tensor_map::EXPORTS,
    texture::EXPORTS,
    virtual_memory::EXPORTS,
];

/// Address of an exported function.
fn exported(name: &str) -> Option<*const c_void> {
    EXPORTS.iter().flat_map(|file| file.iter()).find(|e| e.name == name).map(|e| e.address)
}

#[cfg(test)]
mod tests;
