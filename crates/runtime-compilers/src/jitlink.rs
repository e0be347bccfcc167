//! nvJitLink: links PTX to PTX. Code for optimisation at link time goes through the real linker, which
//! can give it out as PTX; all other inputs are linked here, the result of the real linker with them.
//!
//! A program's handle is the real linker's own, so that functions that are only passed on take it.
#![allow(non_snake_case, reason = "functions keep nvJitLink.h's names")]

use crate::caller::{In, Out, Text};
use crate::linking::{self, Kind};
use crate::real::call_real;
use locks::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// nvJitLinkHandle: a number to look up.
type Handle = *mut c_void;

const SUCCESS: c_int = 0;
const ERROR_INVALID_INPUT: c_int = 3;
const ERROR_PTX_COMPILE: c_int = 4;
const ERROR_INTERNAL: c_int = 6;

/// nvJitLinkInputType: code for optimisation at link time.
const INPUT_LTO_IR: c_int = 3;

/// More options than a linker is given.
const OPTIONS_MAX: usize = 1 << 16;
/// Largest input, bytes: as for images that are loaded.
const INPUT_BYTES_MAX: usize = 1 << 30;

/// What is linked here.
#[derive(Default)]
struct Linking {
    inputs: Vec<(Kind, Vec<u8>)>,
    /// The real linker has inputs.
    real_has_inputs: bool,
    registers_max: Option<u32>,
    /// What was linked.
    image: Option<Vec<u8>>,
    /// What went wrong, for the program: ends with a NUL.
    log: Vec<u8>,
}

static LINKINGS: Mutex<BTreeMap<usize, Linking>> = Mutex::new(BTreeMap::new());

fn linkings() -> MutexGuard<'static, BTreeMap<usize, Linking>> {
    LINKINGS.lock()
}

/// Does something with what is linked here; `None` for a handle that is the real linker's alone.
fn with<R>(handle: Handle, f: impl FnOnce(&mut Linking) -> R) -> Option<R> {
    linkings().get_mut(&(handle as usize)).map(f)
}

/// nvJitLinkCreate. A program that asks for PTX itself is the real linker's alone.
#[unsafe(no_mangle)]
extern "C" fn openmps_nvJitLinkCreate(handle: Out<Handle>, count: u32, options: In<Text>) -> c_int {
    let given = options.texts(count as usize, OPTIONS_MAX);
    let has = |name: &CStr| given.contains(&name);
    let wants_ptx = has(c"-ptx");
    let mut texts: Vec<CString> = given.iter().map(|text| (*text).to_owned()).collect();
    if has(c"-lto") && !wants_ptx {
        texts.push(c"-ptx".to_owned());
    }
    let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    let made = call_real!(
        c"nvJitLinkCreate",
        (Out<Handle>, u32, *const *const c_char) -> c_int,
        (handle, pointers.len() as u32, pointers.as_ptr()),
        ERROR_INTERNAL
    );
    if made == SUCCESS
        && !wants_ptx
        && let Some(handle) = handle.get()
    {
        let registers = given.iter().find_map(|text| {
            text.to_str().ok()?.strip_prefix("-maxrregcount=")?.trim().parse().ok()
        });
        let linking = Linking { registers_max: registers, ..Linking::default() };
        linkings().insert(handle as usize, linking);
    }
    made
}

/// nvJitLinkDestroy.
#[unsafe(no_mangle)]
extern "C" fn openmps_nvJitLinkDestroy(handle: Out<Handle>) -> c_int {
    if let Some(handle) = handle.get() {
        linkings().remove(&(handle as usize));
    }
    call_real!(c"nvJitLinkDestroy", (Out<Handle>) -> c_int, (handle), ERROR_INTERNAL)
}

/// Keeps an input that is linked here; false if it is one for the real linker.
fn keep(linking: &mut Linking, kind: c_int, bytes: &[u8]) -> bool {
    let found = linking::kind(bytes);
    if kind == INPUT_LTO_IR || found == Kind::Other {
        linking.real_has_inputs = true;
        return false;
    }
    linking.inputs.push((found, bytes.to_vec()));
    true
}

/// nvJitLinkAddData.
#[unsafe(no_mangle)]
extern "C" fn openmps_nvJitLinkAddData(
    handle: Handle,
    kind: c_int,
    data: In<u8>,
    bytes: usize,
    name: *const c_char,
) -> c_int {
    if let Some(input) = data.array(bytes, INPUT_BYTES_MAX)
        && with(handle, |linking| keep(linking, kind, input)) == Some(true)
    {
        return SUCCESS;
    }
    call_real!(
        c"nvJitLinkAddData",
        (Handle, c_int, In<u8>, usize, *const c_char) -> c_int,
        (handle, kind, data, bytes, name),
        ERROR_INTERNAL
    )
}

/// nvJitLinkAddFile.
#[unsafe(no_mangle)]
extern "C" fn openmps_nvJitLinkAddFile(handle: Handle, kind: c_int, name: Text) -> c_int {
    if let Some(path) = name.get()
        && linkings().contains_key(&(handle as usize))
    {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        // What cannot be read is for the real linker to say.
        if let Ok(bytes) = std::fs::read(path)
            && with(handle, |linking| keep(linking, kind, &bytes)) == Some(true)
        {
            return SUCCESS;
        }
    }
    call_real!(
        c"nvJitLinkAddFile",
        (Handle, c_int, Text) -> c_int,
        (handle, kind, name),
        ERROR_INTERNAL
    )
}

