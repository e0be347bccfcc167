//! A node's world: the real daemon and programs, the agent as a process, simulators of kubelet and API server.

use crate::cluster::{Cluster, Wanted};
use crate::kubelet::{Container, Registered, container, register};
use openmps_k8s::proto::dra_v1::Device;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tests::{Running, Scene, start, wait_until};

/// SMs of the software GPU here.
pub const SMS: u32 = 8;

pub struct World {
    pub scene: Scene,
    pub cluster: Cluster,
    pub runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    agents: Vec<(String, Running)>,
}

impl World {
    /// A node with so many GPUs of 8 SMs and 1 GiB, and an agent that the kubelet has registered.
    pub fn new(gpus: u32) -> World {
        let mut world = World::without_agent(gpus);
        world.start_agent("");
        world.wait_for_slice();
        world
    }

    /// The same without an agent.
    pub fn without_agent(gpus: u32) -> World {
        let scene = Scene::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let cluster = Cluster::start(&runtime);
        // A socket's path is short.
        let folder = tempfile::Builder::new().prefix("k8s").tempdir_in("/tmp").unwrap();
        let mut world = World { scene, cluster, runtime, folder, agents: Vec::new() };
        world.start_daemon(gpus);
        std::fs::create_dir_all(world.specs()).unwrap();
        std::fs::create_dir_all(world.registry()).unwrap();
        world
    }

    pub fn start_daemon(&mut self, gpus: u32) {
        let (sms, gpus) = (SMS.to_string(), gpus.to_string());
        let environment = [
            ("OPENMPS_SOFT_SMS", sms.as_str()),
            ("OPENMPS_SOFT_DEVICES", gpus.as_str()),
            ("OPENMPS_SOFT_MEMORY", "1G"),
        ];
        self.scene.start_daemon_by(&["-p", "3", "-m"], &environment);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The directory of CDI specs.
    pub fn specs(&self) -> PathBuf {
        self.path("cdi")
    }

    /// The directory of registration sockets.
    pub fn registry(&self) -> PathBuf {
        self.path("k/plugins_registry")
    }

    /// The directory of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path("k/plugins/gpu.openmps.io/checkpoints")
    }

