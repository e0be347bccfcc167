//! Events of a client, also those that it shares with others by intent (the manual's "Interprocess
//! Communication").

use crate::common::Common;
use crate::device::{Event, Share};
use crate::session::SessionLink;
use crate::session::handles::Table;
use channel::request::{
    CreateEvent, ElapsedTime, ElapsedTimeReply, EventState, OpenEvent, ShareEvent, Token,
};
use cuda_api::constants::event_flags;
use cuda_api::handle::HandleKind;
use cuda_api::{CUevent, CUresult, CudaError};
use std::rc::Rc;
use std::sync::Arc;

/// Most events of a client: an event is some hundred bytes at the provider.
pub const EVENTS_MAX: usize = channel::limits::EVENTS_MAX as usize;

/// Flags of an event that a client may ask for. One that other clients open too is nothing special
/// to the provider: they are all in one process.
const EVENT_FLAGS: u32 = event_flags::BLOCKING_SYNC | event_flags::DISABLE_TIMING;

/// A client's events.
pub(in crate::session) struct Events {
    table: Table<Event>,
    share: Rc<Share>,
    link: Arc<SessionLink>,
    common: Arc<Common>,
}

impl Events {
    /// None.
    pub fn new(share: &Rc<Share>, link: &Arc<SessionLink>, common: &Arc<Common>) -> Self {
        let table = Table::new(HandleKind::Event, EVENTS_MAX);
        Self { table, share: share.clone(), link: link.clone(), common: common.clone() }
    }

    /// The event of a handle.
    pub fn get(&self, event: CUevent) -> Result<&Event, CudaError> {
        self.table.get(event.0 as u64)
    }

    pub fn create(&mut self, request: CreateEvent) -> CUresult {
        if request.flags & !EVENT_FLAGS != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let handle = self.table.vacant(request.event.0 as u64)?;
        self.table.put(handle, Event::new(&self.share, request.flags)?);
        Ok(())
    }

    /// Takes an event from the client. It goes at once unless it is in use: then with [`Events::release`].
    pub fn destroy(&mut self, event: CUevent, is_in_use: impl FnOnce(u64) -> bool) -> CUresult {
        let word = event.0 as u64;
        let event = self.table.depart(word)?;
        // Few events are shared, and many are destroyed.
        if event.is_shared() {
            self.common.shared.forget_event(self.link.identity.id, event.shared());
        }
        if !is_in_use(word) {
            self.table.release(word);
        }
        Ok(())
    }

    /// An event is used no more: it goes if the client has destroyed it.
    pub fn release(&mut self, word: u64) {
        self.table.release(word);
    }

    pub fn elapsed_time(&self, r: ElapsedTime) -> Result<ElapsedTimeReply, CudaError> {
        let milliseconds = self.get(r.start)?.elapsed_ms(self.get(r.end)?)?;
        Ok(ElapsedTimeReply { milliseconds })
    }

    pub fn query(&self, event: CUevent) -> Result<EventState, CudaError> {
        Ok(EventState { done: self.get(event)?.is_done()?.into() })
    }

    pub fn share(&self, request: ShareEvent) -> Result<Token, CudaError> {
        let event = self.get(request.event)?;
        let owner = self.link.identity.id;
        let [low, high] = self.common.shared.share_event(owner, event.shared())?;
        Ok(Token { low, high })
    }

    pub fn open(&mut self, request: OpenEvent) -> CUresult {
        let handle = self.table.vacant(request.event.0 as u64)?;
        let raw = self.common.shared.open_event([request.low, request.high])?;
        self.table.put(handle, Event::of(&self.share, raw));
        Ok(())
    }

    /// Destroys all.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}
