//! Loading ahead: images of the warm list, before there are clients.
//!
//! At a server's start what clients of another one have comes first, however long it takes: that one
//! serves meanwhile. Then what was used last, within a budget of time and of device memory.

use super::store::{ImageUse, Store, StoredImage};
use crate::device::{CodeKey, Device, Module, PreparedCode};
use crate::log::Log;
use channel::message::WarmStatus;
use cuda_api::CudaError;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A server serves no later than this because of the list.
const LOAD_MAX: Duration = Duration::from_secs(1);
/// The same, because of what clients of a server have that serves on until this one is ready.
const HELD_LOAD_MAX: Duration = Duration::from_secs(30);
/// Device memory for that at least, bytes.
const HELD_BYTES_MIN: u64 = 1 << 30;
/// What a driver takes for code at most, as a multiple of its files' bytes.
const TAKEN_OF_FILE_MAX: u64 = 2;

/// What was loaded.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) status: WarmStatus,
    pub(super) uses: HashMap<CodeKey, ImageUse>,
    /// In the order of loading.
    keys: Vec<CodeKey>,
    /// Most local memory that a thread of a kernel needs, bytes.
    local_bytes: u64,
}

/// What loading may take.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    bytes: u64,
    time: Duration,
}

impl Budget {
    fn of_list(bytes: u64) -> Self {
        Self { bytes, time: LOAD_MAX }
    }

    /// Of what clients of other servers have, where the list's is so many bytes.
    pub(super) fn of_held(bytes: u64) -> Self {
        Self { bytes: bytes.max(HELD_BYTES_MIN), time: HELD_LOAD_MAX }
    }

    /// What is left of it when so many bytes are loaded.
    pub(super) fn after(self, bytes: u64) -> Self {
        Self { bytes: self.bytes.saturating_sub(bytes), ..self }
    }
}

/// Loads what a server begins with.
pub(super) fn at_start(
    device: &Device,
    store: &Store,
    budget: u64,
    log: &Log,
) -> std::io::Result<Loaded> {
    let since = Instant::now();
    let (names, candidate) = store.clear_up()?;
    if let Some(name) = candidate {
        log.line(format!(
            "Image {name} of the warm list is given up: a server ended while loading it"
        ));
    }
    let status = WarmStatus { budget_bytes: budget, ..WarmStatus::default() };
    let mut loaded = Loaded { status, ..Loaded::default() };
    let held = store.held_elsewhere();
    let wanted = names.into_iter().map(|name| (held.get(&name).copied(), name));
    let (of_clients, others): (Vec<_>, Vec<_>) = wanted.partition(|(count, _)| count.is_some());
    let modules = |all: Vec<(Option<u32>, String)>| -> Vec<(String, u32)> {
        all.into_iter().map(|(count, name)| (name, count.unwrap_or(1))).collect()
    };
    let (of_clients, others) = (modules(of_clients), modules(others));
    load_names(device, store, &of_clients, Budget::of_held(budget), &mut loaded, log);
    let of_clients = loaded.status.images;
    load_names(device, store, &others, Budget::of_list(budget), &mut loaded, log);
    let (local_bytes, bytes) = (loaded.local_bytes, loaded.status.bytes);
    match device.take_local_memory(local_bytes, budget.saturating_sub(bytes)) {
        Ok(0) => {}
        Ok(bytes) => {
            loaded.status.bytes += bytes;
            log.line(format!(
                "Local memory for {local_bytes} bytes a thread is taken: {} MiB",
                bytes >> 20
            ));
        }
        Err(error) => log.line(format!("Local memory is not taken ahead: {error}")),
    }
    // What was used last goes last.
    loaded.keys.iter().rev().for_each(|key| device.code_cache().touch(key));
    device.code_cache().keep_unused(loaded.status.bytes.max(budget));
    if loaded.status.images > 0 {
        let WarmStatus { images, kernels, bytes, .. } = loaded.status;
        let (mib, ms) = (bytes >> 20, since.elapsed().as_millis());
        let of_clients = match of_clients {
            0 => String::new(),
            count => format!(", {count} of them of programs at other servers"),
        };
        log.line(format!(
            "Warm list: {images} images with {kernels} kernels, {mib} MiB, in {ms} ms{of_clients}"
        ));
    }
    Ok(loaded)
}

/// Loads images of the list in this order, as far as the budget goes: those with variables as often as is
/// said, because such a module has one user at a time.
pub(super) fn load_names(
    device: &Device,
    store: &Store,
    names: &[(String, u32)],
    budget: Budget,
    loaded: &mut Loaded,
    log: &Log,
) {
    let since = Instant::now();
    let free = || device.memory_info().map_or(0, |(free, _)| free);
    let (free_before, bytes_before) = (free(), loaded.status.bytes);
    let status = &mut loaded.status;
    let mut file_bytes = 0;
    'names: for (name, modules) in names {
        let bytes = store.image_bytes(name);
        if since.elapsed() >= budget.time || status.bytes >= budget.bytes {
            break;
        }
        if status.bytes + bytes > budget.bytes {
            continue;
        }
        let Some(StoredImage { key, image, used }) = store.load(name) else { continue };
        store.set_loading(Some(name));
        let how = (&used.options[..], used.variables.as_ref());
        let modules = if used.variables.is_some() { *modules } else { 1 };
        for _ in 0..modules {
            if since.elapsed() >= budget.time || status.bytes + bytes > budget.bytes {
                break;
            }
            match Module::load_ahead(device, key, image.clone(), how, used.kernels.iter()) {
                Ok(PreparedCode { kernels, local_bytes }) => {
                    status.images += 1;
                    status.kernels += kernels;
                    loaded.local_bytes = local_bytes.max(loaded.local_bytes);
                    loaded.keys.push(key);
                }
                Err(CudaError::OUT_OF_MEMORY) => break 'names,
                Err(error) => {
                    log.line(format!("Image {name} of the warm list is given up: {error}"));
                    store.remove(name);
                    break;
                }
            }
            loaded.uses.entry(key).or_insert_with(|| used.clone());
            // Drivers take less than the file has, or more. What other processes take meanwhile is not this one's.
            file_bytes += bytes;
            let taken = free_before.saturating_sub(free()).min(TAKEN_OF_FILE_MAX * file_bytes);
            status.bytes = if taken > 0 { bytes_before + taken } else { status.bytes + bytes };
        }
    }
    store.set_loading(None);
}
