//! A client's modules and functions.

use crate::account::Charge;
use crate::common::Common;
use crate::device::{Function, ManagedVariables, Module, Share};
use crate::meter::{KernelCounters, KernelMeter};
use crate::session::SessionLink;
use crate::session::handles::Table;
use crate::session::memory::Memory;
use crate::session::module::code::Placed;
use channel::request::{
    FunctionInfo, FunctionNames, GetFunction, GetGlobal, GlobalInfo, ListFunctions, NAMES_BYTES_MAX,
};
use cuda_api::handle::HandleKind;
use cuda_api::{CUdeviceptr, CUresult, CudaError, Word};
use std::ffi::{CStr, CString};
use std::rc::Rc;
use std::sync::Arc;

/// Most modules of a client. Programs have up to some thousands: cuFFT makes one a kernel.
pub const MODULES_MAX: usize = channel::limits::MODULES_MAX as usize;
/// Most functions of a client: cuBLAS has some ten thousands of kernels, of which programs use
/// hundreds.
pub const FUNCTIONS_MAX: usize = channel::limits::FUNCTIONS_MAX as usize;

/// A module with what was found in it.
pub struct LoadedModule {
    /// The module at the provider.
    pub module: Module,
    /// True if its kernels may print.
    pub may_print: bool,
    /// First addresses of the globals that were asked for.
    pub globals: Vec<u64>,
    /// Where its variables are that the provider has not placed.
    pub placed: Placed,
    /// The memory of variables that the client reaches too. Dropped after the module.
    pub managed: Option<ManagedVariables>,
    /// What is charged for its variables.
    pub _charge: Charge,
}

/// A function with the module that it is of.
pub struct LoadedFunction {
    /// The function at the provider.
    pub function: Function,
    /// True if it may print.
    pub may_print: bool,
    /// True if its clusters were found not to fit beside the SMs that batch work keeps free.
    pub wants_all_sms: bool,
    /// What is counted of its launches.
    pub meter: KernelMeter,
    /// How often it was launched, counters on or off.
    pub launches: u32,
    name: CString,
    module: u64,
}

/// The client's modules and functions. Functions are dropped before their module.
pub struct Modules {
    functions: Table<LoadedFunction>,
    modules: Table<LoadedModule>,
    /// A text that was compiled to see how much room its variables need, and its cubin.
    pub(in crate::session) compiled: Option<(Vec<u8>, Vec<u8>)>,
    pub(in crate::session) share: Rc<Share>,
    pub(in crate::session) link: Arc<SessionLink>,
    pub(in crate::session) common: Arc<Common>,
}

impl Modules {
    /// No modules.
    pub(in crate::session) fn new(
        share: &Rc<Share>,
        link: &Arc<SessionLink>,
        common: &Arc<Common>,
    ) -> Self {
        Self {
            functions: Table::new(HandleKind::Function, FUNCTIONS_MAX),
            modules: Table::new(HandleKind::Module, MODULES_MAX),
            compiled: None,
            share: share.clone(),
            link: link.clone(),
            common: common.clone(),
        }
    }

    /// Answers whether a new module can have that handle.
    pub fn vacant(&self, module: u64) -> Result<(), CudaError> {
        self.modules.vacant(module).map(|_| ())
    }

    /// Keeps a module under a handle.
    pub fn add(&mut self, word: u64, module: LoadedModule) -> Result<(), CudaError> {
        let handle = self.modules.vacant(word)?;
        self.modules.put(handle, module);
        Ok(())
    }

    /// The module of a handle.
    pub fn module(&mut self, word: u64) -> Result<&mut LoadedModule, CudaError> {
        self.modules.get_mut(word)
    }

    /// Unloads a module with its functions. None of them may be in use.
    pub fn unload(&mut self, word: u64, memory: &mut Memory) -> CUresult {
        self.modules.get(word)?;
        self.functions.retain(|function| function.module != word);
        let LoadedModule { module, globals, managed, .. } = self.modules.take(word)?;
        for address in globals {
            memory.remove_global(address);
        }
        if let Some(managed) = &managed {
            memory.remove_managed(managed);
        }
        memory.retired.module(module, managed);
        Ok(())
    }

    /// Keeps a function under a handle of the client's.
    pub fn get_function(&mut self, request: GetFunction<'_>) -> Result<FunctionInfo, CudaError> {
        let module = request.module.0 as u64;
        let name = symbol(request.name)?;
        let LoadedModule { module: loaded, may_print, .. } = self.modules.get(module)?;
        let function = loaded.function(&name)?;
        if let Some(key) = loaded.key() {
            self.common.warm.uses(key, &name);
        }
        let info = FunctionInfo {
            attributes: *function.attributes(),
            parameters: function.parameters().to_vec(),
        };
        let new = |name: &CStr| KernelCounters::new(name, function.attributes());
        let meter = KernelMeter::new(self.link.counters.kernel(&name, new));
        let handle = self.functions.vacant(request.function.0 as u64)?;
        let (may_print, wants_all_sms, launches) = (*may_print, false, 0);
        let function =
            LoadedFunction { function, may_print, wants_all_sms, meter, launches, name, module };
        self.functions.put(handle, function);
        Ok(info)
    }

