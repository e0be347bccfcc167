//! 3-D copies: posted to the one device that reaches both ends, or done by this thread.

use crate::graph::host_copy::HostCopy;
use crate::program::Client;
use crate::program::launch::submission::wire_stream;
use crate::program::memory::copy3d::{Reached, Resolved};
use crate::program::streams::host_functions::OwnFunction;
use channel::request::{Copy3D, Copy3DParams};
use cuda_api::CudaError;
use cuda_api::handle::Handle;

/// Posts a copy whose ends this device reaches; true if what it copies is not the program's again
/// yet: pageable memory is once it is staged, what the device itself reads or writes must be waited
/// for.
pub(super) fn post(
    client: &'static Client,
    stream: Handle,
    resolved: &Resolved,
) -> Result<bool, CudaError> {
    let Resolved { destination, source, extent } = *resolved;
    let mut waits = false;
    match (destination.reached(), source.reached()) {
        (Reached::ByDevice, Reached::Here(from)) => {
            client.copy_3d_to_device(&destination, &from, extent, stream)?;
        }
        (Reached::Here(to), Reached::ByDevice) => {
            client.copy_3d_from_device(&to, &source, extent, stream)?;
            waits = true;
        }
        (to @ Reached::ByDevice, from) | (to, from @ Reached::ByDevice) => {
            let (destination, source) = (destination.wire([0; 3]), source.wire([0; 3]));
            let copy = Copy3DParams { destination, source, extent };
            client.posting()?.push_in(stream, &Copy3D { stream: wire_stream(stream), copy })?;
            waits = to != from;
        }
        (
            Reached::ByBoth(destination) | Reached::Here(destination),
            Reached::ByBoth(source) | Reached::Here(source),
        ) => {
            // Only this thread copies: in its place in the stream.
            client.synchronize(stream)?;
            HostCopy { destination, source, extent, _shadow: None }.run();
        }
    }
    Ok(waits)
}
