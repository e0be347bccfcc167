//! Loading modules: from an image, or from code that is loaded already.

use crate::device::{BuildLog, CodeKey, IMAGE_PADDING_BYTES, Module, NumericJitOption};
use crate::session::Restored;
use crate::session::memory::Memory;
use crate::session::module::code::{
    Code, Placed, Preparation, Prepared, VARIABLES_ALIGN_BYTES, VariablePlace,
};
use crate::session::module::image::Image;
use crate::session::module::table::{LoadedModule, Modules};
use channel::memfd::{IMAGE_BYTES_MAX, SealedBytes};
use channel::message::Message;
use channel::request::{
    CODE_HAS_VARIABLES, KEEPS_VALUES, KNOWN_TO_PRINT, LOG_BYTES_MAX, LoadModule, MODULE_PRINTS,
    ModuleLoaded, NO_CODE, PLACES_VARIABLES,
};
use channel::socket::SeqPacket;
use cuda_api::extension::variable_place;
use cuda_api::{CUresult, CudaError};
use ptx::module_state::State;
use std::os::fd::{AsFd, OwnedFd};

/// What loading takes of a session.
pub(in crate::session) struct Loading<'a> {
    pub modules: &'a mut Modules,
    pub memory: &'a mut Memory,
    pub socket: &'a SeqPacket,
    pub restored: Option<&'a mut Restored>,
    /// What kernels print reaches the client.
    pub can_print: bool,
}

impl Loading<'_> {
    /// Loads what has to be read. Logs come back with an error too.
    pub fn load(
        &mut self,
        request: &LoadModule,
        file: &OwnedFd,
        loaded: &mut ModuleLoaded,
    ) -> CUresult {
        let word = request.module.0 as u64;
        let (image, bytes, options) = read_image(request, file)?;
        let place = self.place_of(request)?;
        let Modules { share, common, link, .. } = &*self.modules;
        let (share, common, link) = (share.clone(), common.clone(), link.clone());
        let original = (!share.is_tenant()).then(|| CodeKey::of(&bytes, &options));
        if let Some(result) = original.and_then(|key| self.take_loaded(request, &key, loaded)) {
            return result;
        }
        let stay_away = |why: &str| {
            let client = link.name();
            common.log.line(format!("Client {client} has managed variables that stay away: {why}"));
        };
        let mut preparation = Preparation {
            share: &share,
            memory: self.memory,
            compiled: &mut self.modules.compiled,
            stay_away: &stay_away,
        };
        let prepared = preparation.prepare((image, bytes), place, options.is_empty())?;
        let Code { image, may_print: prints, placed, state, is_changed } = match prepared {
            Prepared::Code(code) => code,
            Prepared::NeedsPlace(bytes) => {
                loaded.variables_bytes = bytes;
                return Ok(());
            }
        };
        let may_print = self.can_print && prints;
        if may_print {
            loaded.flags |= MODULE_PRINTS;
        }
        let key_of = |image: &[u8]| match original {
            Some(key) if !is_changed => key,
            _ => CodeKey::of(image, &options),
        };
        let image_bytes = ptx::module_state::variable_bytes(&image);
        let before = share.mapped_bytes();
        let logs = log_bytes(request);
        let (module, BuildLog { info, error }) = match &state {
            State::None => {
                let key = key_of(&image);
                // What takes code by its key does not know where variables were placed.
                if placed.is_empty() {
                    loaded.code = key.words();
                }
                common.warm.loading(key, &image, &options, None);
                let (module, log) = Module::load_shared(&share, key, image, &options, logs);
                if let Ok(module) = &module {
                    module.keep_may_print(prints);
                }
                (module, log)
            }
            State::Variables(variables) => {
                let key = key_of(&image);
                let warm = &common.warm;
                let copy = warm.is_new(&key, &image).then(|| image.clone());
                let (module, log) =
                    Module::load_recycled(&share, key, image, &options, logs, variables);
                // Not if its variables cannot get their first values again.
                if module.as_ref().is_ok_and(|module| module.key().is_some()) {
                    if placed.is_empty() {
                        loaded.code = key.words();
                        loaded.flags |= CODE_HAS_VARIABLES;
                    }
                    match copy {
                        Some(image) => warm.loading(key, &image, &options, Some(variables)),
                        None => warm.again(&key),
                    }
                }
                (module, log)
            }
            State::Unknown => Module::load(&share, image, &options, logs),
        };
        (loaded.info_log, loaded.error_log) = (info, error);
        if share.is_tenant() && place.is_some() {
            let needed = share.place_variables((0, 0), variable_place::NONE);
            loaded.variables_bytes = needed.unwrap_or(0);
            if module.is_err() && loaded.variables_bytes > 0 {
                self.memory.take_managed();
                return Ok(());
            }
        }
        if let (Some(restored), Ok(module)) = (&mut self.restored, &module) {
            restored.has_module(module.is_new(), &state);
        }
        // What was placed goes again if the module does not come.
        let managed = self.memory.take_managed();
        let module = module?;
        let charge = self.memory.account.charge(share.variable_bytes(before, image_bytes))?;
        let globals = Vec::new();
        let module = LoadedModule { module, may_print, globals, placed, managed, _charge: charge };
        self.keep_module(word, module, loaded)
    }

    /// Takes code that is loaded by the key that a client got from another server. `None`: the image has
    /// to be read.
    pub fn take_known(
        &mut self,
        request: &LoadModule,
        loaded: &mut ModuleLoaded,
    ) -> Option<Result<(), CudaError>> {
        let word = request.module.0 as u64;
        // A request for places, or one that is not understood, goes the whole way.
        let plain = request.flags & !KNOWN_TO_PRINT == 0;
        if request.code == NO_CODE || !plain || self.modules.vacant(word).is_err() {
            return None;
        }
        let key = CodeKey::of_words(request.code);
        let (module, charged_bytes) = match Module::find_shared(&self.modules.share, &key) {
            Some(module) => (Ok(module), 0),
            None => {
                let found = Module::find_recycled(&self.modules.share, &key)?;
                loaded.flags |= CODE_HAS_VARIABLES;
                found
            }
        };
        let prints = request.flags & KNOWN_TO_PRINT != 0;
        Some(module.and_then(|module| {
            self.take_module(word, (key, module), (prints, charged_bytes), loaded)
        }))
    }

    /// Takes code that another client has loaded from the same image with the same options, if it has no
    /// variables: then nothing of the image has to be unpacked.
    fn take_loaded(
        &mut self,
        request: &LoadModule,
        key: &CodeKey,
        loaded: &mut ModuleLoaded,
    ) -> Option<Result<(), CudaError>> {
        let module = Module::find_known(&self.modules.share, key)?;
        // Not known of what was loaded ahead.
        let prints = module.kept_may_print()?;
        let log = module.log(log_bytes(request));
        (loaded.info_log, loaded.error_log) = (log.info, log.error);
        let word = request.module.0 as u64;
        Some(self.take_module(word, (*key, module), (prints, 0), loaded))
    }

    /// Gives the client a module that was loaded before.
    fn take_module(
        &mut self,
        word: u64,
        (key, module): (CodeKey, Module),
        (prints, charged_bytes): (bool, u64),
        loaded: &mut ModuleLoaded,
    ) -> Result<(), CudaError> {
        self.modules.common.warm.again(&key);
        if let Some(restored) = &mut self.restored {
            restored.has_module(false, &State::None);
        }
        loaded.code = key.words();
        let may_print = self.can_print && prints;
        if may_print {
            loaded.flags |= MODULE_PRINTS;
        }
        let charge = self.memory.account.charge(charged_bytes)?;
        let (globals, placed, managed) = (Vec::new(), Placed::new(), None);
        let module = LoadedModule { module, may_print, globals, placed, managed, _charge: charge };
        self.keep_module(word, module, loaded)
    }

    /// Where the client wants variables; `None` if it leaves that to the provider.
    fn place_of(&self, request: &LoadModule) -> Result<Option<VariablePlace>, CudaError> {
        if request.flags & !(PLACES_VARIABLES | KEEPS_VALUES | KNOWN_TO_PRINT) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if request.flags & PLACES_VARIABLES == 0 {
            return Ok(None);
        }
        let (address, bytes) = request.place;
        self.memory.device_range(address, bytes)?;
        if !address.is_multiple_of(VARIABLES_ALIGN_BYTES) {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Some(VariablePlace { address, bytes, kept: request.flags & KEEPS_VALUES != 0 }))
    }

    fn keep_module(
        &mut self,
        word: u64,
        module: LoadedModule,
        loaded: &mut ModuleLoaded,
    ) -> Result<(), CudaError> {
        if let Some(variables) = &module.managed {
            let sent = self.socket.send(&Message::ManagedFd(()), &[variables.file().as_fd()]);
            sent.map_err(|_| CudaError::MPS_RPC_FAILURE)?;
            self.memory.add_managed(variables)?;
            loaded.managed = (variables.address(), variables.bytes());
        }
        self.modules.add(word, module)
    }
}

