//! What requests there are, and who may make them.

use super::poll::Seen;
use super::{MakeSource, Shared};
use crate::advise;
use crate::metrics::{self, Format, Ratios};
use crate::source::ReportSource;
use crate::trace::Recorder;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

/// The page: one document, so that nothing else has to be asked for.
const PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<title>openmps</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n",
    include_str!("page/page.css"),
    "</style>\n</head>\n<body>\n",
    include_str!("page/page.html"),
    "<script>\n",
    include_str!("page/page.js"),
    "</script>\n</body>\n</html>\n"
);
/// The header that requests must have that change something, cost the programs something or take long: no
/// other site's page can send it.
const OWN_HEADER: &str = "x-openmps";
/// What must have it.
const OWN: &[&str] = &["/api/timeline", "/api/advice", "/api/end"];
/// What no one may who only looks.
const NOT_TO_LOOK: &[&str] = &["/api/timeline", "/api/end"];
/// Longest interval of a timeline, ms.
const TIMELINE_MS_MAX: u64 = 10_000;
/// Most records of a timeline that the page is given.
const TIMELINE_RECORDS_MAX: usize = 50_000;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/metrics", get(metrics))
        .route("/events", get(events))
        .route("/api/state", get(state))
        .route("/api/kernels", get(kernels))
        .route("/api/timeline", get(timeline))
        .route("/api/advice", get(advice))
        .route("/api/end", post(end))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// True if two texts are the same; takes as long wherever they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// The token that a request carries: in its header, its cookie or its address.
fn token_of(request: &Request, cookie: &str) -> Option<String> {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    if let Some(token) = header.and_then(|text| text.strip_prefix("Bearer ")) {
        return Some(token.to_owned());
    }
    let cookies = request.headers().get_all(header::COOKIE).iter();
    let mut cookies = cookies.filter_map(|v| v.to_str().ok()).flat_map(|text| text.split(';'));
    let cookie = cookies.find_map(|pair| pair.trim().strip_prefix(cookie)?.strip_prefix('='));
    cookie.or_else(|| query_token(request)).map(str::to_owned)
}

