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

/// Units for systemd: root's, and a user's. Both are told by the daemon when it accepts programs.
fn units(to: &Path, program: &Path) -> Result<()> {
    for (folder, text) in unit_texts(program) {
        let directory = to.join("lib/systemd").join(folder);
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let path = directory.join("openmps.service");
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The units by their folders.
///
/// A daemon that crashes is started again, and takes its servers over: so only the main process is killed
/// (KillMode), its directory stays (RuntimeDirectoryPreserve; containers have directories in it mounted,
/// so it stays after a stop too), and a server that the kernel kills for want of memory ends no other one
/// (OOMPolicy). The sockets are where programs look without a variable (`channel::discovery`).
pub(crate) fn unit_texts(program: &Path) -> [(&'static str, String); 2] {
    let program = program.display();
    [
        (
            "system",
            "all users",
            "RuntimeDirectory=nvidia-mps\nLogsDirectory=nvidia-mps\n\
             Environment=CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps\n\
             Environment=CUDA_MPS_LOG_DIRECTORY=/var/log/nvidia-mps\n",
            "multi-user.target",
        ),
        (
            "user",
            "this user",
            "RuntimeDirectory=openmps\nRuntimeDirectoryMode=0700\nLogsDirectory=nvidia-mps\n\
             Environment=CUDA_MPS_PIPE_DIRECTORY=%t/openmps\n\
             Environment=CUDA_MPS_LOG_DIRECTORY=%L/nvidia-mps\n",
            "default.target",
        ),
    ]
    .map(|(folder, whose, directories, target)| {
        let text = format!(
            "[Unit]\nDescription=openmps: CUDA programs of {whose} share the GPU\n\
             Documentation=man:openmps(1)\n\n\
             [Service]\nType=notify\nExecStart={program} -f\nExecReload=kill -HUP $MAINPID\n\
             ExecStop={program} quit -t 10\nTimeoutStopSec=30\nKillMode=process\n\
             OOMPolicy=continue\nDelegate=yes\nRestart=on-failure\n\
             LimitNOFILE=1048576\nRuntimeDirectoryPreserve=yes\n{directories}\n\
             [Install]\nWantedBy={target}\n"
        );
        (folder, text)
    })
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

    #[test]
    fn units_keep_servers_and_directories_when_the_daemon_is_lost() {
        for (folder, text) in unit_texts(Path::new("/opt/openmps/bin/nvidia-cuda-mps-control")) {
            for line in [
                "KillMode=process",
                "OOMPolicy=continue",
                "RuntimeDirectoryPreserve=yes",
                "Restart=on-failure",
                "Delegate=yes",
            ] {
                assert!(text.lines().any(|of| of == line), "{folder}: {line}\n{text}");
            }
            // Where programs look without a variable.
            let runtime = if folder == "system" { "/run/nvidia-mps" } else { "%t/openmps" };
            let pipe = format!("Environment=CUDA_MPS_PIPE_DIRECTORY={runtime}");
            assert!(text.lines().any(|of| of == pipe), "{folder}: {text}");
            let (_, name) = runtime.rsplit_once('/').expect("a directory");
            assert!(text.lines().any(|of| of == format!("RuntimeDirectory={name}")), "{text}");
        }
    }

    /// systemd's own check, where there is one: no option is unknown to it, and none is misspelt.
    #[test]
    fn systemd_understands_the_units() {
        let there = Command::new("systemd-analyze").arg("--version").output();
        if !there.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no systemd-analyze here");
            return;
        }
        let directory = std::env::temp_dir().join(format!("openmps-units-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        // A program that is there: the check wants one.
        for (folder, text) in unit_texts(Path::new("/bin/true")) {
            let path = directory.join("openmps.service");
            std::fs::write(&path, text).expect("a unit");
            let mut verify = Command::new("systemd-analyze");
            verify.arg("verify").arg("--man=no");
            if folder == "user" {
                verify.arg("--user");
            }
            let said = verify.arg(&path).output().expect("to run");
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            let about_it = text.lines().any(|line| line.contains("openmps.service"));
            assert!(!about_it, "{folder}: {text}");
        }
        std::fs::remove_dir_all(&directory).expect("to remove it");
    }
}
