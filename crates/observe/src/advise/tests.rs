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

const MACHINE: Machine = Machine { sms: 8, warps_per_sm: 64, memory_bytes: 8 << 30 };

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
    for part in ["GPU-Util says 100 %", "had work 12 % of", "8 copies fit", "memory bounds it"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}