/// What the real linker makes of its inputs, as PTX.
fn linked_by_real(handle: Handle) -> Result<Vec<u8>, c_int> {
    let check = |code| if code == SUCCESS { Ok(()) } else { Err(code) };
    let mut bytes = 0usize;
    check(call_real!(
        c"nvJitLinkGetLinkedPtxSize",
        (Handle, *mut usize) -> c_int,
        (handle, &raw mut bytes),
        ERROR_INTERNAL
    ))?;
    let mut text = vec![0u8; bytes];
    check(call_real!(
        c"nvJitLinkGetLinkedPtx",
        (Handle, *mut c_char) -> c_int,
        (handle, text.as_mut_ptr().cast()),
        ERROR_INTERNAL
    ))?;
    Ok(text)
}

/// nvJitLinkComplete.
#[unsafe(no_mangle)]
extern "C" fn openmps_nvJitLinkComplete(handle: Handle) -> c_int {
    let counts = with(handle, |linking| (linking.real_has_inputs, linking.inputs.len()));
    if counts.is_none_or(|(real, own)| real || own == 0) {
        let done = call_real!(c"nvJitLinkComplete", (Handle) -> c_int, (handle), ERROR_INTERNAL);
        if done != SUCCESS || counts.is_none() {
            return done;
        }
        match linked_by_real(handle) {
            Ok(text) => with(handle, |linking| linking.inputs.insert(0, (Kind::Ptx, text))),
            Err(code) => return code,
        };
    }
    let done =
        with(handle, |linking| match linking::link(&linking.inputs, linking.registers_max) {
            Ok(image) => {
                linking.image = Some(image);
                SUCCESS
            }
            Err(why) => {
                linking.log = format!("{why}\n\0").into_bytes();
                ERROR_PTX_COMPILE
            }
        });
    done.unwrap_or(ERROR_INVALID_INPUT)
}

/// Which of a handle's texts.
#[derive(Clone, Copy)]
enum Part {
    /// What was linked.
    Image,
    /// What went wrong.
    Log,
}

/// A text of what was linked here; `None` if it is the real linker's to give.
fn part<R>(handle: Handle, part: Part, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
    with(handle, |linking| match part {
        Part::Image => linking.image.as_deref().map(f),
        Part::Log => Some(linking.log.as_slice()).filter(|log| !log.is_empty()).map(f),
    })
    .flatten()
}

/// A pair of functions: a text's length, and the text.
macro_rules! give {
    ($($part:expr, $size:ident $size_name:literal, $text:ident $text_name:literal;)*) => {$(
        /// Length of a text, with its NUL.
        #[unsafe(no_mangle)]
        extern "C" fn $size(handle: Handle, bytes: Out<usize>) -> c_int {
            match part(handle, $part, <[u8]>::len) {
                Some(length) if bytes.set(&[length]) => SUCCESS,
                _ => call_real!(
                    $size_name, (Handle, Out<usize>) -> c_int, (handle, bytes), ERROR_INTERNAL),
            }
        }

        /// A text, to a place that is long enough.
        #[unsafe(no_mangle)]
        extern "C" fn $text(handle: Handle, to: Out<u8>) -> c_int {
            // The place is of the length that the program got.
            if part(handle, $part, |bytes| to.set(bytes)) == Some(true) {
                return SUCCESS;
            }
            call_real!($text_name, (Handle, Out<u8>) -> c_int, (handle, to), ERROR_INTERNAL)
        }
    )*};
}

give! {
    Part::Image,
        openmps_nvJitLinkGetLinkedCubinSize c"nvJitLinkGetLinkedCubinSize",
        openmps_nvJitLinkGetLinkedCubin c"nvJitLinkGetLinkedCubin";
    Part::Log,
        openmps_nvJitLinkGetErrorLogSize c"nvJitLinkGetErrorLogSize",
        openmps_nvJitLinkGetErrorLog c"nvJitLinkGetErrorLog";
}

/// A function that only has the real linker's answer: other versions go by the same one.
macro_rules! pass {
    ($($function:ident $name:literal $ty:ty;)*) => {$(
        /// As the real linker's.
        ///
        /// # Safety
        /// As the manual has it.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $function(handle: Handle, to: *mut $ty) -> c_int {
            call_real!($name, (Handle, *mut $ty) -> c_int, (handle, to), ERROR_INTERNAL)
        }
    )*};
}

pass! {
    openmps_nvJitLinkGetLinkedPtxSize c"nvJitLinkGetLinkedPtxSize" usize;
    openmps_nvJitLinkGetLinkedPtx c"nvJitLinkGetLinkedPtx" c_char;
    openmps_nvJitLinkGetInfoLogSize c"nvJitLinkGetInfoLogSize" usize;
    openmps_nvJitLinkGetInfoLog c"nvJitLinkGetInfoLog" c_char;
}
