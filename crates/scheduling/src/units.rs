//! Units of settings: durations and sizes as text.

/// Nanoseconds of a text such as `200us`, `5ms`, `1.5s` or `800ns`; `None` for other text.
pub fn duration_ns(text: &str) -> Option<u64> {
    // The longer endings first: "ms" ends in "s".
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let value: f64 = number.parse().ok()?;
    let ns = value * scale;
    (ns.is_finite() && ns >= 0.0 && ns < u64::MAX as f64).then_some(ns as u64)
}

/// A duration in the largest unit that writes it whole.
pub fn duration_text(ns: u64) -> String {
    for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)] {
        if ns >= scale && ns.is_multiple_of(scale) {
            return format!("{}{unit}", ns / scale);
        }
    }
    format!("{ns}ns")
}

/// Bytes of a number, or of one with K, M or G behind it; `None` for other text.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(1 << shift)
}

/// Bytes in the largest unit that writes them whole.
pub fn bytes_text(bytes: u64) -> String {
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for ns in [0, 1, 999, 1000, 200_000, 5_000_000, 1_500_000_000, 3_000_000_000] {
            assert_eq!(duration_ns(&duration_text(ns)), Some(ns));
        }
        for size in [0, 1, 1024, 3 << 20, 7 << 30] {
            assert_eq!(bytes(&bytes_text(size)), Some(size));
        }
        assert_eq!(duration_ns("1.5ms"), Some(1_500_000));
        for wrong in ["", "5", "ms", "-1s", "1h", "infs"] {
            assert_eq!(duration_ns(wrong), None, "{wrong}");
        }
        for wrong in ["", "M", "-1", "1T", "99999999999G"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
