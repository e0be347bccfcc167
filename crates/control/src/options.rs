//! The command line of `nvidia-cuda-mps-control`: what it asks for, and a daemon's options. `parse` reads it.

mod parse;

pub use parse::{help, parse, version};

use crate::access::{Access, AllowError, Allowed};
use cuda_api::settings::{Percentage, SettingRefused};
use std::path::PathBuf;
use thiserror::Error;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Become a daemon; return when it accepts connections.
    Daemon(DaemonOptions),
    /// Be the daemon in this process.
    Foreground {
        /// Say `ready` on standard output, then let go of the terminal: the second half of
        /// [`Action::Daemon`].
        detach: bool,
        /// How it shares devices.
        options: DaemonOptions,
    },
    /// Print help.
    Help,
    /// Print the version.
    Version,
    /// Print the version of what one daemon passes to the next.
    HandoverVersion,
    /// End the daemon.
    Quit {
        /// A daemon of protocol 2 too, where `-q` means something else.
        any_protocol: bool,
    },
    /// Send this command to the daemon.
    Command(String),
    /// Send the commands of standard input to the daemon.
    Shell,
}

/// Not for people: the daemon that takes another one's place finds what that knew in this descriptor.
pub(crate) const TAKE_OVER: &str = "--take-over";
/// Not for people: the process that becomes the daemon in the background is given it.
pub(crate) const DETACH: &str = "--detach";
/// Not for people: has a program print which handover it understands.
pub(crate) const HANDOVER: &str = "--handover-version";

/// How a daemon shares devices between users and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonOptions {
    /// The interface that it follows: 2, or 3 with named servers.
    pub protocol: u32,
    /// The configuration file of protocol 3.
    pub configuration: Option<PathBuf>,
    /// SMs are given out in static partitions only.
    pub static_partitioning: bool,
    /// Programs' shares of SMs follow their number.
    pub share: Option<SharePolicy>,
    /// CPUs of servers, as the option says them; `None`: what the environment says.
    pub cpus: Option<String>,
    /// What of the command line does not hold, and why: a sentence each.
    pub notes: Vec<String>,
    /// A server with a made context is kept ready beside each that serves.
    pub standby: bool,
    /// A program is terminated one of whose streams makes no progress for so many seconds.
    pub kernel_timeout_s: Option<u64>,
    /// The descriptor in which the daemon before has left what it knew: this one takes its place.
    pub take_over: Option<i32>,
    /// A program whose kernels run for longer gets a server of its own: a time with its unit.
    pub isolate_long: Option<String>,
    /// Programs are held back for no longer at a time for another one's call: a time with its unit.
    pub hold_max: Option<String>,
    pub(crate) access: Access,
}

impl Default for DaemonOptions {
    fn default() -> DaemonOptions {
        DaemonOptions {
            cpus: None,
            notes: Vec::new(),
            protocol: 2,
            configuration: None,
            static_partitioning: false,
            share: None,
            standby: false,
            kernel_timeout_s: None,
            take_over: None,
            isolate_long: None,
            hold_max: None,
            access: Access::default(),
        }
    }
}

impl DaemonOptions {
    /// Takes the protocol that the environment asks for, which goes before the command line's; what
    /// does not go together is an error.
    pub fn with_protocol(
        mut self,
        environment: Option<&str>,
    ) -> Result<DaemonOptions, OptionError> {
        match environment.map(str::trim) {
            None | Some("") => {}
            Some("2") => self.protocol = 2,
            Some("3") => self.protocol = 3,
            Some(other) => return Err(OptionError::ProtocolVariable(other.to_owned())),
        }
        let wants =
            |option: &'static str| OptionError::OtherProtocol { option, protocol: self.protocol };
        match self.protocol {
            2 if self.configuration.is_some() => Err(wants("--apply")),
            3 if self.static_partitioning => Err(wants("-S")),
            3 if self.access.one_user => Err(wants("--one-user")),
            _ => Ok(self),
        }
    }

