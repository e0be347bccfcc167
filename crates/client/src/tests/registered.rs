//! Registered memory: the program's own, also several pieces of it in one page.

use super::{attach, watched};
use crate::memory::address::Place;
use crate::memory::page_exchange::{Nature, Pages, nature_now};
use crate::program::Client;
use channel::memfd::{Mapping, PAGE_BYTES};
use channel::userfaultfd::{Protects, open};

/// Pages of this process's own, which stay.
fn pages(count: u64) -> Pages {
    Pages::of(Mapping::anonymous(count * PAGE_BYTES).unwrap())
}

/// The device's address of what is registered at an address.
fn device_address(client: &Client, address: u64) -> Option<u64> {
    match client.memory().place(address) {
        Ok(Place::Registered { to_device, .. }) => Some(address.wrapping_add(to_device?)),
        _ => None,
    }
}

#[test]
fn two_pieces_of_a_page_both_have_an_address_on_the_device() {
    if open(Protects::Shared).is_none() {
        return eprintln!("SKIPPED: no userfaultfd for this user here");
    }
    let (client, _server) = attach();
    watched(|| {
        let pages = pages(2);
        let [first, second, third] = [0, 256, PAGE_BYTES - 64].map(|offset| pages.start + offset);
        client.register_host(1, first, 128, 0).unwrap();
        client.register_host(1, second, 128, 0).unwrap();
        let on_device = device_address(client, first).expect("the first has one");
        assert_eq!(device_address(client, second), Some(on_device + 256));
        // A page more than was exchanged.
        client.register_host(1, third, 128, 0).unwrap();
        assert_eq!(device_address(client, third), None);
        client.unregister_host(third).unwrap();
        assert_eq!(client.memory().host_pieces().unwrap().len(), 1, "servers map them once");
        // The pages are put back with the last one, in whichever order.
        let page = Pages { bytes: PAGE_BYTES, ..pages };
        client.unregister_host(first).unwrap();
        assert_eq!(nature_now(page), Nature::Exchanged);
        assert_eq!(device_address(client, second), Some(on_device + 256));
        client.register_host(1, first, 64, 0).unwrap();
        assert_eq!(device_address(client, first), Some(on_device));
        client.unregister_host(second).unwrap();
        client.unregister_host(first).unwrap();
        assert_eq!(nature_now(page), Nature::Plain);
        assert!(client.memory().host_pieces().unwrap().is_empty());
    });
}
