//! A client's modules and functions.

use crate::account::Charge;
use crate::device::{Function, ManagedVariables, Module};
use crate::meter::KernelMeter;
use crate::session::handles::Table;
use crate::session::module::code::Placed;
use cuda_api::CudaError;
use cuda_api::handle::HandleKind;
use std::ffi::{CStr, CString};

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
}

impl Modules {
    /// No modules.
    pub fn new() -> Self {
        Self {
            functions: Table::new(HandleKind::Function, FUNCTIONS_MAX),
            modules: Table::new(HandleKind::Module, MODULES_MAX),
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

    /// The function of a handle, to change it.
    pub fn function_mut(&mut self, word: u64) -> Result<&mut Function, CudaError> {
        self.functions.get_mut(word).map(|loaded| &mut loaded.function)
    }

    /// Takes a module out, with its functions. None of them may be in use.
    pub fn remove(&mut self, word: u64) -> Result<LoadedModule, CudaError> {
        self.modules.get(word)?;
        self.functions.retain(|function| function.module != word);
        self.modules.take(word)
    }

    /// Keeps a function under a handle; the same one again changes nothing.
    pub fn add_function(
        &mut self,
        word: u64,
        module: u64,
        name: CString,
        function: Function,
        meter: KernelMeter,
    ) -> Result<(), CudaError> {
        let may_print = self.modules.get(module)?.may_print;
        let handle = self.functions.vacant(word)?;
        self.functions.put(
            handle,
            LoadedFunction {
                function,
                may_print,
                wants_all_sms: false,
                meter,
                launches: 0,
                name,
                module,
            },
        );
        Ok(())
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
