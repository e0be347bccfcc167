//! Managed variables of clients' modules: one memory in client, server and device.

mod device;
mod support;

use channel::memfd::Reservation;
use channel::message::Message;
use channel::request::*;
use cuda_api::{CUdeviceptr, CUresult, CudaError};
use device::start;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use support::*;

const MODULE: &str = "
.version 7.0
.target sm_60
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 total = 3;
.visible .global .attribute(.managed) .align 8 .b8 table[5000];
.visible .global .align 4 .u32 plain = 9;
.visible .entry add(.param .u32 n)
{
    .reg .b32 %n, %old;
    ld.param.u32 %n, [n];
    atom.global.add.u32 %old, [total], %n;
    st.global.u32 [table+4096], %old;
    ret;
}
";

fn global(client: &mut Client, managed: bool, name: &str) -> Result<(u64, u64), CudaError> {
    let request = GetGlobal { module: module(0), managed, name: name.as_bytes() };
    let (result, words) = client.ask(&request);
    result.map(|()| (words[0], words[1]))
}

fn load(client: &mut Client) -> (CUresult, ModuleLoaded, Option<OwnedFd>) {
    let (result, loaded) = client.load_image(module(0), MODULE.as_bytes());
    let file = (loaded.managed.1 > 0).then(|| {
        let (message, mut files) = client.socket.receive().expect("the variables' file");
        assert_eq!(message, Message::ManagedFd(()));
        files.remove(0)
    });
    (result, loaded, file)
}

#[test]
fn client_and_kernels_share_managed_variables() {
    let mut server = start();
    let mut client = server.connect();
    let (result, loaded, file) = load(&mut client);
    assert_eq!(result, Ok(()));
    let (address, bytes) = loaded.managed;
    let window = client.welcome.host_window;
    assert!(window.managed().contains(address, bytes), "{address:#x}");
    let (total, four) = global(&mut client, true, "total").unwrap();
    assert_eq!(four, 4);
    let (table, length) = global(&mut client, true, "table").unwrap();
    assert_eq!(length, 5000);
    assert_eq!(global(&mut client, true, "plain"), Err(CudaError::NOT_FOUND));
    assert_eq!(global(&mut client, true, "nothing"), Err(CudaError::NOT_FOUND));
    assert_eq!(global(&mut client, false, "total"), Ok((total, 4)));
    // This process is the server's too, so the client looks at the pages somewhere else.
    let there = Reservation::anywhere(bytes).unwrap();
    let mapping = there.map(file.unwrap(), there.address(), bytes).unwrap();
    let word = |at: u64| provider::word(there.address() + at - address);
    assert_eq!(word(total).load(SeqCst), 3, "what it begins with");
    word(total).store(40, SeqCst);
    let request = GetFunction { function: function(0), module: module(0), name: b"add" };
    client.call(&request).expect("a kernel");
    client.post(&one_block(function(0), 1, &2u32.to_le_bytes()));
    client.synchronize(LEGACY);
    assert_eq!(word(total).load(SeqCst), 42);
    assert_eq!(word(table + 4096).load(SeqCst), 40);
    // The device reads and writes it as any memory of the client's.
    client.post(&DeviceToHost {
        destination: HostReference::Staging(0),
        source: CUdeviceptr(total),
        bytes: 4,
        stream: LEGACY,
    });
    client.synchronize(LEGACY);
    let mut bytes = [0; 4];
    client.region.read_staging(0, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), 42);
    client.post(&UnloadModule { module: module(0) });
    assert_eq!(client.error(), Ok(()));
    client.post(&DeviceToHost {
        destination: HostReference::Staging(0),
        source: CUdeviceptr(total),
        bytes: 4,
        stream: LEGACY,
    });
    assert_eq!(client.error(), Err(CudaError::INVALID_VALUE), "unloaded");
    // The next one may have the same place.
    let (result, loaded, _) = load(&mut client);
    assert_eq!((result, loaded.managed.0), (Ok(()), address));
    drop(mapping);
}

#[test]
fn the_servers_part_of_a_host_window_is_not_the_clients() {
    let mut server = start();
    let mut client = server.connect();
    let window = client.welcome.host_window;
    let offset = window.managed().address - window.address;
    assert_eq!(client.pin(offset, 2 << 20), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.pin(offset - (1 << 20), 2 << 20), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.pin(offset - (2 << 20), 2 << 20), Ok(()));
}

#[test]
fn a_module_that_cannot_be_built_leaves_no_variables() {
    let mut server = start();
    let mut client = server.connect();
    let broken = MODULE.replace("[table+4096], %old;", "[table+4096], %old, %old;");
    let (result, loaded) = client.load_image(module(0), broken.as_bytes());
    assert!(result.is_err());
    assert_eq!(loaded.managed, (0, 0));
    let (result, loaded, _) = load(&mut client);
    assert_eq!((result, loaded.managed.0), (Ok(()), client.welcome.host_window.managed().address));
}
