//! Replaced connection: what other threads had begun when another server took the place of a lost one.

use super::{out, server, watched};
use crate::boundary::Out;
use crate::connection::{Connection, SERVER_GONE};
use crate::program::launch::{Geometry, Launch};
use crate::program::{Client, Program};
use crate::stream::DefaultStream;
use crate::stream::table::LEGACY;
use channel::region::{RING_BYTES, Region};
use channel::request::MemoryInfo;
use channel::socket::SeqPacket;
use cuda_api::handle::Handle;
use cuda_api::{
    CUcontext, CUdeviceptr, CUfunction, CUmemoryPool, CUresult, CUstream, CudaError, number,
};
use driver_common::jit_options::JitOptions;
use provider::ImageOrigin;
use std::ffi::c_void;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first server has the modules' variable there, the next one [`CONSTANTS_APART`] behind it.
const CONSTANT: u64 = 0x7f00_0000_0000;
const CONSTANTS_APART: u64 = 1 << 20;

/// A client whose lost server is replaced by another one with the same windows, as a daemon does.
pub(super) fn attach() -> (&'static Client, server::Handle) {
    attach_on(server::DeviceMemory::default())
}

/// As [`attach`], on memory that outlives the servers.
pub(super) fn attach_on(memory: server::DeviceMemory) -> (&'static Client, server::Handle) {
    let welcome = server::welcome();
    let again = welcome.clone();
    let count = AtomicU64::new(0);
    let begin = move |prepare: &dyn Fn(&Region)| {
        let (ours, theirs) = SeqPacket::pair().map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let (region, file) = Region::create().map_err(|_| CudaError::OUT_OF_MEMORY)?;
        prepare(&region);
        let constant = CONSTANT + count.fetch_add(1, Ordering::Relaxed) * CONSTANTS_APART;
        let server = server::start_on(region.clone(), theirs, memory.clone(), constant);
        Ok((Connection::new((region, file), ours, again.clone()), server))
    };
    let (connection, first) = begin(&|_| ()).unwrap();
    let later = Mutex::new(Vec::new());
    let connect = move |_: &_, prepare: &dyn Fn(&Region)| {
        let (connection, server) = begin(prepare)?;
        later.lock().unwrap().push(server);
        Ok(connection)
    };
    let program = Program::of_first(connection, Box::new(connect)).unwrap();
    (program.client_at(0).unwrap(), first)
}

/// Ends the server and has another one take its place.
pub(super) fn replace(client: &'static Client, server: &server::Handle) {
    let old = client.connection();
    server.killed.store(true, Ordering::Release);
    server.held.store(false, Ordering::Release);
    while core::ptr::eq(client.connection(), old) {
        client.program.recover_lost();
        std::thread::yield_now();
    }
    assert_eq!(client.health(), Ok(()));
}

#[test]
fn a_thread_that_waits_for_a_lost_server_does_not_wait_on_for_it() {
    watched(|| {
        let (client, server) = attach();
        server.held.store(true, Ordering::Release);
        client.state().streams.issue(LEGACY.index);
        std::thread::scope(|scope| {
            let (thread, of_waiter) = std::sync::mpsc::channel();
            let waits = scope.spawn(move || {
                thread.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
                client.synchronize(LEGACY)
            });
            let stat = format!("/proc/self/task/{}/stat", of_waiter.recv().unwrap());
            // Its fence is in the ring before it sleeps; between two of its looks around it is awake.
            let sleeps = || {
                let stat = std::fs::read_to_string(&stat).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
            };
            while !client.state().streams.unfenced().is_empty() || !sleeps() {
                std::thread::yield_now();
            }
            replace(client, &server);
            // It is reported so that its call is made again, or the new server was faster.
            let waited = waits.join().unwrap();
            assert!(waited == Ok(()) || waited == Err(SERVER_GONE), "{waited:?}");
        });
        assert_eq!(client.synchronize(LEGACY), Ok(()));
    });
}

#[test]
fn a_lost_connection_keeps_no_memory_for_its_ring() {
    watched(|| {
        let (client, server) = attach();
        let file = client.connection().region_file().unwrap();
        let file = std::fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
        let bytes = || file.metadata().unwrap().blocks() * 512;
        while bytes() < RING_BYTES {
            client.synchronize(LEGACY).unwrap();
            let words = [0; 256];
            client.posting().unwrap().push_words(number::cuStreamDestroy_v2, &words).unwrap();
        }
        replace(client, &server);
        assert!(bytes() < RING_BYTES / 8, "{}", bytes());
    });
}

#[test]
fn a_call_by_a_lost_connection_does_not_reach_the_next_server() {
    watched(|| {
        let (client, server) = attach();
        let old = client.connection();
        replace(client, &server);
        assert_eq!(client.posting_of(old).map(|_| ()), Err(SERVER_GONE));
        // Its reply would be taken for that of the next call.
        assert!(client.call(&MemoryInfo { device: 0 }).is_ok());
    });
}

/// Loads an image with the kernel `fill` in a context that becomes the thread's.
pub(super) fn load_fill(client: &Client, image: &[u8]) -> (CUcontext, Handle, CUfunction) {
    let context = client.contexts().retain(0).unwrap();
    client.contexts().set_current(context).unwrap();
    let options = JitOptions::read(0, Out::null(), Out::null()).unwrap();
    let module = client.load_image(image, 0, &options, || ImageOrigin::Memory).unwrap();
    let function = client.find_function(module, c"fill").unwrap();
    (context, module, CUfunction(function.to_word() as usize))
}

