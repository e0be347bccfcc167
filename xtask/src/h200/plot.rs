//! Plots as SVG: lines over a few places on the x axis, legible on light and dark pages.

use super::figures::{Figures, WAYS};
use crate::Generated;
use std::fmt::Write as _;

/// One line of a plot: its name and its values; `None` where it has none.
struct Line {
    name: &'static str,
    values: Vec<Option<f64>>,
}

/// A plot.
struct Plot {
    title: &'static str,
    x_label: &'static str,
    y_label: &'static str,
    places: Vec<String>,
    lines: Vec<Line>,
}

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 54.0;

/// Colours on light and on dark pages, dashes, in the order of lines.
const STYLES: [(&str, &str, &str); 4] = [
    ("#9a6700", "#d29922", "7 4"),
    ("#1a7f37", "#3fb950", "2 3"),
    ("#0969da", "#58a6ff", ""),
    ("#bf3989", "#f778ba", "10 3 2 3"),
];

/// All plots of the page.
pub fn all(figures: &Figures) -> Vec<Generated> {
    let over_processes = |title, y_label, path: &[&str], leaf: Option<&str>, divisor: f64| {
        let places = figures.keys(path);
        let line = |(way, name): (&str, &'static str)| {
            let value = |count: &String| {
                let mut path = path.to_vec();
                path.push(count);
                path.extend(leaf);
                figures.get(way, &path).map(|value| value / divisor)
            };
            Line { name, values: places.iter().map(value).collect() }
        };
        let lines = WAYS.into_iter().map(line).collect();
        Plot { title, x_label: "processes", y_label, places: places.clone(), lines }
    };
    let network = |title, name| {
        over_processes(
            title,
            "steps a second, all processes",
            &["networks", name],
            Some("per_s"),
            1.0,
        )
    };
    let launches = over_processes(
        "Launches of an empty kernel",
        "thousands a second, all processes",
        &["launches"],
        None,
        1e3,
    );
    let spin = over_processes(
        "Kernels of 4 blocks and 0.5 ms, each waited for",
        "kernels a second, all processes",
        &["spin"],
        None,
        1.0,
    );
    let memory = over_processes(
        "Device memory of idle processes",
        "GiB, all processes",
        &["memory"],
        Some("mib"),
        1024.0,
    );
    [
        ("docs/reports/h200/launches.svg", launches),
        ("docs/reports/h200/spin.svg", spin),
        ("docs/reports/h200/memory.svg", memory),
        ("docs/reports/h200/resnet50.svg", network("ResNet-50, fp16, batch 1", "resnet50")),
        ("docs/reports/h200/bert.svg", network("BERT-base, fp16, batch 1, 128 tokens", "bert")),
        ("docs/reports/h200/train.svg", network("ResNet-18 learns, fp32, batch 8", "train")),
        ("docs/reports/h200/copies.svg", copies(figures)),
    ]
    .into_iter()
    .map(|(path, plot)| Generated { path, text: plot.svg() })
    .collect()
}

/// Sizes of copies, as their rows are named.
pub const COPY_SIZES: [&str; 6] = ["4B", "4KiB", "64KiB", "1MiB", "16MiB", "64MiB"];

/// Kinds of copies: as their rows are named, and for readers.
pub const COPY_KINDS: [(&str, &str); 4] = [
    ("htod_pageable", "pageable to device"),
    ("dtoh_pageable", "device to pageable"),
    ("htod_pinned", "pinned to device"),
    ("dtoh_pinned", "device to pinned"),
];

fn copies(figures: &Figures) -> Plot {
    let line = |(kind, name)| {
        let value = |size: &&str| {
            let row = format!("{kind}_{size}");
            let time = |way| figures.get(way, &["calls", &row]);
            Some(time("native")? / time("openmps")?)
        };
        Line { name, values: COPY_SIZES.iter().map(value).collect() }
    };
    Plot {
        title: "Copies through openmps, one process",
        x_label: "bytes",
        y_label: "speed, native = 1",
        places: COPY_SIZES.map(str::to_owned).to_vec(),
        lines: COPY_KINDS.into_iter().map(line).collect(),
    }
}

