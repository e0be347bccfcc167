//! What `bench/h200/run.py` and its neighbours wrote, read.

use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// The ways, in the order of tables: their names in the results, and for readers.
pub const WAYS: [(&str, &str); 3] =
    [("native", "time-sliced"), ("mps", "NVIDIA's MPS"), ("openmps", "openmps")];

/// All results of one day.
pub struct Figures {
    run: Value,
    /// Programs and what became of them; empty if they were not run.
    pub programs: Vec<Program>,
    /// The server's tests on the vendor's driver, a line each; empty if they were not run.
    pub tests: String,
    /// What `ends.py` wrote; null if it was not run.
    pub ends: Value,
    /// What `waits.py` wrote; null if it was not run.
    pub waits: Value,
}

/// A row of `programs.json`.
pub struct Program {
    pub family: String,
    pub name: String,
    pub verdict: String,
    pub reason: String,
}

fn json(path: &Path) -> Result<Value> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
}

impl Figures {
    /// Reads the results in a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let json = |name: &str| json(&folder.join(name));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rows = json("programs.json").unwrap_or_default();
        let programs = rows.as_array().into_iter().flatten().map(|row| Program {
            family: text(&row["family"]),
            name: text(&row["name"]),
            verdict: text(&row["verdict"]),
            reason: text(&row["reason"]),
        });
        Ok(Self {
            run: json("run.json")?,
            programs: programs.collect(),
            tests: std::fs::read_to_string(folder.join("tests.txt")).unwrap_or_default(),
            ends: json("ends.json").unwrap_or_default(),
            waits: Value::Null,
        })
    }

    /// Adds what `waits.py` wrote, which may be of another day.
    pub fn read_waits(&mut self, folder: &Path) -> Result<()> {
        self.waits = json(&folder.join("waits.json"))?;
        Ok(())
    }

    /// A figure of a way by its path, such as `["launches", "8"]`.
    pub fn get(&self, way: &str, path: &[&str]) -> Option<f64> {
        let start = &self.run["ways"][way];
        let value = path.iter().fold(start, |value, key| &value[*key]);
        value.as_f64().or_else(|| value["value"].as_f64())
    }

    /// What is listed below a path; nothing if there is no list.
    pub fn list(&self, way: &str, path: &[&str]) -> &[Value] {
        let start = &self.run["ways"][way];
        let value = path.iter().fold(start, |value, key| &value[*key]);
        value.as_array().map_or(&[], Vec::as_slice)
    }

    /// The keys below a path, over all ways, numbers in their order.
    pub fn keys(&self, path: &[&str]) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for (way, _) in WAYS {
            let start = &self.run["ways"][way];
            let value = path.iter().fold(start, |value, key| &value[*key]);
            for key in value.as_object().into_iter().flat_map(|object| object.keys()) {
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        keys.sort_by_key(|key| key.parse::<u64>().unwrap_or(u64::MAX));
        keys
    }

    /// A text about the machine.
    pub fn machine(&self, key: &str) -> String {
        match &self.run["machine"][key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// The day.
    pub fn date(&self) -> &str {
        self.run["date"].as_str().unwrap_or("an unknown day")
    }

    /// True if a network gave the same results in every process of every way.
    pub fn same_results(&self, network: &str) -> Option<bool> {
        let mut digests: Vec<&Value> = Vec::new();
        for (way, _) in WAYS {
            let counts = self.run["ways"][way]["networks"][network].as_object();
            for count in counts.into_iter().flat_map(|counts| counts.values()) {
                digests.extend(count["digests"].as_array().into_iter().flatten());
            }
        }
        let first = digests.first()?;
        Some(digests.iter().all(|digest| digest == first))
    }
}
