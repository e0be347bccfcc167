//! Builds everything and lays it out as an installation is: `bin/`, `lib/openmps/`, `share/`.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names under which the one binary is another program.
pub(crate) const PERSONALITIES: &[&str] = &["nvidia-cuda-mps-control", "nvidia-cuda-mps-server"];

/// Shells, and the file below `share` in which each looks for openmps's completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/openmps"),
    ("zsh", "zsh/site-functions/_openmps"),
    ("fish", "fish/vendor_completions.d/openmps.fish"),
];

/// Which build is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

impl Profile {
    fn directory(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds the workspace; returns the directory with `bin` and `lib`.
pub(crate) fn dist(profile: Profile, prefix: Option<&Path>) -> Result<PathBuf> {
    let root = crate::root();
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(&root).args(["build", "--workspace", "--bins", "--lib"]);
    if profile == Profile::Release {
        build.arg("--release");
    }
    run(&mut build)?;

    let built = target_directory(&root).join(profile.directory());
    let to = prefix.map_or_else(|| built.join("dist"), Path::to_path_buf);
    let linker = Linker::of_the_system();
    let program = std::path::absolute(&to)?.join("bin").join(PERSONALITIES[0]);
    lay_out(&Built { client: &built, rest: &built, linker: &linker }, &to, &program)?;
    Ok(to)
}

/// What is laid out.
pub(crate) struct Built<'a> {
    /// Where cargo has put the libraries that programs load.
    pub(crate) client: &'a Path,
    /// Where it has put the others, and the programs.
    pub(crate) rest: &'a Path,
    /// What makes libraries of the archive of the run-time compilers.
    pub(crate) linker: &'a Linker,
}

/// A C compiler that links shared libraries.
pub(crate) struct Linker {
    /// The program and its first arguments.
    pub(crate) command: Vec<OsString>,
    /// Its library for unwinding, as an option.
    pub(crate) unwinder: &'static str,
}

impl Linker {
    /// That of this system, or of `CC`.
    pub(crate) fn of_the_system() -> Self {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        Self { command: vec![compiler], unwinder: "-lgcc_s" }
    }

    /// A command with what makes shared libraries of it.
    pub(crate) fn shared(&self) -> Command {
        let mut link = Command::new(&self.command[0]);
        link.args(&self.command[1..]).arg("-shared");
        link
    }
}

/// Lays out what was built: `bin`, `lib` and `share` in a directory, with units that start a program.
pub(crate) fn lay_out(built: &Built<'_>, to: &Path, program: &Path) -> Result<()> {
    let Built { client, rest, linker } = *built;
    let bin = to.join("bin");
    let lib = to.join("lib/openmps");
    for directory in [&bin, &lib] {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("making {}", directory.display()))?;
    }
    place(&rest.join("openmps"), &bin.join("openmps"))?;
    for name in PERSONALITIES {
        link(Path::new("openmps"), &bin.join(name))?;
    }
    place(&client.join("libcuda.so"), &lib.join("libcuda.so.1"))?;
    link(Path::new("libcuda.so.1"), &lib.join("libcuda.so"))?;
    place(&client.join("libnvidia_ml.so"), &lib.join("libnvidia-ml.so.1"))?;
    place(&rest.join("libopenmps_soft.so"), &lib.join("libopenmps-soft.so"))?;
    place(&client.join("libopenmps_nvtx.so"), &lib.join("libopenmps-nvtx.so"))?;
    compilers(&client.join("libruntime_compilers.a"), &lib, linker)?;
    std::fs::create_dir_all(lib.join("compilers/bin"))?;
    link(Path::new("../../../../bin/openmps"), &lib.join("compilers/bin/ptxas"))?;
    let samples = to.join("lib/openmps/samples");
    std::fs::create_dir_all(&samples)?;
    for name in sample_names()? {
        place(&rest.join(&name), &samples.join(&name))?;
    }
    documents(&bin.join("openmps"), &to.join("share"))?;
    units(to, program)
}

