//! Context-local storage: values that a library hangs on a context under a key of its own.
//!
//! Each copy of CUDA's runtime looks its state up here at every call, so a look-up is one lock
//! and one hash.

use cuda_api::{CUcontext, CUresult, CudaError};
use locks::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::LazyLock;

/// Called with context, key and value when the context is destroyed.
pub(crate) type Destructor =
    Option<unsafe extern "C" fn(context: CUcontext, key: *mut c_void, value: *mut c_void)>;

struct Entry {
    value: usize,
    destructor: Destructor,
}

type Entries = HashMap<(CUcontext, usize), Entry>;

static ENTRIES: LazyLock<Mutex<Entries>> = LazyLock::new(Mutex::default);

fn entries() -> MutexGuard<'static, Entries> {
    // A panic of its owner cannot leave a map half changed.
    ENTRIES.lock()
}

pub(crate) fn put(context: CUcontext, key: usize, value: usize, destructor: Destructor) {
    entries().insert((context, key), Entry { value, destructor });
}

pub(crate) fn get(context: CUcontext, key: usize) -> Result<usize, CudaError> {
    entries().get(&(context, key)).map(|entry| entry.value).ok_or(CudaError::INVALID_HANDLE)
}

pub(crate) fn delete(context: CUcontext, key: usize) -> CUresult {
    entries().remove(&(context, key)).map(|_| ()).ok_or(CudaError::INVALID_HANDLE)
}

/// The context is being destroyed or reset: what hangs on it goes, each by its destructor.
pub fn forget_context(context: CUcontext) {
    let gone: Vec<(usize, Entry)> = {
        let mut entries = entries();
        entries.extract_if(|(owner, _), _| *owner == context).map(|((_, k), e)| (k, e)).collect()
    };
    // Not under the lock: a destructor may well call the driver.
    for (key, entry) in gone {
        if let Some(destructor) = entry.destructor {
            // SAFETY: the library that put the entry said that this function takes these three.
            unsafe { destructor(context, key as *mut c_void, entry.value as *mut c_void) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn values_hang_on_their_context_until_it_goes() {
        static DESTROYED: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn destructor(_: CUcontext, _: *mut c_void, value: *mut c_void) {
            DESTROYED.fetch_add(value as usize, Ordering::Relaxed);
        }
        let (mine, other) = (CUcontext(0x101), CUcontext(0x102));
        put(mine, 1, 10, Some(destructor));
        put(mine, 2, 20, Some(destructor));
        put(other, 1, 40, Some(destructor));
        assert_eq!(get(mine, 1), Ok(10));
        assert_eq!(get(mine, 3), Err(CudaError::INVALID_HANDLE));
        assert_eq!(delete(mine, 2), Ok(()));
        assert_eq!(delete(mine, 2), Err(CudaError::INVALID_HANDLE));
        forget_context(mine);
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 10);
        assert_eq!(get(mine, 1), Err(CudaError::INVALID_HANDLE));
        assert_eq!(get(other, 1), Ok(40));
    }
}
