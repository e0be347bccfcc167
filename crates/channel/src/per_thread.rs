//! Per-thread state: a value of each thread's own that lasts until nothing in the thread can ask
//! for it.
//!
//! A `thread_local!` with a destructor is gone before `exit` runs the handlers of `atexit`, and
//! before other destructors of the thread: a program may still call CUDA in both. This state belongs
//! to a key of pthreads: it is freed behind all thread-local variables, and not at all in the thread
//! that calls `exit`.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// A variable of which each thread has its own value. For statics: its key is never given back.
pub struct PerThread<T: 'static> {
    key: OnceLock<Option<libc::pthread_key_t>>,
    value: PhantomData<fn() -> T>,
}

impl<T: Default> PerThread<T> {
    /// One that has no value in any thread yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self { key: OnceLock::new(), value: PhantomData }
    }

    /// Calls `f` with this thread's value, which begins as the default one. `None` if the process
    /// has used up its keys or its memory.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let key = (*self.key.get_or_init(Self::make_key))?;
        // SAFETY: the key was made and is never deleted. The value is made here, and is this thread's,
        // which is in this call: what frees it runs at the thread's end. Others never see it.
        let value = unsafe {
            let mut value = libc::pthread_getspecific(key).cast::<T>().cast_const();
            if value.is_null() {
                value = Box::into_raw(Box::<T>::default());
                if libc::pthread_setspecific(key, value.cast()) != 0 {
                    drop(Box::from_raw(value.cast_mut()));
                    return None;
                }
            }
            &*value
        };
        Some(f(value))
    }

    fn make_key() -> Option<libc::pthread_key_t> {
        let mut key = 0;
        // SAFETY: `key` may be written; what the destructor gets is what `with` has set.
        let made = unsafe { libc::pthread_key_create(&mut key, Some(free::<T>)) };
        (made == 0).then_some(key)
    }
}

/// The thread ends: its value goes. A panic there ends the process.
unsafe extern "C" fn free<T>(value: *mut c_void) {
    // SAFETY: `with` has made it by a Box, and the key no longer holds it.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;

    static NUMBER: PerThread<Cell<u32>> = PerThread::new();

    #[test]
    fn each_thread_has_its_own_value() {
        NUMBER.with(|number| number.set(1)).unwrap();
        let other = std::thread::spawn(|| NUMBER.with(Cell::get)).join().unwrap();
        assert_eq!((NUMBER.with(Cell::get), other), (Some(1), Some(0)));
    }

    /// Says in its destructor what the thread's number is then.
    struct AtEnd(Cell<Option<mpsc::Sender<Option<u32>>>>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.take().unwrap().send(NUMBER.with(Cell::get)).unwrap();
        }
    }

    thread_local! {
        static AT_END: AtEnd = const { AtEnd(Cell::new(None)) };
    }

    #[test]
    fn a_value_outlives_the_thread_local_variables() {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            // Later variables go first.
            AT_END.with(|end| end.0.set(Some(send)));
            NUMBER.with(|number| number.set(7));
        });
        assert_eq!(receive.recv().unwrap(), Some(7));
    }

    struct Freed(Cell<Option<mpsc::Sender<()>>>);

    impl Default for Freed {
        fn default() -> Self {
            Self(Cell::new(None))
        }
    }

    impl Drop for Freed {
        fn drop(&mut self) {
            self.0.take().unwrap().send(()).unwrap();
        }
    }

    #[test]
    fn a_value_goes_with_its_thread() {
        static FREED: PerThread<Freed> = PerThread::new();
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || FREED.with(|freed| freed.0.set(Some(send))));
        receive.recv().expect("freed");
    }
}
