//! Fault series: programs that verify every result while others fault, and servers are killed and
//! replaced. `cargo xtask faults --help`.
//!
//! The software GPU is spoiled by a fault as hardware is, so that each costs its server the context.

#[expect(dead_code, reason = "the soak draws more")]
#[path = "../soak/draw.rs"]
mod draw;

use clap::{Parser, ValueEnum};
use draw::Draw;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tests::{Running, Scene, Signal, finish, start, try_signal, wait_until};

/// Ends servers in every way beside programs that verify every result, and prints how long those paused.
///
/// Each round is one fault of a class, one kill -9 of every server at a random moment, or one upgrade.
/// No program may see a wrong result or an error; a failure says seed and round.
///
/// The installation is $OPENMPS_DIST, else the one whose tests/ this program lies in, else one that cargo
/// builds.
#[derive(Parser)]
#[command(name = "cargo xtask faults")]
struct Arguments {
    /// Rounds in all
    #[arg(long, default_value_t = 22)]
    rounds: u32,
    /// Fewer rounds if they take more minutes than so many
    #[arg(long)]
    minutes: Option<f64>,
    /// What ends servers: all in turn if none is named
    #[arg(long, value_enum)]
    of: Vec<What>,
    /// What to draw moments from, to repeat a run [default: drawn from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Keep servers in standby
    #[arg(long)]
    standby: bool,
    /// Devices of the software GPU; programs are spread over them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    devices: u32,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

/// What ends a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    NullWrite,
    NullRead,
    StrayWrite,
    Neighbour,
    Misaligned,
    Trap,
    Assert,
    Stack,
    /// A kernel that does not end, whose program is terminated
    Endless,
    /// kill -9 of all servers
    Kill,
    /// The control command `upgrade`
    Upgrade,
}

impl What {
    /// Its name on the command line, which is that of `fault --kind` too.
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no value is left out");
        value.get_name().to_owned()
    }
}

/// Programs that verify each result. Each step of theirs begins with what no step changes and is waited
/// for, so that all of it since the last wait may be repeated; what `scan` and `n_body` do in place is
/// made by kernels alone.
const PROGRAMS: [(&str, &str); 4] =
    [("vector_add", ""), ("reduction", ""), ("scan", "always"), ("histogram", "")];
/// Longest time between two rounds, ms.
const PAUSE_MS_MAX: u64 = 60;

/// The series' programs and what they share.
struct Series {
    scene: Scene,
    running: Vec<(String, Running)>,
    until: std::path::PathBuf,
    draw: Draw,
    devices: u32,
}

impl Series {
    fn begin(arguments: &Arguments, seed: u64) -> Self {
        let mut scene = Scene::new();
        scene.keep_after_failure();
        let devices = arguments.devices.to_string();
        let mut environment =
            vec![("OPENMPS_SOFT_TENANTS", "0"), ("OPENMPS_SOFT_DEVICES", &devices)];
        if arguments.standby {
            environment.push(("OPENMPS_STANDBY", "1"));
        }
        scene.start_daemon_with(&environment);
        let until = scene.file("stop");
        let name = until.to_str().expect("a temporary directory's path").to_owned();
        let slowest = arguments.rounds.to_string();
        let mut running = Vec::new();
        for (index, (program, replay)) in PROGRAMS.into_iter().enumerate() {
            let device = (index as u32 % arguments.devices).to_string();
            let mut sample = scene.sample(
                program,
                &[
                    "--until",
                    &name,
                    "--verify-each",
                    "--json",
                    "--size",
                    "4096",
                    "--slowest",
                    &slowest,
                ],
            );
            sample.args(["--device", &device]);
            if !replay.is_empty() {
                sample.env("OPENMPS_REPLAY", replay);
            }
            running.push((program.to_owned(), start(&mut sample)));
        }
        let draw = Draw::new(seed);
        let series = Self { scene, running, until, draw, devices: arguments.devices };
        series.wait_for_all();
        series
    }

    /// Waits until each program is at a server.
    fn wait_for_all(&self) {
        wait_until("all programs are at a server", || {
            let clients: Vec<u32> = self
                .scene
                .servers()
                .into_iter()
                .flat_map(|server| {
                    let answer = self.scene.control(&format!("get_client_list {server}"));
                    let listed = answer.status == 0;
                    let pids = answer.stdout.split_whitespace().filter_map(|pid| pid.parse().ok());
                    pids.filter(|_| listed).collect::<Vec<u32>>()
                })
                .collect();
            self.running.iter().all(|(_, running)| clients.contains(&running.pid()))
        });
    }

