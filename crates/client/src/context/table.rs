//! Contexts: objects of the client alone. The server has one context for all clients; what a
//! program makes of contexts (which is current, who retains one, flags, limits) is kept here.
//!
//! Each device has a primary context whose handle exists before the program retains it, as with
//! NVIDIA's driver, and stays the same for the life of the process. Which context is current is
//! kept per thread, as a stack.

use crate::context::current;
use crate::handles::{Table, device_of_word, generation_on};
use crate::lock::{Guard, Lock, Rank};
use core::ffi::c_uint;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::limits::Limits;
use cuda_api::{CUcontext, CUdevice, CUgreenCtx, CUresult, CudaError};
use driver_common::context::{API_VERSION, PrimaryUse, check_flags};
use std::collections::BTreeSet;
use std::ops::Range;

/// Primary contexts take the first indices.
pub(crate) use channel::limits::DEVICES_MAX;

/// Contexts that exist at a time, primary ones included: each is a few hundred bytes here, but
/// a program with thousands leaks them.
const CONTEXTS_MAX: u32 = 4096;
/// One context.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) device: CUdevice,
    pub(crate) flags: c_uint,
    pub(crate) cache_config: c_uint,
    pub(crate) limits: Limits,
    /// As cuCtxAttach and cuCtxDetach count them.
    pub(crate) uses: u32,
    /// SMs of its own, if it has them not all, and its own default stream, which is on them.
    pub(super) sms: Option<Range<u32>>,
    pub(super) own_default: Option<Handle>,
    id: u64,
}

#[derive(Clone, Debug)]
struct Primary {
    context: Context,
    usage: PrimaryUse,
}

/// A green context: a context of its own in what is asked and set, while what is made in it is
/// the primary context's.
#[derive(Clone, Debug)]
pub(crate) struct Green {
    context: Context,
    /// Numbers of its SMs.
    pub(crate) sms: Range<u32>,
    /// What stream 0 stands for in it, once it was asked for.
    pub(crate) default_stream: Option<Handle>,
}

struct Inner {
    primaries: Vec<Primary>,
    created: Table<Context>,
    greens: Table<Green>,
    /// Contexts, and those whose memory they reach.
    peers: BTreeSet<(u64, u64)>,
    next_id: u64,
}

/// All contexts of the process.
pub(crate) struct Contexts {
    inner: Lock<Inner>,
    /// The handle of each index while its context is usable, else 0: what every call looks at.
    live: Box<[AtomicU64]>,
    /// True once a context had SMs of its own: until then no call looks for them.
    pub(super) any_sms: AtomicBool,
}

impl Context {
    fn new(device: CUdevice, flags: c_uint, id: u64) -> Self {
        Self {
            device,
            flags,
            cache_config: 0,
            limits: Limits::default(),
            uses: 1,
            sms: None,
            own_default: None,
            id,
        }
    }
}

/// The word of the current context if it is a green one, else 0.
#[inline(always)]
pub(crate) fn current_green() -> u64 {
    let word = current::word();
    match Handle::from_word(word) {
        Some(Handle { kind: HandleKind::GreenContext, .. }) => word,
        _ => 0,
    }
}

/// The handle of a device's primary context.
fn primary_handle(device: CUdevice) -> u64 {
    let generation = generation_on(device, 1);
    Handle { kind: HandleKind::Context, index: device as u32, generation }.to_word()
}

