//! Memory that clients share by intent (the manual's "Interprocess Communication").

use super::Memory;
use crate::device::Physical;
use channel::request::{OpenMemory, ShareMemory, SharedFile, SharedMemory};
use cuda_api::constants::vmm;
use cuda_api::{CUresult, CudaError};
use std::rc::Rc;

impl Memory {
    pub(in crate::session) fn share_memory(
        &self,
        request: ShareMemory,
    ) -> Result<SharedMemory, CudaError> {
        let chunk = self.chunk(request.address.0)?;
        let range = (request.address.0, chunk.bytes());
        let owner = self.link.identity.id;
        let export = || chunk.physical().export();
        let [low, high] = self.common.shared.share_memory(owner, range, export)?;
        Ok(SharedMemory { low, high, bytes: range.1 })
    }

    pub(in crate::session) fn open_memory(&mut self, request: OpenMemory) -> CUresult {
        let file = self.common.shared.open_memory([request.low, request.high], request.bytes)?;
        let physical = Rc::new(Physical::import(&self.share, &file)?);
        let (address, bytes) = (request.address.0, request.bytes);
        // Its maker may go: then this client alone keeps it.
        let charge = Rc::new(self.account.charge_new(bytes)?);
        self.map((&physical, Some(charge)), address, bytes, 0)?;
        if let Err(error) = self.set_access(address, bytes, vmm::ACCESS_READ_WRITE) {
            self.unmap(address, bytes)?;
            return Err(error);
        }
        Ok(())
    }

    pub(in crate::session) fn shared_file(&self, request: SharedFile) -> CUresult {
        let file = self.common.shared.open_memory([request.low, request.high], request.bytes)?;
        self.send_file(0, &file)
    }
}
