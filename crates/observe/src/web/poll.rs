//! Poller: the one thread that asks the daemon, for all readers of the page.

use super::MakeSource;
use crate::past::Past;
use crate::rates::Rates;
use crate::reading::Reading;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What was seen last: rates, or why there are none.
pub(super) type Seen = Result<Rates, String>;

/// The thread's end.
pub(super) struct Poller {
    seen: watch::Receiver<Seen>,
}

impl Poller {
    /// Starts the thread, which ends when no receiver is left.
    pub(super) fn start(make: MakeSource, interval: Duration) -> Self {
        let (sender, seen) = watch::channel(Ok(Rates::default()));
        let poll = move || {
            let mut source = make();
            let mut past = Past::default();
            while !sender.is_closed() {
                let now = source.report().map(|report| Reading { at: Instant::now(), report });
                match now {
                    Ok(now) => {
                        let _ = sender.send(Ok(Rates::since(&past, &now)));
                        past.take(&now);
                    }
                    Err(error) => {
                        let _ = sender.send(Err(format!("{error:#}")));
                        past = Past::default();
                        source = make();
                    }
                }
                std::thread::sleep(interval);
            }
        };
        // Without the thread the page says that nothing came.
        let _ = std::thread::Builder::new().name("poll".to_owned()).spawn(poll);
        Self { seen }
    }

    /// What comes from now on, and what is there.
    pub(super) fn subscribe(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }

    /// What was seen last.
    pub(super) fn last(&self) -> Seen {
        self.seen.borrow().clone()
    }
}
