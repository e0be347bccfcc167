//! How the screen looks. It says all without colours, and fits 80 columns and 24 lines.

use super::app::{App, HISTORY_MAX, Mode, named};
use super::columns::{Column, kept, table_of};
use crate::names;
use crate::rates::{ClientRates, DeviceRates, bytes_text, time_text};
use control::counts::{Kernel, Timing};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, TableState};

/// Eighths of a line's height, for history.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eighths of a column's width, for bars.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// The same where the locale has only ASCII.
const LEVELS_ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];
/// Columns of a history, at least.
const HISTORY: u16 = 12;
/// From this width on there is room for commands beside all columns.
const WIDE: u16 = 110;
/// Devices that are shown at once: tab goes on to the others.
const DEVICES_MAX: usize = 4;
/// Of less height nothing is spent on a blank line.
const ROOMY: u16 = 16;

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

impl App {
    fn colour(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// The last values, of those up to `most`, as a line of columns.
    fn sparks(&self, values: &[f64], most: f64, width: usize) -> String {
        let levels = if self.ascii { LEVELS_ASCII } else { LEVELS };
        let from = values.len().saturating_sub(width);
        let level = |share: &f64| levels[((share / most).clamp(0.0, 1.0) * 8.0).ceil() as usize];
        let text: String = values[from..].iter().map(level).collect();
        format!("{text:>width$}")
    }
}

/// As [`bar`], in whole characters of ASCII.
fn ascii_bar(share: f64, width: usize) -> (String, String) {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    ("#".repeat(full), ".".repeat(width - full))
}

/// A bar of that many characters, in eighths of one: what is full, and the rest.
fn bar(share: f64, width: usize) -> (String, String) {
    let eighths = (share.clamp(0.0, 1.0) * (8 * width) as f64).round() as usize;
    let part = PARTS[eighths % 8];
    let full = format!("{}{part}", "█".repeat(eighths / 8));
    let rest = width - eighths / 8 - usize::from(!part.is_empty());
    (full, "·".repeat(rest))
}

/// A share as a number and a bar.
fn share_line(app: &App, mark: &str, share: f64, width: usize) -> Line<'static> {
    let (full, rest) = if app.ascii { ascii_bar(share, width) } else { bar(share, width) };
    Line::from(vec![
        Span::raw(format!("{mark}{:>5} ", percent(share))),
        Span::styled(full, app.colour(Color::Green)),
        Span::styled(rest, app.colour(Color::DarkGray)),
    ])
}

