//! JIT options of a module's loading: scalars for the server, and the program's log buffers.

use crate::boundary::{Out, OutArray};
use channel::request::{JIT_OPTIONS_MAX, JitOption, LOG_BYTES_MAX, ModuleLoaded};
use core::ffi::{c_char, c_uint, c_void};
use cuda_api::constants::jit_option;
use cuda_api::{CUresult, CudaError};
use std::time::Duration;

/// What the error log says of what is not an image at all.
const NO_IMAGE: &[u8] = b"not an image: neither PTX, nor a fat binary, nor an ELF file";

/// A buffer of the program's for a log.
#[derive(Clone, Copy, Default)]
struct Log {
    buffer: Option<*mut c_char>,
    bytes: usize,
    /// Where in the values the size stands, to be replaced by what was written.
    size_at: Option<usize>,
}

/// The options of one load.
pub(crate) struct JitOptions {
    values: OutArray<*mut c_void>,
    /// Options whose value is a number.
    pub(crate) scalars: Vec<JitOption>,
    info: Log,
    error: Log,
    wall_time_at: Option<usize>,
}

impl JitOptions {
    /// Reads a program's options. CUDA_ERROR_INVALID_VALUE for arrays that are missing or longer
    /// than [`JIT_OPTIONS_MAX`].
    pub(crate) fn read(
        count: c_uint,
        options: Out<c_uint>,
        values: Out<*mut c_void>,
    ) -> Result<Self, CudaError> {
        let count = count as usize;
        let (options, values) = (options.array(count), values.array(count));
        if count > JIT_OPTIONS_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut read = Self {
            values,
            scalars: Vec::new(),
            info: Log::default(),
            error: Log::default(),
            wall_time_at: None,
        };
        for index in 0..count {
            let option = options.at(index)?;
            let value = values.at(index)?;
            match option {
                jit_option::INFO_LOG_BUFFER => read.info.buffer = Some(value.cast()),
                jit_option::ERROR_LOG_BUFFER => read.error.buffer = Some(value.cast()),
                // Sizes are unsigned ints that stand where a pointer could.
                jit_option::INFO_LOG_BUFFER_SIZE_BYTES => {
                    read.info.bytes = value as usize as u32 as usize;
                    read.info.size_at = Some(index);
                }
                jit_option::ERROR_LOG_BUFFER_SIZE_BYTES => {
                    read.error.bytes = value as usize as u32 as usize;
                    read.error.size_at = Some(index);
                }
                jit_option::WALL_TIME => read.wall_time_at = Some(index),
                option => read.scalars.push(JitOption { option, value: value as u64 }),
            }
        }
        Ok(read)
    }

    /// The request for an error log in a buffer, and nothing else.
    pub(crate) fn with_error_log(buffer: &mut [u8]) -> Self {
        let (place, bytes) = (buffer.as_mut_ptr().cast(), buffer.len());
        let error = Log { buffer: Some(place), bytes, size_at: None };
        Self { error, ..Self::none() }
    }

    /// No options.
    pub(crate) fn none() -> Self {
        Self {
            values: Out::null().array(0),
            scalars: Vec::new(),
            info: Log::default(),
            error: Log::default(),
            wall_time_at: None,
        }
    }

    /// Most registers a thread may have, if the program says so.
    pub(crate) fn registers_max(&self) -> Option<u32> {
        let mut options = self.scalars.iter().filter(|o| o.option == jit_option::MAX_REGISTERS);
        options.next_back().map(|option| option.value as u32).filter(|registers| *registers > 0)
    }

    /// How much of the info log and of the error log is wanted, bytes: one more than the program has room for,
    /// so that a text that has to be cut is seen.
    pub(crate) fn log_bytes(&self) -> (u32, u32) {
        let wanted = |log: &Log| match log.buffer {
            Some(buffer) if !buffer.is_null() && log.bytes > 0 => {
                (log.bytes + 1).min(LOG_BYTES_MAX) as u32
            }
            _ => 0,
        };
        (wanted(&self.info), wanted(&self.error))
    }

