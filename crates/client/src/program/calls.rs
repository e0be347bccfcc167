//! Typed calls: requests of the table with their replies.

use crate::memory::fd_numbers::out_of_the_way;
use crate::memory::kept_file::KeptFile;
use crate::program::Client;
use crate::program::launch::posting::Posting;
use channel::message::Message;
use channel::reply::Reply;
use channel::request::{LoadModule, ModuleLoaded, PrintfDrain, PrintfText, Request};
use cuda_api::{CUresult, CudaError};
use std::os::fd::{BorrowedFd, OwnedFd};

impl Client {
    /// Calls, and gives the reply to a request that succeeded.
    pub(crate) fn call<'a, Q: Request<'a>>(&self, request: &Q) -> Result<Q::Reply, CudaError> {
        self.exchange(None, request)
    }

    /// As [`Self::call`] with a descriptor that the server takes first.
    pub(crate) fn call_with<'a, Q: Request<'a>>(
        &self,
        message: Message,
        fd: BorrowedFd<'_>,
        request: &Q,
    ) -> Result<Q::Reply, CudaError> {
        self.exchange(Some((message, fd)), request)
    }

    fn exchange<'a, Q: Request<'a>>(
        &self,
        descriptor: Option<(Message, BorrowedFd<'_>)>,
        request: &Q,
    ) -> Result<Q::Reply, CudaError> {
        let connection = self.connection();
        let receive = |reply: Reply<'_>| {
            reply.result?;
            connection.decode(&reply)
        };
        let push = || self.posting_of(connection)?.push(request);
        connection.exchange(Q::OPCODE, descriptor, push, receive, false).map(|(reply, _)| reply)
    }

    /// As [`Self::call`], for the one request that is answered after a fault too.
    pub(crate) fn call_after_fault(&self, request: &PrintfDrain) -> Result<PrintfText, CudaError> {
        let connection = self.connection();
        let receive = |reply: Reply<'_>| {
            reply.result?;
            connection.decode(&reply)
        };
        connection.exchange_after_fault(
            PrintfDrain::OPCODE,
            || self.posting_of(connection)?.push(request),
            receive,
        )
    }

    /// Loads a module, whose reply says something with an error too: gives both, and the descriptor
    /// of its managed variables' memory if it has any. A reply without a payload is `None`.
    pub(crate) fn call_load(
        &self,
        image: BorrowedFd<'_>,
        request: &LoadModule,
    ) -> Result<(CUresult, Option<ModuleLoaded>, Option<OwnedFd>), CudaError> {
        let connection = self.connection();
        let receive = |reply: Reply<'_>| {
            let payload: Option<ModuleLoaded> =
                match reply.result.is_err() && reply.words().is_empty() {
                    true => None,
                    false => Some(connection.decode(&reply)?),
                };
            let has_managed = payload.as_ref().is_some_and(|loaded| loaded.managed.1 > 0);
            let managed = match has_managed {
                true => Some(connection.receive_managed()?),
                false => None,
            };
            Ok((reply.result, payload, managed))
        };
        let image = Some((Message::ImageFd(()), image));
        let push = || self.posting_of(connection)?.push(request);
        connection.exchange(LoadModule::OPCODE, image, push, receive, false).map(|(all, _)| all)
    }

    /// As [`Self::call`] for a request that is answered with a descriptor. If this process can have
    /// no more of them, `undo` gives back what was made: CUDA_ERROR_OUT_OF_MEMORY.
    pub(crate) fn call_for_descriptor<'a, Q: Request<'a>>(
        &self,
        request: &Q,
        undo: &impl Request<'a>,
    ) -> Result<KeptFile, CudaError> {
        let connection = self.connection();
        let push = || self.posting_of(connection)?.push(request);
        let (_, fd) = connection.exchange(Q::OPCODE, None, push, |reply| reply.result, true)?;
        fd.map(out_of_the_way).ok_or_else(|| {
            let _ = self.call(undo);
            CudaError::OUT_OF_MEMORY
        })
    }

    /// As [`Self::call_for_descriptor`] for a request that makes nothing.
    pub(crate) fn call_for_file<'a, Q: Request<'a>>(
        &self,
        request: &Q,
    ) -> Result<KeptFile, CudaError> {
        let push = || self.posting()?.push(request);
        let (_, fd) =
            self.connection().exchange(Q::OPCODE, None, push, |reply| reply.result, true)?;
        fd.map(out_of_the_way).ok_or(CudaError::OUT_OF_MEMORY)
    }

    /// Calls a generic row; the reply has a word for each result.
    pub(crate) fn call_row(
        &self,
        opcode: u16,
        push: impl FnOnce(&mut Posting<'_>) -> CUresult,
        receive: impl FnOnce(&mut channel::payload::Reader<'_>) -> CUresult,
    ) -> CUresult {
        let receive = |reply: Reply<'_>| {
            reply.result?;
            receive(&mut reply.reader())
        };
        let connection = self.connection();
        let push = || push(&mut self.posting_of(connection)?);
        connection.exchange(opcode, None, push, receive, false).map(|_| ())
    }
}