/// The program without its directories, and its arguments.
fn shortened(command: &str) -> String {
    let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    format!("{program} {arguments}").trim_end().to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let devices = app.rates.devices.len().clamp(1, DEVICES_MAX) as u16;
    let blank = u16::from(frame.area().height >= ROOMY);
    let [title, top, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(devices + 1 + blank),
        Constraint::Min(3),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    draw_title(frame, app, title);
    draw_devices(frame, app, top);
    match &app.mode {
        Mode::Kernels(of) => draw_kernels(frame, app, *of, table),
        Mode::Help => draw_help(frame, table),
        _ => draw_clients(frame, app, table),
    }
    draw_foot(frame, app, foot);
}

fn draw_title(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let clients = app.rates.clients.len();
    let mut spans = vec![
        Span::styled("openmps top", bold()),
        Span::styled(
            format!("  {clients} client{}", if clients == 1 { "" } else { "s" }),
            app.colour(Color::Cyan),
        ),
        Span::raw(format!("  sorted by {}", app.sort.name())),
    ];
    if let Some(device) = app.device.and_then(|at| app.rates.devices.get(at)) {
        spans.push(Span::raw(format!("  on device {}", device.ordinal)));
    }
    if app.rates.devices.len() > DEVICES_MAX {
        spans.push(Span::raw(format!("  {} devices, tab for each", app.rates.devices.len())));
    }
    if !app.filter.is_empty() || app.mode == Mode::Filter {
        spans.push(Span::raw(format!("  filter: {}", app.filter)));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn draw_devices(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let name = |device: &DeviceRates| format!("{} {}", device.ordinal, device.name);
    let longest = app.rates.devices.iter().map(|device| name(device).chars().count()).max();
    let mut columns = vec![
        Column { least: 10, ..Column::words("DEVICE", 0) },
        Column::number("GPU-UTIL", 0),
        Column { least: 15, ..Column::words("   SM ACTIVITY", 0) },
        Column::number("OCCUP.", 3),
        Column { least: 19, ..Column::number("MEMORY", 1) },
        Column { least: HISTORY, ..Column::words("  SM HISTORY", 2) },
    ];
    let is_kept = kept(columns.iter().map(|column| (column.least, column.rank)), area.width);
    let used = columns.iter().zip(&is_kept).filter(|(_, kept)| **kept);
    let used: u16 = used.map(|(column, _)| column.least + 1).sum();
    // What is left is the name's, then the history's.
    let left = (area.width + 1).saturating_sub(used);
    let wanted = longest.unwrap_or(0).saturating_sub(usize::from(columns[0].least));
    let more = left.min(u16::try_from(wanted).unwrap_or(u16::MAX));
    columns[0].least += more;
    columns[5].least += (left - more).min(HISTORY_MAX as u16 - HISTORY);
    let width = usize::from(columns[5].least);
    let row = |(at, device): (usize, &DeviceRates)| {
        let history: Vec<f64> =
            app.history_of_device(&device.uuid).iter().map(|(_, activity)| *activity).collect();
        let style = if app.device == Some(at) { bold() } else { Style::new() };
        let mark = if device.sampled { "~" } else { "" };
        let memory =
            format!("{}/{}", bytes_text(device.memory_used), bytes_text(device.memory_total));
        let cells = vec![
            Line::from(name(device)),
            Line::from(Span::styled(percent(device.util), app.colour(Color::Yellow))),
            share_line(app, mark, device.sm_activity, 8),
            Line::from(format!("{mark}{}", percent(device.occupancy))),
            Line::from(memory),
            Line::from(Span::styled(app.sparks(&history, 1.0, width), app.colour(Color::Green))),
        ];
        (cells, style)
    };
    let rows = app.rates.devices.iter().enumerate().map(row).collect();
    let table = table_of(&columns, rows, area.width);
    // The chosen one is always among those that have room.
    let mut state = TableState::default().with_selected(app.device);
    frame.render_stateful_widget(table, area, &mut state);
}

fn client_row(app: &App, client: &ClientRates, most: f64) -> Vec<Line<'static>> {
    let mark = if client.sampled { "~" } else { "" };
    let history = app.history_of((client.server, client.id));
    let history = app.sparks(&history, most, HISTORY.into());
    vec![
        Line::from(client.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())),
        Line::from(client.id.to_string()),
        Line::from(client.user.clone()),
        share_line(app, mark, client.sm_share, 6),
        Line::from(Span::styled(
            format!("{mark}{}", percent(client.busy)),
            app.colour(Color::Yellow),
        )),
        Line::from(bytes_text(client.memory)),
        Line::from(format!("{:.0}", client.kernels_per_s)),
        Line::from(client.in_flight.to_string()),
        Line::from(format!("{mark}{}", percent(client.occupancy))),
        Line::from(percent(client.throttled)),
        Line::from(Span::styled(history, app.colour(Color::Green))),
        Line::from(shortened(&client.command)),
    ]
}

fn draw_clients(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let shown = app.shown();
    if shown.is_empty() {
        let text = match app.rates.clients.is_empty() {
            true => "no program uses the daemon; `openmps run PROGRAM` starts one",
            false => "no client is as the filter wants it",
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    // Histories are drawn to the highest of them.
    let highest = shown.iter().flat_map(|client| app.history_of((client.server, client.id)));
    let most = highest.fold(0.01, f64::max);
    let mut columns = vec![
        Column { least: 7, ..Column::words("PID", 0) },
        Column { least: 4, ..Column::number("ID", 4) },
        Column { least: 8, most: 8, ..Column::words("USER", 5) },
        Column { least: 13, ..Column::words("   SM SHARE", 3) },
        Column { least: 6, ..Column::number("BUSY", 0) },
        Column { least: 9, ..Column::number("MEMORY", 2) },
        Column::number("KERN/S", 1),
        Column::number("QUEUE", 6),
        Column::number("OCCUP.", 7),
        Column { least: 5, ..Column::number("HELD", 8) },
        Column { least: HISTORY, ..Column::words("  SM HISTORY", 9) },
        Column { least: 8, most: u16::MAX, ..Column::words("COMMAND", 0) },
    ];
    if area.width >= WIDE {
        columns[11].least = 17;
    }
    let rows = shown.iter().map(|client| (client_row(app, client, most), Style::new())).collect();
    let table = table_of(&columns, rows, area.width)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(app.chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_kernels(frame: &mut Frame<'_>, app: &App, of: (u32, u32), area: Rect) {
    let Some(client) = app.client(of) else {
        return frame.render_widget(Paragraph::new("the client is gone"), area);
    };
    let [title, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let number = app.kernels_of(of).len();
    let text = format!("Kernels of {} ({number}; up and down, escape goes back)", named(client));
    frame.render_widget(Paragraph::new(Span::styled(text, bold())), title);
    let kernels = app.kernels_of(of);
    let all: u64 = kernels.iter().map(|kernel| kernel.device_ns).sum();
    let row = |kernel: &Kernel| {
        let time = kernel.device_ns as f64;
        let mark = if kernel.timing == Timing::Sampled { "~" } else { "" };
        let mean = time / kernel.launches.max(1) as f64;
        let known = kernel.timing != Timing::None;
        let shape = kernel.shapes.iter().max_by_key(|shape| shape.launches);
        let shape = shape.map_or_else(String::new, |shape| {
            format!("{}x{}", shape.blocks(), shape.threads_a_block())
        });
        let part = time / all.max(1) as f64;
        let figure = |ns| if known { format!("{mark}{}", time_text(ns)) } else { "-".to_owned() };
        let cells = vec![
            Line::from(kernel.launches.to_string()),
            Line::from(figure(time)),
            if known { share_line(app, "", part, 8) } else { Line::from("    -") },
            Line::from(figure(mean)),
            Line::from(shape),
            Line::from(names::short(&kernel.name)),
        ];
        (cells, Style::new())
    };
    let columns = [
        Column { least: 10, ..Column::number("LAUNCHES", 3) },
        Column { least: 10, ..Column::number("TIME", 0) },
        Column { least: 14, ..Column::words("  PART", 1) },
        Column { least: 10, ..Column::number("A LAUNCH", 2) },
        Column { least: 12, ..Column::number("BLKSxTHRDS", 4) },
        Column { least: 10, most: u16::MAX, ..Column::words("KERNEL", 0) },
    ];
    let table = table_of(&columns, kernels.iter().map(row).collect(), rest.width)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(app.kernel));
    frame.render_stateful_widget(table, rest, &mut state);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines = [
        "up, down   choose a client           s      sort by another column",
        "enter, k   its kernels               /      filter by command, user, PID",
        "l          set its share of the SMs  tab    one device after the other",
        "x          end it, after asking      q      quit",
        "",
        "GPU-UTIL is the time in which any kernel ran: one block on one SM makes it",
        "100 %. SM ACTIVITY is how many SMs had a block, OCCUP. how many warps were",
        "resident of those that fit. SM SHARE is a client's part of the device's SMs",
        "over time, BUSY the time in which a kernel of it ran, QUEUE its kernels that",
        "are submitted and not known to be done, HELD the time for which its work was",
        "held back. ~ is estimated from a sample of launches. Histories are of the",
        "last looks; those of clients are drawn to the highest of them.",
        "On a narrow terminal columns are left out.",
    ];
    frame.render_widget(Paragraph::new(lines.map(Line::raw).to_vec()), area);
}

/// Asks in one line; of a long command what there is room for, so that what is asked can be read.
fn end_question(name: &str, command: &str, columns: usize, cut: &str) -> String {
    let with = |command: &str| {
        format!("End {name} ({command})? What it has on the device is destroyed. (y/n)")
    };
    let mut shown = command.to_owned();
    let mut asked = with(command);
    while Line::raw(asked.as_str()).width() > columns && shown.pop().is_some() {
        asked = with(&format!("{}{cut}", shown.trim_end()));
    }
    asked
}

fn draw_foot(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let what = match &app.mode {
        Mode::End(_, name, command) => {
            let cut = if app.ascii { "..." } else { "…" };
            end_question(name, command, area.width.into(), cut)
        }
        Mode::Share((_, id), text) => format!("Share of the SMs for client {id}, %: {text}_"),
        Mode::Filter => "type a filter; enter keeps it, esc removes it".to_owned(),
        _ if !app.message.is_empty() => app.message.clone(),
        _ if !app.trouble.is_empty() => app.trouble.clone(),
        _ => app.rates.notes.join("; "),
    };
    let keys = "q quit  enter kernels  s sort  / filter  tab device  l share  x end  h help";
    let lines = vec![Line::styled(what, app.colour(Color::Yellow)), Line::styled(keys, bold())];
    frame.render_widget(Paragraph::new(lines), area);
}
