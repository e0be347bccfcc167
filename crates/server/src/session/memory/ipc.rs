//! Memory and events that clients share by intent (the manual's "Interprocess Communication").

use crate::device::{Event, Physical};
use crate::session::Session;
use channel::message::Message;
use channel::request::{
    EventState, OpenEvent, OpenMemory, QueryEvent, ShareEvent, ShareMemory, SharedFile,
    SharedMemory, Token,
};
use cuda_api::CudaError;
use cuda_api::constants::vmm;
use std::os::fd::AsFd;
use std::rc::Rc;

impl Session {
    pub(in crate::session) fn share_memory(
        &mut self,
        request: ShareMemory,
    ) -> Result<SharedMemory, CudaError> {
        let chunk = self.memory.chunk(request.address.0)?;
        let range = (request.address.0, chunk.bytes());
        let owner = self.link.identity.id;
        let export = || chunk.physical().export();
        let [low, high] = self.common.shared.share_memory(owner, range, export)?;
        Ok(SharedMemory { low, high, bytes: range.1 })
    }

    pub(in crate::session) fn open_memory(&mut self, request: OpenMemory) -> Result<(), CudaError> {
        let file = self.common.shared.open_memory([request.low, request.high], request.bytes)?;
        let physical = Rc::new(Physical::import(&self.share, &file)?);
        let (address, bytes) = (request.address.0, request.bytes);
        // Its maker may go: then it is this client alone who keeps it.
        let charge = Rc::new(self.memory.account.charge_new(bytes)?);
        self.memory.map((&physical, Some(charge)), address, bytes, 0)?;
        if let Err(error) = self.memory.set_access(address, bytes, vmm::ACCESS_READ_WRITE) {
            self.memory.unmap(address, bytes)?;
            return Err(error);
        }
        Ok(())
    }

    pub(in crate::session) fn shared_file(&mut self, request: SharedFile) -> Result<(), CudaError> {
        let file = self.common.shared.open_memory([request.low, request.high], request.bytes)?;
        self.socket
            .send(&Message::ChunkFd(0), &[file.as_fd()])
            .map_err(|_| CudaError::MPS_RPC_FAILURE)
    }

    pub(in crate::session) fn share_event(
        &mut self,
        request: ShareEvent,
    ) -> Result<Token, CudaError> {
        let event = self.events.get(request.event.0 as u64)?;
        let owner = self.link.identity.id;
        let [low, high] = self.common.shared.share_event(owner, event.shared())?;
        Ok(Token { low, high })
    }

    pub(in crate::session) fn open_event(&mut self, request: OpenEvent) -> Result<(), CudaError> {
        let handle = self.events.vacant(request.event.0 as u64)?;
        let raw = self.common.shared.open_event([request.low, request.high])?;
        self.events.put(handle, Event::of(&self.share, raw));
        Ok(())
    }

    pub(in crate::session) fn query_event(
        &mut self,
        request: QueryEvent,
    ) -> Result<EventState, CudaError> {
        // Another client may wait for it as soon as this is answered.
        self.carry_out_pending(|pending| pending.records(request.event.0 as u64))?;
        let done = self.events.get(request.event.0 as u64)?.is_done()?;
        Ok(EventState { done: done.into() })
    }
}
