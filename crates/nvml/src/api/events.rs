//! Event sets: programs that watch devices wait for Xid errors.
//!
//! An error of the device comes from where the software GPU's processes meet. A client's fault is that program's own
//! affair: NVIDIA's device plugin takes a device away for an Xid, so it is an event only where the environment asks for it.

use super::{Handle, functions};
use crate::device::{Watch, XidSource};
use crate::mode;
use crate::out::Argument;
use crate::status::{Answer, Failure};
use cuda_api::pointer::FromProgram;
use locks::{Mutex, MutexGuard};
use std::ffi::c_uint;
use std::time::{Duration, Instant};

/// nvmlEventTypeXidCriticalError.
const XID: u64 = 8;
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(50);

/// `nvmlEventData_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct EventData {
    device: Handle,
    kind: u64,
    /// The Xid.
    data: u64,
    /// All ones: no MIG.
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// An `nvmlEventSet_t`: a number that no program takes for none.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set(usize);

impl FromProgram for Set {
    type Argument = Self;
    unsafe fn believe(self) -> Self {
        self
    }
}

impl Argument for Set {
    type Inside = Self;
}

impl Set {
    const FIRST: usize = 0x6f6d_6576;

    fn of(index: usize) -> Self {
        Self(Self::FIRST + index)
    }

    fn index(self) -> Answer<usize> {
        self.0.checked_sub(Self::FIRST).ok_or(Failure::INVALID_ARGUMENT)
    }
}

/// All sets, by number; none where one was freed.
static SETS: Mutex<Vec<Option<Watch>>> = Mutex::new(Vec::new());

fn sets() -> MutexGuard<'static, Vec<Option<Watch>>> {
    SETS.lock()
}

/// Something with a set; INVALID_ARGUMENT if it is none.
fn with<R>(set: Set, look: impl FnOnce(&mut Watch) -> R) -> Answer<R> {
    let index = set.index()?;
    let mut sets = sets();
    let watch = sets.get_mut(index).and_then(Option::as_mut);
    watch.map(look).ok_or(Failure::INVALID_ARGUMENT)
}

functions! {
    fn nvmlDeviceGetSupportedEventTypes(handle: Handle, types: *mut u64) {
        handle.device()?;
        types.set(XID)
    }

    fn nvmlEventSetCreate(set: *mut Set) {
        let mut sets = sets();
        let free = sets.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            sets.push(None);
            sets.len() - 1
        });
        set.set(Set::of(index))?;
        sets[index] = Some(Watch::default());
        Ok(())
    }

    fn nvmlDeviceRegisterEvents(handle: Handle, types: u64, set: Set) {
        let (index, device) = (handle.index()?, handle.device()?);
        if types & !XID != 0 {
            return Err(Failure::NOT_SUPPORTED);
        }
        with(set, |watch| if types != 0 { watch.register(index, device) })
    }

    fn nvmlEventSetFree(set: Set) {
        let index = set.index()?;
        let mut sets = sets();
        let place = sets.get_mut(index).filter(|place| place.is_some());
        *place.ok_or(Failure::INVALID_ARGUMENT)? = None;
        Ok(())
    }

    fn nvmlEventSetWait(set: Set, data: *mut EventData, timeout_ms: c_uint) {
        wait(set, timeout_ms, |event| data.set(event))
    }

    fn nvmlEventSetWait_v2(set: Set, data: *mut EventData, timeout_ms: c_uint) {
        wait(set, timeout_ms, |event| data.set(event))
    }
}

/// Waits for the next error of a set's devices; TIMEOUT without one.
fn wait(set: Set, timeout_ms: u32, mut found: impl FnMut(EventData) -> Answer) -> Answer {
    let deadline = Instant::now().checked_add(Duration::from_millis(timeout_ms.into()));
    let devices = mode::devices()?;
    let source = XidSource::of_environment();
    loop {
        // Not locked while it waits: others may free the set.
        if let Some((index, xid)) = with(set, |watch| watch.next(devices, source))? {
            return found(EventData {
                device: Handle::of(index as usize),
                kind: XID,
                data: xid.into(),
                gpu_instance: u32::MAX,
                compute_instance: u32::MAX,
            });
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => return Err(Failure::TIMEOUT),
            left => std::thread::sleep(left.map_or(LOOK, |left| left.min(LOOK))),
        }
    }
}
