//! The page's part about how programs end: what `bench/h200/ends.py` wrote, in words.

use serde_json::Value;
use std::fmt::Write as _;

/// All of it; says so if there is nothing.
pub fn text(ends: &Value) -> String {
    if ends.is_null() {
        return "It was not looked at with these results.".to_owned();
    }
    format!(
        "{}\n\n{}\n\n{}",
        killed(&ends["killed"]),
        faults(&ends["faults"]),
        printed(&ends["printed"])
    )
}

fn yes(value: &Value) -> &'static str {
    match value.as_bool() {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "not seen",
    }
}

fn killed(killed: &Value) -> String {
    let left = killed["left_behind"].as_array().map_or(0, Vec::len);
    format!(
        "{} processes were killed (`kill -9`) in mid-kernel, one after the other, beside a neighbour \
         that checked every result. The neighbour was right: {}. The server went on: {}. Device memory \
         in use before and after: {} and {} MiB. Objects that the log calls left behind: {left}.",
        killed["victims"],
        yes(&killed["neighbour_right"]),
        yes(&killed["same_server"]),
        killed["memory_before_mib"],
        killed["memory_after_mib"],
    )
}

/// A row a kind of fault, and below what server.log says of each.
fn faults(faults: &Value) -> String {
    let mut table = String::from(
        "| fault | the program's error | the next program is right | after, s |\n\
         | --- | --- | --- | ---: |\n",
    );
    let mut logged = String::from("\nLines in server.log:\n\n");
    for row in faults.as_array().into_iter().flatten() {
        let lines = [&row["log"], &row["device"]].map(|lines| {
            let lines = lines.as_array().into_iter().flatten().filter_map(Value::as_str);
            lines.map(|line| format!("`{}`", line.replace('|', "/"))).collect::<Vec<_>>()
        });
        let _ = writeln!(
            table,
            "| {} | {} | {} | {:.1} |",
            row["kind"].as_str().unwrap_or_default(),
            row["error"].as_str().unwrap_or_default(),
            yes(&row["next_right"]),
            row["next_after_s"].as_f64().unwrap_or_default(),
        );
        let kind = row["kind"].as_str().unwrap_or_default();
        let _ = writeln!(logged, "* {kind}: {}", lines.concat().join(", "));
    }
    (table + &logged).trim_end().to_owned()
}

fn printed(printed: &Value) -> String {
    format!(
        "What a program's kernels print is the same as natively: {}. Of two programs that print at the \
         same time, {} got all of theirs; what cannot be attributed stands in server.log.",
        yes(&printed["alone_same_as_native"]),
        printed["of_two_same_as_native"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_are_rows_with_what_the_log_says() {
        let ends = json!({
            "killed": {"victims": 20, "neighbour_right": true, "same_server": false,
                "memory_before_mib": 540, "memory_after_mib": 540, "left_behind": []},
            "faults": [{"kind": "trap", "error": "CUDA_ERROR_LAUNCH_FAILED",
                "log": ["under way were its kernels trap_now"], "device": ["a | b"],
                "next_right": true, "next_after_s": 0.84}],
            "printed": {"alone_same_as_native": true, "of_two_same_as_native": 1},
        });
        let text = text(&ends);
        assert!(text.contains("The server went on: **no**"), "{text}");
        assert!(text.contains("| trap | CUDA_ERROR_LAUNCH_FAILED | yes | 0.8 |"), "{text}");
        assert!(text.contains("* trap: `under way were its kernels trap_now`, `a / b`"), "{text}");
        assert!(super::text(&Value::Null).contains("not looked at"));
    }
}
