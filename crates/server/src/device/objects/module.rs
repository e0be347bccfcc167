//! Modules: images that the provider has loaded.

use crate::device::objects::code_cache::{CodeKey, Idle, SharedCode};
use crate::device::objects::jit_option::JitOptions;
use crate::device::objects::linking;
use crate::device::objects::variables::{self, FirstValues};
use crate::device::safe_calls::{Live, Owned};
use crate::device::share::{gone, made};
use crate::device::{BuildLog, ContextCall, Device, Function, NumericJitOption, Share};
use cuda_api::constants::function_attribute;
use cuda_api::{CUdeviceptr, CUfunction, CUmodule, CUresult, CudaError};
use ptx::module_state::{self, Variables};
use std::ffi::{CStr, CString};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// Zero bytes behind an image, so that a parser that looks for the end of a text finds one.
pub const IMAGE_PADDING_BYTES: usize = 64;

/// What was loaded ahead of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreparedCode {
    /// Kernels.
    pub kernels: u32,
    /// Most local memory that a thread of one of them needs, bytes.
    pub local_bytes: u64,
}

/// A loaded module.
pub struct Module {
    share: Rc<Share>,
    code: Code,
    is_new: bool,
}

/// Whose code it is.
enum Code {
    /// This module's alone.
    Own(Owned<CUmodule>),
    /// Several clients'.
    Shared(Arc<SharedCode>),
    /// This module's alone, and kept for another client when it goes. Bytes of its image.
    Recycled(Arc<SharedCode>, u64),
}

impl Code {
    /// What outlives the module.
    fn shared(&self) -> Option<&Arc<SharedCode>> {
        match self {
            Self::Own(_) => None,
            Self::Shared(code) | Self::Recycled(code, _) => Some(code),
        }
    }
}

impl Module {
    /// Loads an image whose structure was checked to stay within its bytes. The logs are given
    /// room for as many bytes as asked for and come back in any case.
    pub fn load(
        share: &Rc<Share>,
        image: Vec<u8>,
        options: &[NumericJitOption],
        log_bytes: (usize, usize),
    ) -> (Result<Self, CudaError>, BuildLog) {
        let loader = Loader { device: share.device(), share: Some(share), is_alone: false };
        let (raw, log) = loader.load(image, options, log_bytes, |_| ());
        let module = raw.map(|raw| Self::of(share, Code::Own(raw), true));
        (module, log)
    }

    /// As [`Module::load`], for an image without variables, whose key is [`CodeKey::of`] it: its code is shared with the clients that
    /// have loaded the same image with the same options. The log is that of the first load.
    pub fn load_shared(
        share: &Rc<Share>,
        key: CodeKey,
        image: Vec<u8>,
        options: &[NumericJitOption],
        (info_bytes, error_bytes): (usize, usize),
    ) -> (Result<Self, CudaError>, BuildLog) {
        let bytes = image.len() as u64;
        let loader = Loader { device: share.device(), share: Some(share), is_alone: false };
        let mut is_new = false;
        let load = || {
            is_new = true;
            loader.load(image, options, (info_bytes, error_bytes), |_| ())
        };
        let mut listed = None;
        let ends = move || share.ends_while_it_waits(ContextCall::LoadModule, &mut listed);
        let (code, mut log) = share.device().code_cache().get(key, bytes, ends, load);
        log.truncate((info_bytes, error_bytes));
        let module = code.map(|code| Self::of(share, Code::Shared(code), is_new));
        (module, log)
    }

    /// Keeps with shared code whether its kernels may print.
    pub fn keep_may_print(&self, prints: bool) {
        if let Some(code) = self.code.shared() {
            code.keep_may_print(prints);
        }
    }

    /// What was kept by [`Module::keep_may_print`].
    pub fn kept_may_print(&self) -> Option<bool> {
        self.code.shared()?.may_print()
    }

    /// What the provider said while shared code was loaded, at most so many bytes of each log.
    pub fn log(&self, bytes: (usize, usize)) -> BuildLog {
        let mut log = self.code.shared().map_or_else(BuildLog::default, |code| code.log().clone());
        log.truncate(bytes);
        log
    }

    /// A module of code that is loaded, by its key, if it is: an image without variables.
    pub fn find_shared(share: &Rc<Share>, key: &CodeKey) -> Option<Self> {
        let code = share.device().code_cache().find(key)?;
        Some(Self::of(share, Code::Shared(code), false))
    }

