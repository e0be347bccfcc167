//! Linking (cuLink*, of the manual's "Module Management"): inputs are collected in the process; the
//! device that loads the image links them, see [`cuda_api::link`].

use crate::boundary::{In, Out};
use crate::handles::Table;
use crate::lock::{Lock, Rank};
use crate::program::mode;
use core::ffi::{c_char, c_uint, c_void};
use cuda_api::handle::HandleKind;
use cuda_api::link::{LINK_INPUT_BYTES_MAX, Link};
use cuda_api::{CUlinkState, CUresult, CudaError};
use driver_common::jit_options::JitOptions;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// Most links at a time: a program makes one, completes it and destroys it.
const LINKS_MAX: u32 = 4096;

static LINKS: Lock<Table<Link>> =
    Lock::new(Rank::Leaf, Table::new(HandleKind::LinkState, 0, LINKS_MAX));

pub(crate) fn cuLinkCreate_v2(
    count: c_uint,
    options: Out<c_uint>,
    values: Out<*mut c_void>,
    state: Out<CUlinkState>,
) -> CUresult {
    mode::enter()?;
    state.required()?;
    let options = JitOptions::read(count, options, values)?;
    let handle = LINKS.lock().insert(Link::new(options.registers_max()))?;
    // Nothing is compiled before the image is loaded, so nothing is said.
    options.write_logs(b"", b"");
    state.set(CUlinkState(handle.to_word() as usize))
}

/// The options of an input steer its compiling, which is the loading's business.
#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuLinkAddData_v2(
    state: CUlinkState,
    kind: c_uint,
    data: Out<c_void>,
    bytes: usize,
    _name: In<c_char>,
    _count: c_uint,
    _options: Out<c_uint>,
    _values: Out<*mut c_void>,
) -> CUresult {
    let mut links = LINKS.lock();
    let link = links.lookup_mut(state.0)?;
    let data = data.cast::<u8>().as_in();
    data.with_bytes(bytes, LINK_INPUT_BYTES_MAX, |input| link.add(kind, input))?
}

pub(crate) fn cuLinkAddFile_v2(
    state: CUlinkState,
    kind: c_uint,
    path: In<c_char>,
    _count: c_uint,
    _options: Out<c_uint>,
    _values: Out<*mut c_void>,
) -> CUresult {
    let path = OsStr::from_bytes(path.text()?.to_bytes()).to_owned();
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LINK_INPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|_| CudaError::FILE_NOT_FOUND)?;
    LINKS.lock().lookup_mut(state.0)?.add(kind, &bytes)
}

pub(crate) fn cuLinkComplete(
    state: CUlinkState,
    image: Out<*mut c_void>,
    bytes: Out<usize>,
) -> CUresult {
    image.required()?;
    let mut links = LINKS.lock();
    let linked = links.lookup_mut(state.0)?.complete()?;
    bytes.set_if_wanted(linked.len());
    // The image stays where it is until the state is destroyed; the program only reads it.
    image.set(linked.as_ptr().cast_mut().cast())
}

pub(crate) fn cuLinkDestroy(state: CUlinkState) -> CUresult {
    let mut links = LINKS.lock();
    let handle = links.decode(state.0)?;
    links.remove(handle).map(drop).ok_or(CudaError::INVALID_HANDLE)
}
