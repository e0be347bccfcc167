//! How the screen looks. It says all without colours, and fits 80 columns and 24 lines.

use super::app::{App, Mode, named};
use crate::names;
use crate::rates::{ClientRates, DeviceRates, bytes_text, time_text};
use control::counts::Timing;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

/// Eighths of a line's height, for history.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eighths of a column's width, for bars.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
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
fn share_cell(app: &App, mark: &str, share: f64, width: usize) -> Cell<'static> {
    let (full, rest) = bar(share, width);
    Cell::from(Line::from(vec![
        Span::raw(format!("{mark}{:>5} ", percent(share))),
        Span::styled(full, app.colour(Color::Green)),
        Span::styled(rest, app.colour(Color::DarkGray)),
    ]))
}

/// A number, which stands at the right.
fn right(text: impl Into<Text<'static>>) -> Cell<'static> {
    Cell::from(text.into().alignment(Alignment::Right))
}

/// The program without its directories, and its arguments.
fn shortened(command: &str) -> String {
    let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    format!("{program} {arguments}").trim_end().to_owned()
}

/// The last values, of those up to `most`, as a line of columns.
fn sparks(values: &[f64], most: f64, width: usize) -> String {
    let from = values.len().saturating_sub(width);
    let level = |share: &f64| LEVELS[((share / most).clamp(0.0, 1.0) * 8.0).ceil() as usize];
    let text: String = values[from..].iter().map(level).collect();
    format!("{text:>width$}")
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
    let head = Row::new([
        Cell::from("DEVICE"),
        right("GPU-UTIL"),
        Cell::from("   SM ACTIVITY"),
        right("OCCUP."),
        right("MEMORY"),
        Cell::from("  SM HISTORY"),
    ]);
    let row = |(at, device): (usize, &DeviceRates)| {
        let history: Vec<f64> =
            app.history_of_device(&device.uuid).iter().map(|(_, activity)| *activity).collect();
        let style = if app.device == Some(at) { bold() } else { Style::new() };
        let mark = if device.sampled { "~" } else { "" };
        let memory =
            format!("{}/{}", bytes_text(device.memory_used), bytes_text(device.memory_total));
        Row::new(vec![
            Cell::from(format!("{} {}", device.ordinal, device.name)),
            right(Span::styled(percent(device.util), app.colour(Color::Yellow))),
            share_cell(app, mark, device.sm_activity, 8),
            right(format!("{mark}{}", percent(device.occupancy))),
            right(memory),
            Cell::from(Span::styled(sparks(&history, 1.0, 12), app.colour(Color::Green))),
        ])
        .style(style)
    };
    let rows = app.rates.devices.iter().enumerate().map(row);
    let widths = [
        Constraint::Min(10),
        Constraint::Length(8),
        Constraint::Length(15),
        Constraint::Length(6),
        Constraint::Length(19),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths).header(head.style(bold()));
    // The chosen one is always among those that have room.
    let mut state = TableState::default().with_selected(app.device);
    frame.render_stateful_widget(table, area, &mut state);
}

fn client_row(app: &App, client: &ClientRates, wide: Option<f64>) -> Row<'static> {
    let mark = if client.sampled { "~" } else { "" };
    let mut cells = vec![
        Cell::from(client.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())),
        right(client.id.to_string()),
        Cell::from(client.user.clone()),
        share_cell(app, mark, client.sm_share, 6),
        right(Span::styled(format!("{mark}{}", percent(client.busy)), app.colour(Color::Yellow))),
        right(bytes_text(client.memory)),
        right(format!("{:.0}", client.kernels_per_s)),
        right(client.in_flight.to_string()),
    ];
    if let Some(most) = wide {
        let history = sparks(&app.history_of((client.server, client.id)), most, 12);
        cells.push(right(format!("{mark}{}", percent(client.occupancy))));
        cells.push(right(percent(client.throttled)));
        cells.push(Cell::from(Span::styled(history, app.colour(Color::Green))));
    }
    cells.push(Cell::from(shortened(&client.command)));
    Row::new(cells)
}

fn draw_clients(frame: &mut Frame<'_>, app: &App, area: Rect) {
    // Histories are drawn to the highest of them.
    let shown = app.shown();
    let highest = shown.iter().flat_map(|client| app.history_of((client.server, client.id)));
    let wide = (area.width >= 110).then(|| highest.fold(0.01, f64::max));
    let mut head = vec![
        Cell::from("PID"),
        right("ID"),
        Cell::from("USER"),
        Cell::from("   SM SHARE"),
        right("BUSY"),
        right("MEMORY"),
        right("KERN/S"),
        right("QUEUE"),
    ];
    let mut widths = vec![
        Constraint::Length(8),
        Constraint::Length(4),
        Constraint::Length(8),
        Constraint::Length(13),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(5),
    ];
    if wide.is_some() {
        head.extend([right("OCCUP."), right("HELD"), Cell::from("  SM HISTORY")]);
        widths.extend([Constraint::Length(6), Constraint::Length(5), Constraint::Length(12)]);
    }
    head.push(Cell::from("COMMAND"));
    widths.push(Constraint::Min(8));
    if shown.is_empty() {
        let text = match app.rates.clients.is_empty() {
            true => "no program uses the daemon; `openmps run PROGRAM` starts one",
            false => "no client is as the filter wants it",
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let rows = shown.iter().map(|client| client_row(app, client, wide));
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(bold()))
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
    let rows = kernels.iter().map(|kernel| {
        let time = kernel.device_ns as f64;
        let mark = if kernel.timing == Timing::Sampled { "~" } else { "" };
        let mean = time / kernel.launches.max(1) as f64;
        let known = kernel.timing != Timing::None;
        let shape = kernel.shapes.iter().max_by_key(|shape| shape.launches);
        let shape = shape.map_or_else(String::new, |shape| {
            format!("{}x{}", shape.blocks(), shape.threads_a_block())
        });
        let part = time / all.max(1) as f64;
        Row::new([
            right(kernel.launches.to_string()),
            right(if known { format!("{mark}{}", time_text(time)) } else { "-".to_owned() }),
            if known { share_cell(app, "", part, 8) } else { Cell::from("    -") },
            right(if known { format!("{mark}{}", time_text(mean)) } else { "-".to_owned() }),
            right(shape),
            Cell::from(names::short(&kernel.name)),
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(14),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Min(10),
    ];
    let head = [
        right("LAUNCHES"),
        right("TIME"),
        Cell::from("  PART"),
        right("A LAUNCH"),
        right("BLKSxTHRDS"),
        Cell::from("KERNEL"),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(bold()))
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
        "last 12 looks; those of clients are drawn to the highest of them.",
    ];
    frame.render_widget(Paragraph::new(lines.map(Line::raw).to_vec()), area);
}

/// Asks in one line; of a long command what there is room for, so that what is asked can be read.
fn end_question(name: &str, command: &str, columns: usize) -> String {
    let with = |command: &str| {
        format!("End {name} ({command})? What it has on the device is destroyed. (y/n)")
    };
    let mut shown = command.to_owned();
    let mut asked = with(command);
    while Line::raw(asked.as_str()).width() > columns && shown.pop().is_some() {
        asked = with(&format!("{}…", shown.trim_end()));
    }
    asked
}

fn draw_foot(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let what = match &app.mode {
        Mode::End(_, name, command) => end_question(name, command, area.width.into()),
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
