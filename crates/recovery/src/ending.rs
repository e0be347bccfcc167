//! Ending of a server: whether it takes clients, and when it is over.

use crate::AttributionState;
use std::time::Instant;

/// What the server does about its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: it serves.
    #[default]
    No,
    /// It takes no more clients and ends with the last of them.
    WhenIdle,
    /// It takes no more clients, has sent those that it had elsewhere, and waits until they
    /// are notified.
    Moving,
    /// It has ended all sessions and waits for them until then.
    By(Instant),
}

/// What becomes of a client that is handed to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAdmission {
    /// It is served.
    Taken,
    /// Its connection is closed without a word: it comes again, and gets the next server.
    TurnedAway,
    /// It learns that this server ends.
    Refused,
}

impl Ending {
    /// What becomes of a client that comes; `fault`: the context is corrupted.
    pub fn admits(self, fault: bool) -> ClientAdmission {
        match self {
            _ if fault => ClientAdmission::TurnedAway,
            Self::Moving => ClientAdmission::TurnedAway,
            Self::No => ClientAdmission::Taken,
            Self::WhenIdle | Self::By(_) => ClientAdmission::Refused,
        }
    }

    /// No more clients are taken: the server ends with the last that it has.
    pub fn when_idle(&mut self) {
        if *self == Self::No {
            *self = Self::WhenIdle;
        }
    }

    /// Another daemon has taken over the server, which was to end with its last client only because the
    /// daemon before was gone.
    pub fn serve_on(&mut self) {
        if *self == Self::WhenIdle {
            *self = Self::No;
        }
    }

    /// The clients are to go elsewhere. True if they must be notified now.
    pub fn hand_over(&mut self) -> bool {
        let may = matches!(self, Self::No | Self::WhenIdle);
        if may {
            *self = Self::Moving;
        }
        may
    }

    /// All sessions are to end, and are waited for until then. True if they must be notified now.
    pub fn at_once(&mut self, deadline: Instant) -> bool {
        let may = self.deadline().is_none();
        if may {
            *self = Self::By(deadline);
        }
        may
    }

    /// How long sessions that were ended are waited for.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::By(deadline) => Some(deadline),
            _ => None,
        }
    }

    /// True if there is nothing more to do. `listed`: clients are there, whether their sessions live or
    /// not; `inactive`: no session lives. Those do not count whose work only the end of the process ends.
    pub fn is_over(
        self,
        attribution: AttributionState,
        listed: bool,
        inactive: bool,
        now: Instant,
    ) -> bool {
        match self {
            Self::No => attribution.is_over(now) && inactive,
            Self::WhenIdle => !listed,
            Self::Moving => inactive,
            Self::By(deadline) => inactive || now >= deadline,
        }
    }
}
