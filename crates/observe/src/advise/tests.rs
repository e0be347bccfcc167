//! Tests of the advice.

use super::*;
use control::counts::{Kernel, Shape, Timing};

fn kernel(blocks: u32, blocks_per_sm: u32, registers: u32) -> Kernel {
    let shape = Shape {
        grid: [blocks, 1, 1],
        block: [256, 1, 1],
        registers,
        blocks_per_sm,
        launches: 10,
        ..Shape::default()
    };
    Kernel {
        name: "k".to_owned(),
        timing: Timing::Exact,
        launches: 10,
        device_ns: 1_000_000,
        thread_instructions: 50,
        global_bytes: 100,
        shapes: vec![shape],
        ..Kernel::default()
    }
}

fn observed(busy: f64, sm_share: f64) -> Observed {
    let memory_bytes = 1 << 30;
    Observed { seconds: 1.0, busy, sm_share, memory_bytes, kernels: 100, ..Observed::default() }
}

const MACHINE: Machine =
    Machine { sms: 8, warps_per_sm: 64, memory_bytes: 8 << 30, ceilings: None };

#[test]
fn limiters_are_named() {
    let of = |kernel: Kernel| analyse(&observed(0.5, 0.2), &[kernel], &MACHINE).kernels[0].limiter;
    assert_eq!(of(kernel(4, 8, 32)), Limiter::Grid);
    assert_eq!(of(kernel(1000, 4, 64)), Limiter::Registers);
    assert_eq!(of(kernel(1000, 8, 16)), Limiter::Threads);
    assert_eq!(of(kernel(1000, 0, 16)), Limiter::Unknown);
}

#[test]
fn what_leaves_sms_idle_gains_and_what_fills_them_does_not() {
    let idle = analyse(&observed(1.0, 0.125), &[kernel(1, 8, 32)], &MACHINE);
    assert!(idle.predicted[2] > 4.0 && idle.predicted[2] <= 8.0, "{:?}", idle.predicted);
    let full = analyse(&observed(1.0, 1.0), &[kernel(1000, 8, 32)], &MACHINE);
    assert_eq!(full.predicted, [1.0; 3]);
    // What its copies would gain of the device is nothing where the processors are what they share.
    let bound = Observed { processors: 0.8, ..observed(0.125, 0.02) };
    assert_eq!([2, 4, 8].map(|copies| predict(&bound, copies)), [1.25; 3]);
    let analysis = analyse(&bound, &[kernel(1, 8, 32)], &MACHINE);
    let text = describe(&Advice { analysis, ..Advice::default() });
    assert!(text.iter().any(|words| words.contains("80 % of the processors' time")), "{text:?}");
    assert!(!text.iter().any(|words| words.contains("quiet machine")), "{text:?}");
    let analysis = analyse(&Observed { others: 0.6, ..bound }, &[kernel(1, 8, 32)], &MACHINE);
    let text = describe(&Advice { analysis, ..Advice::default() });
    assert!(text.iter().any(|words| words.contains("Other work had 60 %")), "{text:?}");
    let free = Observed { processors: 0.1, ..bound };
    assert!(predict(&free, 2) > 1.9 && predict(&free, 8) > 7.0);
    let advice = |analysis: Analysis| {
        let mut advice = Advice { analysis, ..Advice::default() };
        advice.words = describe(&advice);
        advice
    };
    let (gains, text) = verdict(&advice(full.clone()));
    assert!(!gains && text.contains("gain nothing"), "{text}");
    assert!(verdict(&advice(idle)).0);
    // What was measured counts more than the model.
    let measured = vec![Measured { copies: 2, gain: 1.6, each: 0.8, ..Measured::default() }];
    let (gains, text) = verdict(&Advice { measured, ..advice(full) });
    assert!(gains && text.contains("1.60 times"), "{text}");
}

