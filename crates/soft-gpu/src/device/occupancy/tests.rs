//! The model of occupancy against NVIDIA's calculator, and against block placement.

use super::*;
use crate::device::capability::CAPABILITIES;

/// What NVIDIA's calculator says; `data/calculator.c` made it, with the header of CUDA 13.5.
const CALCULATOR: &str = include_str!("../../../data/calculator.tsv");

fn of(number: &str) -> &'static Capability {
    Capability::parse(number).unwrap()
}

#[test]
fn nvidias_calculator_says_the_same() {
    let mut cases = 0;
    for line in CALCULATOR.lines().skip(1) {
        let row: Vec<i64> = line.split('\t').map(|n| n.parse().unwrap()).collect();
        let [major, minor, threads, registers, fixed, dynamic, dynamic_max, carveout, barriers] =
            row[..9].try_into().unwrap();
        let [blocks, wanted, available, best_threads, best_blocks] = row[9..].try_into().unwrap();
        let capability = Capability::find(major as u32, minor as u32).unwrap();
        let kernel = KernelNeed {
            registers: registers as u32,
            static_bytes: fixed as u32,
            dynamic_bytes_max: dynamic_max as u32,
            barriers: barriers as u32,
            carveout_percent: u32::try_from(carveout).ok(),
        };
        let (threads, dynamic) = (threads as u32, dynamic as u32);
        let found = capability.resident(&kernel, threads, dynamic).0;
        assert_eq!(i64::from(found), blocks, "blocks: {line}");
        let found = capability.dynamic_available(&kernel, threads, wanted as u32);
        assert_eq!(found.map_or(-1, i64::from), available, "available: {line}");
        let (size, resident) = capability.best_block(&kernel, 1024, |_| dynamic);
        assert_eq!((size.into(), resident.into()), (best_threads, best_blocks), "best: {line}");
        cases += 1;
    }
    assert_eq!(cases, 160 * CAPABILITIES.len());
}

#[test]
fn limits_are_named() {
    let kernel = |registers, static_bytes, barriers| KernelNeed {
        registers,
        static_bytes,
        dynamic_bytes_max: 100 << 10,
        barriers,
        carveout_percent: None,
    };
    let on = |number, kernel, threads| of(number).resident(&kernel, threads, 0);
    assert_eq!(on("8.0", kernel(32, 0, 1), 256), (8, Limiter::Warps));
    assert_eq!(on("8.0", kernel(64, 16 << 10, 1), 256), (4, Limiter::Registers));
    assert_eq!(on("8.0", kernel(16, 0, 1), 32), (32, Limiter::Blocks));
    assert_eq!(on("8.0", kernel(32, 48 << 10, 1), 128), (3, Limiter::Shared));
    assert_eq!(on("9.0", kernel(16, 0, 16), 32), (4, Limiter::Barriers));
    assert_eq!(on("8.0", kernel(16, 0, 16), 32), (32, Limiter::Blocks));
    assert_eq!(on("8.6", kernel(16, 0, 1), 32), (16, Limiter::Blocks));
    let most = [0, 64, 78, 255].map(|registers| of("8.0").threads_by_registers(registers));
    assert_eq!(most, [1024, 1024, 768, 256]);
}

/// What a grid may promise its blocks, an SM keeps: it places as many as are said to fit.
#[test]
fn placement_fits_what_the_calculator_promises() {
    for capability in CAPABILITIES {
        for threads in (1..=1024).step_by(31) {
            for registers in [16, 32, 40, 64, 128, 168, 255] {
                for dynamic in [0, 100, 4096, 30_000] {
                    let kernel = KernelNeed {
                        registers,
                        dynamic_bytes_max: 48 << 10,
                        barriers: registers % 16,
                        ..KernelNeed::default()
                    };
                    let (blocks, _) = capability.resident(&kernel, threads, dynamic);
                    let need = capability.block(&kernel, threads, dynamic);
                    let case = format!("{capability:?} {kernel:?} {threads} {dynamic}: {need:?}");
                    assert!(need.warps * blocks <= capability.warps, "{case}");
                    assert!(need.registers * blocks <= REGISTERS_PER_SM, "{case}");
                    assert!(need.shared_bytes * blocks <= capability.shared_bytes, "{case}");
                    let barriers = capability.barriers.unwrap_or(0);
                    assert!(need.barriers * blocks <= barriers, "{case}");
                }
            }
        }
    }
}

#[test]
fn available_dynamic_shared_memory_keeps_the_blocks_resident() {
    for capability in CAPABILITIES {
        let most = capability.shared_per_block_optin;
        for blocks in 1..=32 {
            for static_bytes in [0, 1000, 4096] {
                let dynamic_bytes_max = most - static_bytes;
                let kernel = KernelNeed {
                    registers: 16,
                    static_bytes,
                    dynamic_bytes_max,
                    ..KernelNeed::default()
                };
                let Some(bytes) = capability.dynamic_available(&kernel, 32, blocks) else {
                    continue;
                };
                let (resident, _) = capability.resident(&kernel, 32, bytes);
                assert!(resident >= blocks, "{capability:?} {blocks} {static_bytes}: {bytes}");
            }
        }
    }
}
