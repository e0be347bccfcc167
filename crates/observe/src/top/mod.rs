//! Top: the live screen of devices and clients, with their kernels.
//!
//! [`App`] is the state, [`draw`](draw::draw) shows it, [`App::key`] changes it; only [`run`] knows a
//! terminal and a daemon.

mod app;
mod draw;
#[cfg(test)]
mod tests;

pub use app::{App, Wish};
pub use draw::draw;

use crate::past::Past;
use crate::rates::{Rates, Reading};
use crate::source::Source;
use anyhow::Result;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::time::{Duration, Instant};

/// Size of the one frame that is printed where there is no terminal.
const FRAME: (u16, u16) = (120, 30);

fn read(source: &mut dyn Source) -> Result<Reading> {
    Ok(Reading { at: Instant::now(), report: source.report()? })
}

/// What happens in `interval` from now on.
pub fn rates_of(source: &mut dyn Source, interval: Duration) -> Result<Rates> {
    let before = read(source)?;
    std::thread::sleep(interval);
    let now = read(source)?;
    Ok(Rates::between(&before, &now))
}

/// The frame as text, for what is no terminal: what happened in `interval`.
pub fn print_once(source: &mut dyn Source, interval: Duration) -> Result<String> {
    let rates = rates_of(source, interval)?;
    let mut app = App::new(false);
    app.update(rates);
    Ok(frame_text(&app, FRAME))
}

/// The app as text of a screen of that size; trailing blanks and lines are left out.
pub fn frame_text(app: &App, (width, height): (u16, u16)) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height)) else {
        return String::new();
    };
    if terminal.draw(|frame| draw(frame, app)).is_err() {
        return String::new();
    }
    let buffer = terminal.backend().buffer();
    let mut lines: Vec<String> = (0..height)
        .map(|y| {
            let cells = (0..width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        })
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// Shows the screen until the reader quits.
pub fn run(source: &mut dyn Source, interval: Duration, colours: bool) -> Result<()> {
    let first = read(source)?;
    let mut past = Past::default();
    let mut app = App::new(colours);
    app.update(Rates::since(&past, &first));
    past.take(&first);
    let mut terminal = ratatui::init();
    let outcome = (|| -> Result<()> {
        let mut next = Instant::now() + interval.min(Duration::from_millis(500));
        loop {
            terminal.draw(|frame| draw(frame, &app))?;
            if event::poll(next.saturating_duration_since(Instant::now()))?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                app.key(key);
            }
            match app.take_wish() {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Command(line)) => app.said(source.command(&line)),
                Some(Wish::Kernels) => app.set_counts(source.counts()),
                None => {}
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + interval;
            match read(source) {
                Ok(now) => {
                    app.update(Rates::since(&past, &now));
                    past.take(&now);
                    if app.wants_kernels() {
                        app.set_counts(source.counts());
                    }
                }
                Err(error) => app.fail(&error),
            }
        }
    })();
    ratatui::restore();
    outcome
}
