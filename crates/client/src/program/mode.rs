//! How this process runs: attached to a server, passing through to a provider, or refused.
//!
//! Decided once, at the first call of anything. In pass-through the
//! entry table leads straight to the provider and nothing in this crate runs any more; so all
//! code below the entry points is about attached and refused processes.

use crate::connection::handshake::{self, AttachError};
use crate::connection::{Connection, SERVER_GONE, requested_limits};
use crate::context::current;
use crate::handles::device_of_word;
use crate::memory::kept_file::{close_all_in_child, make_private_in_child};
use crate::program::visible::visible;
use crate::program::{Client, Program};
use crate::stderr::say;
use channel::message::{Device, Devices};
use channel::region::Region;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use cuda_api::driver_version::API_VERSION;
use cuda_api::extension::SOFTWARE_GPU_NAME;
use cuda_api::{CUdevice, CUresult, CudaError, environment, result_code, result_from_code};
use provider::Provider;

/// How this process runs.
pub(crate) enum Mode {
    /// Attached to servers; the state is in [`PROGRAM`].
    Attached,
    /// Every export leads to this provider.
    PassThrough(Box<Provider>),
    /// cuInit fails with this error, and everything else for want of it.
    Refused(CudaError),
}

/// The attached process' program: made once and kept until the process ends, so that references to
/// it are good for ever.
static PROGRAM: AtomicPtr<Program> = AtomicPtr::new(core::ptr::null_mut());
/// CUresult of cuInit in a refused process.
static REFUSAL: AtomicU32 = AtomicU32::new(0);
/// True once cuInit has succeeded.
static INITIALIZED: AtomicBool = AtomicBool::new(false);
/// See [`recoveries`].
static RECOVERIES: AtomicU32 = AtomicU32::new(0);

/// Finds out how this process is to run. Says on standard error why, if it cannot.
pub(crate) fn decide() -> Mode {
    requested_limits::say_misspelt();
    match attach() {
        Ok(program) => {
            PROGRAM.store(core::ptr::from_ref(program).cast_mut(), Ordering::Release);
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
            if !text.is_empty() {
                say(format_args!("refused: {text}"));
            }
            Mode::Refused(code)
        }
    }
}

/// Finds the daemon's devices, and attaches to the server of the one that this process sees if it sees
/// one only: whether it is taken is known at cuInit then. With several, a context on one decides.
fn attach() -> Result<&'static Program, AttachError> {
    let described = handshake::describe()?;
    requested_limits::say_mistakes(&described.devices);
    let devices = visible(&described.devices);
    let version = reported_version(&described);
    let program = Program::new(devices, version, Box::new(connect));
    let program: &'static Program = Box::leak(Box::new(program));
    if let [device] = program.devices() {
        let connection = handshake::attach(device.uuid, &|_| ())?;
        // What it cannot have is said there.
        program.put(0, connection).map_err(|code| AttachError::Refused {
            code,
            text: String::new(),
            passing: false,
        })?;
    }
    Ok(program)
}

/// The version of CUDA that this process reports: its daemon's, unless its own environment asks the
/// software GPU for another.
fn reported_version(described: &Devices) -> i32 {
    let is_software = |device: &Device| device.name.starts_with(SOFTWARE_GPU_NAME);
    let asked = match provider::asked_driver_version() {
        _ if !described.devices.iter().all(is_software) => None,
        Ok(asked) => asked,
        Err(why) => {
            let (major, minor) =
                (described.driver_version / 1000, described.driver_version % 1000 / 10);
            say(format_args!("{why}; {major}.{minor} is reported"));
            None
        }
    };
    asked.unwrap_or(described.driver_version)
}

/// A connection for a device: the first one, or one in the place of one that is lost.
fn connect(device: &Device, prepare: &dyn Fn(&Region)) -> Result<Connection, CudaError> {
    handshake::attach(device.uuid, prepare).map_err(|error| match error {
        AttachError::NoDaemon => CudaError::MPS_CONNECTION_FAILED,
        AttachError::Refused { code, text, .. } => {
            // Attempts are made again and again while the daemon pauses: once is enough.
            static SAID: AtomicBool = AtomicBool::new(false);
            if code != CudaError::MPS_SERVER_NOT_READY || !SAID.swap(true, Ordering::AcqRel) {
                say(format_args!("refused: {text}"));
            }
            code
        }
    })
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

/// The program; CUDA_ERROR_NOT_INITIALIZED before cuInit.
#[inline(always)]
pub(crate) fn program() -> Result<&'static Program, CudaError> {
    if !INITIALIZED.load(Ordering::Acquire) {
        return Err(CudaError::NOT_INITIALIZED);
    }
    program_even_before_init().ok_or(CudaError::NOT_INITIALIZED)
}

/// The program, for the few functions that answer before cuInit.
#[inline(always)]
pub(crate) fn program_even_before_init() -> Option<&'static Program> {
    // SAFETY: the pointer is null or came from `Box::leak` and is never freed.
    unsafe { PROGRAM.load(Ordering::Acquire).as_ref() }
}

/// The version of CUDA that every function reports.
pub(crate) fn driver_version() -> i32 {
    program_even_before_init().map_or(API_VERSION, |program| program.driver_version())
}

