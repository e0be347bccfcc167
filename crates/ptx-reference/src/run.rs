//! A grid, block by block; a block's threads, each until it must wait.

use crate::Random;
use crate::collective::Collective;
use crate::execute::{Flow, Thread};
use crate::grid::{Argument, Grid, Launch, Memory};
use crate::memory::{self, Buffer};
use crate::warp;
use ptx::ast::{FunctionId, Module, Parameter};

/// Instructions that one thread may run: no test needs nearly as many.
const STEPS_MAX: u64 = 4_000_000;

/// Steps of a thread in a row, at most, where the order is random.
const RUN_MAX: u64 = 24;
/// Steps of all threads in a random order: no test needs nearly as many.
const ALL_STEPS_MAX: u64 = 40_000_000;

/// Runs a kernel to its end. `buffers` are what the arguments point to.
///
/// # Errors
/// What went wrong, for a person: not PTX, no such kernel, an access outside of memory, an
/// instruction that has no meaning here, threads that wait for ever.
pub fn run(module: &Module, launch: &Launch, buffers: &mut Vec<Buffer>) -> Result<(), String> {
    in_grid(module, launch, buffers, |grid, kernel, buffers| {
        let mut blocks = 0..launch.grid.iter().product::<u32>();
        blocks
            .try_for_each(|index| run_block(grid, kernel, coordinates(index, launch.grid), buffers))
    })
}

/// As [`run()`], with all threads of the grid at a time, each for itself, in an order that is made of
/// `seed`: any of them may be kept waiting for long, none for ever.
///
/// # Errors
/// As of [`run()`].
pub fn run_in_random_order(
    module: &Module,
    launch: &Launch,
    buffers: &mut Vec<Buffer>,
    seed: u64,
) -> Result<(), String> {
    in_grid(module, launch, buffers, |grid, kernel, buffers| {
        run_at_random(grid, kernel, buffers, &mut Random::new(seed))
    })
}

