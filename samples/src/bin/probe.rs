//! Says what devices there are: name, memory and the attributes that programs ask for most.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use cudarc::driver::{CudaContext, result, sys::CUdevice_attribute as Attribute};
use samples::{
    driver,
    gpu::{failed, require_driver},
    report::say,
};
use serde::Serialize;

/// Lists the CUDA devices.
#[derive(Parser)]
#[command(name = "probe")]
struct CommandLine {
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Attribute and what to call it.
const ATTRIBUTES: &[(Attribute, &str)] = &[
    (Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "multiprocessors"),
    (Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "clock_khz"),
    (Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, "warp_size"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "threads_per_block_max"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, "threads_per_sm_max"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, "blocks_per_sm_max"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, "registers_per_sm"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, "shared_bytes_per_block"),
    (
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        "shared_bytes_per_block_optin",
    ),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, "shared_bytes_per_sm"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, "grid_x_max"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, "grid_y_max"),
    (Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "l2_bytes"),
    (Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, "copy_engines"),
    (Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, "concurrent_kernels"),
    (Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, "stream_priorities"),
    (Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "unified_addressing"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "managed_memory"),
    (Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory_pools"),
    (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, "compute_mode"),
    (Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "cooperative_launch"),
];

#[derive(Serialize)]
struct Device {
    ordinal: usize,
    name: String,
    uuid: String,
    compute_capability: String,
    memory_bytes: usize,
    memory_free_bytes: usize,
    stream_priorities: (i32, i32),
    attributes: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Probe {
    sample: &'static str,
    driver_version: i32,
    devices: Vec<Device>,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match probe() {
        Ok(probe) if arguments.json => {
            say(serde_json::to_string(&probe).expect("numbers and strings are JSON"));
            ExitCode::SUCCESS
        }
        Ok(probe) => {
            print(&probe);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("probe: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn probe() -> Result<Probe> {
    require_driver();
    let mut driver_version = 0;
    driver::cuDriverGetVersion(&mut driver_version)?;
    result::init().map_err(failed).context("cuInit")?;
    let count = CudaContext::device_count().map_err(failed)?;
    let devices = (0..count as usize).map(device).collect::<Result<_>>()?;
    Ok(Probe { sample: "probe", driver_version, devices })
}

fn device(ordinal: usize) -> Result<Device> {
    let context = CudaContext::new(ordinal).map_err(failed)?;
    let (major, minor) = context.compute_capability().map_err(failed)?;
    let (memory_free_bytes, _) = context.mem_get_info().map_err(failed)?;
    let mut attributes = serde_json::Map::new();
    for &(attribute, name) in ATTRIBUTES {
        let value = context.attribute(attribute).map_err(failed).context(name)?;
        attributes.insert(name.to_owned(), value.into());
    }
    let uuid = context.uuid().map_err(failed)?;
    Ok(Device {
        ordinal,
        name: context.name().map_err(failed)?,
        uuid: uuid.bytes.iter().map(|&byte| format!("{:02x}", byte as u8)).collect(),
        compute_capability: format!("{major}.{minor}"),
        memory_bytes: context.total_mem().map_err(failed)?,
        memory_free_bytes,
        stream_priorities: result::stream::get_priority_range().map_err(failed)?,
        attributes,
    })
}

fn print(probe: &Probe) {
    let version = probe.driver_version;
    say(format_args!("driver version {}.{}", version / 1000, version % 1000 / 10));
    for device in &probe.devices {
        say(format_args!("device {}: {}", device.ordinal, device.name));
        say(format_args!("  uuid {}", device.uuid));
        say(format_args!("  compute capability {}", device.compute_capability));
        let mib = |bytes: usize| bytes >> 20;
        let (free, total) = (mib(device.memory_free_bytes), mib(device.memory_bytes));
        say(format_args!("  memory {total} MiB, {free} MiB free"));
        let (least, greatest) = device.stream_priorities;
        say(format_args!("  stream priorities {least} (least) to {greatest} (greatest)"));
        for (name, value) in &device.attributes {
            say(format_args!("  {name} {value}"));
        }
    }
}
