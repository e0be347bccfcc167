//! Linking: inputs are collected here, and linked when the image is loaded; see
//! [`cuda_api::link`].

use locks::Mutex;

use cuda_api::link::Link;
use cuda_api::*;

use super::{driver, exports, thread};
use crate::error::Result;
use driver_common::jit_options::JitOptions;

/// A program's CUlinkState.
pub(crate) struct LinkState(Mutex<Link>);

impl LinkState {
    fn with<T>(&self, f: impl FnOnce(&mut Link) -> Result<T>) -> Result<T> {
        f(&mut self.0.lock())
    }
}

exports! {
    fn cuLinkCreate_v2(
        num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void,
        state_out: *mut CUlinkState,
    ) {
        let driver = driver()?;
        thread::current()?;
        state_out.required()?;
        // Nothing is compiled before the image is loaded, so nothing is said.
        let options = JitOptions::read(num_options, options, option_values)?;
        options.write_logs(b"", b"");
        let link = Mutex::new(Link::new(options.registers_max()));
        state_out.set(CUlinkState(driver.links.insert(LinkState(link))?))
    }

    fn cuLinkAddData_v2(
        state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize, _name: *const c_char,
        _num_options: c_uint, _options: *mut c_uint, _option_values: *mut *mut c_void,
    ) {
        let link = driver()?.links.get(state.0)?;
        let data = data.cast::<u8>().as_in();
        data.with_bytes(size, size, |input| link.with(|link| link.add(kind, input)))?
    }

    fn cuLinkAddFile_v2(
        state: CUlinkState, kind: c_uint, path: *const c_char, _num_options: c_uint,
        _options: *mut c_uint, _option_values: *mut *mut c_void,
    ) {
        let link = driver()?.links.get(state.0)?;
        let bytes = super::image_file::ImageFile::read(path)?.bytes;
        link.with(|link| link.add(kind, &bytes))
    }

    fn cuLinkComplete(
        state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize,
    ) {
        let link = driver()?.links.get(state.0)?;
        cubin_out.required()?;
        link.with(|link| {
            let image = link.complete()?;
            size_out.set_if_wanted(image.len());
            // It stays where it is until the state is destroyed; the program only reads it.
            cubin_out.set(image.as_ptr().cast_mut().cast())
        })
    }

    fn cuLinkDestroy(state: CUlinkState) {
        driver()?.links.remove(state.0).map(drop)
    }
}
