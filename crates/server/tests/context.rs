//! Calls that wait for the whole context, on a provider without tenants: made seldom, and when no
//! client pays for them.

mod support;

use channel::request::HostUnmap;
use support::*;

const MODULES: usize = 2;
const PHYSICAL: usize = 3;
const REGISTRATIONS: usize = 6;

fn count(kind: usize) -> usize {
    provider::census()[kind]
}

#[test]
fn an_image_of_several_clients_is_loaded_once_and_stays() {
    let mut server = Server::start(false);
    let (mut one, mut other) = (server.connect(), server.connect());
    one.load();
    other.load();
    assert_eq!(count(MODULES), 1);
    for (client, number) in [(&mut one, 31u32), (&mut other, 32)] {
        client.launch("note", LEGACY, &number.to_le_bytes());
        client.synchronize(LEGACY);
    }
    assert_eq!(provider::notes(|n| n == 31 || n == 32), [31, 32]);
    drop(one);
    server.wait_for_clients(1);
    other.launch("note", LEGACY, &33u32.to_le_bytes());
    other.synchronize(LEGACY);
    assert_eq!(provider::notes(|n| n == 33), [33]);
    drop(other);
    server.wait_for_clients(0);
    let mut later = server.connect();
    assert_eq!(count(MODULES), 1, "it is kept for clients that come later");
    later.load();
    assert_eq!(count(MODULES), 1);
}

#[test]
fn an_image_with_variables_is_each_clients_own() {
    let mut server = Server::start(false);
    let (mut one, mut other) = (server.connect(), server.connect());
    let image = b".version 8.0\n.target sm_80\n.global .u32 counter;\n\0";
    for client in [&mut one, &mut other] {
        let (result, _) = client.load_image(module(7), image);
        result.expect("the provider takes any image");
    }
    assert_eq!(count(MODULES), 2);
}

#[test]
fn memory_that_a_client_gives_up_is_unregistered_when_the_context_is_idle() {
    let mut server = Server::start(false);
    let (mut busy, mut client) = (server.connect(), server.connect());
    busy.load();
    busy.launch("hold", LEGACY, &8100u32.to_le_bytes());
    wait_until("the kernel", || server.status().clients[0].submitted.kernels == 1);
    let before = count(REGISTRATIONS);
    client.pin(0, 1 << 20).expect("pinned memory");
    let address = client.welcome.host_window.address;
    client.call(&HostUnmap { address }).expect("it is the client's");
    assert_eq!(count(REGISTRATIONS), before + 1, "unregistering would make the other one wait");
    // The same addresses can be used again at once.
    client.pin(0, 2 << 20).expect("pinned memory again");
    assert_eq!(count(REGISTRATIONS), before + 1);
    client.call(&HostUnmap { address }).expect("it is the client's");
    provider::open_gate(8100);
    wait_until("an idle context", || count(REGISTRATIONS) == before);
}

#[test]
fn a_clients_end_waits_for_an_idle_context_with_what_would_disturb_others() {
    let mut server = Server::start(false);
    let (mut busy, mut client) = (server.connect(), server.connect());
    busy.load();
    busy.launch("hold", LEGACY, &8200u32.to_le_bytes());
    wait_until("the kernel", || server.status().clients[0].submitted.kernels == 1);
    client.chunk(0, 2 << 20).expect("memory");
    let (physical, registrations) = (count(PHYSICAL), count(REGISTRATIONS));
    drop(client);
    server.wait_for_clients(1);
    assert_eq!(count(PHYSICAL), physical - 1, "device memory comes back at once");
    // Clients that come and go meanwhile leave theirs too; by then it would be gone.
    for gone in 1..=3 {
        drop(server.connect());
        server.wait_for_clients(1);
        assert_eq!(count(REGISTRATIONS), registrations + gone, "regions are still registered");
    }
    provider::open_gate(8200);
    wait_until("an idle context", || count(REGISTRATIONS) < registrations);
}

#[test]
fn a_server_that_ends_waits_for_no_idle_context() {
    let mut server = Server::start(false);
    let (mut busy, client) = (server.connect(), server.connect());
    busy.load();
    busy.launch("hold", LEGACY, &8300u32.to_le_bytes());
    drop(client);
    server.wait_for_clients(1);
    // The end of the test ends the server, and looks whether anything is left at the provider.
    provider::open_gate(8300);
    drop(busy);
}
