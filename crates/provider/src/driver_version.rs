//! The driver version that the environment asks the software GPU to report.

use cuda_api::driver_version::{ALLOWED, parse};
use cuda_api::environment::OPENMPS_DRIVER_VERSION;

/// What cuDriverGetVersion is to report by this process' environment; `None` if it says nothing.
///
/// # Errors
/// What is wrong with the value, as a line for the person who set it.
pub fn asked_driver_version() -> Result<Option<i32>, String> {
    let value = std::env::var_os(OPENMPS_DRIVER_VERSION);
    value.map_or(Ok(None), |value| read(&value.to_string_lossy()))
}

/// An empty value is as good as none.
fn read(value: &str) -> Result<Option<i32>, String> {
    if value.trim().is_empty() {
        return Ok(None);
    }
    let wrong = || format!("{OPENMPS_DRIVER_VERSION} is {value:?}, which is not {ALLOWED}");
    parse(value).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn nonsense_is_refused_and_nothing_is_no_wish() {
        assert_eq!(read("13.4"), Ok(Some(13_040)));
        assert_eq!((read(""), read(" ")), (Ok(None), Ok(None)));
        for value in ["12.9", "newest", "13.4 13.5"] {
            let why = read(value).unwrap_err();
            assert!(why.contains(value) && why.contains("as 13.4"), "{why}");
        }
    }
}
