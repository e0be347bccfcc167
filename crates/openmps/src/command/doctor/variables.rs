//! The environment: which variables there are, which of ours are set, and whether any part of the
//! project reads them and understands their values.

use super::Finding;
use cuda_api::environment::{PREFIXES, VARIABLES, Variable, meant};
use serde_json::{Value, json};

/// All variables that are read, a few lines each.
pub(super) fn text() -> String {
    let lines = |row: &Variable| {
        let Variable { name, readers, values, default, meaning } = row;
        format!(
            "{name}\n    {meaning}\n    Values: {values}. Default: {default}. Read by: {readers}.\n"
        )
    };
    VARIABLES.iter().map(lines).collect()
}

/// The same for programs.
pub(super) fn json() -> Value {
    let row = |row: &Variable| {
        json!({
            "name": row.name,
            "meaning": row.meaning,
            "values": row.values.to_string(),
            "default": row.default,
            "readers": row.readers,
        })
    };
    json!({ "variables": VARIABLES.iter().map(row).collect::<Vec<_>>() })
}

pub(super) fn findings() -> Vec<Finding> {
    std::env::vars_os()
        .filter_map(|(name, value)| finding(name.to_str()?, &value.to_string_lossy()))
        .collect()
}

/// What there is to say of a variable; nothing of one that is not ours.
fn finding(name: &str, value: &str) -> Option<Finding> {
    let topic = "environment";
    let text = format!("{name}={value}");
    Some(match VARIABLES.iter().find(|row| row.name == name) {
        Some(row) if row.values.accept(value) => Finding::ok(topic, text),
        Some(Variable { values, default, .. }) => Finding::warning(
            topic,
            text,
            format!("counts as not given ({default}): {values} would be understood"),
        ),
        None => {
            let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))?;
            let known =
                || VARIABLES.iter().map(|row| row.name).filter(|name| name.starts_with(prefix));
            let advice = match meant(name) {
                Some(meant) => format!("nothing reads it; {meant} may be meant"),
                None => {
                    format!(
                        "nothing reads it; there are {}",
                        known().collect::<Vec<_>>().join(", ")
                    )
                }
            };
            Finding::warning(topic, text, advice)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn every_variable_is_listed_with_all_that_is_known_of_it() {
        let (text, json) = (text(), json());
        for (row, listed) in VARIABLES.iter().zip(json["variables"].as_array().unwrap()) {
            assert_eq!(listed["name"], row.name);
            assert_eq!(listed["values"], row.values.to_string());
            for part in [row.name, row.meaning, row.default, row.readers] {
                assert!(!part.is_empty() && text.contains(part), "{}: {part}", row.name);
            }
        }
    }

    #[test]
    fn mistakes_are_found_and_others_variables_left_alone() {
        let severity = |name, value| finding(name, value).map(|finding| finding.severity);
        assert!(severity("OPENMPS_SOFT_SMS", "4") == Some(Severity::Ok));
        assert!(severity("OPENMPS_SOFT_SMS", "four") == Some(Severity::Warning));
        assert!(severity("OPENMPS_SOFT_SIMDD", "avx2") == Some(Severity::Warning));
        assert!(severity("HOME", "/root").is_none());
        assert!(severity("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50") == Some(Severity::Ok));
        assert!(severity("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "0") == Some(Severity::Warning));
        assert!(severity("CUDA_MPS_PROTOCOL_VERSION", "2") == Some(Severity::Ok));
        assert!(severity("CUDA_MPS_PROTOCOL_VERSION", "4") == Some(Severity::Warning));
        let misspelt = finding("CUDA_MPS_PIPE_DIRECTROY", "/x").unwrap();
        assert!(misspelt.advice.contains("CUDA_MPS_PIPE_DIRECTORY may be meant"));
    }
}