impl Plot {
    fn svg(&self) -> String {
        let most = self.lines.iter().flat_map(|line| line.values.iter().flatten());
        let step = nice_step(most.fold(0.0, |a: f64, b| a.max(*b)) / 5.0);
        let most = self.lines.iter().flat_map(|line| line.values.iter().flatten());
        let top = (most.fold(step, |a: f64, b| a.max(*b)) / step).ceil() * step;
        let x = |index: usize| {
            let width = WIDTH - LEFT - RIGHT;
            LEFT + width * (index as f64 + 0.5) / self.places.len().max(1) as f64
        };
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top;
        let mut svg = self.head();
        let mut tick = 0.0;
        while tick <= top + step / 2.0 {
            let (at, text) = (y(tick), number(tick, step));
            let right = WIDTH - RIGHT;
            let _ = writeln!(
                svg,
                r#"<path class="grid" d="M{LEFT} {at:.1}H{right}"/><text x="{:.0}" y="{:.1}" text-anchor="end">{text}</text>"#,
                LEFT - 8.0,
                at + 4.0
            );
            tick += step;
        }
        for (index, place) in self.places.iter().enumerate() {
            let _ = writeln!(
                svg,
                r#"<text x="{:.1}" y="{:.0}" text-anchor="middle">{place}</text>"#,
                x(index),
                HEIGHT - BOTTOM + 20.0
            );
        }
        for (number, line) in self.lines.iter().enumerate() {
            let points = line.values.iter().enumerate();
            let points: Vec<(f64, f64)> =
                points.filter_map(|(index, value)| Some((x(index), y((*value)?)))).collect();
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            let _ = writeln!(svg, r#"<path class="line s{number}" d="M{}"/>"#, path.join("L"));
            for (x, y) in points {
                let _ =
                    writeln!(svg, r#"<circle class="f{number}" cx="{x:.1}" cy="{y:.1}" r="3.5"/>"#);
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The beginning: styles, title, labels of the axes, legend.
    fn head(&self) -> String {
        let mut light = String::new();
        let mut dark = String::new();
        for (number, (on_light, on_dark, dashes)) in STYLES.iter().enumerate() {
            let _ = write!(
                light,
                ".s{number}{{stroke:{on_light};stroke-dasharray:{}}}.f{number}{{fill:{on_light}}}",
                if dashes.is_empty() { "none" } else { dashes }
            );
            let _ = write!(dark, ".s{number}{{stroke:{on_dark}}}.f{number}{{fill:{on_dark}}}");
        }
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">
<style>text{{font:13px system-ui,sans-serif;fill:#1f2328}}.title{{font-size:15px;font-weight:600}}.grid{{stroke:#d1d9e0;fill:none}}.line{{fill:none;stroke-width:2.2}}{light}
@media (prefers-color-scheme:dark){{text{{fill:#f0f6fc}}.grid{{stroke:#3d444d}}{dark}}}</style>
<text class="title" x="{LEFT}" y="22">{title}</text>
<text x="{:.0}" y="{:.0}" text-anchor="middle">{}</text>
<text transform="translate(16 {:.0}) rotate(-90)" text-anchor="middle">{}</text>
"#,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 12.0,
            self.x_label,
            (TOP + HEIGHT - BOTTOM) / 2.0,
            self.y_label,
            title = self.title,
        );
        let room = (WIDTH - LEFT - RIGHT) / self.lines.len().max(1) as f64;
        for (number, line) in self.lines.iter().enumerate() {
            let x = LEFT + room * number as f64;
            let _ = writeln!(
                svg,
                r#"<path class="line s{number}" d="M{x:.0} 44h24"/><text x="{:.0}" y="48">{}</text>"#,
                x + 30.0,
                line.name
            );
        }
        svg
    }
}

/// 1, 2 or 5 times a power of ten, not less than `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= least).unwrap_or(power)
}

/// A tick's number with as many digits as its step has.
fn number(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_nice_and_ticks_show_them() {
        assert_eq!([0.3, 1.0, 1.1, 40.0, 260.0].map(nice_step), [0.5, 1.0, 2.0, 50.0, 500.0]);
        assert_eq!(number(1.5, 0.5), "1.5");
        assert_eq!(number(200.0, 100.0), "200");
    }

    #[test]
    fn a_line_stops_where_it_has_no_values() {
        let plot = Plot {
            title: "title",
            x_label: "x",
            y_label: "y",
            places: vec!["1".into(), "2".into()],
            lines: vec![
                Line { name: "whole", values: vec![Some(1.0), Some(2.0)] },
                Line { name: "half", values: vec![Some(1.0), None] },
            ],
        };
        let svg = plot.svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