    /// As [`Module::find_shared`], if [`Module::kept_may_print`] is known.
    pub fn find_known(share: &Rc<Share>, key: &CodeKey) -> Option<Self> {
        let is_known = |code: &SharedCode| code.may_print().is_some();
        let code = share.device().code_cache().find_if(key, is_known)?;
        Some(Self::of(share, Code::Shared(code), false))
    }

    /// A module of an image with variables, by its key, if one is loaded and has no user; and what is charged
    /// for its variables, bytes.
    pub fn find_recycled(
        share: &Rc<Share>,
        key: &CodeKey,
    ) -> Option<(Result<Self, CudaError>, u64)> {
        let idle = share.device().code_cache().take_idle(key)?;
        let charged_bytes = idle.code.charged_bytes();
        Some((Self::of_idle(share, idle), charged_bytes))
    }

    /// A module with variables that other clients had before, or none, with their first values.
    fn of_idle(share: &Rc<Share>, idle: Idle) -> Result<Self, CudaError> {
        let Idle { code, image_bytes, is_fresh, .. } = idle;
        let written = if is_fresh { Ok(()) } else { code.variables().write(share.device()) };
        // Where it cannot be written, the module goes back as one that a client had.
        let module = Self::of(share, Code::Recycled(code, image_bytes), false);
        written.map(|()| module)
    }

    fn of(share: &Rc<Share>, code: Code, is_new: bool) -> Self {
        made(&share.counts.modules);
        let module = Self { share: share.clone(), code, is_new };
        if let Some(key) = module.key() {
            share.device().code_cache().held().take(key);
        }
        module
    }

    /// True if the provider has loaded it for this client, and not for another one or ahead.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// As [`Module::load_shared`], for an image with these variables: a module of it that other
    /// clients had before, if there is one, with its variables' first values. It is this client's
    /// alone, as long as it has it.
    pub fn load_recycled(
        share: &Rc<Share>,
        key: CodeKey,
        image: Vec<u8>,
        options: &[NumericJitOption],
        (info_bytes, error_bytes): (usize, usize),
        variables: &Variables,
    ) -> (Result<Self, CudaError>, BuildLog) {
        let (device, bytes) = (share.device(), image.len() as u64);
        if let Some(idle) = device.code_cache().take_idle(&key) {
            let mut log = idle.code.log().clone();
            log.truncate((info_bytes, error_bytes));
            return (Self::of_idle(share, idle), log);
        }
        let loader = Loader { device, share: Some(share), is_alone: false };
        let logs = (info_bytes, error_bytes);
        let (code, log) = loader.load_with_variables(key, image, options, logs, variables);
        let loaded = code.map(|code| {
            let code = match code {
                Ok(code) => Code::Recycled(code, bytes),
                Err(raw) => Code::Own(raw),
            };
            Self::of(share, code, true)
        });
        (loaded, log)
    }

