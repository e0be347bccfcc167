//! The page's tables, by the names by which its words ask for them.

use super::figures::{Figures, WAYS};
use super::plot::{COPY_KINDS, COPY_SIZES};
use std::fmt::Write as _;

/// The table of that name; `None` if there is none.
pub fn table(name: &str, figures: &Figures) -> Option<String> {
    match name {
        "machine" => Some(machine(figures)),
        "promises" => Some(promises(figures)),
        "calls" => Some(calls(figures)),
        "launches" => Some(by_processes(figures, &["launches"], None, 0)),
        "spin" => Some(by_processes(figures, &["spin"], None, 0)),
        "memory" => Some(memory(figures)),
        "networks" => Some(networks(figures)),
        "restarts" => Some(restarts(figures)),
        "copies" => Some(copies(figures)),
        "programs" => Some(programs(figures)),
        "tests" => Some(tests(figures)),
        "ends" => Some(super::ends::text(&figures.ends)),
        "waits" => Some(super::waits::table(&figures.waits)),
        _ => None,
    }
}

fn machine(figures: &Figures) -> String {
    format!(
        "{}, driver {} (CUDA {}), compute mode {}, {} cores of a virtual machine, Linux {}, \
         PyTorch {}; {}.",
        figures.machine("device"),
        figures.machine("driver"),
        figures.machine("cuda"),
        figures.machine("compute_mode"),
        figures.machine("cores"),
        figures.machine("kernel"),
        figures.machine("pytorch"),
        figures.date(),
    )
}

