//! Top: the live screen of devices and clients, with their kernels.
//!
//! [`App`] is the state, [`draw`](draw::draw) shows it, [`App::key`] changes it; only [`run`] knows a
//! terminal and a daemon.

mod app;
mod columns;
mod draw;
#[cfg(test)]
mod tests;

pub use app::{App, Wish};
pub use draw::draw;

use crate::past::Past;
use crate::rates::Rates;
use crate::reading::Reading;
use crate::source::ReportSource;
use anyhow::Result;
use control::counts::ClientCounts;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// How long a key is waited for before answers are looked at.
const HEARD: Duration = Duration::from_millis(50);
/// An answer that takes longer is spoken of.
const LATE: Duration = Duration::from_secs(2);
/// Size of the one frame that is printed where there is no terminal.
const FRAME: (u16, u16) = (120, 30);

fn read(source: &mut dyn ReportSource) -> Result<Reading> {
    Ok(Reading { at: Instant::now(), report: source.report()? })
}

/// Whether the locale has UTF-8. Where none is set it is taken to: many containers set none.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    locale.is_none_or(|locale| locale.to_lowercase().replace('-', "").contains("utf8"))
}

/// What happens in `interval` from now on.
pub fn rates_of(source: &mut dyn ReportSource, interval: Duration) -> Result<Rates> {
    let before = read(source)?;
    std::thread::sleep(interval);
    let now = read(source)?;
    Ok(Rates::between(&before, &now))
}

/// The frame as text, for what is no terminal: what happened in `interval`.
pub fn print_once(source: &mut dyn ReportSource, interval: Duration) -> Result<String> {
    let rates = rates_of(source, interval)?;
    let mut app = App::new(false);
    app.ascii = !is_utf8(|name| std::env::var(name).ok());
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

/// A question to the daemon.
enum Asked {
    Look,
    Kernels,
    Command(String),
}

/// What came of it.
enum Told {
    Look(Box<Result<Reading>>),
    Kernels(Result<Vec<ClientCounts>>),
    Command(Result<String>),
}

/// Asks on a thread of its own, so that keys are heard however long an answer takes.
fn asker(mut source: Box<dyn ReportSource + Send>) -> io::Result<(Sender<Asked>, Receiver<Told>)> {
    let (ask, asked) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let answer = move || {
        for question in asked {
            let answer = match question {
                Asked::Look => Told::Look(Box::new(read(&mut *source))),
                Asked::Kernels => Told::Kernels(source.counts()),
                Asked::Command(line) => Told::Command(source.command(&line)),
            };
            if tell.send(answer).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("ask".to_owned()).spawn(answer)?;
    Ok((ask, told))
}

/// Shows the screen until the reader quits, or `ended` is set. A question that is open then is left to its
/// thread.
pub fn run(
    mut source: Box<dyn ReportSource + Send>,
    interval: Duration,
    colours: bool,
    ended: &AtomicBool,
) -> Result<()> {
    let first = read(&mut *source)?;
    let mut past = Past::default();
    let mut app = App::new(colours);
    app.ascii = !is_utf8(|name| std::env::var(name).ok());
    app.update(Rates::since(&past, &first));
    past.take(&first);
    let (ask, told) = asker(source)?;
    let mut terminal = ratatui::init();
    let outcome = (|| -> Result<()> {
        let mut next = Instant::now() + interval.min(Duration::from_millis(500));
        let mut looking = false;
        while !ended.load(Ordering::Relaxed) {
            terminal.draw(|frame| draw(frame, &app))?;
            if event::poll(HEARD)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                app.key(key);
            }
            match app.take_wish() {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Command(line)) => ask.send(Asked::Command(line))?,
                Some(Wish::Kernels) => ask.send(Asked::Kernels)?,
                None => {}
            }
            for told in told.try_iter() {
                match told {
                    Told::Look(answer) => {
                        (looking, next) = (false, Instant::now() + interval);
                        match *answer {
                            Ok(now) => {
                                app.update(Rates::since(&past, &now));
                                past.take(&now);
                            }
                            Err(error) => app.lost(format!("{error:#}")),
                        }
                    }
                    Told::Kernels(counts) => app.set_counts(counts),
                    Told::Command(said) => app.said(said),
                }
            }
            let late = Instant::now().saturating_duration_since(next);
            if looking && late > LATE {
                app.lost(format!("the daemon has not answered for {} s", late.as_secs()));
            }
            if !looking && !late.is_zero() {
                looking = true;
                ask.send(Asked::Look)?;
                if app.wants_kernels() {
                    ask.send(Asked::Kernels)?;
                }
            }
        }
        Ok(())
    })();
    ratatui::restore();
    outcome
}