/// The token in the address.
fn query_token(request: &Request) -> Option<&str> {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// True if a request that came by loopback was meant for it: a name of another site that leads here is
/// that site's page.
fn names_loopback(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if shared.loopback && !names_loopback(request.headers()) {
        return (StatusCode::FORBIDDEN, "this page is for this machine's own names\n")
            .into_response();
    }
    if let Some(token) = &shared.token
        && !token_of(&request, &shared.cookie).is_some_and(|given| same(&given, token))
    {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let said = "a token is needed: open the address that `openmps web` has printed\n";
        return (StatusCode::UNAUTHORIZED, challenge, said).into_response();
    }
    let path = request.uri().path();
    if path == "/" && shared.token.is_some() && query_token(&request).is_some() {
        return without_token_in_address(&shared);
    }
    if OWN.contains(&path) && !request.headers().contains_key(OWN_HEADER) {
        return refused(StatusCode::FORBIDDEN, "only the page itself may do that");
    }
    if shared.token.is_none() && NOT_TO_LOOK.contains(&path) {
        let why = "with --no-token one can only look: neither end a client nor record a timeline";
        return refused(StatusCode::FORBIDDEN, why);
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Leads the browser to the page's address without the token, which stays in a cookie: an address is kept in
/// histories and in logs of proxies.
fn without_token_in_address(shared: &Shared) -> Response {
    let token = shared.token.as_deref().unwrap_or_default();
    let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Strict", shared.cookie);
    let headers = [
        (header::LOCATION, "/".to_owned()),
        (header::SET_COOKIE, cookie),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Why a request is refused, as the page shows it.
fn refused(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// Why something could not be done, as the page shows it.
struct Failed(anyhow::Error);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let text = format!("{:#}", self.0);
        (StatusCode::BAD_GATEWAY, Json(json!({ "error": text }))).into_response()
    }
}

/// Does something that waits, on a thread of its own, with a source of its own.
async fn with_source<T: Send + 'static>(
    make: &MakeSource,
    ask: impl FnOnce(&mut dyn ReportSource) -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Failed> {
    let make = make.clone();
    let asked = tokio::task::spawn_blocking(move || ask(&mut *make()));
    asked.await.map_err(|error| Failed(error.into()))?.map_err(Failed)
}

async fn page() -> Html<&'static str> {
    Html(PAGE)
}

fn state_of(seen: &Seen, read_only: bool) -> Value {
    let mut state = match seen {
        Ok(rates) => json!(rates),
        Err(error) => json!({ "devices": [], "clients": [], "notes": [error] }),
    };
    state["read_only"] = json!(read_only);
    state
}

async fn state(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(state_of(&shared.poller.last(), shared.token.is_none()))
}

async fn events(
    State(shared): State<Arc<Shared>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let read_only = shared.token.is_none();
    let stream = WatchStream::new(shared.poller.subscribe())
        .map(move |seen| Ok(Event::default().data(state_of(&seen, read_only).to_string())));
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn metrics(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let rates = shared.poller.last().unwrap_or_default();
    let ratios: BTreeMap<String, Ratios> = rates
        .devices
        .iter()
        .map(|d| {
            let (util, sm_activity, occupancy) = (d.util, d.sm_activity, d.occupancy);
            (d.uuid.clone(), Ratios { util, sm_activity, occupancy })
        })
        .collect();
    let series = shared.series.clone();
    let text = with_source(&shared.make, move |source| {
        let report = source.report()?;
        let counts = source.counts()?;
        let mut series = series.lock();
        Ok(metrics::text(format, &mut series, &report, &ratios, Some(&counts)))
    })
    .await;
    // A scrape that fails would look like a page that is not there.
    let text = text.unwrap_or_else(|_| metrics::without_daemon(format));
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

async fn kernels(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Failed> {
    let counts = with_source(&shared.make, |source| {
        let mut counts = source.counts()?;
        for client in &mut counts {
            client.kernels.truncate(metrics::KERNELS_MAX);
            for kernel in &mut client.kernels {
                kernel.name = crate::names::short(&kernel.name);
            }
        }
        Ok(counts)
    });
    Ok(Json(json!(counts.await?)))
}

#[derive(Deserialize)]
struct Interval {
    #[serde(default)]
    ms: Option<u64>,
}

async fn timeline(
    State(shared): State<Arc<Shared>>,
    Query(interval): Query<Interval>,
) -> Result<Response, Failed> {
    // Programs are slower while they are recorded.
    let Ok(turn) = shared.recording.clone().try_acquire_owned() else {
        let why = "another recording is under way: try again when it has ended";
        return Ok(refused(StatusCode::TOO_MANY_REQUESTS, why));
    };
    let ms = interval.ms.unwrap_or(1000).clamp(50, TIMELINE_MS_MAX);
    let value = with_source(&shared.make, move |source| {
        // Also where the reader has gone meanwhile.
        let _turn = turn;
        let mut recorder = Recorder::begin(source, &[])?;
        let end = std::time::Instant::now() + Duration::from_millis(ms);
        while std::time::Instant::now() < end {
            let left = end.saturating_duration_since(std::time::Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(200)));
            recorder.take(source)?;
        }
        // Sessions give what has ended when they are asked.
        std::thread::sleep(Duration::from_millis(50));
        recorder.take(source)?;
        let recording = recorder.finish();
        let clients: Vec<Value> = recording
            .clients
            .iter()
            .map(|((server, id), client)| {
                json!({"server": server, "id": id, "pid": client.pid, "command": client.command})
            })
            .collect();
        let cut = recording.records.len().saturating_sub(TIMELINE_RECORDS_MAX);
        let records: Vec<Value> = recording.records[cut..]
            .iter()
            .map(|(server, r)| {
                json!({"server": server, "client": r.client, "kind": r.kind, "stream": r.stream,
                    "sm": r.sm, "launch": r.launch, "submitted": r.submitted_ns,
                    "start": r.start_ns, "end": r.end_ns, "bytes": r.bytes, "grid": r.grid,
                    "block": r.block, "name": crate::names::short(&r.name)})
            })
            .collect();
        Ok(json!({"clients": clients, "records": records, "lost": recording.lost + cut as u64}))
    });
    Ok(Json(value.await?).into_response())
}

async fn advice(State(shared): State<Arc<Shared>>) -> Result<Response, Failed> {
    // Each holds a thread for a second, and asks the daemon several times.
    let Ok(turn) = shared.advising.clone().try_acquire_owned() else {
        let why = "advice is being made already: try again in a second";
        return Ok(refused(StatusCode::TOO_MANY_REQUESTS, why));
    };
    let value = with_source(&shared.make, move |source| {
        // Also where the reader has gone meanwhile.
        let _turn = turn;
        Ok(json!(advise::of_clients(source, Duration::from_secs(1))?))
    });
    Ok(Json(value.await?).into_response())
}

#[derive(Deserialize)]
struct Which {
    server: u32,
    client: u32,
}

async fn end(
    State(shared): State<Arc<Shared>>,
    Json(Which { server, client }): Json<Which>,
) -> Result<Json<Value>, Failed> {
    let said = with_source(&shared.make, move |source| {
        source.command(&format!("terminate_client {server} id:{client}"))
    });
    Ok(Json(json!({ "said": said.await? })))
}
