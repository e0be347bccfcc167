//! Attributes of streams (the manual's cuStreamSetAttribute): hints, which are kept here and go
//! nowhere.

use crate::boundary::{In, Out};
use crate::program::Client;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::c_uint;
use cuda_api::handle::Handle;
use cuda_api::{CUlaunchAttributeValue, CUresult, CUstream};

/// The priority of a stream; the legacy default stream's is the default one.
fn priority(client: &Client, stream: Handle) -> i32 {
    client.state().streams.get(stream).map_or(0, |stream| stream.priority)
}

pub(crate) fn cuStreamGetAttribute(
    default: DefaultStream,
    stream: CUstream,
    attribute: c_uint,
    value: Out<CUlaunchAttributeValue>,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    let priority = priority(client, stream);
    let attributes = client.state().streams.attributes(stream);
    value.set(attributes.get(attribute, priority)?)
}

pub(crate) fn cuStreamSetAttribute(
    default: DefaultStream,
    stream: CUstream,
    attribute: c_uint,
    value: In<CUlaunchAttributeValue>,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    let (value, priority) = (value.get()?, priority(client, stream));
    let mut state = client.state();
    let mut attributes = state.streams.attributes(stream);
    attributes.set(attribute, &value, priority)?;
    state.streams.set_attributes(stream, attributes);
    Ok(())
}

pub(crate) fn cuStreamCopyAttributes(
    default: DefaultStream,
    to: CUstream,
    from: CUstream,
) -> CUresult {
    let client = mode::client_of(to.0)?;
    let (to, from) = (client.stream(to, default)?, client.stream(from, default)?);
    let mut state = client.state();
    let attributes = state.streams.attributes(from);
    state.streams.set_attributes(to, attributes);
    Ok(())
}