/// Room for the logs of a load, informative and of errors.
fn log_bytes(request: &LoadModule) -> (usize, usize) {
    let bytes = |wanted: u32| (wanted as usize).min(LOG_BYTES_MAX);
    (bytes(request.info_log_bytes), bytes(request.error_log_bytes))
}

/// Copies the image out of the client's file and checks its structure.
fn read_image(
    request: &LoadModule,
    file: &OwnedFd,
) -> Result<(Image, Vec<u8>, Vec<NumericJitOption>), CudaError> {
    let sealed = SealedBytes::open(file, IMAGE_BYTES_MAX).map_err(|_| CudaError::INVALID_VALUE)?;
    let length = usize::try_from(request.image_bytes).map_err(|_| CudaError::INVALID_VALUE)?;
    let bytes = sealed.get(..length).ok_or(CudaError::INVALID_VALUE)?;
    let image = Image::check(bytes)?;
    let options = request
        .options
        .iter()
        .map(|o| {
            let value = u32::try_from(o.value).map_err(|_| CudaError::INVALID_VALUE)?;
            NumericJitOption::new(o.option, value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    // With the room that is needed to load it: what is large is not moved.
    let mut copy = Vec::new();
    let room = copy.try_reserve_exact(length + IMAGE_PADDING_BYTES);
    room.map_err(|_| CudaError::OUT_OF_MEMORY)?;
    copy.extend_from_slice(bytes);
    Ok((image, copy, options))
}
