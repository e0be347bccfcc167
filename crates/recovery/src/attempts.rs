//! Attempts of a client to get another server in the place of a lost one: how many, and the pauses
//! between them.

use core::time::Duration;

/// Servers that are tried one after the other, should each be lost before all is declared.
const ATTEMPTS_MAX: u32 = 8;
/// Pause before the second attempt, doubled before each further one: in all 6 s, in which a daemon
/// starts a server.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(25);
/// Pause before another attempt where the daemon starts no server for now: it does so after several that
/// did not live, for at most a quarter of a minute each time.
const BACK_OFF_PAUSE: Duration = Duration::from_secs(1);
const BACK_OFFS_MAX: u32 = 120;

/// Why an attempt came to nothing, where another one may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no server, or it was lost before all was declared.
    Lost,
    /// The daemon starts no server for now.
    NotReady,
}

/// What was tried.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    attempts: u32,
    back_offs: u32,
    pause: Duration,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { attempts: 0, back_offs: 0, pause: ATTEMPT_PAUSE }
    }
}

impl Attempts {
    /// An attempt came to nothing. How long to wait before the next one; `None`: it was the last.
    pub fn failed(&mut self, obstacle: Obstacle) -> Option<Duration> {
        let (count, max, pause) = match obstacle {
            Obstacle::Lost => {
                let pause = self.pause;
                self.pause *= 2;
                (&mut self.attempts, ATTEMPTS_MAX, pause)
            }
            Obstacle::NotReady => (&mut self.back_offs, BACK_OFFS_MAX, BACK_OFF_PAUSE),
        };
        *count += 1;
        (*count < max).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_end_and_their_pauses_grow() {
        let mut attempts = Attempts::default();
        let pauses: Vec<_> =
            std::iter::from_fn(|| attempts.failed(Obstacle::Lost)).map(|p| p.as_millis()).collect();
        assert_eq!(pauses, [25, 50, 100, 200, 400, 800, 1600]);
        let mut attempts = Attempts::default();
        assert_eq!(std::iter::from_fn(|| attempts.failed(Obstacle::NotReady)).count(), 119);
    }
}
