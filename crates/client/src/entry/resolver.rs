//! The first call of anything: decides how this process runs, fills the table, and goes on. If it
//! is to be traced which functions a program calls, the table stays as it is and each symbol's
//! entry is filled at its own first call.
//!
//! A decision is made once, by whichever thread comes first; others wait for it. A call that the
//! deciding thread itself makes meanwhile (a provider's initialiser that calls its own exports
//! through the program's symbols) is answered CUDA_ERROR_NOT_INITIALIZED instead of waiting for
//! itself.

use super::{COUNT, dispatch, entry, fork, not_initialized, set_entry, trace, unsupported};
use crate::program::answered;
use crate::program::mode::{self, Mode};
use crate::stderr::say;
use channel::signals::Uncancellable;
use core::arch::naked_asm;
use core::cell::Cell;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use cuda_api::CudaError;
use cuda_api::symbols::SYMBOLS;

/// Longest exported symbol, with room: names are built on the stack to be looked up.
const SYMBOL_BYTES_MAX: usize = 128;
const _: () = {
    let mut i = 0;
    while i < COUNT {
        assert!(SYMBOLS[i].len() < SYMBOL_BYTES_MAX);
        i += 1;
    }
};

const UNDECIDED: u32 = 0;
const DECIDING: u32 = 1;
const DECIDED: u32 = 2;

/// Whether the table is filled. Not a lock: a forked child can put it back.
static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);

thread_local! {
    static THIS_THREAD_DECIDES: Cell<bool> = const { Cell::new(false) };
}

/// What every entry holds at first. Keeps all argument registers, asks [`resolve`] where to go,
/// and goes there as if the program had called that.
///
/// # Safety
/// Only a trampoline may jump here: the symbol's index is where [`cuda_api::jump_to_entry`] leaves it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn resolver() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 192",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov [rsp + 48], rax",
        "mov [rsp + 56], r11",
        "movups [rsp + 64], xmm0",
        "movups [rsp + 80], xmm1",
        "movups [rsp + 96], xmm2",
        "movups [rsp + 112], xmm3",
        "movups [rsp + 128], xmm4",
        "movups [rsp + 144], xmm5",
        "movups [rsp + 160], xmm6",
        "movups [rsp + 176], xmm7",
        "mov edi, r11d",
        "call {resolve}",
        "mov r10, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "mov rax, [rsp + 48]",
        "mov r11, [rsp + 56]",
        "movups xmm0, [rsp + 64]",
        "movups xmm1, [rsp + 80]",
        "movups xmm2, [rsp + 96]",
        "movups xmm3, [rsp + 112]",
        "movups xmm4, [rsp + 128]",
        "movups xmm5, [rsp + 144]",
        "movups xmm6, [rsp + 160]",
        "movups xmm7, [rsp + 176]",
        "leave",
        "jmp r10",
        resolve = sym resolve,
    )
}

/// What every entry holds at first. Keeps all argument registers, asks [`resolve`] where to go,
/// and goes there as if the program had called that.
///
/// # Safety
/// Only a trampoline may jump here: the symbol's index is where [`cuda_api::jump_to_entry`] leaves it.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn resolver() {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "sub sp, sp, #208",
        "stp x0, x1, [sp]",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "stp x8, x16, [sp, #64]",
        "stp q0, q1, [sp, #80]",
        "stp q2, q3, [sp, #112]",
        "stp q4, q5, [sp, #144]",
        "stp q6, q7, [sp, #176]",
        "mov w0, w16",
        "bl {resolve}",
        "mov x17, x0",
        "ldp x0, x1, [sp]",
        "ldp x2, x3, [sp, #16]",
        "ldp x4, x5, [sp, #32]",
        "ldp x6, x7, [sp, #48]",
        "ldp x8, x16, [sp, #64]",
        "ldp q0, q1, [sp, #80]",
        "ldp q2, q3, [sp, #112]",
        "ldp q4, q5, [sp, #144]",
        "ldp q6, q7, [sp, #176]",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "br x17",
        resolve = sym resolve,
    )
}

