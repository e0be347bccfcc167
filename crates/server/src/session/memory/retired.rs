//! Retired objects: what a client has given up, and whose end waits for the context.
//!
//! Unregistering memory, destroying arrays and unloading code make all clients wait ([`ContextSync`]).
//! So what a client gives up is kept until nothing is in flight in the context, or until too much has
//! come together; an array is used again for one of the same description. Where the provider has
//! tenants nothing is kept.
//!
//! [`ContextSync`]: crate::device::ContextSync

use crate::device::{Array, ContextCall, ManagedVariables, MipmappedArray, Module, Share};
use crate::session::RETIRED_PERIOD;
use crate::session::memory::HostPiece;
use cuda_api::{CUDA_ARRAY3D_DESCRIPTOR, CUresult, CudaError};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// Most that a session keeps: bytes of host memory, and objects.
const BYTES_MAX: u64 = 256 << 20;
/// Most device memory of arrays that a session keeps, bytes: no limit counts it.
const ARRAY_BYTES_MAX: u64 = 64 << 20;
const OBJECTS_MAX: usize = 64;

/// One object.
enum Object {
    /// Host memory at an address that client and server share.
    Host { address: u64, bytes: u64, _piece: HostPiece },
    /// Code, with the variables that it may name. Fields are dropped in their order.
    Module { _module: Module, _managed: Option<ManagedVariables> },
    /// An array.
    Array(Array),
    /// An array with its levels.
    Mipmapped(Rc<MipmappedArray>),
}

impl Object {
    /// What its end is.
    fn call(&self) -> ContextCall {
        match self {
            Self::Host { .. } => ContextCall::UnregisterHost,
            Self::Module { .. } => ContextCall::UnloadModule,
            Self::Array(_) | Self::Mipmapped(_) => ContextCall::DestroyArray,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Host { bytes, .. } => *bytes,
            Self::Module { .. } | Self::Array(_) | Self::Mipmapped(_) => 0,
        }
    }

    fn array_bytes(&self) -> u64 {
        match self {
            Self::Array(array) => array.shape().bytes(),
            Self::Mipmapped(mipmapped) => mipmapped.bytes(),
            Self::Host { .. } | Self::Module { .. } => 0,
        }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        match *self {
            Self::Host { address, bytes, .. } => address < end && start < address + bytes,
            Self::Module { .. } | Self::Array(_) | Self::Mipmapped(_) => false,
        }
    }
}

/// A session's retired objects.
pub struct Retired {
    share: Rc<Share>,
    objects: VecDeque<Object>,
    /// When it was looked last whether the context is idle.
    looked: Option<Instant>,
}

impl Retired {
    /// None yet.
    pub fn new(share: &Rc<Share>) -> Self {
        Self { share: share.clone(), objects: VecDeque::new(), looked: None }
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
        // Beyond this, programs that load and unload again and again pay for it. A session that ends does it
        // later.
        let bytes_max = 2 * self.share.device().code_cache().unused_bytes_max();
        let _ = self.share.unload_unused(bytes_max);
    }

    /// Takes an array that no work of the client uses any more.
    pub fn array(&mut self, array: Array) {
        self.keep(Object::Array(array));
    }

    /// Takes an array with levels that no work of the client uses any more.
    pub fn mipmapped(&mut self, mipmapped: Rc<MipmappedArray>) {
        self.keep(Object::Mipmapped(mipmapped));
    }

    /// An array of that description, with what the client has left in it.
    pub fn take_array(&mut self, descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Option<Array> {
        let is_such =
            |object: &Object| matches!(object, Object::Array(a) if a.descriptor() == descriptor);
        let at = self.objects.iter().position(is_such)?;
        match self.objects.remove(at) {
            Some(Object::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Ends the arrays: the device has no memory left. True if there were some.
    pub fn end_arrays(&mut self) -> bool {
        self.end_those(|object| object.array_bytes() > 0) == Ok(true)
    }

    fn keep(&mut self, object: Object) {
        if self.share.is_tenant() {
            return drop(object);
        }
        self.objects.push_back(object);
        let bytes = |objects: &VecDeque<Object>| objects.iter().map(Object::bytes).sum::<u64>();
        let mut end = Vec::new();
        while self.objects.len() > OBJECTS_MAX || bytes(&self.objects) > BYTES_MAX {
            end.extend(self.objects.pop_front());
        }
        while self.objects.iter().map(Object::array_bytes).sum::<u64>() > ARRAY_BYTES_MAX {
            let oldest = self.objects.iter().position(|object| object.array_bytes() > 0);
            end.extend(oldest.and_then(|at| self.objects.remove(at)));
        }
        // Those of a session that ends are ended with it.
        let _ = self.end_all(end);
    }

    /// Ends objects in one quiescent point; keeps them if the session ends before there is one.
    fn end_all(&mut self, mut objects: Vec<Object>) -> CUresult {
        let Some(first) = objects.first() else { return Ok(()) };
        let ended = self.share.while_quiet(first.call(), || objects.clear());
        self.objects.extend(objects);
        ended
    }

    /// Ends the objects that are such; whether there were some.
    fn end_those(&mut self, is_such: impl Fn(&Object) -> bool) -> Result<bool, CudaError> {
        let (such, others): (Vec<_>, Vec<_>) = self.objects.drain(..).partition(is_such);
        self.objects = VecDeque::from(others);
        let any = !such.is_empty();
        self.end_all(such).map(|()| any)
    }

    /// Makes a range of host addresses free for new memory.
    /// CUDA_ERROR_MPS_CLIENT_TERMINATED if the client ends first.
    pub fn vacate(&mut self, address: u64, bytes: u64) -> CUresult {
        let end = address.saturating_add(bytes);
        self.end_those(|object| object.overlaps(address, end)).map(drop)
    }

    /// Ends all of them if the context is idle. Waits for no other client: what begins meanwhile may not end.
    pub fn end_if_idle(&mut self) {
        let Some(call) = self.objects.front().map(Object::call) else { return };
        // Whether all sessions are idle is read where each of them writes.
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= RETIRED_PERIOD);
        if !is_due {
            return;
        }
        self.looked = Some(Instant::now());
        if !self.share.device().sync().is_idle() {
            return;
        }
        let objects = &mut self.objects;
        if self.share.if_quiet(call, || objects.clear()) {
            let bytes_max = self.share.device().code_cache().unused_bytes_max();
            self.share.unload_unused_if_quiet(bytes_max);
        }
    }

    /// Ends all of them.
    pub fn clear(&mut self) {
        self.objects.clear();
    }
}
