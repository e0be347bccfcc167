//! Driver versions that the software GPU may report: what OPENMPS_DRIVER_VERSION may hold.

/// CUDA version of the API that the table describes, as cuDriverGetVersion reports it:
/// 1000 * major + 10 * minor.
pub const API_VERSION: i32 = 13_000;

/// What may be given, for messages.
pub const ALLOWED: &str = "a version of CUDA 13, as 13.4";

/// Minor versions have one digit in what cuDriverGetVersion reports.
const MINOR_MAX: i32 = 9;

/// The version that a text like `13.4` names, as cuDriverGetVersion reports it; `None` if it is no
/// version of the API that the table describes.
pub fn parse(text: &str) -> Option<i32> {
    let (major, minor) = text.trim().split_once('.')?;
    let number = |text: &str| -> Option<i32> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    };
    let (major, minor) = (number(major)?, number(minor)?);
    (major == API_VERSION / 1000 && minor <= MINOR_MAX).then_some(major * 1000 + minor * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_same_major_number_are_taken() {
        for (text, version) in [("13.0", 13_000), ("13.4", 13_040), (" 13.9 ", 13_090)] {
            assert_eq!(parse(text), Some(version), "{text}");
        }
        for text in
            ["", "13", "13.", ".4", "12.9", "14.0", "13.10", "13.4.1", "13.-4", "+13.4", "13.x"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
