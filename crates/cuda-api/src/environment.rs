//! Environment variables that any part of the project reads: one row each.
//!
//! Reading them is their readers' own; a value that a reader cannot use counts as not given, and
//! `openmps doctor` finds it by what its row says.

use crate::nearest::nearest_within;
use crate::{driver_version, settings};

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The part that reads it: client, daemon, server, provider, openmps.
    pub readers: &'static str,
    /// What it may hold.
    pub values: Values,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// What a variable may hold. An empty value is as good as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Anything, or what its reader has words of its own for.
    Any,
    /// A path from the root.
    AbsolutePath,
    /// A whole number of at least so much.
    Number(u64),
    /// A size in bytes, with K, M or G behind it or nothing.
    Bytes,
    /// As [`Values::Bytes`], or 0 for none.
    Budget,
    /// A share of SMs.
    Percentage,
    /// Limits of memory: `DEVICE=SIZE,...`.
    MemoryLimits,
    /// A version that the software GPU's driver may report.
    DriverVersion,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl Values {
    /// True if a reader can use the value.
    pub fn accept(self, value: &str) -> bool {
        let text = value.trim();
        let number = |text: &str| text.parse::<u64>().ok();
        text.is_empty()
            || match self {
                Self::Any => true,
                Self::AbsolutePath => value.starts_with('/'),
                Self::Number(least) => number(text).is_some_and(|number| number >= least),
                Self::Bytes => number(text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']))
                    .is_some_and(|number| number > 0),
                Self::Budget => text == "0" || Self::Bytes.accept(text),
                Self::Percentage => settings::Percentage::parse(text).is_ok(),
                Self::MemoryLimits => settings::parse_memory_limits(text).is_ok(),
                Self::DriverVersion => driver_version::parse(text).is_some(),
                Self::OneOf(words) => words.contains(&text),
            }
    }
}

impl core::fmt::Display for Values {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::AbsolutePath => f.write_str("an absolute path"),
            Self::Number(least) => write!(f, "a whole number of at least {least}"),
            Self::Bytes => f.write_str("a number of bytes, or one with K, M or G"),
            Self::Budget => f.write_str("0, a number of bytes, or one with K, M or G"),
            Self::Percentage => f.write_str(settings::Percentage::ALLOWED),
            Self::MemoryLimits => f.write_str("a list as 0=1G,1=512MB"),
            Self::DriverVersion => f.write_str(driver_version::ALLOWED),
            Self::OneOf(words) => words.iter().enumerate().try_for_each(|(index, word)| {
                let before = match index {
                    0 => "",
                    _ if index + 1 == words.len() => " or ",
                    _ => ", ",
                };
                write!(f, "{before}{word}")
            }),
        }
    }
}

/// Pipe directory of programs without such a variable: NVIDIA's.
pub const PIPE_DIRECTORY_DEFAULT: &str = "/tmp/nvidia-mps";

/// What variables of our own and of NVIDIA's MPS begin with: others are none of openmps' business.
pub const PREFIXES: &[&str] = &["OPENMPS_", "CUDA_MPS_"];

/// The variable that was probably meant by one that nothing reads; `None` if it is read, is none of
/// openmps' business, or is near none.
pub fn meant(name: &str) -> Option<&'static str> {
    /// Characters behind the prefix of which one may be wrong: some names have few.
    const CHARACTERS_PER_SLIP: usize = 5;
    let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))?;
    let names = || VARIABLES.iter().map(|row| row.name);
    if names().any(|known| known == name) {
        return None;
    }
    let slips_max = (name[prefix.len()..].len() / CHARACTERS_PER_SLIP).max(1);
    nearest_within(name, names().filter(|known| known.starts_with(prefix)), slips_max)
}

macro_rules! variables {
    ($($id:ident = $name:literal, $readers:literal, $values:expr, $default:literal,
        $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $id: &str = $name;)*

        /// All of them.
        pub const VARIABLES: &[Variable] = &[$(Variable {
            name: $name, readers: $readers, values: $values, default: $default, meaning: $meaning,
        }),*];
    };
}

use Values::{
    AbsolutePath, Any, Budget, Bytes, DriverVersion, MemoryLimits, Number, OneOf, Percentage,
};