    /// Loads an image for clients to come, with kernels of it; says which of these it has. One with
    /// variables waits for one client after the other. The context must be current on this thread.
    pub fn load_ahead<'a>(
        device: &Device,
        key: CodeKey,
        image: Vec<u8>,
        (options, variables): (&[NumericJitOption], Option<&Variables>),
        kernels: impl Iterator<Item = &'a CString>,
    ) -> Result<PreparedCode, CudaError> {
        let (loader, bytes) = (Loader { device, share: None, is_alone: false }, image.len() as u64);
        let code = match variables {
            None => {
                let load = || loader.load(image, options, (0, 0), |_| ());
                device.code_cache().get(key, bytes, || false, load).0?
            }
            Some(variables) => {
                let code = loader.load_with_variables(key, image, options, (0, 0), variables).0?;
                let code = code.map_err(|raw| {
                    Self::unload_own(device, raw);
                    CudaError::NOT_SUPPORTED
                })?;
                device.code_cache().keep_idle(code.clone(), bytes, true);
                code
            }
        };
        let mut found = PreparedCode::default();
        for name in kernels {
            // A driver that loads kernels when they are first used does so when it is asked for
            // their attributes.
            // SAFETY: the result keeps the module.
            let function = unsafe { find(device, code.live(), name, Some(code.clone())) };
            if let Ok(function) = function {
                let local = function.attributes()[function_attribute::LOCAL_SIZE_BYTES as usize];
                found.kernels += 1;
                found.local_bytes = found.local_bytes.max(u64::try_from(local).unwrap_or(0));
            }
        }
        Ok(found)
    }

    /// Loads an image of the server's own, and finds kernels of it: until the module is given to
    /// [`Module::unload_own`]. The context must be current on this thread; `is_alone`: there are no
    /// clients yet.
    pub(in crate::device) fn load_own<const N: usize>(
        device: &Device,
        image: Vec<u8>,
        kernels: [&CStr; N],
        is_alone: bool,
    ) -> Result<(Owned<CUmodule>, [Function; N]), CudaError> {
        let loader = Loader { device, share: None, is_alone };
        let module = loader.load(image, &[], (0, 0), |_| ()).0?;
        // SAFETY: the module is loaded; the caller ends it after its kernels.
        let find = |name: &CStr| unsafe { find(device, module.live(), name, None) };
        let found: Result<Vec<Function>, _> = kernels.into_iter().map(find).collect();
        match found.map(<[Function; N]>::try_from) {
            Ok(Ok(found)) => Ok((module, found)),
            Ok(Err(_)) => Err(CudaError::NOT_FOUND),
            Err(error) => {
                Self::unload_own(device, module);
                Err(error)
            }
        }
    }

    /// Unloads what [`Module::load_own`] has loaded, whose kernels must not be used any more.
    pub(in crate::device) fn unload_own(device: &Device, module: Owned<CUmodule>) {
        let loader = Loader { device, share: None, is_alone: true };
        // The answer changes nothing.
        let _ = loader
            .synchronising(ContextCall::UnloadModule, || device.calls().cuModuleUnload(module));
    }

    /// By what its code is found, if others may use it too, now or later.
    pub fn key(&self) -> Option<CodeKey> {
        match &self.code {
            Code::Own(_) => None,
            Code::Shared(code) | Code::Recycled(code, _) => Some(code.key()),
        }
    }

    fn live(&self) -> Live<'_, CUmodule> {
        match &self.code {
            Code::Own(raw) => raw.live(),
            Code::Shared(code) | Code::Recycled(code, _) => code.live(),
        }
    }

    /// True if its end waits for the context.
    pub fn is_own(&self) -> bool {
        matches!(self.code, Code::Own(_))
    }

    /// Finds a kernel and reads what a launch and the client need of it.
    pub fn function(&self, name: &CStr) -> Result<Function, CudaError> {
        let shared = self.code.shared().cloned();
        // SAFETY: a session drops a module's functions before it.
        unsafe { find(self.share.device(), self.live(), name, shared) }
    }

    /// The names of its kernels, in the provider's order.
    pub fn function_names(&self) -> Result<Vec<CString>, CudaError> {
        let (t, calls) = (self.share.device().table(), self.share.device().calls());
        let mut count = 0;
        calls.cuModuleGetFunctionCount(&mut count, self.live())?;
        let mut functions = vec![CUfunction::NULL; count as usize];
        calls.cuModuleEnumerateFunctions(&mut functions, self.live())?;
        let name = |function: CUfunction| {
            let mut name = ptr::null();
            // SAFETY: the provider gave the handle, whose module is alive; the local is written. A function's
            // name is a C string that lives as long as its module.
            unsafe {
                t.cuFuncGetName(&mut name, function)?;
                match name.is_null() {
                    true => Err(CudaError::UNKNOWN),
                    false => Ok(CStr::from_ptr(name).to_owned()),
                }
            }
        };
        functions.into_iter().map(name).collect()
    }

    /// True if a variable is managed by the provider itself, which no other process reaches.
    pub fn is_managed(&self, address: u64) -> bool {
        let mut managed = 0u32;
        let calls = self.share.device().calls();
        let answer = calls.cuPointerGetAttribute(&mut managed, CUdeviceptr(address));
        answer.is_ok() && managed != 0
    }

    /// Address and length, bytes, of a global variable.
    pub fn global(&self, name: &CStr) -> Result<(u64, u64), CudaError> {
        let (mut address, mut bytes) = (CUdeviceptr(0), 0usize);
        let calls = self.share.device().calls();
        calls.cuModuleGetGlobal_v2(&mut address, &mut bytes, self.live(), name)?;
        Ok((address.0, bytes as u64))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Some(key) = self.key() {
            self.share.device().code_cache().held().give_back(&key);
        }
        let result = match &mut self.code {
            // None of its kernels runs any more, as the owner of a module makes sure before it drops it.
            Code::Own(raw) => {
                let (calls, raw) = (self.share.device().calls(), raw.take());
                self.share.synchronising(ContextCall::UnloadModule, || calls.cuModuleUnload(raw))
            }
            // The cache keeps it for others.
            Code::Shared(_) => Ok(()),
            Code::Recycled(code, bytes) => {
                self.share.device().code_cache().keep_idle(code.clone(), *bytes, false);
                Ok(())
            }
        };
        gone(&self.share.counts.modules, result);
    }
}

