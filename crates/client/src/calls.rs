//! Calls: requests that are answered. One is in flight at a time.
//!
//! Descriptors that belong to a call travel on the socket: to the server before the request is
//! in the ring, from the server before the reply is in the region. So whoever holds the call lock
//! knows that the next message is theirs.

use crate::attach::Attached;
use crate::link::SERVER_GONE;
use crate::lock::Guard;
use crate::memory::descriptors::out_of_the_way;
use crate::memory::kept_file::KeptFile;
use crate::state::State;
use channel::message::Message;
use channel::payload::Payload;
use channel::region::Region;
use channel::reply::{Reply, ReplyReader};
use channel::request::{LoadModule, ModuleLoaded, PrintfDrain, PrintfText, Request};
use channel::socket::ReceiveError;
use channel::wait::SpinPolicy;
use core::time::Duration;
use cuda_api::{CUresult, CudaError};
use std::os::fd::{BorrowedFd, OwnedFd};

/// How long a descriptor that was sent before the reply may take to arrive.
const DESCRIPTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// What the call lock protects.
pub(crate) struct Calls {
    replies: ReplyReader,
}

impl Calls {
    pub(crate) fn new(region: Region, policy: SpinPolicy) -> Self {
        Self { replies: ReplyReader::new(region, policy) }
    }
}

