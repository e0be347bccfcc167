//! Environment variables that any part of the project reads: one row each.

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Who reads it: client, daemon, server, provider, openmps.
    pub readers: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

macro_rules! variables {
    ($($id:ident = $name:literal, $readers:literal, $default:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $id: &str = $name;)*

        /// All of them.
        pub const VARIABLES: &[Variable] = &[$(Variable {
            name: $name, readers: $readers, default: $default, meaning: $meaning,
        }),*];
    };
}

variables! {
    CUDA_MPS_PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY", "client, daemon, openmps",
        "/tmp/nvidia-mps", "Directory of the daemon's sockets; client and daemon must agree.";
    CUDA_MPS_LOG_DIRECTORY = "CUDA_MPS_LOG_DIRECTORY", "daemon, openmps",
        "/var/log/nvidia-mps", "Directory of control.log and server.log.";
    CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES", "provider",
        "all devices", "Devices that the provider shows, and in which order.";
    CUDA_MODULE_LOADING = "CUDA_MODULE_LOADING", "client",
        "LAZY", "EAGER loads a program's kernels at start.";
    CUDA_CACHE_DISABLE = "CUDA_CACHE_DISABLE", "software GPU",
        "0", "1 keeps no native code on disk for later processes.";
    CUDA_CACHE_PATH = "CUDA_CACHE_PATH", "software GPU",
        "XDG_CACHE_HOME, then ~/.cache",
        "Directory below which native code of kernels is kept, in openmps/code.";
    CUDA_CACHE_MAXSIZE = "CUDA_CACHE_MAXSIZE", "software GPU",
        "268435456", "Most native code that is kept there, bytes.";
    OPENMPS_PROVIDER = "OPENMPS_PROVIDER", "client, server, openmps",
        "vendor if there is one, else soft",
        "What drives the device: vendor, soft, or the absolute path of a libcuda.so.1.";
    OPENMPS_LIB_DIR = "OPENMPS_LIB_DIR", "client, server, openmps",
        "beside the library or program that asks",
        "Directory with libcuda.so.1 (the client) and libopenmps-soft.so.";
    OPENMPS_TRACE = "OPENMPS_TRACE", "client",
        "off", "summary lists on standard error, when a program ends, the functions that it called in \
        vain; unsupported writes a line at the first call of each of them; errors also one for each \
        call that fails; calls lists at the end also all functions that the program called.";
    OPENMPS_SPIN_US = "OPENMPS_SPIN_US", "client, server",
        "20, or 0 where there are fewer than 4 cores",
        "How long a waiter spins before it sleeps, microseconds; 0: it sleeps at once.";
    OPENMPS_SOFT_SMS = "OPENMPS_SOFT_SMS", "software GPU",
        "8, or the number of cores if more", "Virtual SMs of the software GPU.";
    OPENMPS_SOFT_THREADS = "OPENMPS_SOFT_THREADS", "software GPU",
        "the number of cores", "Threads that work the virtual SMs.";
    OPENMPS_SOFT_MEMORY = "OPENMPS_SOFT_MEMORY", "software GPU",
        "half of the machine's memory",
        "Memory of the software GPU: bytes, or a number with K, M or G.";
    OPENMPS_SOFT_DIR = "OPENMPS_SOFT_DIR", "software GPU",
        "/dev/shm, then /tmp",
        "Directory of the lock files by which processes take turns at the software GPU.";
    OPENMPS_SOFT_LOG = "OPENMPS_SOFT_LOG", "software GPU",
        "off", "1 writes faults of kernels to standard error.";
    OPENMPS_SOFT_TIER = "OPENMPS_SOFT_TIER", "software GPU",
        "auto", "What runs kernels: 0 the interpreter, 1 native code, auto the interpreter first \
        and native code for what runs for a while. Processors without AVX2 interpret.";
    OPENMPS_SOFT_SIMD = "OPENMPS_SOFT_SIMD", "software GPU, openmps",
        "avx512 if the processor has it, else avx2",
        "Instructions that native code is made of: avx512 or avx2. Processors without them interpret.";
    OPENMPS_SOFT_CHECK = "OPENMPS_SOFT_CHECK", "software GPU",
        "off", "1 reports races on shared memory, and reads of shared and local memory that nobody \
        wrote, on standard error (with a daemon in its server's log); kernels are then several \
        times slower.";
    OPENMPS_SOFT_PROFILE = "OPENMPS_SOFT_PROFILE", "software GPU",
        "off", "File for a table of what each kernel did, written when the process that runs the \
        kernels ends (with a daemon that is the server) or calls cuProfilerStop; %p in it is the \
        process's number.";
}
