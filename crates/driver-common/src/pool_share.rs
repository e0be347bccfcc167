//! Shared pools: what a program passes to another process in place of a pool.
//!
//! It is the descriptor of a file with nothing but the pool's number, which no process can guess.

use crate::pool::Sharing;
use crate::virtual_memory::with_descriptor;
use channel::{pool_file, system};
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::vmm;
use cuda_api::pointer::Out;
use cuda_api::{CUresult, CudaError};
use std::os::fd::IntoRawFd;

/// CUDA_ERROR_INVALID_VALUE for another kind of handle than a descriptor, and for flags.
fn check(handle_type: c_uint, flags: u64) -> CUresult {
    match flags == 0 && handle_type == vmm::HANDLE_POSIX_FD {
        true => Ok(()),
        false => Err(CudaError::INVALID_VALUE),
    }
}

/// cuMemPoolExportToShareableHandle of a pool: the descriptor is the program's to close.
pub fn export(sharing: Sharing, to: Out<c_void>, handle_type: c_uint, flags: u64) -> CUresult {
    check(handle_type, flags)?;
    let Sharing::Exportable(number) = sharing else { return Err(CudaError::INVALID_VALUE) };
    let file = pool_file::create(number).map_err(|error| system::result_of(&error))?;
    to.cast::<c_int>().set(file.into_raw_fd())
}

/// How the pool is shared that cuMemPoolImportFromShareableHandle makes of a descriptor.
pub fn import(handle: Out<c_void>, handle_type: c_uint, flags: u64) -> Result<Sharing, CudaError> {
    check(handle_type, flags)?;
    with_descriptor(handle, |fd| pool_file::number_in(fd).ok_or(CudaError::INVALID_VALUE))
        .map(Sharing::Imported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;

    #[test]
    fn another_process_knows_a_pool_by_its_number() {
        let number = pool_file::new_number().unwrap();
        let mut fd: c_int = -1;
        let to = passed((&raw mut fd).cast::<c_void>());
        export(Sharing::Exportable(number), to, vmm::HANDLE_POSIX_FD, 0).unwrap();
        let fd = to.cast::<c_int>().get().unwrap();
        let handle = passed(fd as usize as *mut c_void);
        assert_eq!(import(handle, vmm::HANDLE_POSIX_FD, 0), Ok(Sharing::Imported(number)));
        assert_eq!(import(handle, vmm::HANDLE_POSIX_FD, 1), Err(CudaError::INVALID_VALUE));
        let other = export(Sharing::Own, to, vmm::HANDLE_POSIX_FD, 0);
        assert_eq!(other, Err(CudaError::INVALID_VALUE));
    }
}