/// Names of the sample programs, sorted.
pub(crate) fn sample_names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for source in std::fs::read_dir(crate::root().join("samples/src/bin"))? {
        let path = source?.path();
        let is_program = path.is_dir() || path.extension().is_some_and(|e| e == "rs");
        if let Some(name) = path.file_stem().filter(|_| is_program) {
            names.push(name.display().to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Programs of crate `tests` that use an installation hard.
const TEST_PROGRAMS: &[&str] = &["soak", "faults", "scale", "stress"];

/// Lays those beside an installation, which they find there.
pub(crate) fn tests(profile: Profile, to: &Path) -> Result<()> {
    let built = target_directory(&crate::root()).join(profile.directory());
    let tests = to.join("tests");
    std::fs::create_dir_all(&tests).with_context(|| format!("making {}", tests.display()))?;
    TEST_PROGRAMS.iter().try_for_each(|name| place(&built.join(name), &tests.join(name)))
}

/// Units for systemd: root's, one a device, and a user's. Each is told by the daemon when it accepts programs.
fn units(to: &Path, program: &Path) -> Result<()> {
    for (name, text) in unit_texts(program) {
        let path = to.join("lib/systemd").join(name);
        let directory = path.parent().expect("a unit lies in a folder");
        std::fs::create_dir_all(directory)
            .with_context(|| format!("making {}", directory.display()))?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// What all services have in common.
///
/// A daemon that crashes is started again, and takes its servers over: so only the main process is killed
/// (KillMode), its directory stays (RuntimeDirectoryPreserve; containers have directories in it mounted,
/// so it stays after a stop too), and a server that the kernel kills for want of memory ends no other one
/// (OOMPolicy). A daemon whose event loop hangs is killed for it (WatchdogSec) and followed by another.
const SERVICE: &str = "Type=notify\nNotifyAccess=main\nExecReload=kill -HUP $MAINPID\n\
    TimeoutStopSec=30\nKillMode=process\nOOMPolicy=continue\nDelegate=yes\n\
    DelegateSubgroup=daemon\n\
    Restart=on-failure\nWatchdogSec=60\nLimitNOFILE=1048576\n\
    RuntimeDirectoryPreserve=yes\n";

/// What a service of root's may not do. Servers are programs of all users that use a device: they read and
/// write their homes (native code that is kept), map memory of which they run code, and see others'
/// processes. Names of users come from the name service by local sockets (sssd, nslcd), so there is no network.
/// These stay as they are: PrivateTmp, PrivateDevices, PrivateUsers, ProtectProc, ProtectHome
/// and MemoryDenyWriteExecute.
const HARDENING: &str = "NoNewPrivileges=yes\nProtectSystem=full\nProtectKernelTunables=yes\n\
    ProtectKernelModules=yes\nProtectKernelLogs=yes\nProtectClock=yes\nProtectHostname=yes\n\
    LockPersonality=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes\nRestrictNamespaces=yes\n\
    SystemCallArchitectures=native\nSystemCallFilter=@system-service\n\
    SystemCallErrorNumber=EPERM\n\
    RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\nPrivateNetwork=yes\n\
    DevicePolicy=closed\nDeviceAllow=char-nvidia-frontend rw\nDeviceAllow=char-nvidia rw\n\
    DeviceAllow=char-nvidia-uvm rw\nDeviceAllow=char-nvidia-caps rw\n\
    CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE \
    CAP_SYS_PTRACE CAP_SYS_RESOURCE CAP_SYS_NICE CAP_IPC_LOCK\n\
    UMask=0022\nOOMScoreAdjust=-500\n";

/// The sockets of a service: programs that come while no daemon runs wait until it does.
fn socket_text(directory: &str, name: &str, mode: &str, service: &str) -> String {
    format!(
        "[Unit]\nDescription=openmps: socket {name}\nDocumentation=man:openmps(1)\n\n\
         [Socket]\nListenSequentialPacket={directory}/{name}\nSocketMode={mode}\n\
         DirectoryMode=0755\nFileDescriptorName={name}\nService={service}\n\
         RemoveOnStop=yes\n\n[Install]\nWantedBy=sockets.target\n"
    )
}

/// The units by their paths below `lib/systemd`. The sockets are where programs look without a variable
/// (`channel::discovery`).
pub(crate) fn unit_texts(program: &Path) -> Vec<(&'static str, String)> {
    let program = program.display();
    let service = |whose: &str, own: &str, install: &str| {
        format!(
            "[Unit]\nDescription=openmps: CUDA programs of {whose} share the GPU\n\
             Documentation=man:openmps(1)\n\n\
             [Service]\nExecStart={program} -f\nExecStop={program} quit -t 10\n{SERVICE}{own}\n\
             [Install]\n{install}"
        )
    };
    let system = |runtime: &str, environment: &str| {
        format!(
            "RuntimeDirectory={runtime}\nLogsDirectory={runtime}\n\
             Environment=CUDA_MPS_PIPE_DIRECTORY=/run/{runtime}\n\
             Environment=CUDA_MPS_LOG_DIRECTORY=/var/log/{runtime}\n{environment}{HARDENING}"
        )
    };
    let sockets = "Sockets=openmps.socket openmps-privileged.socket\n";
    let user = "RuntimeDirectory=openmps\nRuntimeDirectoryMode=0700\nLogsDirectory=nvidia-mps\n\
                Environment=CUDA_MPS_PIPE_DIRECTORY=%t/openmps\n\
                Environment=CUDA_MPS_LOG_DIRECTORY=%L/nvidia-mps\n";
    vec![
        (
            "system/openmps.service",
            service(
                "all users",
                &system("nvidia-mps", sockets),
                "WantedBy=multi-user.target\nAlso=openmps.socket openmps-privileged.socket\n\
                 Alias=nvidia-mps.service\n",
            ),
        ),
        (
            "system/openmps.socket",
            socket_text("/run/nvidia-mps", "control", "0666", "openmps.service"),
        ),
        (
            "system/openmps-privileged.socket",
            socket_text("/run/nvidia-mps", "control_privileged", "0755", "openmps.service"),
        ),
        (
            "system/openmps@.service",
            service(
                "all users on device %i",
                &system("nvidia-mps-%i", "Environment=CUDA_VISIBLE_DEVICES=%i\n"),
                "WantedBy=multi-user.target\nDefaultInstance=0\n",
            ),
        ),
        ("user/openmps.service", service("this user", user, "WantedBy=default.target\n")),
    ]
}

/// Man pages and completions, where shells and `man` look for those of a program in `bin/`.
fn documents(openmps: &Path, share: &Path) -> Result<()> {
    let man = share.join("man/man1");
    std::fs::create_dir_all(&man).with_context(|| format!("making {}", man.display()))?;
    run(Command::new(openmps).arg("man").arg(&man))?;
    for (shell, file) in COMPLETIONS {
        let path = share.join(file);
        let folder = path.parent().expect("the file is in a folder");
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let script = Command::new(openmps)
            .args(["completions", shell])
            .output()
            .with_context(|| format!("starting {}", openmps.display()))?;
        if !script.status.success() {
            bail!("openmps completions {shell}: {}", script.status);
        }
        std::fs::write(&path, script.stdout)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The libraries that crate runtime-compilers becomes: directory and name, the symbols that each
/// exports, and whether they are of the version that is its name, as those of NVIDIA's are.
const COMPILERS: &[(&str, &str, bool)] = &[
    ("libopenmps-audit.so", "la_*", false),
    ("compilers/libnvrtc.so.12", "nvrtc*; __nvrtc*", true),
    ("compilers/libnvrtc.so.13", "nvrtc*; __nvrtc*", true),
    ("compilers/libnvJitLink.so.12", "nvJitLink*; __nvJitLink*", true),
    ("compilers/libnvJitLink.so.13", "nvJitLink*; __nvJitLink*", true),
];

/// Links them with the C compiler: rustc writes version scripts of its own, in which symbols have no
/// versions.
fn compilers(archive: &Path, lib: &Path, linker: &Linker) -> Result<()> {
    std::fs::create_dir_all(lib.join("compilers"))?;
    for (path, symbols, versioned) in COMPILERS {
        let to = lib.join(path);
        let name = to.file_name().unwrap_or_default().display().to_string();
        let script = lib.join(format!("{name}.map-{}", std::process::id()));
        let new = to.with_extension(format!("new-{}", std::process::id()));
        let version = if *versioned { name.as_str() } else { "" };
        std::fs::write(&script, format!("{version} {{ global: {symbols}; local: *; }};\n"))?;
        let mut link = linker.shared();
        link.args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,-z,nodelete"])
            .arg(format!("-Wl,-soname,{name}"))
            .arg(format!("-Wl,--version-script={}", script.display()))
            .arg("-Wl,--whole-archive")
            .arg(archive)
            .arg("-Wl,--no-whole-archive")
            .args([linker.unwinder, "-lpthread", "-lm", "-ldl", "-lc", "-o"])
            .arg(&new);
        let linked = run(&mut link);
        std::fs::remove_file(&script)?;
        linked?;
        std::fs::rename(&new, &to).with_context(|| format!("placing {}", to.display()))?;
    }
    Ok(())
}

/// Runs a command to its end; an error if it does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

pub(crate) fn target_directory(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root.join(directory),
        None => root.join("target"),
    }
}

/// Copies a built file over an older copy that may be in use: a new inode, then a rename.
pub(crate) fn place(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension(format!("new-{}", std::process::id()));
    std::fs::copy(from, &new)
        .and_then(|_| std::fs::rename(&new, to))
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

pub(crate) fn link(target: &Path, name: &Path) -> Result<()> {
    match std::fs::remove_file(name) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    std::os::unix::fs::symlink(target, name).with_context(|| format!("linking {}", name.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> &'static Path {
        Path::new("/opt/openmps/bin/nvidia-cuda-mps-control")
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|of| of == line)
    }

    #[test]
    fn units_keep_servers_and_directories_when_the_daemon_is_lost() {
        let services = |(name, _): &(&str, String)| name.ends_with(".service");
        for (name, text) in unit_texts(program()).into_iter().filter(services) {
            for line in [
                "KillMode=process",
                "OOMPolicy=continue",
                "RuntimeDirectoryPreserve=yes",
                "Restart=on-failure",
                "Delegate=yes",
                "DelegateSubgroup=daemon",
                "WatchdogSec=60",
            ] {
                assert!(has(&text, line), "{name}: {line}\n{text}");
            }
            // Where programs look without a variable; of one a device the variable says it.
            let runtime = match name {
                "system/openmps.service" => "/run/nvidia-mps",
                "system/openmps@.service" => "/run/nvidia-mps-%i",
                _ => "%t/openmps",
            };
            assert!(
                has(&text, &format!("Environment=CUDA_MPS_PIPE_DIRECTORY={runtime}")),
                "{text}"
            );
            let (_, directory) = runtime.rsplit_once('/').expect("a directory");
            assert!(has(&text, &format!("RuntimeDirectory={directory}")), "{text}");
            let is_system = name.starts_with("system");
            assert_eq!(has(&text, "NoNewPrivileges=yes"), is_system, "{name}");
            // Each line stands once, but for those that are lists.
            let lists = ["Environment=", "DeviceAllow=", ""];
            let mut lines: Vec<&str> = text.lines().collect();
            lines.retain(|line| {
                !lists.iter().any(|of| line == of || !of.is_empty() && line.starts_with(of))
            });
            let count = lines.len();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines.len(), count, "{name}: {text}");
        }
    }

    #[test]
    fn sockets_are_where_the_daemon_makes_them_with_its_permissions() {
        let all = unit_texts(program());
        let of = |name: &str| &all.iter().find(|(of, _)| *of == name).expect("a unit").1;
        let service = of("system/openmps.service");
        assert!(has(service, "Sockets=openmps.socket openmps-privileged.socket"));
        assert!(has(service, "Alias=nvidia-mps.service"));
        let main = of("system/openmps.socket");
        assert!(has(main, "ListenSequentialPacket=/run/nvidia-mps/control"));
        assert!(has(main, "SocketMode=0666"));
        let privileged = of("system/openmps-privileged.socket");
        assert!(has(privileged, "ListenSequentialPacket=/run/nvidia-mps/control_privileged"));
        assert!(has(privileged, "SocketMode=0755"));
    }

    /// systemd's own checks, where there is one: no option is unknown to it, and root's services are little
    /// exposed by its measure.
    #[test]
    fn systemd_understands_the_units() {
        /// Most of the measure that `systemd-analyze security` has, in tenths.
        const EXPOSURE_MAX: &str = "--threshold=40";
        let there = Command::new("systemd-analyze").arg("--version").output();
        if !there.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no systemd-analyze here");
            return;
        }
        let directory = std::env::temp_dir().join(format!("openmps-units-{}", std::process::id()));
        // A program that is there: the check wants one.
        let units = unit_texts(Path::new("/bin/true"));
        for (name, text) in &units {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a directory");
            std::fs::write(&path, text).expect("a unit");
        }
        for (name, _) in &units {
            let path = directory.join(name);
            let mut verify = Command::new("systemd-analyze");
            verify.arg("verify").arg("--man=no");
            if name.starts_with("user") {
                verify.arg("--user");
            }
            let said = verify.arg(&path).output().expect("to run");
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            // systemd before 254 has no subgroups, and goes on without.
            let is_old = |line: &str| line.contains("Unknown key 'DelegateSubgroup'");
            let about_it = text.lines().any(|line| line.contains("/openmps") && !is_old(line));
            assert!(!about_it, "{name}: {text}");
            if name.starts_with("system/") && name.ends_with(".service") {
                let mut security = Command::new("systemd-analyze");
                security.args(["security", "--offline=true", EXPOSURE_MAX]).arg(&path);
                let said = security.output().expect("to run");
                let text = String::from_utf8_lossy(&said.stdout).into_owned();
                let last = text.lines().rev().take(2).collect::<Vec<_>>().join(" ");
                assert!(said.status.success(), "{name}: {last}");
            }
        }
        std::fs::remove_dir_all(&directory).expect("to remove it");
    }
}