/// Calls `run` with the kernel and what its threads share.
fn in_grid(
    module: &Module,
    launch: &Launch,
    buffers: &mut Vec<Buffer>,
    run: impl FnOnce(&Grid<'_>, FunctionId, &mut Vec<Buffer>) -> Result<(), String>,
) -> Result<(), String> {
    let kernel = module
        .kernels()
        .find(|(_, f)| module.name(f.name) == launch.kernel)
        .map(|(id, _)| id)
        .ok_or_else(|| format!("no kernel {}", launch.kernel))?;
    let given = buffers.len();
    let places = memory::place(module, buffers);
    let (params, param_offsets) = parameters(module, kernel, &launch.arguments)?;
    let grid = Grid { module, launch, places, param_offsets, params };
    let result = run(&grid, kernel, buffers);
    buffers.truncate(given);
    result
}

/// A block of which any thread may run next.
struct Block {
    threads: Vec<Thread>,
    shared: Vec<u8>,
    arrived: [u32; 16],
}

fn run_at_random(
    grid: &Grid<'_>,
    kernel: FunctionId,
    buffers: &mut Vec<Buffer>,
    random: &mut Random,
) -> Result<(), String> {
    let indices = 0..grid.launch.grid.iter().product::<u32>();
    let mut blocks: Vec<Block> = indices
        .map(|index| Block {
            threads: threads(grid, kernel, coordinates(index, grid.launch.grid)),
            shared: vec![0; shared_bytes(grid)],
            arrived: [0; 16],
        })
        .collect();
    let mut steps = 0;
    loop {
        let can_run = |thread: &Thread| thread.waiting.is_none() && !thread.done();
        let runnable: Vec<(usize, usize)> = blocks
            .iter()
            .enumerate()
            .flat_map(|(b, block)| {
                let threads = block.threads.iter().enumerate();
                threads.filter(|(_, thread)| can_run(thread)).map(move |(t, _)| (b, t))
            })
            .collect();
        if runnable.is_empty() {
            let left = blocks.iter().flat_map(|block| &block.threads).find(|t| !t.done());
            return left.map_or(Ok(()), |t| Err(format!("{} waits for ever", t.place())));
        }
        // Some threads more often than others, for a while.
        for _ in 0..runnable.len().min(16) {
            let (b, t) = *random.pick(&runnable);
            let block = &mut blocks[b];
            let mut memory = Memory { buffers, shared: std::mem::take(&mut block.shared) };
            let thread = &mut block.threads[t];
            let mut left = 1 + random.below(RUN_MAX);
            let mut stops = false;
            while left > 0 && can_run(thread) {
                (left, steps) = (left - 1, steps + 1);
                match thread.step(grid, &mut memory)? {
                    Flow::Next => stops |= thread.done(),
                    Flow::Wait(collective) => (thread.waiting, stops) = (Some(collective), true),
                    Flow::Arrive(barrier) => {
                        block.arrived[barrier as usize % 16] += 1;
                        stops = true;
                    }
                }
            }
            block.shared = memory.shared;
            // What it did last may be what others wait for.
            while stops {
                stops = warp::together(grid, &mut block.threads)?
                    | open_barriers(grid, &mut block.threads, &mut block.arrived)?;
            }
        }
        if steps > ALL_STEPS_MAX {
            return Err("the grid runs too long".to_owned());
        }
    }
}

fn threads(grid: &Grid<'_>, kernel: FunctionId, block: [u32; 3]) -> Vec<Thread> {
    let extents = grid.launch.block;
    (0..extents.iter().product::<u32>())
        .map(|number| Thread::new(grid, kernel, block, number, coordinates(number, extents)))
        .collect()
}

fn shared_bytes(grid: &Grid<'_>) -> usize {
    grid.places.shared_bytes as usize + grid.launch.shared_bytes as usize
}

/// Index to coordinates, x fastest.
fn coordinates(index: u32, extents: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extents;
    [index % x, index / x % y, index / x / y]
}

fn parameters(
    module: &Module,
    kernel: FunctionId,
    arguments: &[Argument],
) -> Result<(Vec<u8>, Vec<u64>), String> {
    let function = module.function(kernel);
    let layout = function.parameter_layout().ok_or("parameters overflow")?;
    if layout.params.len() != arguments.len() {
        return Err(format!("{} arguments, not {}", arguments.len(), layout.params.len()));
    }
    debug_assert!(function.params.iter().all(|p| matches!(p, Parameter::Memory(_))));
    let mut bytes = vec![0; layout.size_bytes as usize];
    let mut offsets = vec![0; function.locals.len()];
    for (slot, argument) in layout.params.iter().zip(arguments) {
        offsets[slot.local.index()] = slot.offset_bytes;
        let value = match argument {
            Argument::Buffer(index) => memory::buffer_address(*index).to_le_bytes().to_vec(),
            Argument::Value(bytes) => bytes.clone(),
        };
        let at = slot.offset_bytes as usize;
        let size = value.len().min(slot.size_bytes as usize);
        bytes[at..at + size].copy_from_slice(&value[..size]);
    }
    Ok((bytes, offsets))
}

fn run_block(
    grid: &Grid<'_>,
    kernel: FunctionId,
    block: [u32; 3],
    buffers: &mut Vec<Buffer>,
) -> Result<(), String> {
    let mut threads = threads(grid, kernel, block);
    let mut memory = Memory { buffers, shared: vec![0; shared_bytes(grid)] };
    // Threads that have arrived at each barrier without waiting there.
    let mut arrived = [0u32; 16];
    loop {
        let mut progress = false;
        for thread in &mut threads {
            let mut steps = 0;
            while thread.waiting.is_none() && !thread.done() {
                progress = true;
                steps += 1;
                if steps > STEPS_MAX {
                    return Err(format!("{} runs too long", thread.place()));
                }
                match thread.step(grid, &mut memory)? {
                    Flow::Next => {}
                    Flow::Wait(collective) => thread.waiting = Some(collective),
                    Flow::Arrive(barrier) => arrived[barrier as usize % 16] += 1,
                }
            }
        }
        if threads.iter().all(Thread::done) {
            return Ok(());
        }
        progress |= warp::together(grid, &mut threads)?;
        progress |= open_barriers(grid, &mut threads, &mut arrived)?;
        if !progress {
            let stuck = threads.iter().find(|t| !t.done()).map(Thread::place).unwrap_or_default();
            return Err(format!("{stuck} waits for ever"));
        }
    }
}

/// Lets the threads go whose barrier is complete.
fn open_barriers(
    grid: &Grid<'_>,
    threads: &mut [Thread],
    arrived: &mut [u32; 16],
) -> Result<bool, String> {
    let mut opened = false;
    let live = threads.iter().filter(|t| !t.done()).count() as u32;
    for (number, arrived) in arrived.iter_mut().enumerate() {
        let here = |t: &Thread| match &t.waiting {
            Some(Collective::Barrier { barrier, count, vote }) if *barrier == number as u32 => {
                Some((*count, *vote))
            }
            _ => None,
        };
        let waiting: Vec<(u32, bool)> = threads.iter().filter_map(here).collect();
        let Some(&(count, _)) = waiting.first() else { continue };
        let expected = if count == 0 { live } else { count };
        if waiting.len() as u32 + *arrived < expected {
            continue;
        }
        *arrived = 0;
        opened = true;
        let votes = waiting.iter().filter(|(_, vote)| *vote).count();
        for thread in threads.iter_mut().filter(|t| here(t).is_some()) {
            thread.waiting = None;
            thread.leave_barrier(grid, votes, waiting.len())?;
        }
    }
    Ok(opened)
}