#[test]
fn words_say_util_beside_sms_and_how_many_fit() {
    let analysis = analyse(&observed(1.0, 0.125), &[kernel(1, 8, 32)], &MACHINE);
    let words = describe(&Advice { analysis, ..Advice::default() }).join("\n");
    for part in ["GPU-Util says 100 %", "had work 12 % of", "8 copies fit", "0.50 instructions for"]
    {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn what_bounds_a_kernel_is_said_where_the_device_was_measured() {
    // The kernel did 50 instructions and moved 100 bytes in a millisecond.
    let words = |instructions_per_s, cache_bytes_per_s, memory_bytes_per_s| {
        let ceilings = Some(Ceilings { instructions_per_s, cache_bytes_per_s, memory_bytes_per_s });
        let machine = Machine { ceilings, ..MACHINE };
        let analysis = analyse(&observed(1.0, 0.125), &[kernel(1, 8, 32)], &machine);
        describe(&Advice { analysis, ..Advice::default() }).join("\n")
    };
    for (words, part) in [
        (words(1e6, 1e6, 125e3), "80 % of what memory gives: memory bounds it"),
        (words(1e6, 200e3, 50e3), "50 % of what caches do: they bound it"),
        (words(100e3, 1e6, 1e6), "50 % of the instructions that SMs do at the most"),
        (words(1e6, 1e6, 1e6), "5.0 % of the instructions and 10 % of the bandwidth"),
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn neighbours_are_named_with_what_both_want() {
    let analysis = analyse(&observed(1.0, 0.5), &[kernel(1, 8, 32)], &MACHINE);
    let record = AccountingRecord {
        command: "./infer".to_owned(),
        wall_ms: 1000,
        sm_active_ns: 2_000_000_000,
        peak_memory_bytes: 1 << 30,
        ..AccountingRecord::default()
    };
    let advice = Advice { analysis, ..Advice::default() }.with_neighbours(&[record], (8, 8 << 30));
    let words = advice.words.join("\n");
    let named =
        "./infer (25 % of the SMs, 1.0 GiB) goes beside it without a loss: together they want 75 %";
    assert!(words.contains(named), "{words}");
}

/// Programs of bench/h200/results/2026-11-23/observe-advise.json: what one had alone (time with a kernel,
/// SMs, processors; time in submissions, computed with 3 us for a launch or fill, 5 us for a copy and
/// 1.5 us for a fence), and the measured gains of 2, 4 and 8.
const ON_H200: [(&str, [f64; 4], [f64; 3]); 11] = [
    ("spin", [0.946, 0.0072, 0.067, 0.038], [1.98, 3.92, 7.69]),
    ("n_body", [0.546, 0.0331, 0.124, 0.262], [1.92, 3.48, 5.76]),
    ("matrix_multiply", [0.628, 0.0048, 0.124, 0.163], [1.88, 3.44, 5.90]),
    ("mlp_inference", [0.628, 0.0048, 0.086, 0.291], [1.86, 3.24, 4.80]),
    ("convnet_inference", [0.605, 0.0046, 0.090, 0.359], [1.80, 3.08, 4.78]),
    ("reduction", [0.829, 0.0063, 0.092, 0.156], [1.97, 3.81, 6.87]),
    ("vector_add", [0.863, 0.0065, 0.071, 0.046], [2.00, 4.02, 7.67]),
    ("histogram", [0.654, 0.0050, 0.112, 0.267], [1.93, 3.58, 6.18]),
    ("scan", [0.723, 0.0055, 0.092, 0.225], [1.94, 3.59, 6.21]),
    ("BERT", [0.259, 0.2468, 0.108, 0.172], [2.01, 3.32, 3.46]),
    ("ResNet-50", [0.441, 0.4954, 0.114, 0.309], [1.43, 1.73, 1.82]),
];

fn on_h200(
    (_, [busy, sm_share, processors, submitting], _): &(&str, [f64; 4], [f64; 3]),
) -> Observed {
    let (processors, submitting) = (*processors, *submitting);
    let submission_ns = 3000.0;
    Observed { processors, submitting, submission_ns, ..observed(*busy, *sm_share) }
}

#[test]
fn gains_on_an_h200_are_predicted_within_a_fifth() {
    for row in &ON_H200 {
        let predicted = [2, 4, 8].map(|copies| predict(&on_h200(row), copies));
        for (predicted, measured) in predicted.iter().zip(row.2) {
            let off = predicted / measured - 1.0;
            assert!(off.abs() <= 0.2, "{}: {predicted:.2}, measured {measured}", row.0);
        }
    }
}

#[test]
fn what_limits_copies_is_named() {
    let limits = ON_H200.map(|row| analyse(&on_h200(&row), &[], &MACHINE).limit);
    let [spin, n_body, .., bert, _] = limits;
    assert_eq!([spin, n_body, bert], [Limit::None, Limit::Driver, Limit::Sms]);
    let bound = Observed { processors: 0.5, ..on_h200(&ON_H200[0]) };
    assert_eq!(analyse(&bound, &[], &MACHINE).limit, Limit::Processors);
    let analysis = analyse(&on_h200(&ON_H200[1]), &[], &MACHINE);
    let words = describe(&Advice { analysis, ..Advice::default() }).join("\n");
    for part in ["wait for each other at the driver", "26 % of the time", "3.0 us each"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    // The software GPU takes several submissions at a time: none is timed, and none is spoken of.
    let soft = Observed { submitting: 0.0, submission_ns: 0.0, ..on_h200(&ON_H200[1]) };
    let analysis = analyse(&soft, &[], &MACHINE);
    assert!(analysis.predicted[2] > 7.9 && analysis.limit == Limit::None, "{analysis:?}");
    let words = describe(&Advice { analysis, ..Advice::default() }).join("\n");
    assert!(!words.contains("driver"), "{words}");
}

#[test]
fn calls_beside_a_programs_own_kernels_keep_copies_apart_all_the_same() {
    // One kernel runs all the time on a hundredth of the SMs, while the next ones are submitted.
    let observed = Observed { submitting: 0.3, ..observed(1.0, 0.01) };
    assert_eq!([2, 8].map(|copies| predict(&observed, copies)), [2.0, 5.0]);
    // One that fills the device gains nothing, long as its calls may take.
    let full = Observed { submitting: 0.3, sm_share: 1.0, ..observed };
    assert_eq!([2, 8].map(|copies| predict(&full, copies)), [1.0, 1.0]);
}
