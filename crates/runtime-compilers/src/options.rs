//! Options of the compilers that say what is made.

use std::ffi::{CStr, CString};

/// Names of the option that says for which architecture code is made.
const ARCHITECTURE: [&str; 4] = ["--gpu-architecture", "-gpu-architecture", "-arch", "--arch"];
/// What has a compiler make code for link-time optimisation, which is no machine code.
const FOR_LINKING: [&str; 3] = ["--dlink-time-opt", "-dlto", "--gen-opt-lto"];

/// The options by which NVRTC makes PTX where it was to make machine code; `None` where it was not.
pub(crate) fn for_ptx(options: &[&CStr]) -> Option<Vec<CString>> {
    let texts: Vec<&str> = options.iter().map(|text| text.to_str().unwrap_or("")).collect();
    if texts.iter().any(|text| FOR_LINKING.contains(&text.trim())) {
        return None;
    }
    let mut changed = false;
    let mut behind_name = false;
    let mut new = Vec::with_capacity(options.len());
    for (option, text) in options.iter().zip(&texts) {
        let replaced = match (behind_name, text.split_once('=')) {
            (true, _) => virtual_architecture(text),
            (false, Some((name, value))) if ARCHITECTURE.contains(&name.trim()) => {
                virtual_architecture(value).map(|value| format!("{name}={value}"))
            }
            _ => None,
        };
        behind_name = !behind_name && ARCHITECTURE.contains(&text.trim());
        changed |= replaced.is_some();
        let replaced = replaced.and_then(|text| CString::new(text).ok());
        new.push(replaced.unwrap_or_else(|| (*option).to_owned()));
    }
    changed.then_some(new)
}

/// `compute_80` of `sm_80`.
fn virtual_architecture(text: &str) -> Option<String> {
    text.trim().strip_prefix("sm_").map(|number| format!("compute_{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(options: &[&str]) -> Option<Vec<String>> {
        let owned: Vec<CString> = options.iter().map(|o| CString::new(*o).unwrap()).collect();
        let options: Vec<&CStr> = owned.iter().map(CString::as_c_str).collect();
        let text = |o: CString| o.into_string().unwrap();
        for_ptx(&options).map(|new| new.into_iter().map(text).collect())
    }

    #[test]
    fn real_architectures_become_virtual_ones() {
        let new = |options: &[&str]| rewritten(options).unwrap();
        assert_eq!(new(&["-arch=sm_80", "-I/x"]), ["-arch=compute_80", "-I/x"]);
        assert_eq!(new(&["--gpu-architecture=sm_90a"]), ["--gpu-architecture=compute_90a"]);
        assert_eq!(new(&["-DX", "-arch", "sm_75"]), ["-DX", "-arch", "compute_75"]);
    }

    #[test]
    fn what_is_no_machine_code_stays() {
        for options in [
            &[][..],
            &["-arch=compute_80"],
            &["-DA=sm_80", "sm_80"],
            &["-arch=sm_80", "-dlto"],
            &["--dlink-time-opt", "--gpu-architecture=sm_80"],
        ] {
            assert_eq!(rewritten(options), None, "{options:?}");
        }
    }
}
