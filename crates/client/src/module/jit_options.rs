//! The results of a load, in the program's log buffers.

use channel::request::ModuleLoaded;
use cuda_api::{CUresult, CudaError};
use driver_common::jit_options::JitOptions;
use std::time::Duration;

/// What the error log says of what is not an image at all.
const NO_IMAGE: &[u8] = b"not an image: neither PTX, nor a fat binary, nor an ELF file";

/// Gives the program the results of a load: both logs, how long they are, and the time.
pub(crate) fn answer(
    options: &JitOptions,
    loaded: Option<&ModuleLoaded>,
    result: CUresult,
    took: Duration,
) {
    let info: &[u8] = loaded.map_or(&[], |loaded| &loaded.info_log);
    let mut error: &[u8] = loaded.map_or(&[], |loaded| &loaded.error_log);
    if error.is_empty() && result == Err(CudaError::INVALID_IMAGE) {
        error = NO_IMAGE;
    }
    options.write_logs(info, error);
    options.write_time(took);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_said_where_the_server_says_nothing() {
        let mut log = [1u8; 80];
        let options = JitOptions::with_error_log(&mut log);
        answer(&options, None, Err(CudaError::NO_BINARY_FOR_GPU), Duration::ZERO);
        assert_eq!(log[0], 0);
        answer(&options, None, Err(CudaError::INVALID_IMAGE), Duration::ZERO);
        assert_eq!(&log[..NO_IMAGE.len()], NO_IMAGE);
        let loaded = ModuleLoaded { error_log: b"line 3: no".to_vec(), ..ModuleLoaded::default() };
        answer(&options, Some(&loaded), Err(CudaError::INVALID_IMAGE), Duration::ZERO);
        assert_eq!(&log[..11], b"line 3: no\0");
    }
}
