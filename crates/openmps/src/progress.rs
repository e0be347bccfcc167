//! Progress on long work: a bar on a terminal's standard error, nothing elsewhere.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar of known length that says what is going on.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar of that many steps; hidden where standard error is no terminal.
    pub(crate) fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// What is going on now.
    pub(crate) fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Prints a line of the result on standard output without tearing the bar.
    pub(crate) fn print(&self, line: &str) -> Result<()> {
        self.0.suspend(|| crate::output::print(&format!("{line}\n")))
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
