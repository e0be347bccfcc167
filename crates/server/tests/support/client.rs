//! A client that speaks the protocol and knows nothing else.

use super::{PATIENCE, wait_until};
use channel::memfd::{Seals, create_sealed, sealed_image};
use channel::message::{Message, Welcome};
use channel::payload::Payload;
use channel::region::{Region, ServerState};
use channel::reply::ReplyReader;
use channel::request::*;
use channel::ring::Producer;
use channel::socket::SeqPacket;
use channel::wait::SpinPolicy;
use cuda_api::extension::standard;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{
    CUdeviceptr, CUevent, CUfunction, CUgraphExec, CUmodule, CUresult, CUstream, CudaError,
};
use std::os::fd::{AsFd, OwnedFd};

const fn handle(kind: HandleKind, index: u32) -> usize {
    Handle { kind, index, generation: 0 }.to_word() as usize
}

/// The legacy default stream.
pub const LEGACY: CUstream = CUstream(handle(HandleKind::Stream, 0));

/// The stream with that slot.
pub fn stream(slot: u32) -> CUstream {
    CUstream(handle(HandleKind::Stream, slot))
}

/// The event at that place.
pub fn event(place: u32) -> CUevent {
    CUevent(handle(HandleKind::Event, place))
}

/// The module at that place.
pub fn module(place: u32) -> CUmodule {
    CUmodule(handle(HandleKind::Module, place))
}

/// The function at that place.
pub fn function(place: u32) -> CUfunction {
    CUfunction(handle(HandleKind::Function, place))
}

/// The graph at that place.
pub fn graph(place: u32) -> CUgraphExec {
    CUgraphExec(handle(HandleKind::GraphExec, place))
}

/// Names of the test provider's kernels; [`Client::load`] makes the function of each one's
/// place.
pub const KERNELS: [&str; 5] = ["add", "note", "hold", "fault", "stall"];

/// A client's side of a session.
pub struct Client {
    pub pid: u32,
    pub socket: SeqPacket,
    pub region: Region,
    pub welcome: Welcome,
    producer: Producer,
    replies: ReplyReader,
    fence: u32,
}

/// A launch of one block of so many threads in the legacy stream.
pub fn one_block(function: CUfunction, threads: u32, parameters: &[u8]) -> LaunchKernel<'_> {
    LaunchKernel {
        function,
        stream: LEGACY,
        grid: [1; 3],
        block: [threads, 1, 1],
        shared_bytes: 0,
        flags: 0,
        parameters,
    }
}

impl Client {
    /// Takes the server's welcome; its refusal otherwise.
    pub fn welcome(parts: (u32, SeqPacket, Region)) -> Result<Self, (u32, String)> {
        let (pid, socket, region) = parts;
        let welcome = match socket.receive().expect("an answer of the server").0 {
            Message::Welcome(welcome) => welcome,
            Message::Refused(refused) => return Err((refused.result, refused.reason)),
            other => panic!("{other:?}"),
        };
        let producer = Producer::new(region.clone(), SpinPolicy::of_process());
        let replies = ReplyReader::new(region.clone(), SpinPolicy::of_process());
        Ok(Self { pid, socket, region, welcome, producer, replies, fence: 0 })
    }

    fn alive(region: &Region) -> bool {
        region.server_state() != ServerState::Ended
    }

    /// Posts a request.
    pub fn post<'a, R: Request<'a>>(&mut self, request: &R) {
        let region = self.region.clone();
        self.producer.push_request(request, &|| Self::alive(&region)).expect("room in the ring");
    }

    /// Posts a row with its words.
    pub fn post_row(&mut self, number: u16, words: &[u64]) {
        let region = self.region.clone();
        self.producer.push(number, words, &[], &|| Self::alive(&region)).expect("room in the ring");
    }

    /// Pushes any record, and gives up if the server does not read on.
    pub fn push_anything(&mut self, opcode: u16, words: &[u64]) {
        let looks = std::cell::Cell::new(0);
        let patient = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        let _ = self.producer.push(opcode, words, &[], &patient);
    }

    /// Calls a row with its words.
    pub fn call_row(&mut self, number: u16, words: &[u64]) -> Result<Vec<u64>, CudaError> {
        self.post_row(number, words);
        let region = self.region.clone();
        let reply = self.replies.wait(&|| Self::alive(&region)).expect("a reply");
        reply.result.map(|()| reply.words().to_vec())
    }

    /// Calls a request; its result and its reply's payload.
    pub fn ask<'a, R: Request<'a>>(&mut self, request: &R) -> (CUresult, Vec<u64>) {
        self.post(request);
        let region = self.region.clone();
        match self.replies.wait(&|| Self::alive(&region)) {
            Ok(reply) => (reply.result, reply.words().to_vec()),
            Err(_) => (Err(CudaError::MPS_RPC_FAILURE), Vec::new()),
        }
    }

    /// Calls a request for its result.
    pub fn call<'a, R: Request<'a>>(&mut self, request: &R) -> CUresult {
        self.ask(request).0
    }

    /// An address in the device window.
    pub fn address(&self, offset: u64) -> u64 {
        self.welcome.window.address + offset
    }

    /// Makes a chunk at an offset of the window; its fd.
    pub fn chunk(&mut self, offset: u64, bytes: u64) -> Result<OwnedFd, CudaError> {
        let address = CUdeviceptr(self.address(offset));
        self.call(&ChunkCreate { device: 0, address, bytes })?;
        let (message, mut files) = self.socket.receive().expect("the chunk's file");
        assert_eq!(message, Message::ChunkFd(offset));
        Ok(files.remove(0))
    }