    /// Starts an agent, as the one of a pod with this UID, and waits until it listens.
    pub fn start_agent(&mut self, pod_uid: &str) {
        std::fs::write(self.path("kubeconfig"), self.cluster.kubeconfig()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_openmps-k8s"));
        command
            .args(["agent", "--node", "node1", "--interval", "1", "--pod-uid", pod_uid])
            .arg("--kubeconfig")
            .arg(self.path("kubeconfig"))
            .arg("--pipe-directory")
            .arg(self.scene.pipe())
            .arg("--kubelet-directory")
            .arg(self.path("k"))
            .arg("--cdi-directory")
            .arg(self.specs())
            .arg("--libraries")
            .arg(tests::dist().join("lib/openmps"))
            .args(["--metrics-address", "127.0.0.1:0"]);
        let answers = |socket: &PathBuf| self.runtime.block_on(register(socket)).is_ok();
        // What a killed agent has left does not answer.
        let before: Vec<PathBuf> = self.sockets().into_iter().filter(answers).collect();
        self.agents.push((pod_uid.to_owned(), start(&mut command)));
        wait_until("the agent listens", || {
            self.sockets().iter().any(|socket| {
                !before.contains(socket) && self.runtime.block_on(register(socket)).is_ok()
            })
        });
    }

    /// Kills the agent that was started first.
    pub fn kill_agent(&mut self) {
        let (_, mut agent) = self.agents.remove(0);
        agent.kill();
        let _ = agent.wait();
    }

    /// Asks the agent that was started first to end, and waits for it.
    pub fn stop_agent(&mut self) -> tests::Ended {
        let (_, agent) = self.agents.remove(0);
        let ended = Command::new("kill").arg(agent.pid().to_string()).status().unwrap();
        assert!(ended.success());
        agent.wait()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.registry()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The plugins that are registered, by their sockets' names.
    pub fn plugins(&self) -> Vec<Registered> {
        let mut sockets = self.sockets();
        sockets.sort();
        sockets.iter().filter_map(|socket| self.runtime.block_on(register(socket)).ok()).collect()
    }

    pub fn plugin(&self) -> Registered {
        self.plugins().pop().expect("an agent listens")
    }

    pub fn wait_for_slice(&self) {
        wait_until("the node's slice is published", || !self.cluster.devices().is_empty());
    }

    pub fn prepare(&self, claim: &Value) -> Result<Vec<Device>, String> {
        let plugin = self.plugin();
        self.runtime.block_on(plugin.prepare(claim))
    }

    pub fn unprepare(&self, claim: &Value) -> Result<(), String> {
        let plugin = self.plugin();
        self.runtime.block_on(plugin.unprepare(claim))
    }

    /// Allocates a claim and prepares it.
    #[track_caller]
    pub fn pod(&self, wanted: &Wanted) -> (Value, Container) {
        let claim = self.cluster.allocate(wanted).unwrap();
        let devices = self.prepare(&claim).unwrap();
        let container = container(&self.specs(), &devices);
        (claim, container)
    }

    /// Ends a pod: unprepares its claim and deletes it.
    #[track_caller]
    pub fn end(&self, claim: &Value) {
        self.unprepare(claim).unwrap();
        self.cluster.delete(claim["metadata"]["name"].as_str().unwrap());
    }

    /// A sample as a container runs it: with its variables, and the directory of its mount.
    pub fn program(&self, container: &Container, sample: &str, words: &[&str]) -> Command {
        let path = tests::dist().join("lib/openmps/samples").join(sample);
        let mut command = self.scene.command(&path);
        command.args(words).envs(&container.environment);
        let inside = &container.environment["CUDA_MPS_PIPE_DIRECTORY"];
        command.env("CUDA_MPS_PIPE_DIRECTORY", container.on_host(inside));
        // Where this host has it, as the mount is.
        command.env("OPENMPS_LIB_DIR", tests::dist().join("lib/openmps"));
        command
    }

    /// The daemon's namespaces that are shares.
    pub fn namespaces(&self) -> Vec<String> {
        let list = self.scene.control("namespace list --format=csv,noheader").expect_success();
        let names = list.stdout.lines().filter_map(|line| line.split(',').next());
        names.filter(|name| openmps_k8s::share::is_share_name(name)).map(str::to_owned).collect()
    }

    /// Namespaces, specs and checkpoints that are there.
    pub fn left(&self) -> (usize, usize, usize) {
        let count = |folder: &Path| std::fs::read_dir(folder).map_or(0, Iterator::count);
        (self.namespaces().len(), count(&self.specs()), count(&self.checkpoints()))
    }

    /// Waits until an event of a reason was made; its message.
    pub fn event(&self, reason: &str) -> String {
        let find = || self.cluster.events().into_iter().find(|event| event["reason"] == reason);
        wait_until("the event is made", || find().is_some());
        find().unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// The clients of a container's namespace as the daemon reports them.
    pub fn clients(&self, container: &Container) -> Vec<Value> {
        let directory = container.on_host("/run/openmps");
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let report = self.scene.report();
        let servers = report["servers"].as_array().cloned().unwrap_or_default();
        let clients = servers
            .into_iter()
            .flat_map(|server| server["clients"].as_array().cloned().unwrap_or_default());
        clients.filter(|client| client["mps_namespace"] == name.as_str()).collect()
    }
}

/// How long something may take that is looked for once a second.
pub fn patiently(what: &str, mut condition: impl FnMut() -> bool) {
    wait_until(what, || {
        std::thread::sleep(Duration::from_millis(50));
        condition()
    });
}
