//! Requests with a reply that belong to no table of the session, and files that come before requests.

use super::stream::posts::launch_shape;
use super::stream::submission::Submission;
use crate::account::Charge;
use crate::device::{self, ClusterQuestion, Share};
use channel::memfd::IMAGE_BYTES_MAX;
use channel::message::Message;
use channel::request::{
    AdoptChunk, ClusterCount, CountClusters, HostMap, ImportMemory, LargestCluster, LoadModule,
    Request,
};
use channel::socket::{ReceiveError, SeqPacket};
use cuda_api::limits::Limits;
use cuda_api::{CUresult, CudaError};
use std::os::fd::OwnedFd;

/// Messages with files that a client may have sent for requests that never came: more than a socket takes.
const UNUSED_FILES_MAX: usize = 1024;

impl Submission {
    /// The file that the client has sent before a request. What was sent for a request that
    /// never came is dropped.
    pub(super) fn receive_file(
        &self,
        socket: &SeqPacket,
        opcode: u16,
    ) -> Result<OwnedFd, CudaError> {
        for _ in 0..=UNUSED_FILES_MAX {
            self.check_end()?;
            let (message, mut files) = socket.receive().map_err(|error| match error {
                // It came, and this process had no descriptor left for it.
                ReceiveError::Fds => CudaError::OUT_OF_MEMORY,
                _ => CudaError::INVALID_VALUE,
            })?;
            let wanted = match message {
                Message::HostFd(()) => {
                    [HostMap::OPCODE, ImportMemory::OPCODE, AdoptChunk::OPCODE].contains(&opcode)
                }
                Message::ImageFd(()) => opcode == LoadModule::OPCODE,
                _ => return Err(CudaError::INVALID_VALUE),
            };
            if wanted {
                return files.pop().ok_or(CudaError::INVALID_VALUE);
            }
        }
        // It goes on sending: that has no end.
        Err(CudaError::INVALID_VALUE)
    }

    /// Charges what is held for an image while it is loaded; waits while others hold all there is
    /// room for. CUDA_ERROR_OUT_OF_MEMORY for one that finds no room even alone.
    pub(super) fn charge_image(&mut self, request: &LoadModule) -> Result<Charge, CudaError> {
        self.modules.vacant(request.module.0 as u64)?;
        if request.image_bytes > IMAGE_BYTES_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let images = self.common.images.clone();
        if !images.could_hold(request.image_bytes) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let mut charge = None;
        self.wait_until(|_| {
            charge = images.charge(request.image_bytes).ok();
            Ok(charge.is_some())
        })?;
        charge.ok_or(CudaError::OUT_OF_MEMORY)
    }

    pub(super) fn count_clusters(&mut self, r: CountClusters) -> Result<ClusterCount, CudaError> {
        self.ask_clusters(&r, ClusterQuestion::Most)
    }

    pub(super) fn largest_cluster(&mut self, r: LargestCluster) -> Result<ClusterCount, CudaError> {
        self.ask_clusters(&r.0, ClusterQuestion::Largest)
    }

    fn ask_clusters(
        &mut self,
        r: &CountClusters,
        question: ClusterQuestion,
    ) -> Result<ClusterCount, CudaError> {
        let stream = self.streams.on_share()?;
        let function = self.modules.function(r.function.0 as u64)?;
        let grid = [r.grid_x, r.grid_y, r.grid_z];
        let block = [r.block_x, r.block_y, r.block_z];
        let shape = launch_shape(grid, block, r.shared_bytes, r.flags)?;
        let calls = self.share.device().calls();
        Ok(ClusterCount { clusters: device::clusters(calls, function, question, shape, stream)? })
    }
}

/// cuCtxSetLimit's words: limit, value. A tenant's limits are its own. Elsewhere all clients have
/// those of the one context, which are CUDA's to begin with: CUDA_ERROR_UNSUPPORTED_LIMIT for more.
pub(super) fn set_limit(share: &Share, words: &[u64]) -> CUresult {
    let &[limit, value] = words else { return Err(CudaError::INVALID_VALUE) };
    let limit = u32::try_from(limit).map_err(|_| CudaError::INVALID_VALUE)?;
    let value = usize::try_from(value).map_err(|_| CudaError::INVALID_VALUE)?;
    if share.is_tenant() {
        return share.device().set_limit(limit, value);
    }
    match value <= Limits::default().get(limit)? {
        true => Ok(()),
        false => Err(CudaError::UNSUPPORTED_LIMIT),
    }
}
