//! `openmps web`: the page of devices and clients, and `/metrics` for Prometheus.

use crate::daemon;
use crate::output;
use anyhow::{Context, Result, bail};
use observe::source::DaemonSource;
use observe::web::{Options, serve};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Letters of a token at least: fewer could be tried out.
const TOKEN_LETTERS_MIN: usize = 16;

/// Serve a page of devices, clients, timeline and advice, and metrics for Prometheus
///
/// The page is live and needs no other site. It listens on loopback, and shows what it has to those who
/// know the token, which is printed with the address: others of this machine's users could see all
/// command lines and end programs. Before a daemon runs the page waits for one.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps web                                   then open the address that it prints
  openmps web --listen 0.0.0.0:7070             for other machines, in a network that you trust
  openmps web --token-file /etc/openmps/token   the same token each time, as Prometheus needs it
  openmps web --no-token                        all users of the machine may look: neither end nor record
  curl -H \"Authorization: Bearer $(cat FILE)\" http://127.0.0.1:7070/metrics
docs/observe.md has Prometheus' settings and a board for Grafana.")]
pub(crate) struct Arguments {
    /// Address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Take the token from this file; if there is none, a new token is written to it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Ask for no token, on loopback: every user of the machine can look, and no one end a client or
    /// record a timeline
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.no_token && !arguments.listen.ip().is_loopback() {
        bail!("--no-token: {} is not loopback; other machines need the token", arguments.listen);
    }
    if !arguments.listen.ip().is_loopback() {
        output::say(
            "other machines are served over HTTP: who reads the traffic on the way learns the token, and can end \
             programs; a tunnel (ssh -L 7070:127.0.0.1:7070) or a proxy with TLS in front of loopback is safe",
        );
    }
    let token = match &arguments.token_file {
        _ if arguments.no_token => None,
        Some(file) => Some(token_of(file)?),
        None => Some(new_token()?),
    };
    let directory = daemon::pipe_directory();
    match daemon::ask(&directory) {
        Ok(Some(_)) => {}
        Ok(None) => {
            output::say(format_args!("{}; the page waits for it", daemon::none_in(&directory)))
        }
        Err(error) => output::say(format_args!("{error:#}; the page goes on asking")),
    }
    let options = Options {
        address: arguments.listen,
        token: token.clone(),
        interval: Duration::from_secs(1),
    };
    let said = |address: SocketAddr| {
        let query = token.map_or_else(String::new, |token| format!("?token={token}"));
        output::say(format_args!("http://{address}/{query}   (Ctrl-C ends it)"));
    };
    // Where a daemon is found may be another place once one runs.
    serve(Arc::new(|| Box::new(DaemonSource::new(&daemon::pipe_directory()))), options, said)?;
    Ok(ExitCode::SUCCESS)
}

/// The token of a file, which is made, for its owner alone, if it is not there.
fn token_of(file: &Path) -> Result<String> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let token = new_token()?;
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
            made.and_then(|mut made| writeln!(made, "{token}"))
                .with_context(|| format!("writing a token to {}", file.display()))?;
            return Ok(token);
        }
        text => text.with_context(|| format!("reading the token in {}", file.display()))?,
    };
    let token = text.trim();
    if token.len() < TOKEN_LETTERS_MIN || !token.bytes().all(|b| b.is_ascii_alphanumeric()) {
        bail!(
            "{}: a token has letters and digits only, {TOKEN_LETTERS_MIN} at least",
            file.display()
        );
    }
    Ok(token.to_owned())
}

/// 128 random bits in hexadecimal digits.
fn new_token() -> Result<String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("making a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_has_the_same_token_each_time_and_is_its_owners() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let token = token_of(&file).expect("a new one");
        assert_eq!(token_of(&file).expect("it is there"), token);
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!((token.len(), mode & 0o777), (32, 0o600));
        for (text, good) in [
            ("0123456789abcdefX\n", true),
            ("short", false),
            ("", false),
            ("0123456789 abcdef", false),
        ] {
            fs::write(&file, text).expect("written");
            assert_eq!(token_of(&file).is_ok(), good, "{text:?}");
        }
        assert!(token_of(&directory.path().join("none/token")).is_err());
    }
}
