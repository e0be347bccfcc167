//! The page's part about what one program's waits cost others: what `bench/h200/waits.py` wrote.

use super::figures::WAYS;
use serde_json::Value;
use std::fmt::Write as _;

/// What the three streams wait for, by its name in the results.
const KINDS: [(&str, &str); 4] = [
    ("value", "a value in memory"),
    ("host", "a host function"),
    ("kernel", "a kernel of the same stream"),
    ("event", "an event"),
];

/// A row for what is waited for; says so if there is nothing.
pub fn table(waits: &Value) -> String {
    if waits.is_null() {
        return "It was not measured.".to_owned();
    }
    let mut table = String::from("| longest wait of the twelve, ms (stuck) |");
    for (_, name) in WAYS {
        let _ = write!(table, " {name} |");
    }
    table.push_str("\n| --- | ---: | ---: | ---: |\n");
    for (kind, name) in KINDS {
        let _ = write!(table, "| {name} |");
        for (way, _) in WAYS {
            let _ = write!(table, " {} |", cell(&waits[way][kind]));
        }
        table.push('\n');
    }
    table
}

/// The longest wait, who was stuck, and whether the program with the waiting streams ended.
fn cell(result: &Value) -> String {
    let Some(longest) = result["longest_ms"].as_array() else { return "-".to_owned() };
    let longest = longest.iter().filter_map(Value::as_f64).fold(f64::NAN, f64::max);
    let mut cell = if longest.is_nan() { "none ended".to_owned() } else { format!("{longest:.1}") };
    if let Some(stuck) = result["stuck"].as_u64().filter(|stuck| *stuck > 0) {
        let _ = write!(cell, " ({stuck})");
    }
    if result["done_after_s"].is_null() {
        cell.push_str(", and the one that waited never ended");
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_is_stuck_and_who_never_ends_is_said() {
        let done = json!({"done_after_s": 0.0, "longest_ms": [0.5, 4.25], "stuck": 0});
        let stuck = json!({"done_after_s": null, "longest_ms": [1.0], "stuck": 11});
        let table = table(&json!({"native": {"value": done}, "openmps": {"value": stuck}}));
        let row = "| a value in memory | 4.2 | - | 1.0 (11), and the one that waited never ended |";
        assert!(table.contains(row), "{table}");
        assert!(super::table(&Value::Null).contains("not measured"));
    }
}
