//! What the program's variables ask for: a share of SMs, less memory, a priority.

use channel::message::{Device, JOB_BYTES_MAX, RequestedLimits};
use cuda_api::environment::{
    CUDA_DEVICE_MAX_CONNECTIONS, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_CLIENT_PRIORITY,
    CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT,
    CUDA_MPS_SM_PARTITION, meant,
};
use cuda_api::settings::{Percentage, Priority, SettingRefused, names_device, parse_memory_limits};

/// Most hardware queues that a program can ask for, as NVIDIA's driver has it.
const CONNECTIONS_MAX: u32 = 32;

/// Those of this process. A value that is none is as good as no value.
pub(crate) fn of_process() -> RequestedLimits {
    read(of_environment, drop)
}

/// Says on standard error which of this process's variables are not taken, at a daemon with these devices.
pub(crate) fn say_mistakes(devices: &[Device]) {
    let mut say = |mistake| crate::stderr::say(format_args!("{mistake}"));
    let requested = read(of_environment, &mut say);
    devices_not_there(&requested, devices).for_each(say);
}

/// Says on standard error which of this process's variables are probably misspelt: nothing reads them.
pub(crate) fn say_misspelt() {
    for (name, _) in std::env::vars_os() {
        if let Some((name, meant)) = name.to_str().and_then(|name| Some((name, meant(name)?))) {
            crate::stderr::say(format_args!("nothing reads {name}; {meant} may be meant"));
        }
    }
}

fn of_environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// What there is to say of limits of memory that are for none of the daemon's devices.
fn devices_not_there(
    requested: &RequestedLimits,
    devices: &[Device],
) -> impl Iterator<Item = String> {
    let is_there = move |word: &str| {
        (0_u32..).zip(devices).any(|(at, device)| names_device(word, at, &device.uuid.to_string()))
    };
    requested.memory.iter().filter(move |limit| !is_there(&limit.device)).map(|limit| {
        format!(
            "{CUDA_MPS_PINNED_DEVICE_MEM_LIMIT} limits nothing on {}: the daemon has no such device",
            limit.device
        )
    })
}

fn read(
    variable: impl Fn(&str) -> Option<String>,
    mut mistake: impl FnMut(String),
) -> RequestedLimits {
    let text = |name| variable(name).filter(|value| !value.trim().is_empty());
    let mut kept =
        |name: &str, error: SettingRefused| mistake(format!("{name} is not taken: {error}"));
    let mut requested = RequestedLimits::default();
    // The variable is about each context then.
    let name = CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING;
    let per_context = text(name).is_some_and(|value| value.trim() == "1");
    if let Some(text) = text(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE).filter(|_| !per_context) {
        match Percentage::parse(&text) {
            Ok(share) => requested.share = Some(share),
            Err(error) => kept(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, error),
        }
    }
    if let Some(text) = text(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT) {
        match parse_memory_limits(&text) {
            Ok(limits) => requested.memory = limits,
            Err(error) => kept(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, error),
        }
    }
    if let Some(text) = text(CUDA_MPS_CLIENT_PRIORITY) {
        match Priority::parse(&text) {
            Ok(priority) => requested.priority = Some(priority),
            Err(error) => kept(CUDA_MPS_CLIENT_PRIORITY, error),
        }
    }
    requested.partition = text(CUDA_MPS_SM_PARTITION).unwrap_or_default();
    if let Some(text) = text(CUDA_DEVICE_MAX_CONNECTIONS) {
        match text.trim().parse() {
            Ok(number @ 1..=CONNECTIONS_MAX) => requested.connections = number,
            _ => {
                let allowed = "a number of queues from 1 to 32";
                kept(CUDA_DEVICE_MAX_CONNECTIONS, SettingRefused { found: text, allowed });
            }
        }
    }
    requested.job = job_of(&variable);
    requested
}