/// What most calls begin with: the client of the current context's device, and that context's word.
/// Fails as CUDA does before cuInit, without a context, or after an error that does not go away.
#[inline(always)]
pub(crate) fn enter() -> Result<(&'static Client, u64), CudaError> {
    let program = program()?;
    let context = program.contexts().current()?;
    let device = device_of_word(context).ok_or(CudaError::INVALID_CONTEXT)?;
    let client = program.client_at(device as usize).map_err(|_| CudaError::INVALID_CONTEXT)?;
    healthy(client)?;
    Ok((client, context))
}

/// What calls begin with whose handles say whose they are, so that no context need be current: the
/// client of the handle's device. A word that is no handle (a default stream's) is the current
/// context's, if there is one: what is done with it asks for that context.
#[inline(always)]
pub(crate) fn client_of(word: usize) -> Result<&'static Client, CudaError> {
    let program = program()?;
    let client = match device_of_word(word as u64) {
        Some(device) => {
            program.client_at(device as usize).map_err(|_| CudaError::INVALID_HANDLE)?
        }
        None => current_or_first(program)?,
    };
    healthy(client)?;
    Ok(client)
}

/// What calls begin with that ask for nothing in particular: the client of the current context's
/// device, else of the first device that the program has something on, else of the first one.
#[inline(always)]
pub(crate) fn client() -> Result<&'static Client, CudaError> {
    let client = current_or_first(program()?)?;
    healthy(client)?;
    Ok(client)
}

/// As [`client`], after an error that does not go away too.
pub(crate) fn any_client() -> Result<&'static Client, CudaError> {
    current_or_first(program()?)
}

/// The error after which every call fails, if there is one. A connection that is lost is replaced
/// first: calls begin here, where the thread holds no lock.
#[inline(always)]
fn healthy(client: &'static Client) -> CUresult {
    match client.health() {
        Ok(()) => Ok(()),
        Err(error) => recovered(client, error),
    }
}

#[cold]
fn recovered(client: &'static Client, error: CudaError) -> CUresult {
    if error == SERVER_GONE {
        client.program.recover_lost();
    }
    client.health()
}

/// How often a lost connection was replaced, or was found to be lost for good.
#[inline(always)]
pub(crate) fn recoveries() -> u32 {
    RECOVERIES.load(Ordering::Acquire)
}

/// Counts a connection that was replaced, or was found to be lost for good.
pub(super) fn count_recovery() {
    RECOVERIES.fetch_add(1, Ordering::AcqRel);
}

/// A call failed because its server is gone: true if another one has taken its place since there were
/// so many recoveries, so that the call is worth to be made again. The thread holds no lock.
#[cold]
pub(crate) fn recovered_since(recoveries_seen: u32) -> bool {
    if let Some(program) = program_even_before_init() {
        program.recover_lost();
    }
    recoveries() != recoveries_seen
}

#[inline(always)]
fn current_or_first(program: &'static Program) -> Result<&'static Client, CudaError> {
    match device_of_word(current::word()).map(|device| program.client_at(device as usize)) {
        Some(Ok(client)) => Ok(client),
        _ => program.first_client(),
    }
}

/// The client that knows an address, else the one that [`client`] gives.
#[inline(always)]
pub(crate) fn client_at(address: u64) -> Result<&'static Client, CudaError> {
    let program = program()?;
    let client = match program.has_several() {
        true => program.knower_of(address)?,
        false => program.first_client()?,
    };
    healthy(client)?;
    Ok(client)
}

/// The client of a device, connected now if it is the first time.
pub(crate) fn client_on(device: CUdevice) -> Result<&'static Client, CudaError> {
    let client = program()?.client_on(device)?;
    healthy(client)?;
    Ok(client)
}

/// What cuInit(0) does.
pub(crate) fn initialize() -> CUresult {
    result_from_code(REFUSAL.load(Ordering::Acquire))?;
    let program = program_even_before_init().ok_or(CudaError::NOT_INITIALIZED)?;
    if program.devices().is_empty() {
        return Err(CudaError::NO_DEVICE);
    }
    program.clients().try_for_each(Client::health)?;
    INITIALIZED.store(true, Ordering::Release);
    Ok(())
}

/// Makes a test's program the process'.
#[cfg(test)]
pub(crate) fn attach_for_test(program: &'static Program) {
    PROGRAM.store(core::ptr::from_ref(program).cast_mut(), Ordering::Release);
    initialize().expect("there is a device");
}

/// In a forked child: leaves the session to the parent. True if the parent had called cuInit, so
/// that the child cannot use CUDA any more.
pub(crate) fn abandon_in_child() -> bool {
    if let Some(program) = program_even_before_init() {
        // While the files are open.
        make_private_in_child();
        program.clients().for_each(Client::abandon_in_child);
        close_all_in_child();
    }
    // The state stays where it is: other threads of the parent may have been in it.
    PROGRAM.store(core::ptr::null_mut(), Ordering::Release);
    REFUSAL.store(0, Ordering::Release);
    INITIALIZED.swap(false, Ordering::AcqRel)
}
