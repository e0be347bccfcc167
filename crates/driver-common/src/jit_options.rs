//! JIT options of a module's loading: scalars, and the program's log buffers.

use channel::request::{JIT_OPTIONS_MAX, JitOption, LOG_BYTES_MAX};
use core::ffi::{c_char, c_uint, c_void};
use core::time::Duration;
use cuda_api::CudaError;
use cuda_api::constants::jit_option;
use cuda_api::pointer::{FromProgram, Out, OutArray};

/// A number that no option of any version has reached.
const OPTION_END: c_uint = 64;

/// A buffer of the program's for a log.
#[derive(Clone, Copy, Default)]
struct Log {
    buffer: Option<*mut c_char>,
    bytes: usize,
    /// Where in the values the size stands, to be replaced by what was written.
    size_at: Option<usize>,
}

/// The options of one load.
pub struct JitOptions {
    values: OutArray<*mut c_void>,
    /// Options whose value is a number.
    pub scalars: Vec<JitOption>,
    info: Log,
    error: Log,
    wall_time_at: Option<usize>,
}

impl JitOptions {
    /// Reads a program's options. CUDA_ERROR_INVALID_VALUE for arrays that are missing or longer
    /// than [`JIT_OPTIONS_MAX`], and for what is no option.
    pub fn read(
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
                OPTION_END.. => return Err(CudaError::INVALID_VALUE),
                option => read.scalars.push(JitOption { option, value: value as u64 }),
            }
        }
        Ok(read)
    }

    /// The request for an error log in a buffer, and nothing else.
    pub fn with_error_log(buffer: &mut [u8]) -> Self {
        let (place, bytes) = (buffer.as_mut_ptr().cast(), buffer.len());
        let error = Log { buffer: Some(place), bytes, size_at: None };
        Self { error, ..Self::none() }
    }

    /// No options.
    pub fn none() -> Self {
        Self {
            values: Out::null().array(0),
            scalars: Vec::new(),
            info: Log::default(),
            error: Log::default(),
            wall_time_at: None,
        }
    }

    /// The value of an option that is a number, if the program gives it; the last one of several.
    pub fn scalar(&self, option: c_uint) -> Option<u32> {
        self.scalars
            .iter()
            .rev()
            .find(|given| given.option == option)
            .map(|given| given.value as u32)
    }

    /// Most registers a thread may have, if the program says so.
    pub fn registers_max(&self) -> Option<u32> {
        self.scalar(jit_option::MAX_REGISTERS).filter(|registers| *registers > 0)
    }

    /// How much of the info log and of the error log is wanted, bytes: one more than the program has room for,
    /// so that a text that has to be cut is seen.
    pub fn log_bytes(&self) -> (u32, u32) {
        let wanted = |log: &Log| match log.buffer {
            Some(buffer) if !buffer.is_null() && log.bytes > 0 => {
                (log.bytes + 1).min(LOG_BYTES_MAX) as u32
            }
            _ => 0,
        };
        (wanted(&self.info), wanted(&self.error))
    }

    /// Writes both logs, and how many bytes of text they have.
    pub fn write_logs(&self, info: &[u8], error: &[u8]) {
        for (log, text) in [(&self.info, info), (&self.error, error)] {
            let written = log.fill(text);
            if let Some(index) = log.size_at {
                self.values.place(index).set_if_wanted(written as *mut c_void);
            }
        }
    }

    /// Says how long the load took, if the program asks for it.
    pub fn write_time(&self, took: Duration) {
        if let Some(index) = self.wall_time_at {
            // A float that stands where a pointer could: milliseconds.
            let bits = (took.as_secs_f32() * 1000.0).to_bits();
            self.values.place(index).set_if_wanted(bits as usize as *mut c_void);
        }
    }
}

impl Default for JitOptions {
    fn default() -> Self {
        Self::none()
    }
}

impl Log {
    /// Writes text with its NUL, cut to fit; how many bytes of text.
    fn fill(&self, text: &[u8]) -> usize {
        let Some(buffer) = self.buffer.filter(|buffer| !buffer.is_null()) else { return 0 };
        // A text never has a NUL inside for the program, which reads to the first.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        // SAFETY: the program gave the buffer for writing `bytes` bytes.
        let out = unsafe { buffer.believe() };
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
    use crate::passed;

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
        let (o, v) = (passed(options.as_mut_ptr()), passed(values.as_mut_ptr()));
        let read = JitOptions::read(6, o, v).unwrap();
        assert_eq!(read.scalars, [JitOption { option: jit_option::MAX_REGISTERS, value: 32 }]);
        assert_eq!(read.log_bytes(), (9, 65));
        read.write_logs(b"a long message", b"line 3: no");
        read.write_time(Duration::from_millis(2));
        assert_eq!(&info, b"a long \0");
        assert_eq!(&error[..11], b"line 3: no\0");
        assert_eq!((values[1] as usize, values[3] as usize), (8, 10), "one was cut");
        assert_eq!(f32::from_bits(values[5] as usize as u32), 2.0);
        read.write_logs(b"", b"");
        assert_eq!((info[0], error[0], values[1] as usize, values[3] as usize), (0, 0, 0, 0));
        assert_eq!((read.registers_max(), read.scalar(jit_option::TARGET)), (Some(32), None));
    }

    #[test]
    fn arrays_that_are_missing_or_endless_are_refused() {
        let (o, v) = (Out::<c_uint>::null(), Out::<*mut c_void>::null());
        assert!(JitOptions::read(0, o, v).is_ok());
        assert!(JitOptions::read(1, o, v).is_err());
        assert!(JitOptions::read(u32::MAX, o, v).is_err());
    }
}
