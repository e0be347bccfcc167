//! Requests about modules and what is in them.

use super::payloads;
use crate::payload::{Malformed, Payload, Reader, Sink, words_of};
use crate::region::{RECORD_BYTES_MAX, REPLY_BYTES_MAX};
use cuda_api::{CUdeviceptr, CUfunction, CUmodule};

/// Longest name of a kernel or variable, bytes: mangled names of C++ templates reach a few KiB.
pub const SYMBOL_BYTES_MAX: usize = 16 << 10;
/// JIT options of a load: CUjit_option has about 30 values.
pub const JIT_OPTIONS_MAX: usize = 64;
/// Longest info log and longest error log, bytes: both fit into a reply.
pub const LOG_BYTES_MAX: usize = 24 << 10;
/// Attributes of a function: CU_FUNC_ATTRIBUTE_MAX of CUDA 13.0.
pub const FUNCTION_ATTRIBUTES: usize = 16;
/// Parameters of a kernel: those of [`PARAMETER_BYTES_MAX`](super::PARAMETER_BYTES_MAX) at 8 bytes
/// each.
pub const PARAMETERS_MAX: usize = 4096;
/// Flag of [`ModuleLoaded`]: kernels of the module may print.
pub const MODULE_PRINTS: u32 = 1;
/// Flag of [`ModuleLoaded`] with a key: the code has variables, which its kernels may have changed.
pub const CODE_HAS_VARIABLES: u32 = 2;
/// Flag of [`LoadModule`]: the client gives its variables a place, or asks how large one must be.
pub const PLACES_VARIABLES: u32 = 1;
/// Flag of [`LoadModule`]: what lies in the place are the variables' values, which stay.
pub const KEEPS_VALUES: u32 = 2;
/// Flag of [`LoadModule`] with a key: a server said [`MODULE_PRINTS`] of the image.
pub const KNOWN_TO_PRINT: u32 = 4;
/// What a server finds code by: a hash of the image and its options.
pub type CodeWords = [u64; 4];
/// No such code.
pub const NO_CODE: CodeWords = [0; 4];

const _: () = {
    assert!(8 * (5 + words_of(SYMBOL_BYTES_MAX)) as u64 <= RECORD_BYTES_MAX);
    assert!(8 * (13 + 2 * JIT_OPTIONS_MAX) as u64 <= RECORD_BYTES_MAX);
    assert!(8 * (11 + 2 * words_of(LOG_BYTES_MAX)) as u64 <= REPLY_BYTES_MAX);
    assert!(8 * (4 + FUNCTION_ATTRIBUTES + PARAMETERS_MAX) as u64 <= REPLY_BYTES_MAX);
};

/// A JIT option whose value is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitOption {
    /// CUjit_option.
    pub option: u32,
    /// Its value.
    pub value: u64,
}

/// Loads the image that was sent before ([`Message::ImageFd`](crate::message::Message::ImageFd)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadModule {
    /// The handle that the client chose.
    pub module: CUmodule,
    /// Length of the image, bytes.
    pub image_bytes: u64,
    /// [`PLACES_VARIABLES`], [`KEEPS_VALUES`].
    pub flags: u32,
    /// Where variables shall lie in the client's device memory: first address, bytes. No bytes ask
    /// how many are needed: a module that has variables is not loaded then.
    pub place: (u64, u64),
    /// How much of the info log the client wants, bytes; at most [`LOG_BYTES_MAX`] comes.
    pub info_log_bytes: u32,
    /// How much of the error log the client wants, bytes; at most [`LOG_BYTES_MAX`] comes.
    pub error_log_bytes: u32,
    /// What [`ModuleLoaded::code`] said at another server of the same image with the same options: a server
    /// that has that code loaded takes it and does not read the image. [`NO_CODE`] for none.
    pub code: CodeWords,
    /// At most [`JIT_OPTIONS_MAX`].
    pub options: Vec<JitOption>,
}