impl Contexts {
    /// The contexts of a process that sees that many devices, none of them in use.
    pub(crate) fn new(devices: usize) -> Self {
        let devices = devices.min(DEVICES_MAX as usize);
        let primaries = (0..devices)
            .map(|d| Context::new(d as CUdevice, 0, d as u64 + 1))
            .map(|context| Primary { context, usage: PrimaryUse::default() });
        Self {
            inner: Lock::new(
                Rank::Leaf,
                Inner {
                    primaries: primaries.collect(),
                    created: Table::new(
                        HandleKind::Context,
                        DEVICES_MAX,
                        CONTEXTS_MAX - DEVICES_MAX,
                    ),
                    greens: Table::new(HandleKind::GreenContext, 0, CONTEXTS_MAX),
                    peers: BTreeSet::new(),
                    next_id: u64::from(DEVICES_MAX) + 1,
                },
            ),
            live: (0..CONTEXTS_MAX).map(|_| AtomicU64::new(0)).collect(),
            any_sms: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// The current context's word, checked to be usable; the primary one's if it is a green one.
    /// CUDA_ERROR_INVALID_CONTEXT if there is none, CUDA_ERROR_CONTEXT_IS_DESTROYED if it is gone
    /// or the program does not retain it.
    #[inline(always)]
    pub(crate) fn current(&self) -> Result<u64, CudaError> {
        let word = current::word();
        if word == 0 {
            return Err(CudaError::INVALID_CONTEXT);
        }
        let index = word as u32 & Handle::INDEX_MAX;
        match self.live.get(index as usize) {
            Some(live) if live.load(Ordering::Acquire) == word => Ok(word),
            _ => self.primary_of_green(word),
        }
    }

    #[cold]
    fn primary_of_green(&self, word: u64) -> Result<u64, CudaError> {
        let inner = self.lock();
        let green = inner.greens.lookup(word as usize);
        let device = green.map_err(|_| CudaError::CONTEXT_IS_DESTROYED)?.context.device;
        Ok(primary_handle(device))
    }

    /// Makes a green context of some SMs, with the primary context's flags.
    pub(crate) fn create_green(
        &self,
        device: CUdevice,
        sms: Range<u32>,
    ) -> Result<CUgreenCtx, CudaError> {
        let mut inner = self.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        let flags = inner.primaries.get(device as usize).map_or(0, |p| p.context.flags);
        let context = Context::new(device, flags, id);
        let handle =
            inner.greens.insert_on(device, Green { context, sms, default_stream: None })?;
        Ok(CUgreenCtx(handle.to_word() as usize))
    }

    /// Ends a green context; what is left of it is the caller's to end.
    pub(crate) fn destroy_green(&self, green: CUgreenCtx) -> Result<Green, CudaError> {
        let mut inner = self.lock();
        let handle = inner.greens.decode(green.0).map_err(|_| CudaError::INVALID_CONTEXT)?;
        inner.greens.remove(handle).ok_or(CudaError::INVALID_CONTEXT)
    }

    /// Calls `f` with a green context. CUDA_ERROR_INVALID_CONTEXT if the word is none's.
    pub(crate) fn with_green<R>(
        &self,
        word: u64,
        f: impl FnOnce(&mut Green) -> R,
    ) -> Result<R, CudaError> {
        let mut inner = self.lock();
        let green = inner.greens.lookup_mut(word as usize);
        green.map(f).map_err(|_| CudaError::INVALID_CONTEXT)
    }

    /// Calls `f` with the context of a word, usable or not; NULL is the current one.
    /// CUDA_ERROR_INVALID_CONTEXT if there is none.
    pub(crate) fn with<R>(
        &self,
        context: CUcontext,
        f: impl FnOnce(&mut Context) -> R,
    ) -> Result<R, CudaError> {
        let word = if context.is_null() { current::word() } else { context.0 as u64 };
        let mut inner = self.lock();
        let handle = Handle::from_word(word).ok_or(CudaError::INVALID_CONTEXT)?;
        let context = match inner.primaries.get_mut(handle.index as usize) {
            Some(primary) if word == primary_handle(primary.context.device) => {
                Some(&mut primary.context)
            }
            _ if handle.kind == HandleKind::GreenContext => {
                inner.greens.lookup_mut(word as usize).map(|green| &mut green.context).ok()
            }
            _ => inner.created.lookup_mut(word as usize).ok(),
        };
        context.map(f).ok_or(CudaError::INVALID_CONTEXT)
    }

    /// The device of a context, usable or not; NULL is the current one. No lock for one that is usable.
    /// CUDA_ERROR_INVALID_CONTEXT if there is none.
    #[inline]
    pub(crate) fn device_of(&self, context: CUcontext) -> Result<CUdevice, CudaError> {
        let word = if context.is_null() { current::word() } else { context.0 as u64 };
        let live = self.live.get((word as u32 & Handle::INDEX_MAX) as usize);
        if word != 0
            && live.is_some_and(|live| live.load(Ordering::Acquire) == word)
            && let Some(device) = device_of_word(word)
        {
            return Ok(device);
        }
        self.with(context, |context| context.device)
    }

    /// The SMs that contexts of a device have as their own.
    pub(super) fn sms_taken(&self, device: CUdevice) -> Vec<Range<u32>> {
        let inner = self.lock();
        let primaries = inner.primaries.iter().map(|primary| &primary.context);
        let contexts = primaries.chain(inner.created.iter().map(|(_, context)| context));
        let of_device = contexts.filter(|context| context.device == device);
        of_device.filter_map(|context| context.sms.clone()).collect()
    }

    /// Makes a context and makes it current on this thread.
    pub(crate) fn create(&self, device: CUdevice, flags: c_uint) -> Result<CUcontext, CudaError> {
        let mut inner = self.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        let handle = inner.created.insert_on(device, Context::new(device, flags, id))?;
        let word = handle.to_word();
        self.live[handle.index as usize].store(word, Ordering::Release);
        current::push(word);
        Ok(CUcontext(word as usize))
    }

    /// Ends a context that [`Self::create`] made, if `f` (which ends what belongs to it) allows.
    pub(crate) fn destroy(&self, context: CUcontext) -> CUresult {
        let mut inner = self.lock();
        let handle = inner.created.decode(context.0).map_err(|_| CudaError::INVALID_CONTEXT)?;
        inner.created.remove(handle).ok_or(CudaError::INVALID_CONTEXT)?;
        self.live[handle.index as usize].store(0, Ordering::Release);
        // As in CUDA, it is popped where it is current on the calling thread; other threads keep
        // it and get CUDA_ERROR_CONTEXT_IS_DESTROYED.
        if current::word() == context.0 as u64 {
            current::pop();
        }
        Ok(())
    }

    /// Has a context reach a peer's memory; false if it does already.
    pub(crate) fn add_peer(&self, context: u64, peer: CUcontext) -> bool {
        self.lock().peers.insert((context, peer.0 as u64))
    }

    /// Takes that back; false if it does not.
    pub(crate) fn remove_peer(&self, context: u64, peer: CUcontext) -> bool {
        self.lock().peers.remove(&(context, peer.0 as u64))
    }

    /// True if a context of a device reaches the memory of one of another device.
    pub(crate) fn has_peers(&self, device: CUdevice, peer: CUdevice) -> bool {
        let devices = (Some(device), Some(peer));
        let mut peers = self.lock().peers.clone().into_iter();
        peers.any(|(context, peer)| (device_of_word(context), device_of_word(peer)) == devices)
    }

    /// Forgets what a context reaches, and who reaches it: it is gone.
    pub(crate) fn forget_peers(&self, context: u64) {
        self.lock().peers.retain(|(one, other)| *one != context && *other != context);
    }

    /// Checks that a word is that of a context that [`Self::create`] made.
    pub(crate) fn is_created(&self, context: CUcontext) -> bool {
        self.lock().created.lookup(context.0).is_ok()
    }

    /// The handle of a device's primary context, retained or not.
    pub(crate) fn primary(&self, device: CUdevice) -> CUcontext {
        CUcontext(primary_handle(device) as usize)
    }

    fn with_primary<R>(
        &self,
        device: CUdevice,
        f: impl FnOnce(&mut Primary) -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        let mut inner = self.lock();
        let index = usize::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?;
        let primary = inner.primaries.get_mut(index).ok_or(CudaError::INVALID_DEVICE)?;
        let result = f(primary)?;
        let word = if primary.usage.is_active() { primary_handle(device) } else { 0 };
        self.live[index].store(word, Ordering::Release);
        Ok(result)
    }

    /// Retains a device's primary context.
    pub(crate) fn retain(&self, device: CUdevice) -> Result<CUcontext, CudaError> {
        self.with_primary(device, |primary| primary.usage.retain())?;
        Ok(self.primary(device))
    }

    /// Releases it; true if that was the last time, so that what belongs to it has to go.
    pub(crate) fn release(&self, device: CUdevice) -> Result<bool, CudaError> {
        self.with_primary(device, |primary| primary.usage.release())
    }

    /// Ends it until it is retained again, and counts the retains on; true if it was in use, so that
    /// what belongs to it has to go.
    pub(crate) fn reset(&self, device: CUdevice) -> Result<bool, CudaError> {
        self.with_primary(device, |primary| Ok(primary.usage.reset()))
    }

    /// Puts back what was set in a primary context that is not in use, its flags too.
    pub(crate) fn set_back(&self, device: CUdevice) -> CUresult {
        self.with_primary(device, |primary| {
            primary.context = Context::new(device, 0, primary.context.id);
            Ok(())
        })
    }

    /// Flags of a device's primary context, and whether it is in use.
    pub(crate) fn primary_state(&self, device: CUdevice) -> Result<(c_uint, bool), CudaError> {
        self.with_primary(device, |primary| Ok((primary.context.flags, primary.usage.is_active())))
    }

    /// Sets them.
    pub(crate) fn set_primary_flags(&self, device: CUdevice, flags: c_uint) -> CUresult {
        check_flags(flags)?;
        self.with_primary(device, |primary| {
            primary.context.flags = flags;
            Ok(())
        })
    }

    /// The number by which a context is known for the life of the process.
    pub(crate) fn id(&self, context: CUcontext) -> Result<u64, CudaError> {
        self.with(context, |c| c.id)
    }

    /// The API version of a context.
    pub(crate) fn api_version(&self, context: CUcontext) -> Result<c_uint, CudaError> {
        self.with(context, |_| API_VERSION)
    }

    /// Makes a context current, in place of the one that is; NULL pops.
    pub(crate) fn set_current(&self, context: CUcontext) -> CUresult {
        if context.is_null() {
            current::pop();
            return Ok(());
        }
        self.with(context, |_| current::replace(context.0 as u64))
    }

    /// Makes a context current, on top of the one that is.
    pub(crate) fn push_current(&self, context: CUcontext) -> CUresult {
        if context.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        self.with(context, |_| current::push(context.0 as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::constants::ctx_flags;

    fn clear() {
        while current::pop() != 0 {}
    }

    #[test]
    fn the_primary_context_has_its_handle_before_anyone_retains_it() {
        clear();
        let contexts = Contexts::new(1);
        let handle = contexts.primary(0);
        assert_eq!(contexts.set_current(handle), Ok(()));
        assert_eq!(contexts.current(), Err(CudaError::CONTEXT_IS_DESTROYED));
        assert_eq!(contexts.retain(0), Ok(handle));
        assert_eq!(contexts.current(), Ok(handle.0 as u64));
        assert_eq!(contexts.retain(0), Ok(handle));
        assert_eq!((contexts.release(0), contexts.release(0)), (Ok(false), Ok(true)));
        assert_eq!(contexts.release(0), Err(CudaError::INVALID_CONTEXT));
        assert_eq!(contexts.current(), Err(CudaError::CONTEXT_IS_DESTROYED));
        assert_eq!(contexts.retain(1), Err(CudaError::INVALID_DEVICE));
        assert_eq!(contexts.destroy(handle), Err(CudaError::INVALID_CONTEXT));
        clear();
    }

    #[test]
    fn a_reset_puts_everything_back_and_does_not_release() {
        clear();
        let contexts = Contexts::new(1);
        contexts.set_primary_flags(0, 4).unwrap();
        let handle = contexts.retain(0).unwrap();
        contexts.set_current(handle).unwrap();
        contexts.with(handle, |context| context.cache_config = 2).unwrap();
        assert_eq!((contexts.reset(0), contexts.set_back(0)), (Ok(true), Ok(())));
        assert_eq!(contexts.primary_state(0), Ok((0, false)));
        assert_eq!(contexts.with(handle, |context| context.cache_config), Ok(0));
        assert_eq!(contexts.current(), Err(CudaError::CONTEXT_IS_DESTROYED));
        assert_eq!(contexts.reset(0), Ok(false), "nothing of it is left");
        assert_eq!(contexts.release(0), Ok(false), "the retain from before");
        assert_eq!(contexts.release(0), Err(CudaError::INVALID_CONTEXT));
        assert_eq!(contexts.retain(0), Ok(handle));
        assert_eq!(contexts.current(), Ok(handle.0 as u64));
        clear();
    }

    #[test]
    fn each_context_has_its_device_while_it_is_there() {
        clear();
        let contexts = Contexts::new(3);
        let none = Err(CudaError::INVALID_CONTEXT);
        assert_eq!([CUcontext::NULL, CUcontext(1)].map(|word| contexts.device_of(word)), [none; 2]);
        let primary = contexts.primary(2);
        assert_eq!(contexts.device_of(primary), Ok(2), "retained or not");
        assert_eq!(contexts.retain(2), Ok(primary));
        let created = contexts.create(1, 0).unwrap();
        let green = contexts.create_green(2, 0..8).unwrap();
        let all = [primary, created, CUcontext(green.0), CUcontext::NULL];
        assert_eq!(all.map(|word| contexts.device_of(word)), [Ok(2), Ok(1), Ok(2), Ok(1)]);
        contexts.destroy(created).unwrap();
        assert_eq!([created, CUcontext::NULL].map(|word| contexts.device_of(word)), [none; 2]);
        clear();
    }

    #[test]
    fn contexts_stack_up_per_thread() {
        clear();
        let contexts = Contexts::new(1);
        assert_eq!(contexts.current(), Err(CudaError::INVALID_CONTEXT));
        let a = contexts.create(0, 0).unwrap();
        let b = contexts.create(0, 0).unwrap();
        assert_ne!(contexts.id(a), contexts.id(b));
        assert_eq!(current::word(), b.0 as u64);
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(contexts.current(), Err(CudaError::INVALID_CONTEXT)));
        });
        contexts.push_current(a).unwrap();
        contexts.destroy(a).unwrap();
        assert_eq!(current::word(), b.0 as u64, "the destroyed one was popped");
        assert_eq!(current::pop(), b.0 as u64);
        assert_eq!(contexts.current(), Err(CudaError::CONTEXT_IS_DESTROYED), "a lies below");
        assert_eq!(contexts.set_current(b), Ok(()), "in place of a");
        assert_eq!((current::pop(), current::pop()), (b.0 as u64, 0));
        assert_eq!(contexts.set_current(a), Err(CudaError::INVALID_CONTEXT));
        assert_eq!(contexts.push_current(CUcontext(0x1234)), Err(CudaError::INVALID_CONTEXT));
    }

    #[test]
    fn what_is_made_in_a_green_context_is_the_primary_ones() {
        clear();
        let contexts = Contexts::new(1);
        let invalid = Err(CudaError::INVALID_CONTEXT);
        let flags = ctx_flags::MASK & !ctx_flags::SCHED_MASK;
        assert_eq!(contexts.set_primary_flags(0, ctx_flags::MASK), Err(CudaError::INVALID_VALUE));
        contexts.set_primary_flags(0, flags).unwrap();
        let primary = contexts.retain(0).unwrap();
        let green = contexts.create_green(0, 2..6).unwrap();
        let (word, as_context) = (green.0 as u64, CUcontext(green.0));
        assert_eq!(contexts.with(as_context, |c| (c.device, c.flags)), Ok((0, flags)));
        assert_ne!(contexts.id(as_context), contexts.id(primary));
        assert_eq!((current_green(), contexts.push_current(as_context)), (0, Ok(())));
        assert_eq!((current_green(), contexts.current()), (word, Ok(primary.0 as u64)));
        assert_eq!(contexts.with_green(word, |green| green.sms.clone()), Ok(2..6));
        contexts.push_current(primary).unwrap();
        assert_eq!(current_green(), 0);
        assert_eq!(contexts.with_green(primary.0 as u64, |_| ()), invalid);
        assert_eq!(contexts.destroy_green(green).map(|green| green.sms), Ok(2..6));
        assert_eq!(contexts.destroy_green(green).map(|_| ()), invalid);
        assert_eq!(current::pop(), primary.0 as u64);
        assert_eq!(contexts.current(), Err(CudaError::CONTEXT_IS_DESTROYED));
        clear();
    }
}