    /// The words that make a daemon of these options.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let flags = [
            (self.static_partitioning, "-S"),
            (self.access.multiuser, "-M"),
            (self.access.one_user, "--one-user"),
            (self.standby, "--standby"),
        ];
        words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_owned()));
        if self.protocol != 2 {
            words.push(format!("--protocol={}", self.protocol));
        }
        words.extend(self.configuration.iter().map(|path| format!("--apply={}", path.display())));
        words.extend(self.kernel_timeout_s.map(|seconds| format!("--kernel-timeout={seconds}")));
        words.extend(self.isolate_long.iter().map(|long| format!("--isolate-long={long}")));
        words.extend(self.hold_max.iter().map(|hold| format!("--hold-max={hold}")));
        words.extend(self.share.map(|share| format!("--share={}", share.word())));
        words.extend(self.cpus.iter().map(|cpus| format!("--cpus={cpus}")));
        words.extend(self.access.allowed.iter().map(|allowed| match allowed {
            Allowed::User(uid) => format!("--allow={uid}"),
            Allowed::Group(gid) => format!("--allow=@{gid}"),
        }));
        words
    }
}

/// How a program's share of a device's SMs follows the number of programs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharePolicy {
    /// 100 % through the number.
    Even,
    /// 100 % through half of the number: each SM is two programs'.
    Double,
}

impl SharePolicy {
    fn word(self) -> &'static str {
        match self {
            SharePolicy::Even => "1/n",
            SharePolicy::Double => "2/n",
        }
    }

    fn parse(text: &str) -> Option<SharePolicy> {
        [SharePolicy::Even, SharePolicy::Double].into_iter().find(|policy| policy.word() == text)
    }

    /// The share of each of so many programs.
    pub fn of(self, programs: u32) -> Percentage {
        let parts = match self {
            SharePolicy::Even => programs.max(1),
            SharePolicy::Double => {
                return Percentage::from_thousandths(
                    (200_000_u32.div_ceil(programs.max(1))).clamp(1, 100_000),
                )
                .unwrap_or(Percentage::ALL);
            }
        };
        Percentage::of_parts(parts)
    }
}

/// Why a command line was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No such option.
    #[error("unknown option {0:?}; --help lists them")]
    Unknown(String),
    /// A user or a group that is not there.
    #[error(transparent)]
    Allow(#[from] AllowError),
    /// A policy that is none.
    #[error("--share wants 1/n (100 % through the number of programs) or 2/n, got {0:?}")]
    Share(String),
    /// CPUs that are none.
    #[error("--cpus: {0}")]
    Cpus(#[from] SettingRefused),
    /// A time that is none.
    #[error("--kernel-timeout wants seconds, at least 1, got {0:?}")]
    KernelTimeout(String),
    /// A time that is none.
    #[error("--isolate-long wants a time such as 1s or 500ms, at least 1ms, got {0:?}")]
    IsolateLong(String),
    /// A time that is none.
    #[error("--hold-max wants a time such as 2ms, at least 1ms, got {0:?}")]
    HoldMax(String),
    /// An option of daemons without one.
    #[error("{0} is for starting a daemon: give -d or -f too")]
    NotADaemon(String),
    /// It wants a value.
    #[error("{0} wants 2 or 3")]
    Protocol(String),
    /// The variable's value.
    #[error("CUDA_MPS_PROTOCOL_VERSION is {0:?}, which is neither 2 nor 3")]
    ProtocolVariable(String),
    /// An option of the other protocol.
    #[error(
        "{option} is not for protocol {protocol} (-p, CUDA_MPS_PROTOCOL_VERSION): {}",
        match *.protocol {
            2 => "configuration files are of protocol 3",
            _ => "it has servers of several users at once, and `sm-partition` for each server",
        }
    )]
    OtherProtocol {
        /// The option.
        option: &'static str,
        /// The protocol that was asked for.
        protocol: u32,
    },
    /// A file that is none.
    #[error("--apply wants the path of a configuration file")]
    Apply,
    /// An option that does something, and a command.
    #[error("{0} takes no command, but {1:?} was given")]
    Command(&'static str, String),
}
