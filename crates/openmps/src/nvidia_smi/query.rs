//! `--query-gpu`, `--query-compute-apps`: fields, and tables of them as CSV.

use super::nvml::{Device, Nvml, NvmlError, Process};
use std::fmt::Write;

/// What a field has where the software GPU has no such part, as NVIDIA's program writes it.
const NONE: &str = "[N/A]";

/// A value: text as it stands, or a number with its unit.
enum Value {
    Text(String),
    Number(u64, &'static str),
}

/// What a row is about.
pub(super) struct Row<'a> {
    pub(super) nvml: &'a Nvml,
    pub(super) device: Device,
    pub(super) index: usize,
    /// Devices in all.
    pub(super) count: usize,
    pub(super) process: Option<Process>,
    /// Now, as `2026/11/30 02:40:29.123`.
    pub(super) timestamp: String,
}

/// A field: its names, what its column is called, its value.
struct Field {
    names: &'static [&'static str],
    title: &'static str,
    value: fn(&Row<'_>) -> Result<Value, NvmlError>,
}

fn text(text: impl Into<String>) -> Result<Value, NvmlError> {
    Ok(Value::Text(text.into()))
}

fn mib(bytes: u64) -> Result<Value, NvmlError> {
    Ok(Value::Number(bytes >> 20, "MiB"))
}

const GPU: &[Field] = &[
    Field { names: &["timestamp"], title: "timestamp", value: |row| text(row.timestamp.clone()) },
    Field {
        names: &["driver_version"],
        title: "driver_version",
        value: |row| text(row.nvml.driver_version()?),
    },
    Field { names: &["count"], title: "count", value: |row| text(row.count.to_string()) },
    Field { names: &["index"], title: "index", value: |row| text(row.index.to_string()) },
    Field {
        names: &["name", "gpu_name"],
        title: "name",
        value: |row| text(row.nvml.name(row.device)?),
    },
    Field {
        names: &["uuid", "gpu_uuid"],
        title: "uuid",
        value: |row| text(row.nvml.uuid(row.device)?),
    },
    Field {
        names: &["pci.bus_id", "gpu_bus_id"],
        title: "pci.bus_id",
        value: |row| text(row.nvml.pci_bus_id(row.device)?),
    },
    Field {
        names: &["compute_mode"],
        title: "compute_mode",
        value: |row| text(mode_name(row.nvml.compute_mode(row.device)?)),
    },
    Field {
        names: &["compute_cap"],
        title: "compute_cap",
        value: |row| text(row.nvml.compute_capability(row.device)?),
    },
    Field {
        names: &["memory.total"],
        title: "memory.total",
        value: |row| mib(row.nvml.memory(row.device)?.total),
    },
    Field {
        names: &["memory.used"],
        title: "memory.used",
        value: |row| mib(row.nvml.memory(row.device)?.used),
    },
    Field {
        names: &["memory.free"],
        title: "memory.free",
        value: |row| mib(row.nvml.memory(row.device)?.free),
    },
    Field { names: &["memory.reserved"], title: "memory.reserved", value: |_| mib(0) },
    Field {
        names: &["utilization.gpu"],
        title: "utilization.gpu",
        value: |row| Ok(Value::Number(row.nvml.busy(row.device)?.into(), "%")),
    },
    Field { names: &["utilization.memory"], title: "utilization.memory", value: none },
    Field {
        names: &["clocks.current.sm", "clocks.sm"],
        title: "clocks.current.sm",
        value: |row| Ok(Value::Number(row.nvml.clock(row.device, 1)?.into(), "MHz")),
    },
    Field {
        names: &["clocks.current.memory", "clocks.mem"],
        title: "clocks.current.memory",
        value: |row| Ok(Value::Number(row.nvml.clock(row.device, 2)?.into(), "MHz")),
    },
    Field { names: &["persistence_mode"], title: "persistence_mode", value: |_| text("Disabled") },
    Field { names: &["mig.mode.current"], title: "mig.mode.current", value: none },
    Field { names: &["mig.mode.pending"], title: "mig.mode.pending", value: none },
    Field { names: &["serial", "gpu_serial"], title: "serial", value: none },
    Field { names: &["vbios_version"], title: "vbios_version", value: none },
    Field { names: &["pstate"], title: "pstate", value: none },
    Field { names: &["temperature.gpu"], title: "temperature.gpu", value: none },
    Field { names: &["power.draw"], title: "power.draw [W]", value: none },
    Field { names: &["power.limit"], title: "power.limit [W]", value: none },
    Field { names: &["fan.speed"], title: "fan.speed [%]", value: none },
    Field { names: &["ecc.mode.current"], title: "ecc.mode.current", value: none },
    Field { names: &["addressing_mode"], title: "addressing_mode", value: none },
];

const APPS: &[Field] = &[
    Field { names: &["timestamp"], title: "timestamp", value: |row| text(row.timestamp.clone()) },
    Field {
        names: &["gpu_name"],
        title: "gpu_name",
        value: |row| text(row.nvml.name(row.device)?),
    },
    Field {
        names: &["gpu_uuid"],
        title: "gpu_uuid",
        value: |row| text(row.nvml.uuid(row.device)?),
    },
    Field {
        names: &["gpu_bus_id"],
        title: "gpu_bus_id",
        value: |row| text(row.nvml.pci_bus_id(row.device)?),
    },
    Field { names: &["gpu_serial"], title: "gpu_serial", value: none },
    Field { names: &["pid"], title: "pid", value: |row| text(row.process().pid.to_string()) },
    Field {
        names: &["process_name", "name"],
        title: "process_name",
        value: |row| text(row.nvml.process_name(row.process().pid)?),
    },
    Field {
        names: &["used_gpu_memory", "used_memory"],
        title: "used_gpu_memory",
        value: |row| mib(row.process().memory_bytes),
    },
];