/// Something promised, and what was measured.
struct Promise {
    text: String,
    measured: Option<f64>,
    unit: &'static str,
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Promise {
    fn row(&self) -> String {
        let (sign, bound) = match self.bound {
            Bound::AtMost(bound) => ("at most", bound),
            Bound::AtLeast(bound) => ("at least", bound),
        };
        let is_met = self.measured.map(|measured| match self.bound {
            Bound::AtMost(bound) => measured <= bound,
            Bound::AtLeast(bound) => measured >= bound,
        });
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        let measured = cell(self.measured, 3);
        let promised = format!("{sign} {bound} {}", self.unit);
        format!("| {} | {} | {measured} | {verdict} |", self.text, promised.trim_end())
    }
}

fn promises(figures: &Figures) -> String {
    let ours = |path: &[&str]| figures.get("openmps", path);
    let against = |way: &str, path: &[&str]| Some(ours(path)? / figures.get(way, path)?);
    let promise = |text: &str, measured, unit, bound| Promise {
        text: text.to_owned(),
        measured,
        unit,
        bound,
    };
    let mut rows = vec![
        promise(
            "cost of a launch to the program",
            ours(&["calls", "launch_submit"]),
            "ns",
            Bound::AtMost(100.0),
        ),
        promise(
            "launch and wait, median, against native",
            against("native", &["calls", "launch_wait"]),
            "",
            Bound::AtMost(1.0),
        ),
        promise(
            "launches a second of 8 processes, against NVIDIA's MPS",
            against("mps", &["launches", "8"]),
            "",
            Bound::AtLeast(0.95),
        ),
    ];
    let of_servers = ", median of several servers";
    for count in ["8", "12"] {
        let servers = against("mps", &["restarts", &format!("spin_{count}")]);
        let median = if servers.is_some() { of_servers } else { "" };
        rows.push(promise(
            &format!("4-block kernels of {count} processes, against NVIDIA's MPS{median}"),
            servers.or_else(|| against("mps", &["spin", count])),
            "",
            Bound::AtLeast(0.98),
        ));
    }
    for (network, name) in [("resnet50", "ResNet-50"), ("bert", "BERT")] {
        for (count, way, whose) in [
            ("8", "mps", "8 processes, against NVIDIA's MPS"),
            ("1", "native", "alone, against native"),
        ] {
            let servers = against(way, &["restarts", &format!("{network}_{count}")]);
            let run = || against(way, &["networks", network, count, "per_s"]);
            let median = if servers.is_some() { of_servers } else { "" };
            rows.push(promise(
                &format!("{name}, {whose}{median}"),
                servers.or_else(run),
                "",
                Bound::AtLeast(1.0),
            ));
        }
    }
    let memory = |count| ours(&["memory", count, "mib"]);
    let more = memory("48").zip(memory("1")).map(|(many, one)| (many - one) / 47.0);
    rows.push(promise("device memory of an idle client more", more, "MiB", Bound::AtMost(16.0)));
    let ready = ours(&["memory", "128", "ready"]);
    rows.push(promise("clients at once", ready, "", Bound::AtLeast(128.0)));
    for (kind, name) in COPY_KINDS {
        let speeds = ["1MiB", "16MiB", "64MiB"].map(|size| {
            let row = format!("{kind}_{size}");
            Some(1.0 / against("native", &["calls", &row])?)
        });
        let slowest = speeds.into_iter().flatten().reduce(f64::min);
        rows.push(promise(
            &format!("speed of copies of 1, 16, 64 MiB, {name}, the slowest, against native"),
            slowest,
            "",
            Bound::AtLeast(0.95),
        ));
    }
    rows.push(promise(
        "allocate and free 1 MiB from a chunk that is there",
        ours(&["calls", "alloc_free_1MiB"]),
        "us",
        Bound::AtMost(1.0),
    ));
    let mut table = String::from("| what | promised | measured | |\n| --- | --- | ---: | --- |\n");
    for row in rows {
        let _ = writeln!(table, "{}", row.row());
    }
    table
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// A row a way, a column a number of processes.
fn by_processes(figures: &Figures, path: &[&str], leaf: Option<&str>, digits: usize) -> String {
    let counts = figures.keys(path);
    let mut table = format!("| processes | {} |\n| --- |", counts.join(" | "));
    table.push_str(&" ---: |".repeat(counts.len()));
    for (way, name) in WAYS {
        let _ = write!(table, "\n| {name} |");
        for count in &counts {
            let mut path = path.to_vec();
            path.push(count);
            path.extend(leaf);
            let _ = write!(table, " {} |", cell(figures.get(way, &path), digits));
        }
    }
    table
}

fn calls(figures: &Figures) -> String {
    let rows = [
        ("launch, without waiting", "launch_submit", "ns"),
        ("launch and wait, median", "launch_wait", "us"),
        ("launch and wait, 99th percentile", "launch_wait_p99", "us"),
        ("cuMemAlloc + cuMemFree of 1 MiB", "alloc_free_1MiB", "us"),
    ];
    let names = WAYS.map(|(_, name)| name);
    let mut table = format!("| | | {} |\n| --- | --- | ---: | ---: | ---: |\n", names.join(" | "));
    for (text, row, unit) in rows {
        let cells = WAYS.map(|(way, _)| cell(figures.get(way, &["calls", row]), 2));
        let _ = writeln!(table, "| {text} | {unit} | {} |", cells.join(" | "));
    }
    let cells = WAYS.map(|(way, _)| cell(figures.get(way, &["first_kernel"]), 1));
    let text = "from a program's start to the end of its first kernel";
    let _ = writeln!(table, "| {text} | ms | {} |", cells.join(" | "));
    table
}

fn copies(figures: &Figures) -> String {
    let mut table = String::from("| us |");
    let _ = writeln!(table, " {} |\n| --- |{}", COPY_SIZES.join(" | "), " ---: |".repeat(6));
    for (kind, name) in COPY_KINDS {
        for (way, whose) in WAYS {
            let cells = COPY_SIZES.map(|size| {
                let row = format!("{kind}_{size}");
                cell(figures.get(way, &["calls", &row]), 1)
            });
            let _ = writeln!(table, "| {name}, {whose} | {} |", cells.join(" | "));
        }
    }
    table
}

fn memory(figures: &Figures) -> String {
    let mut table = by_processes(figures, &["memory"], Some("mib"), 0);
    for (way, name) in WAYS {
        for count in figures.keys(&["memory"]) {
            let ready = figures.get(way, &["memory", &count, "ready"]);
            let asked: f64 = count.parse().unwrap_or(0.0);
            if let Some(ready) = ready.filter(|ready| *ready < asked) {
                let _ = write!(table, "\n\n{name}: of {count} processes, {ready} were taken.");
            }
        }
    }
    table
}

fn networks(figures: &Figures) -> String {
    let mut table = String::new();
    let names =
        [("resnet50", "ResNet-50"), ("bert", "BERT-base"), ("train", "ResNet-18, training")];
    for (network, name) in names {
        let path = ["networks", network];
        let counts = figures.keys(&path);
        let same = match figures.same_results(network) {
            Some(true) => "the same results in every process",
            Some(false) => "results differ",
            None => "not measured",
        };
        let _ = write!(table, "**{name}** ({same})\n\n| steps a second (p50 / p99 ms) |");
        let _ =
            write!(table, " {} |\n| --- |{}", counts.join(" | "), " ---: |".repeat(counts.len()));
        for (way, whose) in WAYS {
            let _ = write!(table, "\n| {whose} |");
            for count in &counts {
                let get = |leaf| figures.get(way, &[path[0], path[1], count, leaf]);
                let _ = match get("per_s") {
                    None => write!(table, " – |"),
                    Some(rate) => {
                        let (p50, p99) = (cell(get("p50_ms"), 2), cell(get("p99_ms"), 2));
                        write!(table, " {rate:.0} ({p50} / {p99}) |")
                    }
                };
            }
        }
        table.push_str("\n\n");
    }
    table
}

/// Servers one after the other, a line a way and what was done.
fn restarts(figures: &Figures) -> String {
    let done = [("resnet50_8", "ResNet-50"), ("bert_8", "BERT"), ("spin_8", "4-block kernels")];
    let mut table = String::from("| | | a second | a process, least to most |\n");
    table.push_str("| --- | --- | --- | --- |\n");
    let rows = done.iter().flat_map(|done| WAYS.iter().map(move |way| (done, way)));
    for ((path, what), (way, whose)) in rows {
        let servers = figures.list(way, &["restarts", path, "servers"]);
        if servers.is_empty() {
            continue;
        }
        let cell = |of: &dyn Fn(&serde_json::Value) -> String| {
            servers.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let rate = |server: &serde_json::Value, key: &str| server[key].as_f64().unwrap_or(f64::NAN);
        let all = cell(&|server| format!("{:.0}", rate(server, "per_s")));
        let each =
            cell(&|server| format!("{:.0} to {:.0}", rate(server, "least"), rate(server, "most")));
        let _ = writeln!(table, "| {what} | {whose} | {all} | {each} |");
    }
    table
}

fn programs(figures: &Figures) -> String {
    if figures.programs.is_empty() {
        return "They were not run with these results.".to_owned();
    }
    let mut list = String::new();
    let mut families: Vec<&str> = Vec::new();
    for program in &figures.programs {
        if !families.contains(&program.family.as_str()) {
            families.push(&program.family);
        }
    }
    for family in families {
        let of_family = figures.programs.iter().filter(|program| program.family == family);
        let (good, bad): (Vec<_>, Vec<_>) = of_family.partition(|program| program.verdict == "ok");
        let good: Vec<&str> = good.iter().map(|program| program.name.as_str()).collect();
        let bad: Vec<String> = bad.iter().map(|p| format!("{} ({})", p.name, p.why())).collect();
        let _ = writeln!(list, "* {family}, the same as native: `{}`", good.join(", "));
        if !bad.is_empty() {
            let _ = writeln!(list, "* {family}, not: `{}`", bad.join("; ").replace('`', "'"));
        }
    }
    list
}

impl super::figures::Program {
    /// Why it is not ok, in a few words.
    fn why(&self) -> String {
        if self.verdict == "native fails" {
            return "fails natively too".to_owned();
        }
        let last = self.reason.trim().lines().last().unwrap_or_default();
        let short: String = last.chars().filter(|c| !"|<>".contains(*c)).take(120).collect();
        format!("{}: {short}", self.verdict.to_lowercase())
    }
}

fn tests(figures: &Figures) -> String {
    match figures.tests.trim() {
        "" => "They were not run with these results.".to_owned(),
        tests => format!("```text\n{tests}\n```"),
    }
}
