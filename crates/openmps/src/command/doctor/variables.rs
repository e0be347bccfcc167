//! The environment: which of our variables are set, and whether anybody can make sense of them.

use super::Finding;
use cuda_api::environment::{VARIABLES, Variable};

/// What variables of our own begin with.
const OWN: &str = "OPENMPS_";

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
        None if name.starts_with(OWN) => {
            let known: Vec<_> =
                VARIABLES.iter().map(|row| row.name).filter(|name| name.starts_with(OWN)).collect();
            Finding::warning(
                topic,
                text,
                format!("nobody reads it; there are {}", known.join(", ")),
            )
        }
        None => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn mistakes_are_found_and_others_variables_left_alone() {
        let severity = |name, value| finding(name, value).map(|finding| finding.severity);
        assert!(severity("OPENMPS_SOFT_SMS", "4") == Some(Severity::Ok));
        assert!(severity("OPENMPS_SOFT_SMS", "four") == Some(Severity::Warning));
        assert!(severity("OPENMPS_SOFT_SIMDD", "avx2") == Some(Severity::Warning));
        assert!(severity("HOME", "/root").is_none());
    }
}
