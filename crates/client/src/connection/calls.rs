//! Calls: requests that are answered. One is in flight at a time.
//!
//! Descriptors that belong to a call travel on the socket: to the server before the request is
//! in the ring, from the server before the reply is in the region. So a thread that holds the call
//! lock knows that the next message is its own.

use super::{Connection, SERVER_GONE, answered};
use crate::lock::Guard;
use channel::message::Message;
use channel::payload::Payload;
use channel::reply::{Reply, ReplyReader};
use channel::socket::ReceiveError;
use core::time::Duration;
use cuda_api::{CUresult, CudaError};
use std::os::fd::{BorrowedFd, OwnedFd};

/// How long a descriptor that was sent before the reply may take to arrive.
const DESCRIPTOR_TIMEOUT: Duration = Duration::from_secs(5);

impl Connection {
    /// Sends a request and gives the reply to `receive`, with its result.
    ///
    /// `opcode` is the request's. `descriptor` is sent before. The request is pushed by `push`, which takes the short lock.
    ///
    /// # Errors
    /// What `push` and `receive` say; CUDA_ERROR_MPS_RPC_FAILURE or the sticky error if the
    /// server is gone or talks nonsense.
    pub(crate) fn exchange<R>(
        &self,
        opcode: u16,
        descriptor: Option<(Message, BorrowedFd<'_>)>,
        push: impl FnOnce() -> CUresult,
        receive: impl FnOnce(Reply<'_>) -> Result<R, CudaError>,
        takes_descriptor: bool,
    ) -> Result<(R, Option<OwnedFd>), CudaError> {
        let replies = self.calls.lock();
        self.health()?;
        self.exchange_with(replies, opcode, descriptor, push, receive, takes_descriptor)
    }

    /// As [`Self::exchange`] without descriptors, regardless of the errors reported before.
    pub(crate) fn exchange_after_fault<R>(
        &self,
        opcode: u16,
        push: impl FnOnce() -> CUresult,
        receive: impl FnOnce(Reply<'_>) -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        let replies = self.calls.lock();
        self.exchange_with(replies, opcode, None, push, receive, false).map(|(reply, _)| reply)
    }

    fn exchange_with<R>(
        &self,
        mut replies: Guard<'_, ReplyReader>,
        opcode: u16,
        descriptor: Option<(Message, BorrowedFd<'_>)>,
        push: impl FnOnce() -> CUresult,
        receive: impl FnOnce(Reply<'_>) -> Result<R, CudaError>,
        takes_descriptor: bool,
    ) -> Result<(R, Option<OwnedFd>), CudaError> {
        if let Some((message, fd)) = descriptor {
            self.socket()?.send(&message, &[fd]).map_err(|_| self.gone())?;
        }
        push()?;
        let alive = || self.is_alive();
        let reply = answered::counted(opcode, || ReplyReader::wait(&mut replies, &alive));
        let reply = reply.map_err(|_| self.gone())?;
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
    pub(crate) fn gone(&self) -> CudaError {
        self.give_up();
        self.health().err().unwrap_or(SERVER_GONE)
    }

    /// What the server sent beside the ring; `None` if it was lost, because this process can have
    /// no more descriptors.
    fn receive_message(&self) -> Result<Option<(Message, Vec<OwnedFd>)>, CudaError> {
        let socket = self.socket()?;
        socket.set_receive_timeout(Some(DESCRIPTOR_TIMEOUT)).map_err(|_| self.gone())?;
        match socket.receive() {
            Ok(received) => Ok(Some(received)),
            Err(ReceiveError::Fds) => Ok(None),
            Err(_) => Err(self.gone()),
        }
    }

    fn receive_descriptor(&self) -> Result<Option<OwnedFd>, CudaError> {
        match self.receive_message()? {
            None => Ok(None),
            Some((Message::ChunkFd(_), mut fds)) => fds.pop().map(Some).ok_or_else(|| self.gone()),
            Some(_) => Err(self.gone()),
        }
    }

    /// The descriptor of a loaded module's managed variables, which came before the reply. Only
    /// within `receive` of an exchange.
    pub(crate) fn receive_managed(&self) -> Result<OwnedFd, CudaError> {
        match self.receive_message()? {
            Some((Message::ManagedFd(()), mut fds)) => fds.pop().ok_or_else(|| self.gone()),
            _ => Err(self.gone()),
        }
    }

    /// Decodes a reply whose result is success.
    pub(crate) fn decode<P: for<'r> Payload<'r>>(&self, reply: &Reply<'_>) -> Result<P, CudaError> {
        reply.decode().map_err(|_| self.gone())
    }
}
