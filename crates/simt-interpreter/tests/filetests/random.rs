//! Random programs, held against an interpreter that is obviously right (crate `ptx-reference`).
//!
//! `OPENMPS_FUZZ_ROUNDS` says how many programs, `OPENMPS_FUZZ_SEED` from which seed on.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use ptx_reference::{Argument, Buffer, Launch, differential};
use simt::kernel::Dim3;

fn dim([x, y, z]: [u32; 3]) -> Dim3 {
    Dim3 { x, y, z }
}

fn run(
    set: Set,
    checked: bool,
    text: &str,
    launch: &Launch,
    buffers: &mut [Buffer],
) -> Result<(), String> {
    let mut device = if checked { Device::checking(set) } else { Device::new(set) };
    let module = device.load(text).map_err(|e| e.to_string())?;
    let kernel = module.kernel(&launch.kernel).ok_or("no kernel")?;
    let addresses: Vec<u64> = buffers
        .iter()
        .map(|bytes| {
            let address = device.memory.allocate(bytes.len() as u64, true);
            device.memory.write(address, bytes);
            address
        })
        .collect();
    let mut params = Params::default();
    for argument in &launch.arguments {
        match argument {
            Argument::Buffer(index) => params.push(&addresses[*index].to_le_bytes()),
            Argument::Value(bytes) => params.push(bytes),
        }
    }
    let shape = Shape {
        grid: dim(launch.grid),
        block: dim(launch.block),
        cluster: None,
        shared: launch.shared_bytes,
    };
    device.run(&kernel, shape, &params.0).map_err(|fault| format!("{fault:?}"))?;
    // Random programs have no races and read nothing that was not written.
    if let Some(finding) = device.findings.iter().flat_map(|f| f.lock().unwrap().clone()).next() {
        return Err(finding);
    }
    for (bytes, address) in buffers.iter_mut().zip(addresses) {
        *bytes = device.memory.read(address, bytes.len());
    }
    Ok(())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How many random programs: more when asked.
pub(crate) fn rounds(default: u64) -> u64 {
    number("OPENMPS_FUZZ_ROUNDS").unwrap_or(default)
}

/// Runs programs on a tier.
fn tier(set: Set, checked: bool) -> impl Fn(&str, &Launch, &mut Vec<Buffer>) -> Result<(), String> {
    move |text, launch, buffers| run(set, checked, text, launch, buffers)
}

/// Programs that differed once: for a vote among lanes that left a loop at different times, for a
/// NaN whose bits were looked at, and for a value that lanes took out of a loop others ran on in.
const ONCE_WRONG: [u64; 3] = [6330, 5990, 71480];

#[test]
fn random_programs_that_were_wrong_once_stay_right() {
    for seed in ONCE_WRONG {
        for set in ALL_SETS {
            differential::check(seed, &[(&format!("{set:?}"), &tier(set, false))]);
        }
    }
}

#[test]
fn random_programs_give_what_ptx_means() {
    let first = number("OPENMPS_FUZZ_SEED").unwrap_or(0);
    // Each program with one of the instruction sets, in turn: more programs say more than the
    // same one again.
    for seed in first..first + rounds(2000) {
        let set = ALL_SETS[seed as usize % ALL_SETS.len()];
        let checked = seed % 8 == 7;
        let name = format!("{set:?}{}", if checked { ", checking" } else { "" });
        differential::check(seed, &[(&name, &tier(set, checked))]);
    }
}
