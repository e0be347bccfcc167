//! The model of occupancy against what an H200's driver said, `bench/h200/capability.py` having
//! asked it: compute capability 9.0, driver 580.159.04, 2026-11-21.

use super::*;
use serde_json::Value;

const RECORDED: &str = include_str!("../../../../../bench/h200/results/2026-11-21/capability.json");

/// SMs of that device's GPCs. It has 132; some are in groups of a TPC, where only pairs go.
const GPCS: [u32; 12] = [18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2];

/// CUfunction_attribute.
const SHARED_BYTES: usize = 1;
const REGISTERS: usize = 4;
const THREADS_MAX: usize = 0;

fn recorded() -> Value {
    serde_json::from_str(RECORDED).unwrap()
}

fn hopper() -> &'static Capability {
    Capability::parse("9.0").unwrap()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

fn numbers(value: &Value) -> Vec<i64> {
    rows(value).iter().map(number).collect()
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// What the kernel of a row needs, and the threads of its largest block.
fn need(row: &Value, carveout: i64) -> (KernelNeed, u32) {
    let attributes = numbers(&row["attributes"]);
    let static_bytes = attributes[SHARED_BYTES] as u32;
    let kernel = KernelNeed {
        registers: attributes[REGISTERS] as u32,
        static_bytes,
        // All were opted in as far as it goes.
        dynamic_bytes_max: hopper().shared_per_block_optin - static_bytes,
        barriers: row["barriers"].as_u64().unwrap_or(0) as u32,
        carveout_percent: u32::try_from(carveout).ok(),
    };
    (kernel, attributes[THREADS_MAX] as u32)
}

/// Holds a table of resident blocks against the model: a row for each size of dynamic memory, a
/// column for each size of block.
fn check_blocks(kernel: &KernelNeed, table: &Value, dynamic: &[i64], threads: &[i64]) -> usize {
    let mut cases = 0;
    for (row, bytes) in rows(table).iter().zip(dynamic) {
        for (blocks, threads) in numbers(row).iter().zip(threads) {
            let (found, _) = hopper().resident(kernel, *threads as u32, *bytes as u32);
            assert_eq!(i64::from(found), *blocks, "{kernel:?}, {threads} threads, {bytes} bytes");
            cases += 1;
        }
    }
    cases
}

/// Holds `[blocks, threads, bytes]` against the model.
fn check_available(kernel: &KernelNeed, table: &Value) {
    for row in rows(table) {
        let [blocks, threads, bytes] = numbers(row).try_into().unwrap();
        let found = hopper().dynamic_available(kernel, threads as u32, blocks as u32);
        // That driver forgets what the system keeps of each of several blocks, and so says more
        // than lets them be resident. The calculator of later toolkits does not.
        let kept = i64::from(hopper().shared_reserved_per_block);
        let said =
            |found: i64| if blocks == 1 { found } else { (found + kept).min(bytes.max(found)) };
        let found = found.map_or(-1, |found| said(i64::from(found)));
        assert_eq!(found, bytes, "{kernel:?}, {blocks} blocks of {threads} threads");
    }
}

#[test]
fn blocks_are_resident_as_on_an_h200() {
    let recorded = recorded();
    let (dynamic, threads) = (numbers(&recorded["dynamic"]), numbers(&recorded["threads"]));
    let mut cases = 0;
    for row in rows(&recorded["functions"]) {
        let (kernel, threads_max) = need(row, -1);
        cases += check_blocks(&kernel, &row["blocks"], &dynamic, &threads);
        check_available(&kernel, &row["available"]);
        for row in rows(&row["potential"]) {
            let [limit, bytes, error, size, grid] = numbers(row).try_into().unwrap();
            assert_eq!(error, 0_i64);
            let most = if limit == 0 { threads_max } else { threads_max.min(limit as u32) };
            let (best, blocks) = hopper().best_block(&kernel, most, |_| bytes as u32);
            assert_eq!((best.into(), i64::from(blocks * 132)), (size, grid), "{kernel:?} {row}");
        }
        for row in rows(&row["potential_of_block"]) {
            let [limit, error, size, grid] = numbers(row).try_into().unwrap();
            assert_eq!(error, 0_i64);
            let most = if limit == 0 { threads_max } else { threads_max.min(limit as u32) };
            let (best, blocks) = hopper().best_block(&kernel, most, |threads| 64 * threads);
            assert_eq!((best.into(), i64::from(blocks * 132)), (size, grid), "{kernel:?} {row}");
        }
    }
    assert!(cases > 50_000);
}

#[test]
fn a_preference_for_cache_divides_memory_as_on_an_h200() {
    let recorded = recorded();
    let dynamic = numbers(&recorded["dynamic"]);
    for kernel in rows(&recorded["carveouts"]) {
        for row in rows(&kernel["carveouts"]) {
            let (need, _) = need(kernel, number(&row["carveout"]));
            check_blocks(&need, &row["blocks"], &dynamic, &[32, 128, 256, 1024]);
            check_available(&need, &row["available"]);
        }
        // CU_FUNC_CACHE_PREFER_SHARED, _L1 and _EQUAL say the same in other words.
        for (at, percent) in [(0, -1), (1, 100), (2, 0), (3, 50)] {
            let row = rows(&kernel["cache_configurations"][at]);
            let columns: Vec<Value> =
                rows(&row[3]).iter().map(|blocks| vec![blocks.clone()].into()).collect();
            let (need, _) = need(kernel, percent);
            check_blocks(&need, &columns.into(), &dynamic, &[32]);
        }
    }
}

#[test]
fn threads_are_bounded_by_registers_as_on_an_h200() {
    for row in rows(&recorded()["functions"]) {
        let (kernel, threads_max) = need(row, -1);
        let name = row["name"].as_str().unwrap();
        let own = name.strip_prefix("max").and_then(|n| n.split('x').next()?.parse().ok());
        let found = hopper().threads_by_registers(kernel.registers).min(own.unwrap_or(u32::MAX));
        assert_eq!(found, threads_max, "{row}");
    }
}

#[test]
fn clusters_are_resident_as_on_an_h200() {
    let recorded = recorded();
    let sizes = rows(&recorded["clusters"]["sizes"]);
    let mut cases = 0;
    for kernel in rows(&recorded["clusters"]["rows"]) {
        let (need, _) = need(kernel, -1);
        for row in rows(&kernel["any"]) {
            let (threads, bytes) = (number(&row[0]) as u32, number(&row[1]) as u32);
            let (resident, _) = hopper().resident(&need, threads, bytes);
            for (size, clusters) in sizes.iter().zip(numbers(&row[3])) {
                // The first two are a launch without clusters and one with extents of 0.
                let Some(size @ 1..) = size.as_u64() else { continue };
                let of_gpc = |sms: &u32| clusters_of_gpc(*sms, resident, size as u32);
                let found: u32 = GPCS.iter().map(of_gpc).sum();
                assert_eq!(i64::from(found), clusters, "{need:?}, {row}, clusters of {size}");
                cases += 1;
            }
        }
    }
    assert!(cases > 1000);
}

#[test]
fn attributes_of_an_sm_are_those_of_an_h200() {
    use crate::device::attributes::attribute;
    use crate::device::settings::Settings;
    use cuda_api::attributes::*;
    let mut settings = Settings::from_environment();
    (settings.capability, settings.strict) = (hopper(), true);
    let recorded = numbers(&recorded()["device_attributes"]);
    let of_an_sm = [
        MAX_THREADS_PER_BLOCK,
        MAX_SHARED_MEMORY_PER_BLOCK,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        RESERVED_SHARED_MEMORY_PER_BLOCK,
        TOTAL_CONSTANT_MEMORY,
        WARP_SIZE,
        MAX_PITCH,
        MAX_REGISTERS_PER_BLOCK,
        MAX_REGISTERS_PER_MULTIPROCESSOR,
        MAX_THREADS_PER_MULTIPROCESSOR,
        MAX_BLOCKS_PER_MULTIPROCESSOR,
        COMPUTE_CAPABILITY_MAJOR,
        COMPUTE_CAPABILITY_MINOR,
        SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
        TEXTURE_ALIGNMENT,
        SURFACE_ALIGNMENT,
        TEXTURE_PITCH_ALIGNMENT,
        CLUSTER_LAUNCH,
        COOPERATIVE_LAUNCH,
    ];
    let extents = (2..8).chain(21..30).chain(42..50).chain(52..66).chain(69..75).chain([77]);
    for number in of_an_sm.into_iter().chain(extents) {
        let name = ATTRIBUTES.iter().find(|(of, _)| *of == number);
        let found = attribute(&settings, number).unwrap();
        assert_eq!(i64::from(found), recorded[number as usize], "{name:?}");
    }
}

/// `Partition` is what the client library, too, answers programs by.
#[test]
fn sms_are_parted_as_there() {
    use cuda_api::CudaError;
    use cuda_api::resource::Partition;
    let recorded = recorded();
    let splits = &recorded["splits"];
    let sms = number(&splits["sms"]) as u32;
    // Two of eight in each GPC of 16 or 18, one in that of 8.
    let groups = GPCS.iter().map(|sms| sms / 8).sum();
    let partition = Partition { groups, ..Partition::of(sms, 9) };
    let all = partition.whole(1, &[]).unwrap();
    let mut asked = 0;
    for row in rows(&splits["rows"]) {
        let of = |index: usize| number(&row[index]) as u32;
        let (flags, wanted, least) = (of(0), of(1) as usize, of(2));
        let parted = partition.split_by_count(&all, wanted, flags, least);
        let parted = parted.map(|(parts, left)| {
            let mut sizes: Vec<i64> = parts.iter().map(|part| part.len() as i64).collect();
            sizes.dedup();
            (parts.len() as u32, sizes, left.len() as u32)
        });
        let recorded = match CudaError::from_code(of(3)) {
            Some(error) => Err(error),
            None => Ok((of(4), numbers(&row[5]), of(6))),
        };
        assert_eq!(parted, recorded, "flags {flags}, {wanted} groups of {least}");
        asked += 1;
    }
    assert!(asked >= 400, "{asked}");
}
