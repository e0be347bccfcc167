//! Kubernetes quantities (`40Gi`, `44`, `500m`, `1e3`) as whole numbers, rounded up.

/// Reads a quantity that is not negative.
///
/// # Errors
/// The text, if it is none or does not fit 64 bits.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("{text:?} is no quantity: a number with Ki, Mi, Gi, k, M, G or nothing behind it")
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 30 || fraction.contains('.') {
        return Err(wrong());
    }
    let mut value: u128 = digits.parse().map_err(|_| wrong())?;
    let mut ten = -(fraction.len() as i32);
    match suffix {
        "" => {}
        "n" => ten -= 9,
        "u" => ten -= 6,
        "m" => ten -= 3,
        "k" => ten += 3,
        "M" => ten += 6,
        "G" => ten += 9,
        "T" => ten += 12,
        "P" => ten += 15,
        "E" => ten += 18,
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => {
            let power = "KMGTPE".find(&suffix[..1]).unwrap_or(0) as u32 + 1;
            value = value.checked_mul(1 << (10 * power)).ok_or_else(wrong)?;
        }
        other => match other.strip_prefix(['e', 'E']).and_then(|text| text.parse::<i32>().ok()) {
            Some(exponent) if exponent.abs() <= 18 => ten += exponent,
            _ => return Err(wrong()),
        },
    }
    let power = 10_u128.pow(ten.unsigned_abs());
    let value = match ten < 0 {
        true => Some(value.div_ceil(power)),
        false => value.checked_mul(power),
    };
    value.and_then(|value| u64::try_from(value).ok()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, value) in [
            ("0", 0),
            ("44", 44),
            ("40Gi", 40 << 30),
            ("1.5Gi", 3 << 29),
            ("143771Mi", 143_771 << 20),
            ("1k", 1000),
            ("1e3", 1000),
            ("2E", 2_000_000_000_000_000_000),
            ("1500m", 2),
            ("1Ki", 1024),
            ("0.1", 1),
        ] {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
        for text in ["", ".", "-1", "1Zi", "1.2.3", "Gi", "1e99", "99E", "40 Gi", "999999Ei"] {
            assert!(parse(text).unwrap_err().contains("no quantity"), "{text}");
        }
    }
}