variables! {
    CUDA_MPS_PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY", "client, daemon, openmps", Any,
        "the first one in which a daemon serves the user: /tmp/nvidia-mps, /run/nvidia-mps, openmps in \
        XDG_RUNTIME_DIR and /run/user/UID, /tmp/openmps-UID; nvidia-cuda-mps-control -d starts one in \
        the first", "Directory of the daemon's sockets, with protocol 3 also that of a server or a \
        namespace below it.";
    CUDA_MPS_LOG_DIRECTORY = "CUDA_MPS_LOG_DIRECTORY", "daemon, openmps", Any,
        "/var/log/nvidia-mps", "Directory of control.log and server.log.";
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "client, daemon",
        Percentage, "100", "Share of a device's SMs that a program may have; the daemon's is for all \
        programs, a program's own can only be less.";
    CUDA_MPS_PINNED_DEVICE_MEM_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "client, daemon",
        MemoryLimits, "all memory", "Device memory that a program may have, for each device by number \
        or UUID (0=1G,1=512MB); the daemon's is for all programs, a program's own can only be less.";
    CUDA_MPS_CLIENT_PRIORITY = "CUDA_MPS_CLIENT_PRIORITY", "client, daemon", OneOf(&["0", "1"]),
        "0", "Priority of a program: 0 normal, 1 below normal: class batch.";
    CUDA_DEVICE_MAX_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS", "client", Number(1),
        "each stream has its own", "Queues that a program's streams share, 1 to 32.";
    XDG_RUNTIME_DIR = "XDG_RUNTIME_DIR", "openmps", AbsolutePath,
        "/tmp/openmps-UID in its place", "Directory, if it is the user's own, that has the directory \
        of a daemon which openmps starts for that user alone (openmps in it).";
    CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES", "provider, client", Any,
        "all devices", "Devices that the provider shows, and in which order; a client of a daemon \
        sees its devices, or none if the list names none.";
    CUDA_DEVICE_ORDER = "CUDA_DEVICE_ORDER", "provider, client", OneOf(&[
        "FASTEST_FIRST", "PCI_BUS_ID",
    ]),
        "a client: as its daemon counts devices", "How devices are counted: the fastest first, or by \
        their PCI addresses.";
    CUDA_MODULE_LOADING = "CUDA_MODULE_LOADING", "client", OneOf(&["LAZY", "EAGER", "DEFAULT"]),
        "LAZY", "EAGER loads a program's kernels at start.";
    CUDA_CACHE_DISABLE = "CUDA_CACHE_DISABLE", "software GPU", OneOf(&["0", "1"]),
        "0", "1 keeps no native code on disk for later processes.";
    CUDA_CACHE_PATH = "CUDA_CACHE_PATH", "software GPU", AbsolutePath,
        "XDG_CACHE_HOME, then ~/.cache",
        "Directory below which native code of kernels is kept, in openmps/code.";
    CUDA_CACHE_MAXSIZE = "CUDA_CACHE_MAXSIZE", "software GPU", Number(0),
        "268435456", "Most native code that is kept there, bytes.";
    OPENMPS_CONFIG = "OPENMPS_CONFIG", "daemon, openmps", Any,
        "/etc/openmps.toml of root's, openmps.toml in XDG_CONFIG_HOME or ~/.config of others",
        "The settings file of a daemon that starts: its absolute path, or none for no file.";
    OPENMPS_FAULT_BUDGET = "OPENMPS_FAULT_BUDGET", "daemon", Any,
        "0: no limit", "How many faults a user's command line may cause in a time, as 3/10m, before its \
        processes get servers of their own; with refuse behind it they are refused.";
    OPENMPS_CGROUP_ROOT = "OPENMPS_CGROUP_ROOT", "daemon", Any,
        "where cgroups of version 2 are mounted",
        "The directory below which a program's cgroup is found: for limits of device memory (dmem.max, dmem.min) and \
        for namespaces by cgroup.";
    OPENMPS_NVML_CLIENT_FAULTS = "OPENMPS_NVML_CLIENT_FAULTS", "NVML", OneOf(&["0", "1"]),
        "0: errors of the device alone", "1: a fault of a daemon's client is an Xid event of NVML too, for programs that \
        wait for events.";
    OPENMPS_IDLE_S = "OPENMPS_IDLE_S", "daemon", Number(0),
        "300", "How long a server without clients stays, seconds, if it is of another user than the \
        daemon's; 0: until the daemon ends.";
    OPENMPS_PROVIDER = "OPENMPS_PROVIDER", "client, server, openmps", Any,
        "vendor if there is one, else soft",
        "What drives the device: vendor, soft, or the absolute path of a libcuda.so.1.";
    OPENMPS_LIB_DIR = "OPENMPS_LIB_DIR", "client, server, openmps", Any,
        "beside the library or program that asks",
        "Directory with libcuda.so.1 (the client) and libopenmps-soft.so.";
    OPENMPS_COMPILERS = "OPENMPS_COMPILERS", "openmps", OneOf(&["ptx", "own"]),
        "ptx", "What `openmps run` has NVRTC, nvJitLink and the ptxas of Triton and XLA make on the software \
        GPU where a program asks them for machine code: ptx, which it runs, or own, what they make \
        on their own.";
    OPENMPS_DRIVER_VERSION = "OPENMPS_DRIVER_VERSION", "software GPU, client", DriverVersion,
        "13.0", "Version of CUDA that the driver reports on the software GPU, 13.0 to 13.9: for programs \
        that make machine code of their own where the driver is older than they are. A client's goes \
        before its daemon's.";
    OPENMPS_REQUIRE = "OPENMPS_REQUIRE", "client", OneOf(&["0", "1"]),
        "0", "1 has a program that finds no daemon fail (CUDA_ERROR_MPS_CONNECTION_FAILED) instead of \
        running without sharing.";
    CUDA_MPS_PROTOCOL_VERSION = "CUDA_MPS_PROTOCOL_VERSION", "daemon", OneOf(&["2", "3"]),
        "2", "Interface that a daemon follows from its start: 2, or 3 with named servers; it goes before \
        the option -p.";
    CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING =
        "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING", "client", OneOf(&["0", "1"]),
        "0", "1 has each context have the share that CUDA_MPS_ACTIVE_THREAD_PERCENTAGE says when it is \
        made; the number of SMs that it sees follows the current context.";
    OPENMPS_CPUS = "OPENMPS_CPUS", "daemon", Any,
        "near", "CPUs of servers: numbers and ranges (0-3,8), near (those near the device, of the \
        daemon's) or all (the daemon's). The daemon's option --cpus goes before it.";
    CUDA_MPS_SM_PARTITION = "CUDA_MPS_SM_PARTITION", "client", Any,
        "none", "Static partition that a program is in, by the name that sm_partition add printed; \
        needed where the daemon has them (-S).";
    OPENMPS_CLASS = "OPENMPS_CLASS", "client", Any,
        "normal; batch where that and a priority below normal come together",
        "The program's class: latency (critical), normal or batch (best-effort); more settings may \
        follow: weight=N, deadline=TIME, quota=TIME. The daemon's rules go before it.";
    OPENMPS_CLASS_RULES = "OPENMPS_CLASS_RULES", "daemon", Any,
        "none", "Which programs get which class, the first rule that fits: user:NAME batch; \
        command:PATTERN latency; all normal.";
    OPENMPS_SCHEDULING = "OPENMPS_SCHEDULING", "daemon, server", Any,
        "preset=balanced", "What keeps classes apart: policy, pause, in-flight, priorities, slices, \
        pieces, floor, elastic, space, slowdown, least, preset; see docs/scheduling.md.";
    OPENMPS_COUNTERS = "OPENMPS_COUNTERS", "daemon, server",
        OneOf(&["off", "sampled", "every", "cupti"]),
        "sampled", "What servers count and time of launches; changed while they run by openmps set \
        --counters. See docs/observe.md.";
    OPENMPS_CUPTI = "OPENMPS_CUPTI", "server", AbsolutePath,
        "libcupti.so where the loader finds it, then /usr/local/cuda/extras/CUPTI/lib64",
        "NVIDIA's CUPTI library, for counters=cupti.";
    OPENMPS_LOG_FORMAT = "OPENMPS_LOG_FORMAT", "daemon, server", OneOf(&["text", "json"]),
        "text", "Lines of control.log and server.log: text as NVIDIA's, or one JSON object each (time, level, \
        role, pid, message).";
    OPENMPS_SYSTEM_DIRECTORY = "OPENMPS_SYSTEM_DIRECTORY", "client, openmps, NVML", AbsolutePath,
        "/tmp/nvidia-mps, then /run/nvidia-mps", "Where programs, openmps and the NVML look for the \
        system's daemon if CUDA_MPS_PIPE_DIRECTORY says nothing.";
    OPENMPS_KERNEL_TIMEOUT_S = "OPENMPS_KERNEL_TIMEOUT_S", "daemon, server", Number(0),
        "0", "How long the work of a stream may take, seconds, before its program is terminated with \
        CUDA_ERROR_LAUNCH_TIMEOUT; 0: for ever.";
    OPENMPS_ISOLATE_LONG = "OPENMPS_ISOLATE_LONG", "daemon, server", Any,
        "0", "A time such as 1s or 500ms: a program one of whose kernels runs for longer, beside others, \
        goes on at a server of its own, where programs share a context (NVIDIA's driver). The driver \
        time-slices servers. 0: none does.";
    OPENMPS_HOLD_MAX = "OPENMPS_HOLD_MAX", "daemon, server", Any,
        "10ms", "A time such as 2ms, at least 1ms: how long programs that share a context (NVIDIA's driver) are \
        paused at a time for another one's call that waits for all of their work, as loading code does. \
        The call's own time comes on top. See docs/scheduling.md.";
    OPENMPS_LAUNCH_BATCHING = "OPENMPS_LAUNCH_BATCHING", "server", OneOf(&["off", "on", "oversubscribed"]),
        "oversubscribed with NVIDIA's driver, else off",
        "When repeated launch sequences are submitted as one graph: `oversubscribed`, while programs leave no core \
        free; `on`, also while the device has other work. See docs/internals/launch-batching.md.";
    OPENMPS_STANDBY = "OPENMPS_STANDBY", "daemon", OneOf(&["0", "1"]),
        "0", "1 keeps a server with a made context ready for each that serves, to take its place at \
        once; it takes the device memory of a context.";
    OPENMPS_WARM = "OPENMPS_WARM", "server", Budget,
        "256M on NVIDIA's driver, else 0",
        "Device memory for code that this user's programs used before: a server loads it when it \
        starts, so that loading it does not make programs wait (list in openmps/warm below \
        CUDA_CACHE_PATH, XDG_CACHE_HOME or ~/.cache); 0: none.";
    OPENMPS_HOST_MEMORY = "OPENMPS_HOST_MEMORY", "server", Bytes,
        "half of the machine's memory, or of its cgroup's limit",
        "Most memory of the machine that a server keeps for a client, pinned or in graphs: bytes, or a \
        number with K, M or G. What is beyond it fails with CUDA_ERROR_OUT_OF_MEMORY, and server.log says so.";
    OPENMPS_HOST_MEMORY_USER = "OPENMPS_HOST_MEMORY_USER", "server", Bytes,
        "five eighths of the machine's memory, or of its cgroup's limit",
        "As OPENMPS_HOST_MEMORY, for all clients of a user at a server together. A server keeps at most three \
        quarters of the machine's memory for all users.";
    OPENMPS_REPLAY = "OPENMPS_REPLAY", "client", OneOf(&["auto", "always", "never"]),
        "auto", "What becomes of work in flight when a server is lost. auto repeats what gives the same \
        result; else one call fails with CUDA_ERROR_MPS_RPC_FAILURE. always repeats all since the program \
        last waited, which asserts that this gives the same result. never has a call fail always.";
    OPENMPS_TRACE = "OPENMPS_TRACE", "client, server", OneOf(&["summary", "unsupported", "errors", "calls"]),
        "off", "What a program writes to standard error. summary: at its end the functions that it called \
        in vain. unsupported: a line at the first call of each of them. errors: also one for each call \
        that fails. calls: at the end also all functions that it called, and how often it waited for \
        which answer. A server with it logs at a client's end what its requests took.";
    OPENMPS_SPIN_US = "OPENMPS_SPIN_US", "client, server", Number(0),
        "20, or 0 where there are fewer than 4 cores",
        "How long a waiter spins before it sleeps, microseconds; 0: it offers its core a few times and \
        sleeps. Where it is not set and there are 2 or 3 cores, a waiter offers its core for 100 us, or \
        until another thread takes it, and sleeps then.";
    OPENMPS_SOFT_CC = "OPENMPS_SOFT_CC", "software GPU", OneOf(&[
        "5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9",
        "9.0", "10.0", "10.3", "11.0", "12.0", "12.1",
    ]),
        "8.0, and what later devices take is taken too",
        "Compute capability of the software GPU: its SMs are then as on such a device, and images \
        for later ones are refused as there.";
    OPENMPS_SOFT_DEVICES = "OPENMPS_SOFT_DEVICES", "software GPU", Number(1),
        "1", "Devices that the software GPU shows, 1 to 16, each with its SMs and memory.";
    OPENMPS_SOFT_PEER = "OPENMPS_SOFT_PEER", "software GPU", OneOf(&["0", "1"]),
        "1", "0 keeps the software GPU's devices from each other's memory.";
    OPENMPS_SOFT_SMS = "OPENMPS_SOFT_SMS", "software GPU", Number(1),
        "8, or the number of cores if more", "Virtual SMs of a device of the software GPU.";
    OPENMPS_SOFT_THREADS = "OPENMPS_SOFT_THREADS", "software GPU", Number(1),
        "the number of cores", "Threads that work the virtual SMs.";
    OPENMPS_SOFT_MEMORY = "OPENMPS_SOFT_MEMORY", "software GPU", Bytes,
        "half of the machine's memory, shared by its devices",
        "Memory of a device of the software GPU: bytes, or a number with K, M or G.";
    OPENMPS_SOFT_DIR = "OPENMPS_SOFT_DIR", "software GPU", Any,
        "/dev/shm, then /tmp",
        "Directory of the lock files by which processes share the software GPU.";
    OPENMPS_SOFT_TENANTS = "OPENMPS_SOFT_TENANTS", "software GPU", OneOf(&["0", "1"]),
        "1", "0: the software GPU does not keep the clients of a server apart, as hardware does not: \
        a fault of one is the end of that server's context, for all of its clients.";
    OPENMPS_SOFT_CONTEXT_WAITS = "OPENMPS_SOFT_CONTEXT_WAITS", "software GPU", OneOf(&["0", "1"]),
        "0", "1: calls that wait for all work of a context in NVIDIA's driver (loading and unloading code, \
        unregistering host memory, destroying arrays) do so here, and nothing is submitted meanwhile. For tests.";
    OPENMPS_SOFT_LOG = "OPENMPS_SOFT_LOG", "software GPU", Any,
        "off", "1 writes faults of kernels to standard error.";
    OPENMPS_SOFT_STALL = "OPENMPS_SOFT_STALL", "software GPU", Number(0),
        "10", "Seconds after which a kernel whose blocks only wait is reported on standard error (with a \
        daemon in its server's log), with the block, thread and line of PTX that wait; 0: never.";
    OPENMPS_SOFT_TIER = "OPENMPS_SOFT_TIER", "software GPU", OneOf(&["0", "1", "auto"]),
        "auto", "What runs kernels: 0 the interpreter, 1 native code, auto the interpreter first \
        and native code for what runs for a while. Processors without AVX2 interpret.";
    OPENMPS_SOFT_SIMD = "OPENMPS_SOFT_SIMD", "software GPU, openmps", OneOf(&["avx512", "avx2"]),
        "avx512 if the processor has it, else avx2",
        "Instructions that native code is made of: avx512 or avx2. Processors without them interpret.";
    OPENMPS_SOFT_CHECK = "OPENMPS_SOFT_CHECK", "software GPU", Any,
        "off", "1 reports races on shared memory, and reads of memory never written (shared, \
        local, allocated, mapped, of kernels' malloc), on standard error (with a daemon in its \
        server's log); kernels are then several times slower.";
    OPENMPS_SOFT_PROFILE = "OPENMPS_SOFT_PROFILE", "software GPU", Any,
        "off", "File for a table of what each kernel did, written when the process that runs the \
        kernels ends (with a daemon that is the server) or calls cuProfilerStop; %p in it is the \
        process's number.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_is_distinguished_from_others() {
        let percentage = Some(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE);
        assert_eq!(meant("CUDA_MPS_ACTIV_THREAD_PERCENTAGE"), percentage);
        assert_eq!(meant("OPENMPS_CLAS"), Some(OPENMPS_CLASS));
        for other in ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "OPENMPS_BLESS", "CUDA_VISIBLE_DEVICE"] {
            assert_eq!(meant(other), None, "{other}");
        }
        // What tests and tools of the project read, and the tables do not have.
        let tools = "DIST EMITTED EVERY_TEST FORMS FUZZ_ROUNDS FUZZ_SEED FUZZ_TIERS HISTORIES PTXAS PTXAS_ONLY SEED";
        for tool in tools.split(' ') {
            assert_eq!(meant(&alloc::format!("OPENMPS_{tool}")), None, "{tool}");
        }
    }

    #[test]
    fn values_are_distinguished_from_mistakes() {
        for (values, good, bad) in [
            (AbsolutePath, "/var/cache", "cache"),
            (Number(1), " 8 ", "0"),
            (Number(0), "0", "-1"),
            (Bytes, "512M", "512MB"),
            (OneOf(&["0", "1", "auto"]), "auto", "2"),
            (Percentage, "25", "0"),
            (MemoryLimits, "0=1G", "1G"),
            (DriverVersion, "13.4", "4.13"),
        ] {
            assert!(values.accept(good) && values.accept(""), "{values}: {good}");
            assert!(!values.accept(bad), "{values}: {bad}");
        }
        assert!(Any.accept("x"));
    }
}