fn none(_: &Row<'_>) -> Result<Value, NvmlError> {
    text(NONE)
}

impl Row<'_> {
    fn process(&self) -> Process {
        self.process.unwrap_or_default()
    }
}

/// A compute mode as queries print it.
pub(super) fn mode_name(mode: u32) -> &'static str {
    match mode {
        0 => "Default",
        1 => "Exclusive_Thread",
        2 => "Prohibited",
        3 => "Exclusive_Process",
        _ => NONE,
    }
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Gpu,
    Apps,
}

impl What {
    const fn fields(self) -> &'static [Field] {
        match self {
            Self::Gpu => GPU,
            Self::Apps => APPS,
        }
    }

    const fn option(self) -> &'static str {
        match self {
            Self::Gpu => "--query-gpu",
            Self::Apps => "--query-compute-apps",
        }
    }

    /// The names of its fields.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.fields().iter().flat_map(|field| field.names.iter().copied())
    }
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) no_header: bool,
    pub(super) no_units: bool,
}

impl Format {
    /// Reads `csv,noheader,nounits`.
    pub(super) fn parse(text: &str) -> Result<Format, String> {
        let mut format = Format::default();
        let mut words = text.split(',').map(str::trim);
        if !words.clone().any(|word| word == "csv") {
            return Err("--format wants csv, with noheader and nounits after commas".to_owned());
        }
        words.try_for_each(|word| {
            match word {
                "csv" => {}
                "noheader" => format.no_header = true,
                "nounits" => format.no_units = true,
                other => return Err(format!("--format has no {other:?}: csv, noheader, nounits")),
            }
            Ok(())
        })?;
        Ok(format)
    }
}

/// The fields of a list, which are checked before anything is printed.
pub(super) struct Query {
    what: What,
    fields: Vec<&'static Field>,
}

impl Query {
    pub(super) fn parse(what: What, words: &str) -> Result<Query, String> {
        let find = |word: &str| {
            let found = what.fields().iter().find(|field| field.names.contains(&word));
            found.ok_or_else(|| {
                let names: Vec<&str> = what.names().collect();
                format!(
                    "Field \"{word}\" is not a valid field to query.\n\n{} has here: {}",
                    what.option(),
                    names.join(", ")
                )
            })
        };
        let fields = words.split(',').map(|word| find(word.trim())).collect::<Result<_, _>>()?;
        Ok(Query { what, fields })
    }

    pub(super) fn what(&self) -> What {
        self.what
    }

    /// The rows as CSV.
    pub(super) fn print(&self, rows: &[Row<'_>], format: Format) -> Result<String, NvmlError> {
        let mut out = String::new();
        if !format.no_header {
            let titles: Vec<String> =
                self.fields.iter().map(|field| title(field, format)).collect();
            let _ = writeln!(out, "{}", titles.join(", "));
        }
        for row in rows {
            let mut cells = Vec::with_capacity(self.fields.len());
            for field in &self.fields {
                cells.push(match (field.value)(row) {
                    Ok(Value::Text(text)) => text,
                    Ok(Value::Number(number, _)) if format.no_units => number.to_string(),
                    Ok(Value::Number(number, unit)) => format!("{number} {unit}"),
                    Err(NvmlError::Code(3, _)) => NONE.to_owned(),
                    Err(NvmlError::Code(6, _)) => "[Not Found]".to_owned(),
                    Err(error) => return Err(error),
                });
            }
            let _ = writeln!(out, "{}", cells.join(", "));
        }
        Ok(out)
    }
}

/// A column's title, with its unit as NVIDIA's program has it.
fn title(field: &Field, _format: Format) -> String {
    match field.names[0] {
        "memory.total" | "memory.used" | "memory.free" | "memory.reserved" | "used_gpu_memory" => {
            format!("{} [MiB]", field.title)
        }
        "utilization.gpu" | "utilization.memory" => format!("{} [%]", field.title),
        "clocks.current.sm" | "clocks.current.memory" => format!("{} [MHz]", field.title),
        _ => field.title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_fields_are_read_and_others_refused() {
        let read = |text| Format::parse(text);
        assert_eq!(read("csv"), Ok(Format::default()));
        assert_eq!(read("csv,noheader,nounits"), Ok(Format { no_header: true, no_units: true }));
        assert!(read("xml").unwrap_err().contains("csv"));
        assert!(read("csv,header").unwrap_err().contains("\"header\""));
        let query = Query::parse(What::Gpu, "index, uuid,memory.total").unwrap();
        assert_eq!(query.fields.len(), 3);
        let error = Query::parse(What::Gpu, "index,colour").err().unwrap();
        assert!(error.starts_with("Field \"colour\" is not a valid field to query."), "{error}");
        assert!(error.contains("gpu_uuid"));
        assert!(Query::parse(What::Apps, "pid,process_name,used_memory,gpu_uuid").is_ok());
    }
}
