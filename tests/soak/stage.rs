//! Stage: a daemon with neighbours that verify, and what both must be like at rest.

use crate::census::Census;
use crate::program::Program;
use std::path::Path;
use tests::{Entry, Running, Scene, start, wait_until};

/// The daemon's environment. Programs that ask for device memory until they are refused get so much of the machine's.
const ENVIRONMENT: [(&str, &str); 1] = [("OPENMPS_SOFT_MEMORY", "768M")];

/// A scene, its neighbours, and its census at the first rest.
pub struct Stage {
    entry: Entry,
    /// The scene; its daemon runs.
    pub scene: Scene,
    neighbours: Vec<(Program, Running, String)>,
    rest: Option<(u32, Census, Census)>,
    until: u32,
}

impl Stage {
    /// A scene with a daemon.
    pub fn new() -> Self {
        let mut scene = Scene::new();
        scene.keep_after_failure();
        let entry = Entry::Plain;
        let mut stage = Self { entry, scene, neighbours: Vec::new(), rest: None, until: 0 };
        stage.start_daemon(entry);
        stage
    }

    /// Starts the daemon, and makes what programs come by.
    pub fn start_daemon(&mut self, entry: Entry) {
        self.rest = None;
        self.entry = entry;
        entry.start(&mut self.scene, &ENVIRONMENT);
    }

    /// Kills the daemon under its servers and programs, and starts another, which takes them over.
    pub fn restart_daemon(&mut self) {
        self.rest = None;
        self.scene.kill_daemon();
        self.entry.go_on(&mut self.scene, &ENVIRONMENT);
    }

    /// A file that a neighbour goes on until.
    pub fn until(&mut self) -> String {
        self.until += 1;
        let path = self.scene.file(&format!("until-{}", self.until));
        path.to_str().expect("a temporary directory's path").to_owned()
    }

    /// Starts a neighbour, which goes on until the file of that name.
    pub fn add_neighbour(&mut self, program: Program, until: String) {
        let running = start(&mut program.command(&self.scene));
        self.neighbours.push((program, running, until));
    }

    /// Panics if a neighbour has ended, which it was not told to.
    pub fn expect_neighbours(&mut self) {
        let ended = |(_, running, _): &mut (Program, Running, String)| !running.is_running();
        if let Some(at) = self.neighbours.iter_mut().position(ended) {
            let (program, running, _) = self.neighbours.remove(at);
            panic!("the neighbour {program:?} ended by itself: {:?}", running.wait());
        }
    }

    /// Ends the neighbours, whose results must have been right throughout, and waits until no
    /// client is left; then daemon and server must have what they had at the first rest, but for
    /// the daemon's own. What they have.
    pub fn rest(&mut self) -> String {
        self.expect_neighbours();
        for (_, _, until) in &self.neighbours {
            std::fs::write(until, "").expect("a file in the scene's directory");
        }
        for (program, running, until) in self.neighbours.drain(..) {
            program.expect_right(&running.wait());
            let _ = std::fs::remove_file(Path::new(&until));
        }
        let scene = &self.scene;
        wait_until("no client is left", || scene.clients().is_empty());
        let servers = scene.servers();
        assert_eq!(servers.len(), 1, "one server at rest");
        let log = scene.log("server.log");
        assert!(!log.contains("left behind"), "{log}");
        let daemon = scene.daemon_pid();
        let census = || Some((Census::of(daemon)?, Census::of(servers[0])?));
        let (mut now_daemon, mut now_server) = census().expect("both run");
        if let Some((server, of_daemon, of_server)) = &self.rest {
            assert_eq!(servers[0], *server, "the server that was there is there");
            // Threads and descriptors of the last client go a moment after it.
            wait_until("daemon and server have what they had", || {
                (now_daemon, now_server) = census().expect("both run");
                let back = now_daemon.is_back(of_daemon) && now_server.is_back(of_server);
                if !back {
                    eprintln!(
                        "soak: not back yet: daemon {now_daemon} (was {of_daemon}), server \
                         {now_server} (was {of_server})"
                    );
                    std::thread::sleep(std::time::Duration::from_millis(500));
                }
                back
            });
        } else {
            std::thread::sleep(std::time::Duration::from_millis(200));
            (now_daemon, now_server) = census().expect("both run");
            self.rest = Some((servers[0], now_daemon, now_server));
        }
        format!("daemon {now_daemon}; server {now_server}")
    }

    /// Forgets the first rest: another server is to come.
    pub fn forget_rest(&mut self) {
        self.rest = None;
    }
}
