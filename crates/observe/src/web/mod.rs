//! The web page: devices, clients, charts, timeline and advice, and `/metrics` for Prometheus.
//!
//! One page without a build chain, live by server-sent events. A request needs the token, as `Authorization:
//! Bearer`, in a cookie or as `?token=`: the page's own address with it leads to the one without, and a cookie. On loopback there may be none: then every user of the machine can look, and none
//! can do more. What changes something, slows programs or takes long needs a header of the page's own
//! too, which no other site's page can send, and a request on loopback must name loopback as its host.

mod api;
mod poll;
#[cfg(test)]
mod tests;

use crate::metrics::Series;
use crate::source::ReportSource;
use anyhow::{Context, Result};
use locks::Mutex;
use poll::Poller;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Makes a source: each thread that asks has one of its own.
pub type MakeSource = Arc<dyn Fn() -> Box<dyn ReportSource + Send> + Send + Sync>;

/// How the page is served.
pub struct Options {
    /// Where to listen; port 0: any.
    pub address: SocketAddr,
    /// What requests must carry; `None`: nothing, which only loopback may have, to look and not to act.
    pub token: Option<String>,
    /// From one look at the daemon to the next.
    pub interval: Duration,
}

/// What all requests share.
struct Shared {
    make: MakeSource,
    poller: Poller,
    token: Option<String>,
    /// Name of the cookie with the token: cookies are for all ports of a host.
    cookie: String,
    loopback: bool,
    /// Pieces of advice that may be made: one at a time.
    advising: Arc<Semaphore>,
    /// Recordings that may begin: one at a time.
    recording: Arc<Semaphore>,
    /// Which clients have metrics of their own.
    series: Arc<Mutex<Series>>,
}

/// Serves the page until the process ends. `ready` is told the address.
///
/// # Errors
/// If it cannot listen, or would listen for others without a token.
pub fn serve(make: MakeSource, options: Options, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let loopback = options.address.ip().is_loopback();
    if !loopback && options.token.is_none() {
        anyhow::bail!("{} is not loopback: a token is needed", options.address);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(options.address)
            .await
            .with_context(|| format!("listening on {}", options.address))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            poller: Poller::start(make.clone(), options.interval),
            make,
            token: options.token,
            cookie: format!("openmps-{}", address.port()),
            loopback,
            advising: Arc::new(Semaphore::new(1)),
            recording: Arc::new(Semaphore::new(1)),
            series: Arc::default(),
        });
        ready(address);
        axum::serve(listener, api::router(shared)).await?;
        Ok(())
    })
}
