//! Wording of the advice: plain sentences, with the numbers beside.

use super::{Advice, Bound, KernelAdvice, Limit, Limiter};
use crate::rates::{bytes_text, time_text};
use control::report::CLIENTS_MAX;

/// Below this gain sharing is not worth it.
const WORTH: f64 = 1.1;
/// Above this share of the processors' time other work makes a measurement worthless.
const OTHERS: f64 = 0.2;

/// A share in percent; small ones, which are not nothing, with a decimal place.
fn percent(share: f64) -> String {
    let decimals = usize::from(share > 0.0 && share < 0.095);
    format!("{:.decimals$} %", 100.0 * share)
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Whether sharing gains something: by what was measured, else by the model.
pub fn verdict(advice: &Advice) -> (bool, String) {
    let best = advice.measured.iter().max_by(|a, b| a.gain.total_cmp(&b.gain));
    match best {
        Some(best) if best.gain >= WORTH => (
            true,
            format!(
                "Sharing gains: {} copies together do {:.2} times the work of one alone, each {} of \
                 what it does alone (measured).",
                best.copies,
                best.gain,
                percent(best.each)
            ),
        ),
        Some(best) => (
            false,
            format!(
                "Sharing gains nothing: the best of the measured runs, {} copies, does {:.2} times \
                 the work of one alone. Run one after the other.",
                best.copies, best.gain
            ),
        ),
        None => {
            let gain = advice.analysis.predicted[0];
            let gains = gain >= WORTH;
            let word = if gains { "should gain" } else { "should gain nothing" };
            (
                gains,
                format!(
                    "Sharing {word}: two copies are predicted to do {gain:.2} times the work of one."
                ),
            )
        }
    }
}

/// What bounds a kernel, behind what else is said of it: by the ceilings of its device if they were measured.
fn bound(kernel: &KernelAdvice) -> String {
    let ratio = kernel.instructions_per_byte.map_or(String::new(), |ratio| {
        let decimals = if ratio < 1.0 { 2 } else { usize::from(ratio < 100.0) };
        format!("; {ratio:.decimals$} instructions for each byte of memory")
    });
    let Some(roof) = &kernel.roof else { return ratio };
    let bytes = bytes_text(roof.work.bytes_per_s as u64);
    let (of_bandwidth, of_instructions) =
        (percent(roof.of_bandwidth), percent(roof.of_instructions));
    let text = match roof.bound {
        Bound::Memory => format!(
            "{bytes} a second, {of_bandwidth} of what memory gives: memory bounds it, and copies of it share the \
             bandwidth"
        ),
        Bound::Cache => format!(
            "{bytes} a second, more than memory gives and {of_bandwidth} of what caches do: they bound it, and \
             copies of it share them"
        ),
        Bound::Instructions => {
            format!("{of_instructions} of the instructions that SMs do at the most: they bound it")
        }
        Bound::None => format!(
            "{of_instructions} of the instructions and {of_bandwidth} of the bandwidth that the device has: it \
             waits, or is too small for the device"
        ),
    };
    format!("{ratio}; {text}")
}

/// All sentences.
pub fn describe(advice: &Advice) -> Vec<String> {
    let a = &advice.analysis;
    let mark = if a.sampled { " (estimated from a sample of launches)" } else { "" };
    if a.kernels_per_s == 0.0 {
        return vec![
            "It launched no kernel while it was looked at: there is nothing to say.".into(),
        ];
    }
    let mut words = vec![verdict(advice).1];
    words.push(format!(
        "A kernel ran {} of the time, so GPU-Util says {}; the SMs had work {} of the time{mark}: \
         {} of them while a kernel ran.",
        percent(a.busy),
        percent(a.busy),
        percent(a.sm_share),
        percent(a.sms_while_busy),
    ));
    if a.processors > 0.1 {
        words.push(format!(
            "It and its server have {} of the processors' time: copies share those, too.",
            percent(a.processors)
        ));
    }
    if a.limit == Limit::Driver {
        words.push(format!(
            "Copies wait for each other at the driver, which takes one submission at a time: the server \
             spends {} of the time on them, {} each (estimated from a sample of them), so that 8 copies are \
             predicted to do {:.2} times the work of one.",
            percent(a.submitting),
            time_text(a.submission_ns),
            a.predicted[2]
        ));
    }
    if a.others > OTHERS {
        words.push(format!(
            "Other work had {} of the processors' time meanwhile: measure again on a quiet machine.",
            percent(a.others)
        ));
    }
    if a.gaps > 0.1 {
        words.push(format!(
            "In {} of the time no kernel ran: {} on average after each launch ({:.0} launches a \
             second). Another program's kernels fit there.",
            percent(a.gaps),
            time_text(a.mean_gap_ns),
            a.kernels_per_s
        ));
    }
    if a.copied_per_s > 0.0 && a.gaps > 0.1 {
        words.push(format!(
            "It copies {} a second between host and device; kernels that wait for copies leave the \
             SMs to others.",
            bytes_text(a.copied_per_s as u64)
        ));
    }
    for kernel in a.kernels.iter().filter(|kernel| kernel.part >= 0.1) {
        let mut text = format!(
            "{} ({} of its device time, {} a launch): {} of {}",
            kernel.name,
            percent(kernel.part),
            time_text(kernel.mean_ns),
            counted(kernel.blocks, "block"),
            counted(kernel.threads, "thread")
        );
        if kernel.slots > 0 {
            text += &format!(", the device has slots for {}", kernel.slots);
        }
        text += match kernel.limiter {
            Limiter::Grid => "; its grid does not fill the device, filling the rest is free",
            Limiter::Registers => "; registers keep more blocks from an SM",
            Limiter::SharedMemory => "; shared memory keeps more blocks from an SM",
            Limiter::Threads => "; it fills SMs with threads",
            Limiter::Blocks => "; an SM has no more places for blocks",
            Limiter::Unknown => "",
        };
        words.push(text + &bound(kernel) + ".");
    }
    if let Some((copies, error)) = &advice.failed {
        words.push(format!("With {copies} copies: {error}. More were not tried."));
    }
    if a.memory_bytes > 0 {
        let fit = match a.fit == CLIENTS_MAX {
            true => format!("as many copies fit as a device's server takes, {CLIENTS_MAX}"),
            false => format!("{} copies fit", a.fit),
        };
        let held = bytes_text(a.memory_bytes);
        words.push(format!("It holds {held} of device memory at the most: {fit}."));
    }
    for neighbour in &advice.neighbours {
        let beside = match neighbour.together <= 1.0 {
            true => "goes beside it without a loss",
            false => "slows it down and is slowed down",
        };
        words.push(format!(
            "Recorded so far: {} ({} of the SMs, {}) {beside}: together they want {} of the SMs (predicted).",
            neighbour.command,
            percent(neighbour.sm_share),
            bytes_text(neighbour.memory_bytes),
            percent(neighbour.together)
        ));
    }
    if a.sm_share < 0.9 && a.sm_share > 0.0 {
        let share = (a.sms_while_busy * 100.0).ceil().clamp(1.0, 100.0);
        words.push(format!(
            "A share of {share:.0} % of the SMs would be enough for its kernels \
             (`openmps set {} --sms {share:.0}%`).",
            advice.pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string())
        ));
    }
    words
}