/// Finds a kernel of a module and reads what a launch and the client need of it.
///
/// # Safety
/// The result must be dropped before the module.
unsafe fn find(
    device: &Device,
    module: Live<'_, CUmodule>,
    name: &CStr,
    shared: Option<Arc<SharedCode>>,
) -> Result<Function, CudaError> {
    let (calls, mut raw) = (device.calls(), CUfunction::NULL);
    calls.cuModuleGetFunction(&mut raw, module, name)?;
    // SAFETY: the provider gave the handle; the rest is the caller's promise.
    unsafe { Function::read(calls, raw, shared) }
}

/// A module whose first values are kept, or itself if they cannot be read and written.
type WithVariables = Result<Arc<SharedCode>, Owned<CUmodule>>;

/// Whose load an image is: a session's, or of the warm list and no session's yet.
struct Loader<'a> {
    device: &'a Device,
    share: Option<&'a Share>,
    /// There are no clients who could wait.
    is_alone: bool,
}

impl Loader<'_> {
    /// Makes a call that waits for the context.
    fn synchronising(&self, call: ContextCall, f: impl FnOnce() -> CUresult) -> CUresult {
        match self.share {
            _ if self.is_alone => f(),
            Some(share) => share.unless_it_ends(call, f),
            None => self.device.synchronising(call, ("the warm list", None), &|| false, f),
        }
    }

    /// Has the provider load an image with these variables, and keeps their first values. The module
    /// itself if they cannot be read and written.
    fn load_with_variables(
        &self,
        key: CodeKey,
        image: Vec<u8>,
        options: &[NumericJitOption],
        log_bytes: (usize, usize),
        variables: &Variables,
    ) -> (Result<WithVariables, CudaError>, BuildLog) {
        let charged_bytes = module_state::variable_bytes(&image);
        let (device, mut places) = (self.device, None);
        // Drivers may put off what belongs to variables until their addresses are asked for.
        let ask = |raw: &_| places = variables::places(device, Owned::live(raw), variables);
        let (raw, log) = self.load(image, options, log_bytes, ask);
        let loaded = raw.map(|raw| {
            // SAFETY: the module is loaded, and no kernel of it has run yet.
            let values = places.and_then(|places| unsafe { FirstValues::read(device, places) });
            match values {
                Some(values) => {
                    let values = (values, charged_bytes);
                    Ok(Arc::new(SharedCode::with_variables(raw, key, log.clone(), values)))
                }
                None => Err(raw),
            }
        });
        (loaded, log)
    }

    /// Has the provider load an image. The logs are given room for as many bytes as asked for.
    /// `loaded` is called before other clients go on. A text of a client's is compiled before, for which the
    /// others need not wait.
    pub(in crate::device) fn load(
        &self,
        mut image: Vec<u8>,
        options: &[NumericJitOption],
        log_bytes: (usize, usize),
        loaded: impl FnOnce(&Owned<CUmodule>),
    ) -> (Result<Owned<CUmodule>, CudaError>, BuildLog) {
        let mut compiled_log = None;
        if let Some(share) = self.share.filter(|share| !share.is_tenant()) {
            match linking::compile(share, &image, options, log_bytes) {
                None => {}
                Some((Ok(cubin), log)) => (image, compiled_log) = (cubin, Some(log)),
                Some((Err(error), log)) => return (Err(error), log),
            }
        }
        if image.try_reserve_exact(IMAGE_PADDING_BYTES).is_err() {
            return (Err(CudaError::OUT_OF_MEMORY), BuildLog::default());
        }
        image.resize(image.len() + IMAGE_PADDING_BYTES, 0);
        let of_load = options.iter().copied().filter(|_| compiled_log.is_none());
        let mut options = JitOptions::new(of_load, log_bytes);
        let mut module = Owned::default();
        // SAFETY: the image ends in zeros and its structure was checked, or the provider made it; the
        // options' lists are as long as their number says and live until after the call; the local is
        // written. The module has no other owner.
        let result = self.synchronising(ContextCall::LoadModule, || unsafe {
            let (count, numbers, values) = options.lists();
            let (image, mut raw) = (image.as_ptr().cast(), CUmodule::NULL);
            self.device.table().cuModuleLoadDataEx(&mut raw, image, count, numbers, values)?;
            module = Owned::new_unchecked(raw);
            loaded(&module);
            Ok(())
        });
        // The text is what the client wants to hear of, unless what was made of it cannot be loaded.
        let log = match (result, compiled_log) {
            (Ok(()), Some(log)) => log,
            _ => options.into_log(),
        };
        (result.map(|()| module), log)
    }
}
