//! Visible devices: which of the daemon's devices a process sees, and in which order.

use channel::message::Device;
use cuda_api::attributes::{CLOCK_RATE, MULTIPROCESSOR_COUNT};
use cuda_api::visible::{DeviceOrder, device_order, visible_devices};
use cuda_api::{CUuuid, environment};

/// The devices of a daemon that this process sees, by its own ordinals: the numbers of its list are
/// those of the daemon's devices, which the daemon's own list may have chosen and ordered, unless
/// `CUDA_DEVICE_ORDER` says how this process counts them.
pub(super) fn visible(devices: &[Device]) -> Vec<Device> {
    let read = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let list = read(environment::CUDA_VISIBLE_DEVICES);
    let order = read(environment::CUDA_DEVICE_ORDER);
    chosen(devices, list.as_deref(), order.as_deref())
}

fn chosen(devices: &[Device], list: Option<&str>, order: Option<&str>) -> Vec<Device> {
    let speed = |device: &Device| {
        let of = |attribute: u32| device.attributes[attribute as usize].unsigned_abs();
        u64::from(of(MULTIPROCESSOR_COUNT)) * u64::from(of(CLOCK_RATE))
    };
    let counted: Vec<usize> = match order {
        // As the daemon counts them.
        None => (0..devices.len()).collect(),
        Some(order) => {
            let described = devices.iter().map(|d| (speed(d), d.pci_bus_id.as_str()));
            device_order(DeviceOrder::of(Some(order)), &described.collect::<Vec<_>>())
        }
    };
    let uuids: Vec<CUuuid> = counted.iter().map(|place| devices[*place].uuid).collect();
    let places: Vec<usize> =
        visible_devices(list, &uuids).into_iter().map(|ordinal| counted[ordinal]).collect();
    let of_place = |place: &usize| {
        let mut device = devices[*place].clone();
        let peers = |place: &usize| device.peers.get(*place).copied().unwrap_or_default();
        device.peers = places.iter().map(peers).collect();
        device
    };
    places.iter().map(of_place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::message::Peer;

    /// The daemon's devices: the second one is the fastest, the third one has the first address.
    fn devices() -> Vec<Device> {
        let device = |index: u8, address: &str, sms: i32| {
            let mut device = Device { pci_bus_id: address.to_owned(), ..Device::default() };
            device.uuid.bytes[0] = index;
            device.attributes[MULTIPROCESSOR_COUNT as usize] = sms;
            device.attributes[CLOCK_RATE as usize] = 1_000_000;
            let peer = |to: u8| {
                let mut peer = Peer::default();
                peer.attributes[0] = (10 * index + to).into();
                peer
            };
            device.peers = (0..3).map(peer).collect();
            device
        };
        vec![
            device(0, "0000:0A:00.0", 8),
            device(1, "0000:0b:00.0", 16),
            device(2, "0000:01:00.0", 8),
        ]
    }

    fn seen(list: Option<&str>, order: Option<&str>) -> Vec<u8> {
        chosen(&devices(), list, order).iter().map(|device| device.uuid.bytes[0]).collect()
    }

    #[test]
    fn a_list_counts_devices_as_the_order_says() {
        assert_eq!(seen(None, None), [0, 1, 2]);
        assert_eq!(seen(Some("2,0"), None), [2, 0]);
        assert_eq!(seen(None, Some("PCI_BUS_ID")), [2, 0, 1]);
        assert_eq!(seen(Some("0"), Some("PCI_BUS_ID")), [2]);
        assert_eq!(seen(Some("2,0"), Some("PCI_BUS_ID")), [1, 2]);
        assert_eq!(seen(None, Some("FASTEST_FIRST")), [1, 2, 0]);
        assert_eq!(seen(Some("GPU-00,1"), Some("PCI_BUS_ID")), [0], "UUIDs need no order");
    }

    #[test]
    fn what_devices_can_do_with_each_other_is_in_the_process_order() {
        let found = chosen(&devices(), Some("2,0"), Some("PCI_BUS_ID"));
        let ranks = found.iter().map(|device| device.peers.iter().map(|p| p.attributes[0]));
        let ranks: Vec<Vec<_>> = ranks.map(Iterator::collect).collect();
        assert_eq!(ranks, [vec![11, 12], vec![21, 22]]);
    }
}