impl Attached {
    /// Sends a request and gives the reply to `receive`, with its result.
    ///
    /// `descriptor` is sent before. The request is pushed by `push`, under the short lock.
    ///
    /// # Errors
    /// What `push` and `receive` say; CUDA_ERROR_MPS_RPC_FAILURE or the sticky error if the
    /// server is gone or talks nonsense.
    fn exchange<R>(
        &self,
        descriptor: Option<(Message, BorrowedFd<'_>)>,
        push: impl FnOnce(&mut State) -> CUresult,
        receive: impl FnOnce(Reply<'_>) -> Result<R, CudaError>,
        takes_descriptor: bool,
    ) -> Result<(R, Option<KeptFile>), CudaError> {
        let calls = self.calls.lock();
        self.health()?;
        self.exchange_with(calls, descriptor, push, receive, takes_descriptor)
    }

    /// As [`Self::exchange`], whatever was reported before.
    fn exchange_with<R>(
        &self,
        mut calls: Guard<'_, Calls>,
        descriptor: Option<(Message, BorrowedFd<'_>)>,
        push: impl FnOnce(&mut State) -> CUresult,
        receive: impl FnOnce(Reply<'_>) -> Result<R, CudaError>,
        takes_descriptor: bool,
    ) -> Result<(R, Option<KeptFile>), CudaError> {
        if let Some((message, fd)) = descriptor {
            self.link.socket().send(&message, &[fd]).map_err(|_| self.gone())?;
        }
        push(&mut self.state())?;
        let reply = calls.replies.wait(&|| self.link.is_alive()).map_err(|_| self.gone())?;
        let succeeded = reply.result.is_ok();
        let result = receive(reply);
        // A call that failed made nothing that a descriptor could be of.
        let descriptor = match takes_descriptor && succeeded {
            true => self.receive_descriptor()?,
            false => None,
        };
        Ok((result?, descriptor))
    }

    /// The server is gone or talks nonsense: gives up on it and says what every call answers now.
    #[cold]
    fn gone(&self) -> CudaError {
        self.link.give_up();
        self.health().err().unwrap_or(SERVER_GONE)
    }

    /// What the server sent beside the ring; `None` if it was lost, because this process can have
    /// no more descriptors.
    fn receive_message(&self) -> Result<Option<(Message, Vec<OwnedFd>)>, CudaError> {
        let socket = self.link.socket();
        socket.set_receive_timeout(Some(DESCRIPTOR_TIMEOUT)).map_err(|_| self.gone())?;
        match socket.receive() {
            Ok(received) => Ok(Some(received)),
            Err(ReceiveError::Fds) => Ok(None),
            Err(_) => Err(self.gone()),
        }
    }

    fn receive_descriptor(&self) -> Result<Option<KeptFile>, CudaError> {
        match self.receive_message()? {
            None => Ok(None),
            Some((Message::ChunkFd(_), mut fds)) => {
                fds.pop().map(|fd| Some(out_of_the_way(fd))).ok_or_else(|| self.gone())
            }
            Some(_) => Err(self.gone()),
        }
    }

    /// Decodes a reply whose result is success.
    fn decode<P: for<'r> Payload<'r>>(&self, reply: &Reply<'_>) -> Result<P, CudaError> {
        reply.decode().map_err(|_| self.gone())
    }

    /// Calls, and gives the reply to a request that succeeded.
    pub(crate) fn call<'a, Q: Request<'a>>(&self, request: &Q) -> Result<Q::Reply, CudaError> {
        self.exchange(
            None,
            |state| state.push(request),
            |reply| {
                reply.result?;
                self.decode(&reply)
            },
            false,
        )
        .map(|(reply, _)| reply)
    }

    /// As [`Self::call`], for the one request that is answered after a fault too.
    pub(crate) fn call_after_fault(&self, request: &PrintfDrain) -> Result<PrintfText, CudaError> {
        let receive = |reply: Reply<'_>| {
            reply.result?;
            self.decode(&reply)
        };
        let calls = self.calls.lock();
        self.exchange_with(calls, None, |state| state.push(request), receive, false)
            .map(|(text, _)| text)
    }

    /// As [`Self::call`] with a descriptor that the server takes first.
    pub(crate) fn call_with<'a, Q: Request<'a>>(
        &self,
        message: Message,
        fd: BorrowedFd<'_>,
        request: &Q,
    ) -> Result<Q::Reply, CudaError> {
        self.exchange(
            Some((message, fd)),
            |state| state.push(request),
            |reply| {
                reply.result?;
                self.decode(&reply)
            },
            false,
        )
        .map(|(reply, _)| reply)
    }

    /// Loads a module, whose reply says something with an error too: gives both, and the descriptor
    /// of its managed variables' memory if it has any. A reply without a payload is `None`.
    pub(crate) fn call_load(
        &self,
        image: BorrowedFd<'_>,
        request: &LoadModule,
    ) -> Result<(CUresult, Option<ModuleLoaded>, Option<OwnedFd>), CudaError> {
        let receive = |reply: Reply<'_>| {
            let payload: Option<ModuleLoaded> =
                match reply.result.is_err() && reply.words().is_empty() {
                    true => None,
                    false => Some(self.decode(&reply)?),
                };
            let has_managed = payload.as_ref().is_some_and(|loaded| loaded.managed.1 > 0);
            let managed = match has_managed {
                true => Some(self.receive_managed()?),
                false => None,
            };
            Ok((reply.result, payload, managed))
        };
        let image = Some((Message::ImageFd(()), image));
        self.exchange(image, |state| state.push(request), receive, false).map(|(all, _)| all)
    }

    /// The descriptor of a loaded module's managed variables, which came before the reply.
    fn receive_managed(&self) -> Result<OwnedFd, CudaError> {
        match self.receive_message()? {
            Some((Message::ManagedFd(()), mut fds)) => fds.pop().ok_or_else(|| self.gone()),
            _ => Err(self.gone()),
        }
    }

    /// As [`Self::call`] for a request that is answered with a descriptor. If this process can have
    /// no more of them, `undo` gives back what was made: CUDA_ERROR_OUT_OF_MEMORY.
    pub(crate) fn call_for_descriptor<'a>(
        &self,
        request: &impl Request<'a>,
        undo: &impl Request<'a>,
    ) -> Result<KeptFile, CudaError> {
        let (_, fd) =
            self.exchange(None, |state| state.push(request), |reply| reply.result, true)?;
        fd.ok_or_else(|| {
            let _ = self.call(undo);
            CudaError::OUT_OF_MEMORY
        })
    }

    /// Calls a generic row; the reply has a word for each result.
    pub(crate) fn call_row(
        &self,
        push: impl FnOnce(&mut State) -> CUresult,
        receive: impl FnOnce(&mut channel::payload::Reader<'_>) -> CUresult,
    ) -> CUresult {
        self.exchange(
            None,
            push,
            |reply| {
                reply.result?;
                receive(&mut reply.reader())
            },
            false,
        )
        .map(|_| ())
    }
}