/// The job of several processes that this one is one of, as its launcher names it in variables: PyTorch's and
/// others' meeting place, Open MPI, PMIx, Slurm. Kernels of such a job may wait for each other on several devices.
fn job_of(variable: &impl Fn(&str) -> Option<String>) -> String {
    let text = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let of_one = |name: &str| text(name).is_some_and(|count| count.trim() == "1");
    if ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].into_iter().any(of_one) {
        return String::new();
    }
    let pair = |one: &str, other: &str| Some(format!("{}:{}", text(one)?, text(other)?));
    let several = || text("SLURM_NTASKS").filter(|_| !of_one("SLURM_NTASKS"));
    let mut job = pair("MASTER_ADDR", "MASTER_PORT")
        .or_else(|| text("PMIX_NAMESPACE"))
        .or_else(|| text("OMPI_MCA_ess_base_jobid"))
        .or_else(|| several().and_then(|_| pair("SLURM_JOB_ID", "SLURM_STEP_ID")))
        .unwrap_or_default();
    let end = (0..=JOB_BYTES_MAX.min(job.len())).rev().find(|end| job.is_char_boundary(*end));
    job.truncate(end.unwrap_or(0));
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::settings::MemoryLimit;

    #[test]
    fn variables_are_read_and_mistakes_are_said() {
        let of = |name: &'static str, value: &'static str| {
            let mut said = Vec::new();
            let requested = read(
                |asked| (asked == name).then(|| value.to_owned()),
                |mistake| said.push(mistake),
            );
            (requested, said)
        };
        let (requested, said) = of(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, "25");
        assert_eq!((requested.share.map(Percentage::thousandths), said.len()), (Some(25_000), 0));
        let (requested, _) = of(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "0=1G");
        assert_eq!(requested.memory, [MemoryLimit { device: "0".into(), bytes: 1 << 30 }]);
        assert_eq!(of(CUDA_MPS_CLIENT_PRIORITY, "1").0.priority, Some(Priority::BelowNormal));
        assert_eq!(of(CUDA_DEVICE_MAX_CONNECTIONS, "8").0.connections, 8);
        for (name, wrong, part) in [
            (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, "0", "more than 0 and at most 100"),
            (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "1G", "DEVICE=SIZE"),
            (CUDA_MPS_CLIENT_PRIORITY, "2", "0 (normal) or 1"),
            (CUDA_DEVICE_MAX_CONNECTIONS, "33", "from 1 to 32"),
        ] {
            let (requested, said) = of(name, wrong);
            assert_eq!((requested, said.len()), (RequestedLimits::default(), 1), "{name}");
            assert!(said[0].contains(name) && said[0].contains(part), "{}", said[0]);
        }
        let (requested, _) = of(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "0=1G,7=16M,GPU-00=1G,GPU-77=1G");
        let said: Vec<String> = devices_not_there(&requested, &[Device::default()]).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("nothing on 7:") && said[1].contains("nothing on GPU-77:"));
        let job = |variables: &[(&str, &str)]| {
            job_of(&|name: &str| variables.iter().find(|of| of.0 == name).map(|of| of.1.to_owned()))
        };
        let place = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")];
        assert_eq!(job(&place), "127.0.0.1:29500");
        assert_eq!(job(&[place[0], place[1], ("WORLD_SIZE", "1")]), "", "no peer waits for it");
        assert_eq!(job(&[place[0], place[1], ("WORLD_SIZE", "8")]), "127.0.0.1:29500");
        assert_eq!(job(&[("PMIX_NAMESPACE", "n.1")]), "n.1");
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")];
        assert_eq!(job(&slurm), "");
        assert_eq!(job(&[slurm[0], slurm[1], ("SLURM_NTASKS", "2")]), "7:0");
        assert_eq!(job(&[("PMIX_NAMESPACE", &"\u{e4}".repeat(300))]).len(), JOB_BYTES_MAX);
        let both = |name: &str| match name {
            CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING => Some("1".to_owned()),
            CUDA_MPS_ACTIVE_THREAD_PERCENTAGE => Some("25".to_owned()),
            _ => None,
        };
        assert_eq!(read(both, |mistake| panic!("{mistake}")), RequestedLimits::default());
        assert_eq!(of(CUDA_MPS_CLIENT_PRIORITY, " "), (RequestedLimits::default(), vec![]));
    }
}