/// Makes sure that there is a decision; gives the code that the symbol's call goes to.
extern "C" fn resolve(index: u32) -> *const c_void {
    let _whole = Uncancellable::begin();
    if THIS_THREAD_DECIDES.get() {
        return not_initialized as *const c_void;
    }
    match STATE.compare_exchange(UNDECIDED, DECIDING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            // Before anything takes time: a child that is forked meanwhile has no thread that decides.
            fork::watch(forget);
            THIS_THREAD_DECIDES.set(true);
            // A decision that fails for an unforeseen reason leaves a library that answers errors.
            let mode =
                std::panic::catch_unwind(mode::decide).unwrap_or(Mode::Refused(CudaError::UNKNOWN));
            // First of all: other threads come in by an entry as soon as it is filled.
            mode::set(&mode);
            crate::api::find_symbols_by(super::exported_address);
            fill(&mode);
            THIS_THREAD_DECIDES.set(false);
            STATE.store(DECIDED, Ordering::Release);
        }
        Err(_) => {
            // At most the time a server takes to start; no thread waits here a second time.
            while STATE.load(Ordering::Acquire) == DECIDING {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
    match STATE.load(Ordering::Acquire) {
        DECIDED => match entry(index as usize) {
            code if code == UNFILLED => first_call(index as usize),
            code => code,
        },
        _ => not_initialized as *const c_void,
    }
}

/// What an entry holds that is not filled.
const UNFILLED: *const c_void = resolver as *const c_void;

/// Leads a symbol to our own answer, at its first call.
fn first_call(index: usize) -> *const c_void {
    let code = dispatch::code(SYMBOLS[index]).unwrap_or_else(unsupported::code);
    // SAFETY: dispatch gives a function of the symbol's own signature; the answer `unsupported`
    // suits every one.
    unsafe { set_entry(index, code) };
    code
}

/// Says which functions were called, those whose entries are filled, and what the program waited for.
extern "C" fn report_calls() {
    if trace::wants_calls() {
        for (index, symbol) in SYMBOLS.iter().enumerate() {
            if entry(index) != UNFILLED {
                say(format_args!("called {symbol}"));
            }
        }
        answered::lines().iter().for_each(|line| say(format_args!("{line}")));
    }
}

/// Leads every symbol to where that mode answers it.
fn fill(mode: &Mode) {
    match mode {
        Mode::PassThrough(_) => fork::leave_to_provider(),
        Mode::Attached | Mode::Refused(_) => {
            trace::begin();
            unsupported::report_at_exit();
        }
    }
    if trace::wants_calls() {
        answered::begin();
        super::at_exit(report_calls);
        return;
    }
    for (index, symbol) in SYMBOLS.iter().enumerate() {
        let code = match mode {
            Mode::PassThrough(provider) => with_c_name(symbol, |name| provider.symbol(name)),
            Mode::Attached | Mode::Refused(_) => dispatch::code(symbol),
        };
        // SAFETY: the provider exports the driver API and is never unloaded; dispatch gives
        // functions of the symbol's own signature; the answer `unsupported` suits every one.
        unsafe { set_entry(index, code.unwrap_or_else(unsupported::code)) };
    }
}

/// Calls `f` with the symbol as a C string.
fn with_c_name<T>(symbol: &str, f: impl FnOnce(&CStr) -> Option<T>) -> Option<T> {
    let mut bytes = [0u8; SYMBOL_BYTES_MAX];
    bytes.get_mut(..symbol.len())?.copy_from_slice(symbol.as_bytes());
    f(CStr::from_bytes_until_nul(&bytes).ok()?)
}

/// Forgets the decision. Only for a forked child, which has one thread. One that forked in the middle of deciding
/// goes on with that.
fn forget() {
    if THIS_THREAD_DECIDES.get() {
        return;
    }
    THIS_THREAD_DECIDES.set(false);
    super::reset_entries();
    STATE.store(UNDECIDED, Ordering::Release);
}
