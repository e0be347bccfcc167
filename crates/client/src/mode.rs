//! How this process runs: attached to a server, passing through to a provider, or refused.
//!
//! Decided once, at the first call of anything ([`crate::entry::resolver`]). In pass-through the
//! entry table leads straight to the provider and nothing in this crate runs any more; so all
//! code below the entry points is about attached and refused processes.

use crate::attach::Attached;
use crate::handshake::{self, AttachError};
use crate::stderr::say;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use cuda_api::{CUresult, CudaError, environment, result_code, result_from_code};
use provider::Provider;

/// How this process runs.
pub(crate) enum Mode {
    /// Attached to a server; the state is in [`ATTACHED`].
    Attached,
    /// Every export leads to this provider.
    PassThrough(Box<Provider>),
    /// cuInit fails with this error, and everything else for want of it.
    Refused(CudaError),
}

/// The attached process' state: made once and kept until the process ends, so that references to
/// it are good for ever.
static ATTACHED: AtomicPtr<Attached> = AtomicPtr::new(core::ptr::null_mut());
/// CUresult of cuInit in a refused process.
static REFUSAL: AtomicU32 = AtomicU32::new(0);
/// True once cuInit has succeeded.
static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Finds out how this process is to run. Says on standard error why, if it cannot.
pub(crate) fn decide() -> Mode {
    match handshake::attach() {
        Ok(attached) => {
            ATTACHED.store(Box::into_raw(attached), Ordering::Release);
            Mode::Attached
        }
        Err(AttachError::NoDaemon) if is_required() => {
            let advice = "`openmps up` starts one, or unset OPENMPS_REQUIRE";
            say(format_args!("no daemon is found, and OPENMPS_REQUIRE wants one: {advice}"));
            Mode::Refused(CudaError::MPS_CONNECTION_FAILED)
        }
        Err(AttachError::NoDaemon) => match provider::load() {
            Ok(provider) => Mode::PassThrough(Box::new(provider)),
            Err(reason) => {
                say(format_args!("no daemon and no provider: {reason}"));
                Mode::Refused(CudaError::NO_DEVICE)
            }
        },
        Err(AttachError::Refused { code, text, .. }) => {
            say(format_args!("refused: {text}"));
            Mode::Refused(code)
        }
    }
}

/// Whether this process is to fail where it finds no daemon.
fn is_required() -> bool {
    std::env::var_os(environment::OPENMPS_REQUIRE).is_some_and(|value| value == "1")
}

/// Records a refusal for cuInit.
pub(crate) fn set(mode: &Mode) {
    if let Mode::Refused(code) = mode {
        REFUSAL.store(result_code(Err(*code)), Ordering::Release);
    }
}

/// The attached state; CUDA_ERROR_NOT_INITIALIZED before cuInit.
#[inline(always)]
pub(crate) fn attached() -> Result<&'static Attached, CudaError> {
    if !INITIALIZED.load(Ordering::Acquire) {
        return Err(CudaError::NOT_INITIALIZED);
    }
    attached_even_before_init().ok_or(CudaError::NOT_INITIALIZED)
}

/// The attached state, for the few functions that answer before cuInit.
#[inline(always)]
pub(crate) fn attached_even_before_init() -> Option<&'static Attached> {
    // SAFETY: the pointer is null or came from Box::into_raw in `decide` and is never freed.
    unsafe { ATTACHED.load(Ordering::Acquire).as_ref() }
}

/// What most calls begin with: the attached state and the current context's word. Fails as CUDA
/// does before cuInit, without a context, or after an error that does not go away.
#[inline(always)]
pub(crate) fn enter() -> Result<(&'static Attached, u64), CudaError> {
    let client = attached()?;
    let context = client.contexts().current()?;
    client.health()?;
    Ok((client, context))
}

/// What calls begin with whose handles say whose they are, so that no context need be current: the
/// attached state. A default stream has no such handle: [`Attached::stream`] asks for a context.
#[inline(always)]
pub(crate) fn client() -> Result<&'static Attached, CudaError> {
    let client = attached()?;
    client.health()?;
    Ok(client)
}

/// What cuInit(0) does.
pub(crate) fn initialize() -> CUresult {
    result_from_code(REFUSAL.load(Ordering::Acquire))?;
    let attached = attached_even_before_init().ok_or(CudaError::NOT_INITIALIZED)?;
    // The numbers are those of the daemon's devices, which its own list may have chosen and ordered.
    let uuids: Vec<String> =
        attached.devices().iter().map(|device| device.uuid.to_string()).collect();
    if provider::visible_devices(&uuids).is_empty() {
        return Err(CudaError::NO_DEVICE);
    }
    attached.health()?;
    INITIALIZED.store(true, Ordering::Release);
    Ok(())
}

/// Makes a test's client the process'.
#[cfg(test)]
pub(crate) fn attach_for_test(attached: Attached) -> &'static Attached {
    ATTACHED.store(Box::into_raw(Box::new(attached)), Ordering::Release);
    initialize().expect("there is a device");
    attached_even_before_init().expect("it was just stored")
}

/// In a forked child: leaves the session to the parent. True if the parent had called cuInit, so
/// that the child cannot use CUDA any more.
pub(crate) fn abandon_in_child() -> bool {
    if let Some(attached) = attached_even_before_init() {
        attached.abandon_in_child();
    }
    // The state stays where it is: other threads of the parent may have been in it.
    ATTACHED.store(core::ptr::null_mut(), Ordering::Release);
    REFUSAL.store(0, Ordering::Release);
    INITIALIZED.swap(false, Ordering::AcqRel)
}
