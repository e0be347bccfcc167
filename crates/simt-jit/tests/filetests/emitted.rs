//! Kernels that compilers emit: each runs with generated arguments on each tier, and gives what it gives on the
//! interpreter.
//!
//! `OPENMPS_EMITTED` is a folder of PTX, which `tests/emitted.sh` fills; its text is not part of the
//! repository. Parameters of eight bytes are buffers of their own, Warp's structures what Warp makes of them, others a
//! small number. What a kernel does with these is of no meaning, but the same everywhere: it may be a fault.

use super::harness::{Device, Params, Shape};
use super::tiers::{HELD, Set, without_address};
use ptx_reference::Random;
use simt::kernel::{Dim3, FaultKind, KernelInfo};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Bytes of a buffer.
const BYTES: usize = 1 << 20;
/// Dynamic shared memory.
const SHARED: u32 = 64 << 10;
/// Threads of a block whose size a kernel does not say.
const THREADS: u32 = 128;
/// Bytes of Warp's structure that says how many threads there are: four extents, dimensions, size.
const WARP_BOUNDS_BYTES: u32 = 32;
/// Bytes of an array of Warp's: addresses of its values and their adjoints, four extents and strides, dimensions.
const WARP_ARRAY_BYTES: u32 = 56;

/// How a kernel ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done(Vec<Vec<u8>>),
    Fault(FaultKind),
    Failed(String),
}

fn shape(info: &KernelInfo) -> Shape {
    let one = |x| Dim3 { x, y: 1, z: 1 };
    let threads = one(THREADS.min(info.max_threads_per_block));
    let (grid, cluster) = (one(2), info.required_cluster);
    let grid = cluster.map_or(grid, |of| Dim3 { x: of.x, y: of.y, z: of.z });
    Shape { grid, block: info.required_block.unwrap_or(threads), cluster, shared: SHARED }
}

fn run(set: Set, text: &str, name: &str, number: u32) -> Outcome {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut device = Device::new(set);
        let module = device.load(text).map_err(|e| e.to_string())?;
        let kernel = module.kernel(name).ok_or("no kernel")?;
        let info = kernel.info().clone();
        let mut random = Random::new(info.params.len() as u64);
        let (mut params, mut buffers) = (Params::default(), Vec::new());
        let mut buffer = || {
            let address = device.memory.allocate(BYTES as u64, true);
            // Small numbers, which are indices as well, and floats around one.
            let word = |_| match random.one_in(2) {
                true => random.below(64) as u32,
                false => (random.bits() as u32 & 0x807f_ffff) | 0x3f80_0000,
            };
            let bytes: Vec<u8> = (0..BYTES / 4).map(word).flat_map(u32::to_le_bytes).collect();
            device.memory.write(address, &bytes);
            buffers.push(address);
            address.to_le_bytes()
        };
        for param in &info.params {
            params.0.resize(param.offset as usize, 0);
            match param.size {
                8 => params.0.extend(buffer()),
                WARP_BOUNDS_BYTES => {
                    let words = [number, 1, 1, 1, 1, 0, number, 0];
                    params.0.extend(words.map(u32::to_le_bytes).concat());
                }
                WARP_ARRAY_BYTES => {
                    params.0.extend([buffer(), buffer()].concat());
                    let stride = number.next_multiple_of(8);
                    let words = [number, 1, 1, 1, stride, 0, 0, 0, 1, 0];
                    params.0.extend(words.map(u32::to_le_bytes).concat());
                }
                size => {
                    let mut value = vec![0; size as usize];
                    value.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
                    params.0.extend(value);
                }
            }
        }
        match device.run(&kernel, shape(&info), &params.0) {
            Ok(()) => {
                Ok(Outcome::Done(buffers.iter().map(|a| device.memory.read(*a, BYTES)).collect()))
            }
            Err(fault) => Ok(Outcome::Fault(without_address(fault.kind))),
        }
    }));
    match ran {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(panic) => Outcome::Failed(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
    }
}

/// All PTX below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            found.push(path);
        }
    }
}

#[test]
fn kernels_of_compilers_give_the_same_on_each_tier() {
    let Some(folder) = std::env::var_os("OPENMPS_EMITTED") else { return };
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no PTX in {folder:?}");
    let (mut kernels, mut faults, mut wrong) = (0, 0, String::new());
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("text");
        // XLA writes an empty text for what has no kernel.
        if text.is_empty() {
            continue;
        }
        let module = match ptx::parse(&text) {
            Ok(module) => module,
            Err(errors) => {
                writeln!(wrong, "{}: {errors}", path.display()).unwrap();
                continue;
            }
        };
        let names: Vec<String> =
            module.kernels().map(|(_, f)| module.name(f.name).to_owned()).collect();
        for name in names {
            kernels += 1;
            // Sizes of which tiles are full and of which they are cut short.
            for number in [64, 37] {
                for (set, oracle) in HELD {
                    let expected = run(*oracle, &text, &name, number);
                    let got = run(*set, &text, &name, number);
                    faults += u32::from(matches!(expected, Outcome::Fault(_)));
                    let failed = match (&expected, &got) {
                        (Outcome::Failed(why), _) | (_, Outcome::Failed(why)) => Some(why.clone()),
                        (Outcome::Done(a), Outcome::Done(b)) => {
                            let buffer = (0..a.len()).find(|n| a[*n] != b[*n]);
                            buffer.map(|n| {
                                let at = a[n].iter().zip(&b[n]).position(|(a, b)| a != b);
                                format!("buffer {n} differs at {at:?}")
                            })
                        }
                        (a, b) if a != b => {
                            let kind = |o: &Outcome| match o {
                                Outcome::Fault(kind) => format!("{kind:?}"),
                                _ => "no fault".to_owned(),
                            };
                            Some(format!("{}, not {}", kind(b), kind(a)))
                        }
                        _ => None,
                    };
                    if let Some(why) = failed {
                        writeln!(wrong, "{} {name}, {number}, {set:?}: {why}", path.display())
                            .unwrap();
                    }
                }
            }
        }
    }
    println!("{} files, {kernels} kernels, {faults} runs end in a fault", paths.len());
    assert!(wrong.is_empty(), "{wrong}");
}