    /// Ends one server or all, and waits until each program has another one.
    fn round(&mut self, what: What) {
        std::thread::sleep(self.draw.below_ms(PAUSE_MS_MAX));
        let before = self.scene.servers();
        match what {
            What::Kill => self.serving().into_iter().for_each(kill),
            What::Upgrade => drop(self.scene.control("upgrade").expect_success()),
            What::Endless => self.terminate_endless(),
            _ => {
                let device = self.draw.below(self.devices.into()).to_string();
                let kind = what.name();
                let mut sample = self.scene.sample("fault", &["--kind", &kind]);
                let fault = finish(sample.env("CUDA_VISIBLE_DEVICES", device)).expect_success();
                assert!(fault.stdout.contains("sticky true"), "{fault:?}");
            }
        }
        wait_until("another server serves", || {
            let now = self.scene.servers();
            !now.is_empty() && before.iter().any(|server| !now.contains(server))
        });
        self.wait_for_all();
        let ended = self.running.iter_mut().position(|(_, running)| !running.is_running());
        if let Some(at) = ended {
            let (program, running) = self.running.remove(at);
            panic!("{program} ended by itself: {:?}", running.wait());
        }
    }

    /// Servers that have clients: not those in standby, which take their place.
    fn serving(&self) -> Vec<u32> {
        let has_clients = |server: &u32| {
            let clients = self.scene.control(&format!("get_client_list {server}")).stdout;
            !clients.trim().is_empty()
        };
        self.scene.servers().into_iter().filter(has_clients).collect()
    }

    /// Kernels of a program that its server has submitted.
    fn kernels_of(&self, pid: u32) -> u64 {
        let report: serde_json::Value =
            serde_json::from_str(&self.scene.control("report").stdout).unwrap_or_default();
        let servers = report["servers"].as_array().into_iter().flatten();
        let mut clients = servers.filter_map(|server| server["clients"].as_array()).flatten();
        let found = clients.find(|client| client["pid"] == pid);
        found.and_then(|client| client["kernels"].as_u64()).unwrap_or(0)
    }

    fn terminate_endless(&self) {
        let endless = start(&mut self.scene.sample("endless", &[]));
        let mut at = None;
        wait_until("the endless program is there", || {
            at = self.scene.servers().into_iter().find(|server| {
                let clients = self.scene.control(&format!("get_client_list {server}")).stdout;
                clients.split_whitespace().any(|pid| pid == endless.pid().to_string())
            });
            at.is_some()
        });
        let server = at.expect("just found");
        let pid = endless.pid();
        wait_until("its kernel is under way", || self.kernels_of(pid) >= 2);
        self.scene.control(&format!("terminate_client {server} {pid}")).expect_success();
        let ended = endless.wait();
        assert!((1..128).contains(&ended.status), "an error, not a crash: {ended:?}");
    }

    /// Stops the programs: each went on to the end, and each of its results was right. Their longest
    /// turns, ms.
    fn end(self) -> Vec<f64> {
        std::fs::write(&self.until, "").expect("the file that stops them");
        let mut turns = Vec::new();
        for (program, running) in self.running {
            let ended = running.wait().expect_success();
            let report = ended.json();
            assert_eq!(report["verified"], true, "{program}: {ended:?}");
            assert_eq!(ended.errors(), "", "{program} notices nothing");
            let slowest = report["slowest_us"].as_array().cloned().unwrap_or_default();
            turns.extend(slowest.iter().filter_map(serde_json::Value::as_f64).map(|us| us / 1e3));
        }
        turns.sort_unstable_by(|a, b| b.total_cmp(a));
        turns
    }
}

fn kill(pid: u32) {
    // One that has just ended is no harm.
    try_signal(pid, Signal::KILL);
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let from_clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
    let seed = arguments.seed.unwrap_or_else(from_clock);
    let kinds = match arguments.of.is_empty() {
        true => What::value_variants(),
        false => &arguments.of[..],
    };
    let end =
        arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(60.0 * minutes));
    let mut round = 0;
    let run = AssertUnwindSafe(|| {
        let mut series = Series::begin(&arguments, seed);
        for what in kinds.iter().cycle().take(arguments.rounds as usize) {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            series.round(*what);
            round += 1;
            if !arguments.json && round % 100 == 0 {
                println!("faults: {round} rounds");
            }
        }
        series.end()
    });
    let turns = match catch_unwind(run) {
        Ok(turns) => turns,
        Err(_) => {
            let what = kinds[round as usize % kinds.len()].name();
            eprintln!("faults: FAILED in round {round} ({what}) of seed {seed}");
            return ExitCode::FAILURE;
        }
    };
    let of_gaps = turns.len().min(round as usize * PROGRAMS.len());
    let p50 = turns.get(of_gaps / 2).copied().unwrap_or(0.0);
    let longest = turns.first().copied().unwrap_or(0.0);
    match arguments.json {
        true => println!(
            "{}",
            serde_json::json!({
                "seed": seed, "rounds": round, "programs": PROGRAMS.len(),
                "devices": arguments.devices, "standby": arguments.standby,
                "gap_p50_ms": p50, "gap_longest_ms": longest, "wrong": 0, "errors": 0,
            })
        ),
        false => println!(
            "faults: seed {seed}: {round} rounds beside {} programs: no wrong result, no error; gap \
             p50 {p50:.1} ms, longest {longest:.1} ms",
            PROGRAMS.len()
        ),
    }
    ExitCode::SUCCESS
}
