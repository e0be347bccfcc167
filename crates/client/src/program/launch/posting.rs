//! Posting: the short lock, taken to write into the ring, with room there for what is written.
//!
//! No thread waits for room while it has the lock: others that ask how far a stream is, and the thread
//! that says that a host function was run, need it to get the server on that makes the room. So room is
//! waited for before the lock is taken, and looked for again behind it. For the same reason a thread that
//! launches far ahead of a stream waits for that stream without the lock ([`Launched::Behind`]): the server
//! takes requests of all streams in one order, and would have to stop at this one.

use crate::connection::Connection;
use crate::lock::Guard;
use crate::memory::known_variables::KnownVariables;
use crate::program::Client;
use crate::program::launch::check::Launch;
use crate::program::launch::submission::{Launched, Submission, push_error, wire_stream};
use channel::request::{GraphLaunch, Request};
use channel::signals::Uncancellable;
use core::ops::{Deref, DerefMut};
use cuda_api::handle::Handle;
use cuda_api::{CUfunction, CUgraphExec, CUresult, CudaError};
use recovery::Mark;

/// The short lock, with room in the ring.
pub(crate) struct Posting<'a> {
    client: &'a Client,
    /// Taken out only while room is waited for.
    state: Option<Guard<'a, Submission>>,
}

impl Client {
    /// Takes the short lock to post something; waits for room in the ring without it.
    #[inline(always)]
    pub(crate) fn posting(&self) -> Result<Posting<'_>, CudaError> {
        let mut posting = Posting { client: self, state: Some(self.state()) };
        posting.make_room()?;
        Ok(posting)
    }

    /// As [`Self::posting`] for a thread that has other locks too: `None` if it would have to wait for room,
    /// which it does by [`Self::posting`] without these.
    pub(crate) fn try_posting(&self) -> Result<Option<Posting<'_>>, CudaError> {
        let mut posting = Posting { client: self, state: Some(self.state()) };
        let may_post = posting.has_room()? || posting.is_closed_here();
        Ok(may_post.then_some(posting))
    }

    /// As [`Self::posting`] for a request of a call by that connection: the reply comes there, so the
    /// request must not go to another server that has taken its place meanwhile.
    pub(crate) fn posting_of(&self, connection: &Connection) -> Result<Posting<'_>, CudaError> {
        let posting = self.posting()?;
        match core::ptr::eq(posting.connection(), connection) {
            true => Ok(posting),
            false => Err(crate::program::SERVER_GONE),
        }
    }

    /// Launches a graph in a stream of its device.
    pub(crate) fn launch_graph(&self, graph: CUgraphExec, stream: Handle) -> CUresult {
        loop {
            let mut posting = self.posting()?;
            let Some(mark) = posting.full_behind(stream) else {
                let request = GraphLaunch { graph, stream: wire_stream(stream) };
                let mark = posting.push_in(stream, &request)?;
                posting.launched = true;
                return posting.launched_in(mark);
            };
            drop(posting);
            self.wait_to_launch(mark)?;
        }
    }
}

impl Posting<'_> {
    /// Has room again for as much as at the beginning. The lock is given up meanwhile: what was looked up
    /// before may have changed.
    #[inline(always)]
    pub(crate) fn make_room(&mut self) -> CUresult {
        // What is refused anyway need not wait.
        match self.has_room()? || self.is_closed_here() {
            true => Ok(()),
            false => self.wait_for_room(),
        }
    }

    #[cold]
    fn wait_for_room(&mut self) -> CUresult {
        let _whole = Uncancellable::begin();
        loop {
            let (room, connection) = self.room();
            self.state = None;
            let waited = room.wait(&|| connection.is_alive());
            self.state = Some(self.client.state());
            waited.map_err(|error| push_error(error, connection))?;
            // Others may have been faster, or have put another connection in the place of this one.
            if self.has_room()? || self.is_closed_here() {
                return Ok(());
            }
        }
    }

    /// Writes a request into the ring.
    #[inline(always)]
    pub(crate) fn push<'r>(&mut self, request: &impl Request<'r>) -> CUresult {
        self.push_now(request)
    }

    /// Writes a generic row's request into the ring.
    #[inline(always)]
    pub(crate) fn push_words(&mut self, opcode: u16, words: &[u64]) -> CUresult {
        self.push_words_now(opcode, words)
    }

    /// Launches a function or kernel of this device. The stream is `literal` if the program passed a
    /// literal; `known` variables are looked for among the kernel's parameters.
    #[inline(always)]
    pub(in crate::program) fn launch(
        &mut self,
        function: CUfunction,
        launch: &Launch<'_>,
        literal: Option<Handle>,
        known: Option<&mut KnownVariables>,
    ) -> Result<Launched, CudaError> {
        let client = self.client;
        self.launch_now(client, function, launch, literal, known)
    }

    /// As [`Self::push`], for an operation of a stream: gives its place there. Another thread may
    /// have destroyed the stream since it was looked up: CUDA_ERROR_INVALID_HANDLE.
    #[inline(always)]
    pub(crate) fn push_in<'r>(
        &mut self,
        stream: Handle,
        request: &impl Request<'r>,
    ) -> Result<Mark, CudaError> {
        self.check_stream(stream)?;
        self.push(request)?;
        Ok(self.issue(stream))
    }

    /// As [`Self::push_in`] for a generic row's request.
    #[inline(always)]
    pub(crate) fn push_words_in(
        &mut self,
        stream: Handle,
        opcode: u16,
        words: &[u64],
    ) -> Result<Mark, CudaError> {
        self.check_stream(stream)?;
        self.push_words(opcode, words)?;
        Ok(self.issue(stream))
    }

    /// Makes sure that a fence is underway by which one learns that `mark` has passed, for a thread that waits.
    pub(crate) fn fence(&mut self, mark: Mark) -> CUresult {
        match self.streams.fence_for(mark) {
            Some(fence) => self.push_fence(fence)?,
            None => self.hasten(),
        }
        Ok(())
    }

    /// What must have passed when a stream is synchronised; a fence for it is underway.
    pub(crate) fn fence_all_of(&mut self, stream: Handle) -> Result<Mark, CudaError> {
        let end = self.end_of(stream);
        if !self.passed(end) {
            self.fence(end)?;
        }
        Ok(end)
    }
}

impl Deref for Posting<'_> {
    type Target = Submission;
    #[inline(always)]
    fn deref(&self) -> &Submission {
        match &self.state {
            Some(state) => state,
            None => unreachable!("the lock is taken but in `wait_for_room`"),
        }
    }
}

impl DerefMut for Posting<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Submission {
        match &mut self.state {
            Some(state) => state,
            None => unreachable!("the lock is taken but in `wait_for_room`"),
        }
    }
}
