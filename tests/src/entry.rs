//! Entry: with which protocol the daemon of a scene runs, and how programs come to it.

use crate::Scene;

/// How the daemon is started and programs come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Protocol 2.
    Plain,
    /// Protocol 2, where each program has the device's SMs through the number of programs.
    Shared,
    /// Protocol 3, without a namespace.
    Protocol3,
    /// A namespace of a named server of protocol 3.
    Namespace,
}

impl Entry {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Shared, Self::Protocol3, Self::Namespace];

    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["-p", "2"],
            Self::Shared => &["-p", "2", "--share", "1/n"],
            Self::Protocol3 | Self::Namespace => &["-p", "3"],
        }
    }

    /// The log of the server that programs come to, for [`Scene::log`].
    pub fn server_log(self) -> String {
        match self {
            Self::Plain | Self::Shared => "server.log".into(),
            Self::Protocol3 => format!("uid_{}/server.log", rustix::process::getuid().as_raw()),
            Self::Namespace => "training/server.log".into(),
        }
    }

    /// Starts a scene's daemon like that, with these environment variables, and makes what programs come by.
    pub fn start(self, scene: &mut Scene, environment: &[(&str, &str)]) {
        self.go_on(scene, environment);
        let mut below = "";
        if matches!(self, Self::Protocol3 | Self::Namespace) {
            // A daemon that a signal has ended brings its named servers back; mostly there is none.
            scene.control("server delete training --force");
        }
        if self == Self::Namespace {
            for command in [
                "server create training",
                "namespace create batch --server=training",
                "namespace set batch --server=training --active-thread-percentage=50",
            ] {
                scene.control(command).expect_success();
            }
            below = "training/batch";
        }
        scene.enter(below);
    }

    /// Starts another daemon in the place of one that has ended without a word: it has all that commands made.
    pub fn go_on(self, scene: &mut Scene, environment: &[(&str, &str)]) {
        scene.start_daemon_by(self.words(), environment);
    }
}
