//! `openmps web`: the page of devices and clients, and `/metrics` for Prometheus.

use super::top::source;
use crate::daemon;
use crate::output;
use anyhow::{Context, Result, bail};
use observe::source::Daemon;
use observe::web::{Options, serve};
use std::io::Read;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Serve a page of devices, clients, timeline and advice, and metrics for Prometheus
///
/// The page is live and needs no other site. It listens on loopback, where every user of the machine
/// can open it: with --token only those who know the token can. For any other address a token is
/// always needed; it is printed with the address.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps web                                   then open http://127.0.0.1:7070/
  openmps web --listen 0.0.0.0:7070             for others, who need the printed token
  curl http://127.0.0.1:7070/metrics            what Prometheus scrapes
docs/observe.md has Prometheus' settings and a board for Grafana.")]
pub(crate) struct Arguments {
    /// Address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Ask for a token on loopback too: this one, or a new one
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, default_missing_value = "")]
    token: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    source()?;
    let wanted = arguments.token.is_some() || !arguments.listen.ip().is_loopback();
    let token = match &arguments.token {
        Some(token) if !token.is_empty() => {
            if !token.bytes().all(|b| b.is_ascii_alphanumeric()) {
                bail!("a token has letters and digits only");
            }
            Some(token.clone())
        }
        _ if wanted => Some(new_token()?),
        _ => None,
    };
    let directory = daemon::pipe_directory();
    let options = Options {
        address: arguments.listen,
        token: token.clone(),
        interval: Duration::from_secs(1),
    };
    let said = |address: SocketAddr| {
        let query = token.map_or_else(String::new, |token| format!("?token={token}"));
        output::say(format_args!("http://{address}/{query}   (Ctrl-C ends it)"));
    };
    serve(Arc::new(move || Box::new(Daemon::new(&directory))), options, said)?;
    Ok(ExitCode::SUCCESS)
}

/// 128 random bits in hexadecimal digits.
fn new_token() -> Result<String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("making a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
