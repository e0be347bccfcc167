//! Counters of launches as the operator sets them, for all servers, those to come too.

use super::change::ChangeError;
use crate::daemon::{ANSWER_S_MAX, Daemon, QueryError, Reply};
use channel::message::Question;
use cuda_api::environment::OPENMPS_COUNTERS;
use cuda_api::settings::Counting;
use std::time::{Duration, Instant};

/// What the daemon's environment says, and a sentence if that is no such word.
pub(in crate::daemon) fn from_environment() -> (Counting, Option<String>) {
    let text = std::env::var(OPENMPS_COUNTERS).unwrap_or_default();
    match Counting::parse(text.trim()) {
        Ok(counting) => (counting, None),
        Err(_) if text.trim().is_empty() => (Counting::default(), None),
        Err(error) => {
            (Counting::default(), Some(format!("{OPENMPS_COUNTERS} is not used: {error}")))
        }
    }
}

impl Daemon {
    /// What servers to come count.
    pub(crate) fn counting(&self) -> Counting {
        *self.counting.lock()
    }

    /// What a daemon before had servers count.
    pub(in crate::daemon) fn restore_counting(&self, text: &str) {
        if let Ok(counting) = Counting::parse(text) {
            *self.counting.lock() = counting;
        }
    }

    /// Has all servers count something else, those to come too. Returns the servers that do not, and
    /// why.
    pub(crate) fn set_counting(&self, counting: Counting) -> Vec<ChangeError> {
        *self.counting.lock() = counting;
        let running = self.lock().notify_all();
        let ask = |server| {
            let deadline = Instant::now() + Duration::from_secs(ANSWER_S_MAX);
            match self.ask(server, Question::Counters(counting), deadline)? {
                Reply::Done(_) => Ok(()),
                Reply::Refused(reason) => Err(ChangeError::Refused(reason)),
                _ => Err(QueryError::Silent(server).into()),
            }
        };
        running.into_iter().filter_map(|server| ask(server).err()).collect()
    }
}