/// A kernel stores `value` where `to` is.
pub(super) fn fill(client: &Client, function: CUfunction, to: u64, value: u32) -> CUresult {
    let (mut to, mut count, mut value) = (to, 1u32, value);
    let mut parameters: [*mut c_void; 3] =
        [(&raw mut to).cast(), (&raw mut count).cast(), (&raw mut value).cast()];
    client.launch(&Launch {
        function,
        geometry: &Geometry { grid: [1; 3], block: [1; 3], shared_bytes: 0 },
        stream: CUstream::NULL,
        default: DefaultStream::Legacy,
        flags: 0,
        kernel_params: out(&mut parameters[0]),
        extra: Out::null(),
    })
}

#[test]
fn what_a_kernel_wrote_to_a_constant_is_there_at_the_next_server_wherever_that_has_it() {
    const IMAGE: &[u8] = b".version 8.0\n.target sm_75\n.address_size 64\n.const .b32 factor;\n\0";
    let memory = server::DeviceMemory::default();
    let word = |address: u64| {
        let memory = memory.lock().unwrap();
        memory.get(&address).map(|bytes| u32::from_le_bytes(bytes[..4].try_into().unwrap()))
    };
    watched(|| {
        let (client, first) = attach_on(memory.clone());
        let (_, module, function) = load_fill(client, IMAGE);
        let (mut address, mut bytes) = (CUdeviceptr(0), 0);
        let places = (out(&mut address), out(&mut bytes));
        client.find_global(module, false, c"factor", places.0, places.1).unwrap();
        assert_eq!((address.0, bytes as u64), (CONSTANT, server::CONSTANT_BYTES));

        fill(client, function, address.0, 7).unwrap();
        client.synchronize(LEGACY).unwrap();
        replace(client, &first);
        let second = CONSTANT + CONSTANTS_APART;
        assert_eq!(word(second), Some(7), "it is restored");
        // The program keeps the address that it got first.
        fill(client, function, address.0, 9).unwrap();
        let _ = client.synchronize(LEGACY);
        assert_eq!(
            (word(CONSTANT), word(second)),
            (Some(7), Some(9)),
            "the kernel gets the new one"
        );
    });
}

#[test]
fn a_launch_whose_module_is_unloaded_at_once_is_not_lost_with_its_server() {
    const IMAGE: &[u8] = b".version 8.0\n.target sm_75\n.address_size 64\n\0";
    let memory = server::DeviceMemory::default();
    watched(|| {
        let (client, server) = attach_on(memory.clone());
        let context = client.contexts().retain(0).unwrap();
        client.contexts().set_current(context).unwrap();
        let options = JitOptions::read(0, Out::null(), Out::null()).unwrap();
        let [unused, used] = [(); 2]
            .map(|()| client.load_image(IMAGE, 0, &options, || ImageOrigin::Memory).unwrap());
        let function = client.find_function(used, c"fill").unwrap();
        let buffer = client.allocate(1, 4, CUmemoryPool::NULL).unwrap();
        server.held.store(true, Ordering::Release);
        fill(client, CUfunction(function.to_word() as usize), buffer, 7).unwrap();
        // One that ran nothing need not be waited for.
        client.unload(unused).unwrap();
        std::thread::scope(|scope| {
            let unloads = scope.spawn(|| client.unload(used));
            // The launch is in the ring, and the fence or the unloading behind it.
            while !client.state().streams.unfenced().is_empty() && !unloads.is_finished() {
                std::thread::yield_now();
            }
            replace(client, &server);
            let unloaded = unloads.join().unwrap();
            assert!(unloaded == Ok(()) || unloaded == Err(SERVER_GONE), "{unloaded:?}");
        });
        assert_eq!(client.synchronize(LEGACY), Ok(()));
        let memory = memory.lock().unwrap();
        let (start, bytes) = memory.range(..=buffer).next_back().unwrap();
        let at = (buffer - start) as usize;
        assert_eq!(bytes[at..at + 4], 7_u32.to_le_bytes());
    });
}

#[test]
fn a_launch_that_was_posted_is_not_made_again_because_what_follows_it_finds_the_server_lost() {
    const IMAGE: &[u8] = b".version 8.0\n.target sm_75\n.address_size 64\n.const .b32 factor;\n\0";
    let memory = server::DeviceMemory::default();
    watched(|| {
        let (client, first) = attach_on(memory.clone());
        let (context, module, function) = load_fill(client, IMAGE);
        let (mut address, mut bytes) = (CUdeviceptr(0), 0);
        let places = (out(&mut address), out(&mut bytes));
        client.find_global(module, false, c"factor", places.0, places.1).unwrap();
        // The first launch that may write to the variable asks the server for memory for its copy.
        first.held.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let launches = scope.spawn(|| {
                client.contexts().set_current(context).unwrap();
                fill(client, function, address.0, 7)
            });
            while client.state().streams.unfenced().is_empty() {
                std::thread::yield_now();
            }
            replace(client, &first);
            assert_eq!(launches.join().unwrap(), Ok(()), "it is in flight, once");
        });
        let _ = client.synchronize(LEGACY);
        let second = memory.lock().unwrap().get(&(CONSTANT + CONSTANTS_APART)).cloned();
        assert_eq!(second, Some(7_u32.to_le_bytes().to_vec()));
        // What the kernel wrote there is not in the copy.
        let mut memory = client.memory();
        let (_, variable) = memory.foreign_variable(address.0, 4).unwrap();
        assert!(variable.copy.incomplete);
    });
}
