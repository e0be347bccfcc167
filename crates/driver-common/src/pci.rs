//! PCI bus addresses: the text by which programs name a device.

/// Domain, bus, device and function of `[domain]:[bus]:[device].[function]`, where domain and
/// function may be missing.
pub fn address(text: &str) -> Option<(u32, u32, u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (front, function) = match text.split_once('.') {
        Some((front, function)) => (front, number(function)?),
        None => (text, 0),
    };
    let mut parts = front.rsplit(':');
    let (device, bus) = (number(parts.next()?)?, number(parts.next()?)?);
    let domain = parts.next().map_or(Some(0), number)?;
    parts.next().is_none().then_some((domain, bus, device, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_by_their_numbers() {
        assert_eq!(address("0000:0A:00.0"), Some((0, 10, 0, 0)));
        assert_eq!(address("0a:0"), Some((0, 10, 0, 0)));
        assert_eq!(address("00000001:0a:1f.1"), Some((1, 10, 31, 1)));
        for wrong in ["", "0", "x:y", "0:0:0:0.0", "0:0.x"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
