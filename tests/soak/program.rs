//! The programs of the soak, and what is right of each.

use crate::draw::Draw;
use tests::{Ended, Scene};

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// The sample.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Whether it ends by itself.
    pub ends: bool,
}

/// Programs that compute something and compare it, with arguments that keep it small.
const VERIFYING: &[&str] = &[
    "vector_add --size 20000",
    "matrix_multiply --size 128",
    "reduction --size 65536",
    "histogram --size 65536",
    "n_body --size 512",
    "mlp_inference",
    "convnet_inference",
    "mandelbrot --size 128",
    "scan --size 16384",
    "spin",
    "spin --kernel clock",
    "pipeline",
    "globals",
    "printf",
];

/// Programs that do something else, once.
const OTHERS: &[&str] = &[
    "api_tour",
    "probe",
    "microbench first",
    "microbench burst 50000",
    "unruly fork",
    "unruly flood 60000",
    "unruly limits 600",
    "unruly cancel 4",
    "unruly pinned 4",
    "ahead --case host-function --launches 30000",
    "ahead --case values",
    "ahead --case threads --launches 3000",
    "ahead --case graphs --streams 3",
    "ahead --case host-functions --launches 4000",
    "ahead --case graph-host-functions --launches 1500",
    "ahead --case graph-gone",
    "ahead --case staging",
    "fault --kind null-write",
    "fault --kind null-read",
    "fault --kind stray-write",
    "fault --kind misaligned",
    "fault --kind trap",
];

/// Programs that do not end.
const ENDLESS: &[&str] = &["endless", "endless --fill", "endless --blocks 64"];

impl Program {
    /// Of a command line.
    pub fn of(line: &str) -> Self {
        let mut words = line.split_whitespace().map(str::to_owned);
        let name = words.next().expect("a program's name");
        let ends = name != "endless";
        Self { name, arguments: words.collect(), ends }
    }

    fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|a| (*a).to_owned()));
        self
    }

    /// One that may be ended at any time.
    pub fn draw(draw: &mut Draw) -> Self {
        match draw.below(10) {
            0..5 => {
                let iterations = (1 + draw.below(60)).to_string();
                let streams = ["legacy", "per-thread", "own"];
                let stream = draw.one(&streams);
                let seed = draw.below(1000).to_string();
                let line = draw.one(VERIFYING);
                Self::of(line).with(&[
                    "--iterations",
                    &iterations,
                    "--stream",
                    stream,
                    "--seed",
                    &seed,
                    "--verify-each",
                ])
            }
            5..8 => Self::of(draw.one(OTHERS)),
            _ => Self::of(draw.one(ENDLESS)),
        }
    }

    /// A verifying program that goes on until `until` exists.
    pub fn draw_neighbour(draw: &mut Draw, until: &str) -> Self {
        Self::of(draw.one(VERIFYING)).with(&["--until", until, "--verify-each", "--json"])
    }

    /// A verifying program that goes on until `until` exists, and all of whose work may be repeated
    /// when its server is gone.
    pub fn draw_repeatable(draw: &mut Draw, until: &str) -> Self {
        let line = draw.one(&["vector_add", "reduction", "histogram"]);
        Self::of(line).with(&["--size", "4096", "--until", until, "--verify-each", "--json"])
    }

    /// A verifying program that goes on until `until` exists, always the same.
    pub fn neighbour(until: &str) -> Self {
        Self::of("matrix_multiply --size 128").with(&["--until", until, "--verify-each", "--json"])
    }

    /// True if it takes all memory of the device for a while.
    pub fn fills_the_device(&self) -> bool {
        self.name == "unruly" && self.arguments.first().is_some_and(|what| what == "limits")
    }

    /// What starts it in a scene.
    pub fn command(&self, scene: &Scene) -> std::process::Command {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        scene.sample(&self.name, &arguments)
    }

    /// Panics unless it ended well, having been left alone.
    pub fn expect_right(&self, ended: &Ended) {
        assert_eq!(ended.status, 0, "{self:?}: {ended:?}");
        if self.arguments.iter().any(|a| a == "--json") {
            assert_eq!(ended.json()["verified"], true, "{self:?}: {ended:?}");
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use tests::{start, wait_until};

    /// Kernels of a program that its server has submitted; 0 until it is there.
    fn kernels(scene: &Scene, pid: u32) -> u64 {
        let report = scene.openmps(&["ps", "--json"]).expect_success().json();
        let servers = report["servers"].as_array().into_iter().flatten();
        let mut clients = servers.filter_map(|server| server["clients"].as_array()).flatten();
        let client = clients.find(|client| client["pid"] == pid);
        client.and_then(|client| client["kernels"].as_u64()).unwrap_or(0)
    }

    #[test]
    fn each_program_goes_on_until_its_file_exists() {
        let scene = Scene::with_daemon();
        for line in VERIFYING {
            let until = scene.file(&line.replace(' ', "-"));
            let name = until.to_str().expect("a temporary directory's path");
            let program = Program::of(line).with(&["--until", name, "--verify-each", "--json"]);
            let mut running = start(&mut program.command(&scene));
            let pid = running.pid();
            // More than warming up and one iteration of those that launch one or two at a time.
            wait_until("it has launched kernels", || {
                !running.is_running() || kernels(&scene, pid) >= 12
            });
            assert!(running.is_running(), "{line} ended by itself: {:?}", running.wait());
            std::fs::write(&until, "").expect("a file in the scene's directory");
            program.expect_right(&running.wait());
        }
    }
}