impl Payload<'_> for LoadModule {
    fn words(&self) -> usize {
        11 + 2 * self.options.len()
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.module.0 as u64);
        sink.word(self.image_bytes);
        sink.word(self.flags.into());
        sink.word(self.place.0);
        sink.word(self.place.1);
        sink.pair(self.info_log_bytes, self.error_log_bytes);
        self.code.into_iter().for_each(|word| sink.word(word));
        sink.word(self.options.len() as u64);
        for option in &self.options {
            sink.word(option.option.into());
            sink.word(option.value);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let module = reader.value()?;
        let image_bytes = reader.word()?;
        let flags = reader.value()?;
        let place = (reader.word()?, reader.word()?);
        let (info_log_bytes, error_log_bytes) = reader.pair()?;
        let code = code_words(reader)?;
        let count = reader.length(JIT_OPTIONS_MAX)?;
        let mut options = Vec::new();
        for _ in 0..count {
            options.push(JitOption { option: reader.value()?, value: reader.word()? });
        }
        Ok(Self {
            module,
            image_bytes,
            flags,
            place,
            info_log_bytes,
            error_log_bytes,
            code,
            options,
        })
    }
}

fn code_words(reader: &mut Reader<'_>) -> Result<CodeWords, Malformed> {
    Ok([reader.word()?, reader.word()?, reader.word()?, reader.word()?])
}

/// Reply to [`LoadModule`], with an error too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleLoaded {
    /// [`MODULE_PRINTS`], [`CODE_HAS_VARIABLES`].
    pub flags: u32,
    /// Where the module's managed variables lie in the host window: first address and bytes, a
    /// whole number of pages; no bytes if it has none. If it has, their file comes before the reply
    /// ([`Message::ManagedFd`](crate::message::Message::ManagedFd)).
    pub managed: (u64, u64),
    /// How many bytes a place for the module's variables must have, if none was given: it is not
    /// loaded yet.
    pub variables_bytes: u64,
    /// What the server finds the code by, if nothing in it can change but variables that it can give their
    /// first values again; else [`NO_CODE`].
    pub code: CodeWords,
    /// The JIT's info log, cut to [`LOG_BYTES_MAX`].
    pub info_log: Vec<u8>,
    /// The JIT's error log, cut to [`LOG_BYTES_MAX`].
    pub error_log: Vec<u8>,
}

impl ModuleLoaded {
    /// What of a log travels.
    fn cut(log: &[u8]) -> &[u8] {
        &log[..log.len().min(LOG_BYTES_MAX)]
    }
}

impl Payload<'_> for ModuleLoaded {
    fn words(&self) -> usize {
        let logs = [&self.info_log, &self.error_log];
        10 + logs.into_iter().map(|log| words_of(Self::cut(log).len())).sum::<usize>()
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.flags.into());
        sink.word(self.managed.0);
        sink.word(self.managed.1);
        sink.word(self.variables_bytes);
        self.code.into_iter().for_each(|word| sink.word(word));
        for log in [&self.info_log, &self.error_log] {
            let log = Self::cut(log);
            sink.word(log.len() as u64);
            sink.bytes(log);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.value()?;
        let managed = (reader.word()?, reader.word()?);
        let variables_bytes = reader.word()?;
        let code = code_words(reader)?;
        let mut log = || {
            let length = reader.length(LOG_BYTES_MAX)?;
            reader.bytes(length).map(<[u8]>::to_vec)
        };
        Ok(Self { flags, managed, variables_bytes, code, info_log: log()?, error_log: log()? })
    }
}

/// Finds a kernel of a module and gives it a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetFunction<'a> {
    /// The handle that the client chose.
    pub function: CUfunction,
    /// The module.
    pub module: CUmodule,
    /// The kernel's name without NUL, at most [`SYMBOL_BYTES_MAX`].
    pub name: &'a [u8],
}

