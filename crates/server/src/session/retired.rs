//! Retired objects: what a client has given up, and whose end waits for the context.
//!
//! Unregistering memory and unloading code make all clients wait ([`ContextSync`]). So what a client
//! gives up is kept until nothing is in flight in the context, or until too much has come together.
//! Where the provider has tenants nothing is kept.
//!
//! [`ContextSync`]: crate::device::ContextSync

use super::memory::HostPiece;
use crate::device::{ManagedVariables, Module, Share};
use std::collections::VecDeque;
use std::rc::Rc;

/// Most that a session keeps: bytes of host memory, and objects.
const BYTES_MAX: u64 = 256 << 20;
const OBJECTS_MAX: usize = 64;

/// One object.
enum Object {
    /// Host memory at an address that client and server share.
    Host { address: u64, bytes: u64, _piece: HostPiece },
    /// Code, with the variables that it may name. Fields are dropped in their order.
    Module { _module: Module, _managed: Option<ManagedVariables> },
}

impl Object {
    fn bytes(&self) -> u64 {
        match self {
            Self::Host { bytes, .. } => *bytes,
            Self::Module { .. } => 0,
        }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        match *self {
            Self::Host { address, bytes, .. } => address < end && start < address + bytes,
            Self::Module { .. } => false,
        }
    }
}

/// A session's retired objects.
pub struct Retired {
    share: Rc<Share>,
    objects: VecDeque<Object>,
}

impl Retired {
    /// None yet.
    pub fn new(share: &Rc<Share>) -> Self {
        Self { share: share.clone(), objects: VecDeque::new() }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes host memory that no work of the client uses any more.
    pub fn host(&mut self, address: u64, bytes: u64, piece: HostPiece) {
        self.keep(Object::Host { address, bytes, _piece: piece });
    }

    /// Takes a module none of whose kernels runs any more.
    pub fn module(&mut self, module: Module, managed: Option<ManagedVariables>) {
        if module.is_own() {
            return self.keep(Object::Module { _module: module, _managed: managed });
        }
        drop(module);
        // Beyond this, programs that load and unload again and again pay for it.
        let device = self.share.device();
        device.unload_unused(2 * device.code_cache().unused_bytes_max());
    }

    fn keep(&mut self, object: Object) {
        if self.share.is_tenant() {
            return drop(object);
        }
        self.objects.push_back(object);
        let bytes = |objects: &VecDeque<Object>| objects.iter().map(Object::bytes).sum::<u64>();
        while self.objects.len() > OBJECTS_MAX || bytes(&self.objects) > BYTES_MAX {
            self.objects.pop_front();
        }
    }

    /// Makes a range of host addresses free for new memory.
    pub fn vacate(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.objects.retain(|object| !object.overlaps(address, end));
    }

    /// Ends all of them if the context is idle.
    pub fn end_if_idle(&mut self) {
        if !self.is_empty() && self.share.device().sync().is_idle() {
            self.clear();
            let device = self.share.device();
            device.unload_unused(device.code_cache().unused_bytes_max());
        }
    }

    /// Ends all of them.
    pub fn clear(&mut self) {
        self.objects.clear();
    }
}