    /// Makes pinned host memory at an offset of the host window.
    pub fn pin(&mut self, offset: u64, bytes: u64) -> CUresult {
        let file = create_sealed(c"pinned", bytes, Seals::SIZE).expect("a file");
        self.socket.send(&Message::HostFd(()), &[file.as_fd()]).expect("room in the socket");
        let address = self.welcome.host_window.address + offset;
        self.call(&HostMap { address, bytes, flags: 0 })
    }

    /// Sends an image and loads it.
    pub fn load_image(&mut self, module: CUmodule, image: &[u8]) -> (CUresult, ModuleLoaded) {
        let request = self.send_image(module, image);
        let (result, words) = self.ask(&request);
        // A refusal that comes before loading has no payload.
        (result, ModuleLoaded::from_words(&words).unwrap_or_default())
    }

    /// Loads code whose key another server may have given, with an image to read instead.
    pub fn load_known(
        &mut self,
        module: CUmodule,
        code: CodeWords,
        image: &[u8],
    ) -> (CUresult, ModuleLoaded) {
        self.load_with(module, 0, code, image)
    }

    /// As [`Client::load_known`], with flags.
    pub fn load_with(
        &mut self,
        module: CUmodule,
        flags: u32,
        code: CodeWords,
        image: &[u8],
    ) -> (CUresult, ModuleLoaded) {
        let request = LoadModule { code, flags, ..self.send_image(module, image) };
        let (result, words) = self.ask(&request);
        (result, ModuleLoaded::from_words(&words).unwrap_or_default())
    }

    /// As [`Client::load_image`], without waiting for the answer.
    pub fn begin_load(&mut self, module: CUmodule, image: &[u8]) {
        let request = self.send_image(module, image);
        self.post(&request);
    }

    /// Waits for the answer to what was begun; its result.
    pub fn reply(&mut self) -> CUresult {
        let region = self.region.clone();
        self.replies.wait(&|| Self::alive(&region)).expect("a reply").result
    }

    fn send_image(&self, module: CUmodule, image: &[u8]) -> LoadModule {
        let file = sealed_image(image).expect("a file");
        self.socket.send(&Message::ImageFd(()), &[file.as_fd()]).expect("room in the socket");
        LoadModule {
            module,
            image_bytes: image.len() as u64,
            flags: 0,
            place: (0, 0),
            info_log_bytes: 100,
            error_log_bytes: 100,
            code: NO_CODE,
            options: vec![JitOption { option: 0, value: 32 }],
        }
    }

    /// Loads module 0 with all [`KERNELS`].
    pub fn load(&mut self) {
        self.load_image(module(0), b".version 8.0").0.expect("a module");
        for (place, name) in KERNELS.iter().enumerate() {
            let function = function(place as u32);
            let (result, _) =
                self.ask(&GetFunction { function, module: module(0), name: name.as_bytes() });
            result.expect("a kernel");
        }
    }

    /// Launches one of the [`KERNELS`].
    pub fn launch(&mut self, name: &str, stream: CUstream, parameters: &[u8]) {
        let place = KERNELS.iter().position(|k| *k == name).expect("a kernel");
        self.post(&LaunchKernel { stream, ..one_block(function(place as u32), 32, parameters) });
    }

    /// Posts a fence; its value.
    pub fn fence(&mut self, stream: CUstream) -> u32 {
        self.fence += 1;
        self.post(&Fence { stream, value: self.fence });
        self.fence
    }

    /// Posts an event's record, which is a fence too; its value.
    pub fn record(&mut self, event: CUevent, stream: CUstream) -> u32 {
        self.fence += 1;
        self.post(&RecordEvent { event, stream, value: self.fence });
        self.fence
    }

    /// Value of a stream's completion word.
    pub fn word(&self, stream: CUstream) -> u32 {
        let slot = Handle::from_word(stream.0 as u64).expect("a stream").index;
        self.region.completion_word(slot).expect("a slot").load()
    }

    /// Waits until all that was posted to a stream is done.
    pub fn synchronize(&mut self, stream: CUstream) {
        let value = self.fence(stream);
        wait_until("a fence", || self.word(stream) >= value || self.region.sticky_error().is_err());
    }

    /// Waits until the server has carried out all that was posted.
    pub fn settle(&mut self) {
        let (result, _) = self.ask(&PrintfDrain { standard: standard::OUTPUT });
        assert!(result.is_ok() || self.region.sticky_error().is_err(), "{result:?}");
    }

    /// The error of a post, after the server has carried it out.
    pub fn error(&mut self) -> CUresult {
        self.settle();
        self.region.take_async_error()
    }

    /// Writes bytes to device memory through staging.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.region.write_staging(0, bytes).expect("room in staging");
        self.post(&HostToDevice {
            destination: CUdeviceptr(self.address(offset)),
            source: HostReference::Staging(0),
            bytes: bytes.len() as u64,
            stream: LEGACY,
        });
        self.synchronize(LEGACY);
    }

    /// Reads bytes of device memory through staging.
    pub fn read(&mut self, offset: u64, bytes: usize) -> Vec<u8> {
        self.post(&DeviceToHost {
            destination: HostReference::Staging(1 << 20),
            source: CUdeviceptr(self.address(offset)),
            bytes: bytes as u64,
            stream: LEGACY,
        });
        self.synchronize(LEGACY);
        let mut data = vec![0; bytes];
        self.region.read_staging(1 << 20, &mut data).expect("inside staging");
        data
    }

    /// Waits until the region says that the session has ended.
    pub fn wait_for_end(&self) {
        wait_until("the session's end", || self.region.server_state() == ServerState::Ended);
    }

    /// Patience of the tests.
    pub fn patience() -> std::time::Duration {
        PATIENCE
    }
}