    /// Gives the program the results of the load: both logs, how long they are, and the time.
    pub(crate) fn answer(&self, loaded: Option<&ModuleLoaded>, result: CUresult, took: Duration) {
        let info: &[u8] = loaded.map_or(&[], |loaded| &loaded.info_log);
        let mut error: &[u8] = loaded.map_or(&[], |loaded| &loaded.error_log);
        if error.is_empty() && result == Err(CudaError::INVALID_IMAGE) {
            error = NO_IMAGE;
        }
        for (log, text) in [(&self.info, info), (&self.error, error)] {
            let written = log.fill(text);
            if let Some(index) = log.size_at {
                let _ = self.values.set(index, written as *mut c_void);
            }
        }
        if let Some(index) = self.wall_time_at {
            // A float that stands where a pointer could: milliseconds.
            let bits = (took.as_secs_f32() * 1000.0).to_bits();
            let _ = self.values.set(index, bits as usize as *mut c_void);
        }
    }
}

impl Log {
    /// Writes text with its NUL, cut to fit; how many bytes of text.
    fn fill(&self, text: &[u8]) -> usize {
        let Some(buffer) = self.buffer.filter(|buffer| !buffer.is_null()) else { return 0 };
        // A text never has a NUL inside for the program, which reads to the first.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        // SAFETY: the program gave the buffer for writing `bytes` bytes.
        let out = unsafe { crate::boundary::FromProgram::believe(buffer) };
        match out.set_text(self.bytes, text) {
            // As NVIDIA's driver counts: all of the buffer where the text is cut.
            Ok(()) => text.len().min(self.bytes),
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::FromProgram;

    #[test]
    fn logs_are_cut_to_their_buffers_and_sizes_say_how_much() {
        let mut info = [1u8; 8];
        let mut error = [1u8; 64];
        let mut options = [
            jit_option::INFO_LOG_BUFFER,
            jit_option::INFO_LOG_BUFFER_SIZE_BYTES,
            jit_option::ERROR_LOG_BUFFER,
            jit_option::ERROR_LOG_BUFFER_SIZE_BYTES,
            jit_option::MAX_REGISTERS,
            jit_option::WALL_TIME,
        ];
        let mut values = [
            info.as_mut_ptr().cast::<c_void>(),
            8 as *mut c_void,
            error.as_mut_ptr().cast(),
            64 as *mut c_void,
            32 as *mut c_void,
            core::ptr::null_mut(),
        ];
        // SAFETY: the arrays are good for six elements.
        let (o, v) = unsafe { (options.as_mut_ptr().believe(), values.as_mut_ptr().believe()) };
        let read = JitOptions::read(6, o, v).unwrap();
        assert_eq!(read.scalars, [JitOption { option: jit_option::MAX_REGISTERS, value: 32 }]);
        assert_eq!(read.log_bytes(), (9, 65));
        let loaded = ModuleLoaded {
            info_log: b"a long message".to_vec(),
            error_log: b"line 3: no".to_vec(),
            ..ModuleLoaded::default()
        };
        read.answer(Some(&loaded), Ok(()), Duration::from_millis(2));
        assert_eq!(&info, b"a long \0");
        assert_eq!(&error[..11], b"line 3: no\0");
        assert_eq!((values[1] as usize, values[3] as usize), (8, 10), "one was cut");
        assert_eq!(f32::from_bits(values[5] as usize as u32), 2.0);
        read.answer(None, Err(CudaError::NO_BINARY_FOR_GPU), Duration::ZERO);
        assert_eq!((info[0], error[0], values[1] as usize, values[3] as usize), (0, 0, 0, 0));
        read.answer(None, Err(CudaError::INVALID_IMAGE), Duration::ZERO);
        assert_eq!((info[0], values[1] as usize, values[3] as usize), (0, 0, NO_IMAGE.len()));
        assert_eq!(&error[..NO_IMAGE.len()], NO_IMAGE);
    }

    #[test]
    fn arrays_that_are_missing_or_endless_are_refused() {
        // SAFETY: NULL is allowed.
        let (o, v) = unsafe {
            (
                core::ptr::null_mut::<c_uint>().believe(),
                core::ptr::null_mut::<*mut c_void>().believe(),
            )
        };
        assert!(JitOptions::read(0, o, v).is_ok());
        assert!(JitOptions::read(1, o, v).is_err());
        assert!(JitOptions::read(u32::MAX, o, v).is_err());
    }
}
