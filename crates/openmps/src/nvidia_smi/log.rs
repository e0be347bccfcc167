//! `nvidia-smi -q` and `-q -x`: all that is known of devices, as text for people and as XML for programs.
//!
//! The elements are those of NVIDIA's program that monitors and plugins look for (`elements.txt`, an element a line,
//! deeper ones indented, with its name in the text). One that the software GPU has no such part for is `N/A`.

use super::nvml::{Device, Nvml, NvmlError, Process};
use super::query::mode_name;
use std::fmt::Write;

const ELEMENTS: &str = include_str!("elements.txt");
/// What NVIDIA's program writes for a part that a device has not.
const NONE: &str = "N/A";
/// Where the text's values begin, characters.
const TEXT_WIDTH: usize = 50;

/// One element: its name in XML, its name in the text, and what is in it.
struct Element {
    name: String,
    title: String,
    content: Content,
}

enum Content {
    Value(String),
    Elements(Vec<Element>),
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Xml,
}

/// The whole log of some devices, of `count` in all.
pub(super) fn print(
    nvml: &Nvml,
    devices: &[(usize, Device)],
    count: usize,
    form: Form,
) -> Result<String, NvmlError> {
    let head = [
        ("timestamp", "Timestamp", jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y").to_string()),
        ("driver_version", "Driver Version", nvml.driver_version()?),
        ("cuda_version", "CUDA Version", nvml.cuda_version()?),
        ("attached_gpus", "Attached GPUs", count.to_string()),
    ];
    let mut text = match form {
        Form::Text => "\n==============NVSMI LOG==============\n\n".to_owned(),
        Form::Xml => {
            "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n\
                      <nvidia_smi_log>\n"
                .to_owned()
        }
    };
    for (name, title, value) in head {
        let (name, title) = (name.to_owned(), title.to_owned());
        let element = Element { name, title, content: Content::Value(value) };
        write(&mut text, &element, if form == Form::Xml { 1 } else { 0 }, form);
    }
    for &(_, device) in devices {
        let bus = nvml.pci_bus_id(device)?;
        let elements = elements_of(nvml, device)?;
        let _ = match form {
            Form::Text => writeln!(text, "\nGPU {bus}"),
            Form::Xml => writeln!(text, "\t<gpu id=\"{}\">", escaped(&bus)),
        };
        for element in &elements {
            write(&mut text, element, if form == Form::Xml { 2 } else { 1 }, form);
        }
        if form == Form::Xml {
            text.push_str("\t</gpu>\n");
        }
    }
    text.push_str(if form == Form::Xml { "</nvidia_smi_log>\n" } else { "\n" });
    Ok(text)
}

/// A device's elements.
fn elements_of(nvml: &Nvml, device: Device) -> Result<Vec<Element>, NvmlError> {
    let mut lines = ELEMENTS.lines().peekable();
    let value = |path: &str| value_of(nvml, device, path);
    let mut elements = tree(&mut lines, "", 0, &value)?;
    for element in elements.iter_mut().filter(|element| element.name == "processes") {
        let processes = nvml.processes(device)?;
        let infos = processes.iter().map(|process| process_info(nvml, process)).collect();
        element.content = Content::Elements(infos);
    }
    Ok(elements)
}

/// The elements of one depth, below a path.
fn tree<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    path: &str,
    depth: usize,
    value: &impl Fn(&str) -> Result<Option<String>, NvmlError>,
) -> Result<Vec<Element>, NvmlError> {
    let indent = |line: &str| (line.len() - line.trim_start().len()) / 2;
    let mut elements = Vec::new();
    while let Some(line) = lines.next_if(|line| indent(line) == depth) {
        let (name, title) = line.trim().split_once(" = ").unwrap_or((line.trim(), line.trim()));
        let own = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let content = match lines.peek().is_some_and(|next| indent(next) > depth) {
            true => Content::Elements(tree(lines, &own, depth + 1, value)?),
            false => Content::Value(value(&own)?.unwrap_or_else(|| NONE.to_owned())),
        };
        elements.push(Element { name: name.to_owned(), title: title.to_owned(), content });
    }
    Ok(elements)
}