impl<'a> Payload<'a> for GetFunction<'a> {
    fn words(&self) -> usize {
        3 + words_of(self.name.len())
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.function.0 as u64);
        sink.word(self.module.0 as u64);
        sink.word(self.name.len() as u64);
        sink.bytes(self.name);
    }
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let function = reader.value()?;
        let module = reader.value()?;
        let length = reader.length(SYMBOL_BYTES_MAX)?;
        Ok(Self { function, module, name: reader.bytes(length)? })
    }
}

/// Longest reply of [`ListFunctions`], bytes: what fits into the reply area, and a longest name.
pub const NAMES_BYTES_MAX: usize = 48 << 10;
const _: () = assert!(NAMES_BYTES_MAX > SYMBOL_BYTES_MAX);

/// Reply to [`ListFunctions`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionNames {
    /// How many kernels the module has.
    pub total: u32,
    /// Names from the place asked for on, each with its NUL: at most [`NAMES_BYTES_MAX`] bytes.
    pub names: Vec<u8>,
}

impl Payload<'_> for FunctionNames {
    fn words(&self) -> usize {
        2 + words_of(self.names.len())
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.total.into());
        sink.word(self.names.len() as u64);
        sink.bytes(&self.names);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let total = reader.value()?;
        let length = reader.length(NAMES_BYTES_MAX)?;
        Ok(Self { total, names: reader.bytes(length)?.to_vec() })
    }
}

/// Where a parameter of a kernel is in its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterLayout {
    /// Its offset, bytes.
    pub offset_bytes: u32,
    /// Its size, bytes.
    pub size_bytes: u32,
}

/// Reply to [`GetFunction`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its attributes by CUfunction_attribute.
    pub attributes: [i32; FUNCTION_ATTRIBUTES],
    /// Its parameters in order, at most [`PARAMETERS_MAX`].
    pub parameters: Vec<ParameterLayout>,
}

impl Payload<'_> for FunctionInfo {
    fn words(&self) -> usize {
        FUNCTION_ATTRIBUTES + 1 + self.parameters.len()
    }
    fn write(&self, sink: &mut impl Sink) {
        for value in self.attributes {
            sink.word(cuda_api::Word::to_word(value));
        }
        sink.word(self.parameters.len() as u64);
        for parameter in &self.parameters {
            sink.pair(parameter.offset_bytes, parameter.size_bytes);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut attributes = [0; FUNCTION_ATTRIBUTES];
        for value in &mut attributes {
            *value = reader.value()?;
        }
        let count = reader.length(PARAMETERS_MAX)?;
        let mut parameters = Vec::new();
        for _ in 0..count {
            let (offset_bytes, size_bytes) = reader.pair()?;
            parameters.push(ParameterLayout { offset_bytes, size_bytes });
        }
        Ok(Self { attributes, parameters })
    }
}

/// Finds a variable of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetGlobal<'a> {
    /// The module.
    pub module: CUmodule,
    /// True for one that host and device share, false for any.
    pub managed: bool,
    /// The variable's name without NUL, at most [`SYMBOL_BYTES_MAX`].
    pub name: &'a [u8],
}

impl<'a> Payload<'a> for GetGlobal<'a> {
    fn words(&self) -> usize {
        3 + words_of(self.name.len())
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.module.0 as u64);
        sink.word(self.managed.into());
        sink.word(self.name.len() as u64);
        sink.bytes(self.name);
    }
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let module = reader.value()?;
        let managed = reader.length(1)? == 1;
        let length = reader.length(SYMBOL_BYTES_MAX)?;
        Ok(Self { module, managed, name: reader.bytes(length)? })
    }
}

payloads! {
    /// Asks for the names of a module's kernels, as many as fit.
    ListFunctions {
        /// The module.
        module: CUmodule,
        /// The place of the first one wanted.
        first: u32,
    }

    /// Unloads a module when its kernels are done.
    UnloadModule {
        /// The module.
        module: CUmodule,
    }

    /// Reply to [`GetGlobal`].
    GlobalInfo {
        /// Where the variable is.
        address: CUdeviceptr,
        /// Its size.
        bytes: u64,
    }
}