    /// cuFuncSetAttribute's words: function, attribute, value.
    pub fn set_attribute(&mut self, words: &[u64]) -> CUresult {
        let &[function, attribute, value] = words else { return Err(CudaError::INVALID_VALUE) };
        let attribute = u32::try_from(attribute).map_err(|_| CudaError::INVALID_VALUE)?;
        let value = i32::from_word(value).ok_or(CudaError::INVALID_VALUE)?;
        let calls = self.share.device().calls();
        self.functions.get_mut(function)?.function.set_attribute(calls, attribute, value)
    }

    /// cuFuncSetCacheConfig's words: function, preference.
    pub fn set_cache(&self, words: &[u64]) -> CUresult {
        let &[function, preferred] = words else { return Err(CudaError::INVALID_VALUE) };
        let preferred = u32::try_from(preferred).map_err(|_| CudaError::INVALID_VALUE)?;
        self.function(function)?.set_cache(self.share.device().calls(), preferred)
    }

    /// The names of a module's functions from one of them on, as many as fit into an answer.
    pub fn list_functions(&mut self, r: ListFunctions) -> Result<FunctionNames, CudaError> {
        let all = self.module(r.module.0 as u64)?.module.function_names()?;
        let total = u32::try_from(all.len()).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let mut names = Vec::new();
        for name in all.iter().skip(r.first as usize) {
            let name = name.as_bytes_with_nul();
            if names.len() + name.len() > NAMES_BYTES_MAX {
                break;
            }
            names.extend_from_slice(name);
        }
        Ok(FunctionNames { total, names })
    }

    /// Lets the client use a global of a module.
    pub fn get_global(
        &mut self,
        request: GetGlobal<'_>,
        memory: &mut Memory,
    ) -> Result<GlobalInfo, CudaError> {
        let name = symbol(request.name)?;
        let loaded = self.modules.get_mut(request.module.0 as u64)?;
        let placed = name.to_str().ok().and_then(|name| loaded.placed.get(name));
        let (address, bytes) = placed.copied().map_or_else(|| loaded.module.global(&name), Ok)?;
        let shared = loaded.managed.as_ref().is_some_and(|m| m.contains(address, bytes));
        if !shared && loaded.module.is_managed(address) {
            let (name, client) = (name.to_string_lossy(), self.link.name());
            let why = "the device's driver keeps it where only this process reaches it";
            let log = &self.common.log;
            log.line(format!("Client {client} has no managed variable {name}: {why}"));
            return Err(CudaError::NOT_SUPPORTED);
        }
        if request.managed && !shared {
            return Err(CudaError::NOT_FOUND);
        }
        if memory.add_global(address, bytes)? {
            loaded.globals.push(address);
        }
        Ok(GlobalInfo { address: CUdeviceptr(address), bytes })
    }

    /// The function of a handle.
    #[inline]
    pub fn function(&self, word: u64) -> Result<&Function, CudaError> {
        self.loaded(word).map(|loaded| &loaded.function)
    }

    /// The function of a handle, with what is known of it.
    #[inline]
    pub fn loaded(&self, word: u64) -> Result<&LoadedFunction, CudaError> {
        self.functions.get(word)
    }

    /// As [`Modules::loaded`], to count a launch.
    #[inline]
    pub fn loaded_mut(&mut self, word: u64) -> Result<&mut LoadedFunction, CudaError> {
        self.functions.get_mut(word)
    }

    /// The module that a function is of.
    pub fn module_of(&self, function: u64) -> Result<u64, CudaError> {
        self.functions.get(function).map(|loaded| loaded.module)
    }

    /// The name of a function, as its image has it.
    pub fn name(&self, word: u64) -> Option<&CStr> {
        self.functions.get(word).ok().map(|loaded| loaded.name.as_c_str())
    }

    /// Drops the modules whose end waits for nothing because other clients have the code too, or will.
    /// None of their kernels may run.
    pub fn clear_shared(&mut self) {
        let is_own = |loaded: &LoadedModule| loaded.module.is_own();
        let modules = &self.modules;
        self.functions.retain(|function| modules.get(function.module).is_ok_and(is_own));
        self.modules.retain(is_own);
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.functions.clear();
        self.modules.clear();
    }
}

/// A name as a C string; there is no symbol with a NUL in its name.
fn symbol(name: &[u8]) -> Result<CString, CudaError> {
    CString::new(name).map_err(|_| CudaError::NOT_FOUND)
}
