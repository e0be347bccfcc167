//! Tests of the page's server: what is served, and to whom.

use super::*;
use control::counts::ClientCounts;
use control::report::Report;
use control::trace::Trace;
use locks::Mutex;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Instant;

/// A source with one client, which notes commands.
struct Fake(Arc<Mutex<Vec<String>>>);

impl ReportSource for Fake {
    fn report(&mut self) -> Result<Report> {
        Ok(crate::rates::tests::reading(Instant::now(), 10, &[(1, 5, 1_000_000_000)]).report)
    }
    fn counts(&mut self) -> Result<Vec<ClientCounts>> {
        Ok(vec![ClientCounts { server: 2, client: 1, ..ClientCounts::default() }])
    }
    fn trace(&mut self, _: &[(u32, u64)]) -> Result<Vec<Trace>> {
        Ok(vec![Trace { server: 2, next: 1, ..Trace::default() }])
    }
    fn command(&mut self, line: &str) -> Result<String> {
        self.0.lock().push(line.to_owned());
        Ok(String::new())
    }
}

/// The header with the token.
const BEARER: &str = "Authorization: Bearer secret\r\n";

/// A source without a daemon.
struct Nothing;

impl ReportSource for Nothing {
    fn report(&mut self) -> Result<Report> {
        anyhow::bail!("no daemon answers")
    }
    fn counts(&mut self) -> Result<Vec<ClientCounts>> {
        anyhow::bail!("no daemon answers")
    }
    fn trace(&mut self, _: &[(u32, u64)]) -> Result<Vec<Trace>> {
        anyhow::bail!("no daemon answers")
    }
    fn command(&mut self, _: &str) -> Result<String> {
        anyhow::bail!("no daemon answers")
    }
}

/// A served page, and the commands that it has given.
fn start(token: Option<&str>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let commands = Arc::new(Mutex::new(Vec::new()));
    let noted = commands.clone();
    (start_with(token, Arc::new(move || Box::new(Fake(noted.clone())))), commands)
}

fn start_with(token: Option<&str>, make: MakeSource) -> SocketAddr {
    let options = Options {
        address: "127.0.0.1:0".parse().expect("an address"),
        token: token.map(str::to_owned),
        interval: Duration::from_millis(20),
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        serve(make, options, |address| sender.send(address).expect("heard"))
    });
    receiver.recv().expect("it listens")
}

#[test]
fn a_scrape_without_a_daemon_says_so() {
    let address = start_with(None, Arc::new(|| Box::new(Nothing)));
    let metrics = get(address, "/metrics", "", "\nopenmps_up 0");
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("\nopenmps_up 0"), "{metrics}");
}

/// The answer to a request: status line, headers and what has come of the body.
fn ask(address: SocketAddr, request: &str, enough: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("it reads");
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains(enough) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&buffer[..count])),
        }
    }
    text
}

/// Asks for a client's end.
fn post(address: SocketAddr, headers: &str) -> String {
    let body = r#"{"server":2,"client":1}"#;
    let length = body.len();
    ask(
        address,
        &format!(
            "POST /api/end HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
        "}",
    )
}

fn get(address: SocketAddr, path: &str, headers: &str, enough: &str) -> String {
    let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
    let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
    ask(address, &request, enough)
}

#[test]
fn a_page_with_state_events_and_metrics() {
    let (address, _) = start(None);
    let page = get(address, "/", "", "</html>");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy"), "{page}");
    let events = get(address, "/events", "", "./program1");
    assert!(events.contains("data: {") && events.contains("\"sm_activity\""), "{events}");
    let open = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let metrics = get(address, "/metrics", open, "# EOF");
    assert!(metrics.contains("content-type: application/openmetrics-text"), "{metrics}");
    assert!(metrics.contains("openmps_client_kernels_total{"), "{metrics}");
    let metrics = get(address, "/metrics", "", "\nopenmps_clients ");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("openmps_client_kernels_total{"), "{metrics}");
    let kernels = get(address, "/api/kernels", "", "]");
    assert!(kernels.contains("\"client\":1"), "{kernels}");
}

#[test]
fn what_costs_the_programs_or_a_thread_is_for_the_page_alone() {
    let own = format!("x-openmps: 1\r\n{BEARER}");
    let (address, _) = start(Some("secret"));
    for path in ["/api/timeline?ms=50", "/api/advice"] {
        let answer = get(address, path, BEARER, "\r\n");
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
    }
    let timeline = get(address, "/api/timeline?ms=50", &own, "}");
    assert!(timeline.contains("\"records\":[]"), "{timeline}");
}