/// What a device has at a path; `None`: no such part.
fn value_of(nvml: &Nvml, device: Device, path: &str) -> Result<Option<String>, NvmlError> {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let part_of_bus =
        |range: std::ops::Range<usize>| Ok(nvml.pci_bus_id(device)?.get(range).map(str::to_owned));
    Ok(Some(match path {
        "product_name" => nvml.name(device)?,
        "display_mode" | "display_active" | "persistence_mode" | "accounting_mode" => {
            "Disabled".to_owned()
        }
        "mig_devices" | "gpu_virtualization_mode.virtualization_mode" => "None".to_owned(),
        "multigpu_board" => "No".to_owned(),
        "uuid" => nvml.uuid(device)?,
        "minor_number" => nvml.minor_number(device)?.to_string(),
        "pci.pci_domain" => return part_of_bus(4..8),
        "pci.pci_bus" => return part_of_bus(9..11),
        "pci.pci_device" => return part_of_bus(12..14),
        "pci.pci_bus_id" => nvml.pci_bus_id(device)?,
        "fb_memory_usage.total" => mib(nvml.memory(device)?.total),
        "fb_memory_usage.reserved" => mib(0),
        "fb_memory_usage.used" => mib(nvml.memory(device)?.used),
        "fb_memory_usage.free" => mib(nvml.memory(device)?.free),
        "compute_mode" => mode_name(nvml.compute_mode(device)?).to_owned(),
        "utilization.gpu_util" => format!("{} %", nvml.busy(device)?),
        "encoder_stats.session_count" | "fbc_stats.session_count" => "0".to_owned(),
        "clocks.graphics_clock" | "clocks.sm_clock" => format!("{} MHz", nvml.clock(device, 1)?),
        "clocks.mem_clock" => format!("{} MHz", nvml.clock(device, 2)?),
        _ => return Ok(None),
    }))
}

fn process_info(nvml: &Nvml, process: &Process) -> Element {
    let value = |name: &str, title: &str, value: String| Element {
        name: name.to_owned(),
        title: title.to_owned(),
        content: Content::Value(value),
    };
    // It may have ended meanwhile.
    let name = nvml.process_name(process.pid).unwrap_or_else(|_| "[Not Found]".to_owned());
    let elements = vec![
        value("gpu_instance_id", "GPU instance ID", NONE.to_owned()),
        value("compute_instance_id", "Compute instance ID", NONE.to_owned()),
        value("pid", "Process ID", process.pid.to_string()),
        value("type", "Type", "C".to_owned()),
        value("process_name", "Name", name),
        value("used_memory", "Used GPU Memory", format!("{} MiB", process.memory_bytes >> 20)),
    ];
    let name = "process_info".to_owned();
    Element { name, title: "Process".to_owned(), content: Content::Elements(elements) }
}

fn write(text: &mut String, element: &Element, depth: usize, form: Form) {
    let Element { name, title, content } = element;
    let _ = match (form, content) {
        (Form::Text, Content::Value(value)) => {
            let label = format!("{}{title}", "    ".repeat(depth));
            writeln!(text, "{label:TEXT_WIDTH$}: {value}")
        }
        (Form::Text, Content::Elements(elements)) if elements.is_empty() => {
            let label = format!("{}{title}", "    ".repeat(depth));
            writeln!(text, "{label:TEXT_WIDTH$}: None")
        }
        (Form::Text, Content::Elements(elements)) => {
            let _ = writeln!(text, "{}{title}", "    ".repeat(depth));
            elements.iter().for_each(|element| write(text, element, depth + 1, form));
            Ok(())
        }
        (Form::Xml, Content::Value(value)) => {
            writeln!(text, "{}<{name}>{}</{name}>", "\t".repeat(depth), escaped(value))
        }
        (Form::Xml, Content::Elements(elements)) => {
            let _ = writeln!(text, "{}<{name}>", "\t".repeat(depth));
            elements.iter().for_each(|element| write(text, element, depth + 1, form));
            writeln!(text, "{}</{name}>", "\t".repeat(depth))
        }
    };
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_becomes_a_tree_and_both_forms() {
        let mut lines = ["a = A", "  b = B b", "  c = C", "d = D"].into_iter().peekable();
        let value = |path: &str| Ok((path == "a.b").then(|| "<1>".to_owned()));
        let elements = tree(&mut lines, "", 0, &value).unwrap();
        let print = |form| {
            let mut text = String::new();
            elements.iter().for_each(|element| write(&mut text, element, 0, form));
            text
        };
        assert_eq!(print(Form::Xml), "<a>\n\t<b>&lt;1&gt;</b>\n\t<c>N/A</c>\n</a>\n<d>N/A</d>\n");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = print(Form::Text).lines().map(words).collect();
        assert_eq!(lines, ["A", "B b : <1>", "C : N/A", "D : N/A"]);
    }

    #[test]
    fn each_line_of_the_table_is_an_element() {
        let mut lines = ELEMENTS.lines().peekable();
        tree(&mut lines, "", 0, &|_| Ok(None)).unwrap();
        assert_eq!(lines.next(), None, "a line is indented too far");
    }
}