/// A source whose recording begins, and goes on once it is told so.
struct Slow(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

impl ReportSource for Slow {
    fn report(&mut self) -> Result<Report> {
        Fake(Arc::default()).report()
    }
    fn counts(&mut self) -> Result<Vec<ClientCounts>> {
        Ok(vec![])
    }
    fn trace(&mut self, places: &[(u32, u64)]) -> Result<Vec<Trace>> {
        if places.iter().all(|place| place.1 == 0) {
            self.0.send(())?;
            self.1.lock().recv()?;
        }
        Fake(Arc::default()).trace(places)
    }
    fn command(&mut self, _: &str) -> Result<String> {
        Ok(String::new())
    }
}

#[test]
fn one_timeline_is_recorded_at_a_time() {
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    let make: MakeSource = Arc::new(move || Box::new(Slow(begun.clone(), may_go_on.clone())));
    let address = start_with(Some("secret"), make);
    let ask = move || {
        let own = format!("x-openmps: 1\r\n{BEARER}");
        get(address, "/api/timeline?ms=50", &own, "}")
    };
    let first = std::thread::spawn(ask);
    has_begun.recv().expect("the first one begins");
    let second = ask();
    assert!(second.starts_with("HTTP/1.1 429") && second.contains("another"), "{second}");
    go_on.send(()).expect("it waits");
    let first = first.join().expect("an answer");
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    go_on.send(()).expect("it is there");
    assert!(ask().starts_with("HTTP/1.1 200"));
}

#[test]
fn without_a_token_one_can_only_look() {
    let (address, commands) = start(None);
    let own = "x-openmps: 1\r\n";
    assert!(get(address, "/api/state", "", "}").contains("\"read_only\":true"));
    assert!(get(address, "/api/advice", own, "]").starts_with("HTTP/1.1 200"));
    let timeline = get(address, "/api/timeline?ms=50", own, "}");
    assert!(timeline.starts_with("HTTP/1.1 403") && timeline.contains("--no-token"), "{timeline}");
    let end = post(address, &format!("Host: localhost\r\n{own}"));
    assert!(end.starts_with("HTTP/1.1 403") && end.contains("--no-token"), "{end}");
    assert!(commands.lock().is_empty());
}

#[test]
fn without_the_token_there_is_nothing() {
    let (address, _) = start(Some("secret"));
    for path in ["/", "/metrics", "/events", "/api/state", "/?token=wrong", "/api/none"] {
        let answer = get(address, path, "", "\r\n");
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
    }
    let bearer = get(address, "/api/state", BEARER, "\r\n");
    assert!(bearer.starts_with("HTTP/1.1 200"), "{bearer}");
    assert!(get(address, "/api/state?token=secret", "", "\r\n").starts_with("HTTP/1.1 200"));
}

#[test]
fn the_page_s_address_loses_the_token_to_a_cookie() {
    let (address, _) = start(Some("secret"));
    let answer = get(address, "/?token=secret", "", "\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 303") && answer.contains("\r\nlocation: /\r\n"),
        "{answer}"
    );
    let cookie =
        answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(pair, format!("openmps-{}=secret", address.port()));
    let with = |pair: &str| get(address, "/", &format!("Cookie: a=b; {pair}\r\n"), "\r\n\r\n");
    assert!(with(pair).starts_with("HTTP/1.1 200"));
    assert!(with(&pair.replace("secret", "other")).starts_with("HTTP/1.1 401"));
}

#[test]
fn one_advice_is_made_at_a_time() {
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    let held = move || -> Box<dyn ReportSource + Send> {
        Box::new(Held(begun.clone(), may_go_on.clone()))
    };
    // The poller's own questions are answered at once.
    let first = std::sync::atomic::AtomicBool::new(true);
    let make: MakeSource =
        Arc::new(move || match first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => Box::new(Fake(Arc::default())),
            false => held(),
        });
    let address = start_with(Some("secret"), make);
    let (sender, looked) = mpsc::channel();
    let ask = move || {
        let own = format!("x-openmps: 1\r\n{BEARER}");
        get(address, "/api/advice", &own, "]")
    };
    // So that the poller has its source.
    assert!(get(address, "/events", BEARER, "./program1").contains("./program1"));
    let one = std::thread::spawn(move || sender.send(ask()).expect("it is heard"));
    has_begun.recv().expect("the first one begins");
    let second = ask();
    assert!(second.starts_with("HTTP/1.1 429") && second.contains("already"), "{second}");
    go_on.send(()).expect("it waits");
    drop(go_on);
    assert!(looked.recv().expect("an answer").starts_with("HTTP/1.1 200"));
    one.join().expect("it ends");
}

/// A source whose first report is held until it is told to go on.
struct Held(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

impl ReportSource for Held {
    fn report(&mut self) -> Result<Report> {
        let _ = self.0.send(());
        let _ = self.1.lock().recv();
        Fake(Arc::default()).report()
    }
    fn counts(&mut self) -> Result<Vec<ClientCounts>> {
        Fake(Arc::default()).counts()
    }
    fn trace(&mut self, _: &[(u32, u64)]) -> Result<Vec<Trace>> {
        Ok(vec![])
    }
    fn command(&mut self, _: &str) -> Result<String> {
        Ok(String::new())
    }
}

#[test]
fn only_the_page_itself_ends_a_client() {
    let (address, commands) = start(Some("secret"));
    let post = |headers: &str| post(address, &format!("{headers}{BEARER}"));
    assert!(post("Host: localhost\r\n").starts_with("HTTP/1.1 403"));
    for host in
        ["evil.example", "127.evil.example", "127.0.0.1.evil.example", "[::2]", "10.0.0.1", ""]
    {
        let said = post(&format!("Host: {host}\r\nx-openmps: 1\r\n"));
        assert!(said.starts_with("HTTP/1.1 403"), "{host}: {said}");
    }
    assert!(commands.lock().is_empty());
    for host in ["localhost", "[::1]:80", "[::1]", "127.3.2.1"] {
        assert!(
            get(address, "/", &format!("Host: {host}\r\n{BEARER}"), "\r\n").contains(" 200 "),
            "{host}"
        );
    }
    let said = post("Host: 127.0.0.1:80\r\nx-openmps: 1\r\n");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert_eq!(*commands.lock(), ["terminate_client 2 id:1"]);
}

#[test]
fn others_are_not_let_in_without_a_token() {
    let make: MakeSource = Arc::new(|| Box::new(Fake(Arc::default())));
    let address = "0.0.0.0:0".parse().expect("an address");
    let options = Options { address, token: None, interval: Duration::from_secs(1) };
    let error = serve(make, options, |_| {}).expect_err("it would be for all");
    assert!(error.to_string().contains("a token is needed"), "{error}");
}
