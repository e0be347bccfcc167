//! What is done to a program, and what may come of it.

use crate::draw::Draw;
use crate::program::Program;
use std::time::{Duration, Instant};
use tests::{Ended, Running, Scene, Signal, start, try_signal};

/// How a program comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Left,
    /// kill -9.
    Killed,
    /// SIGTERM, which programs do not handle.
    Signalled,
    /// The control command terminate_client.
    Terminated,
}

/// Exit status after a signal, as a shell says it.
const KILLED: i32 = 128 + Signal::KILL.as_raw();
const SIGNALLED: i32 = 128 + Signal::TERM.as_raw();

/// A program and what is done to it at which time after its start.
#[derive(Clone, Debug)]
pub struct Plan {
    program: Program,
    /// When it is stopped (SIGSTOP), and for how long.
    stop: Option<(Duration, Duration)>,
    end: End,
    at: Duration,
}

/// Longest time until a program's end, ms.
const LIFE_MS_MAX: u64 = 1200;
/// Longest stop, ms.
const STOP_MS_MAX: u64 = 400;

impl Plan {
    /// A plan of the draw's.
    pub fn draw(draw: &mut Draw) -> Self {
        let program = Program::draw(draw);
        let mut ends = vec![End::Killed, End::Signalled, End::Terminated];
        if program.ends {
            ends.extend([End::Left; 2]);
        }
        let end = draw.one(&ends);
        let at = draw.below_ms(LIFE_MS_MAX);
        let stop =
            draw.once_in(4).then(|| (draw.below_ms(LIFE_MS_MAX), draw.below_ms(STOP_MS_MAX)));
        Self { program, stop, end, at }
    }

    /// A program that is ended so after a time.
    pub fn new(program: Program, end: End, at: Duration) -> Self {
        Self { program, stop: None, end, at }
    }

    /// What it is, for people.
    pub fn say(&self) -> String {
        let Self { program: Program { name, arguments, .. }, stop, end, at } = self;
        let stop = stop.map_or(String::new(), |(at, long)| {
            format!(", stopped at {} ms for {} ms", at.as_millis(), long.as_millis())
        });
        format!("{name} {}: {end:?} at {} ms{stop}", arguments.join(" "), at.as_millis())
    }
}

/// A program under a plan.
struct Acting {
    plan: Plan,
    running: Running,
    /// What is still to be done to it, by time.
    deeds: Vec<(Duration, Deed)>,
    /// The daemon said that it terminated it.
    terminated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Signal(Signal),
    Terminate,
}

/// Starts programs together, does to each what its plan says, and waits for all ends; panics if one
/// ended as it must not.
pub fn act(scene: &Scene, plans: Vec<Plan>) {
    let begun = Instant::now();
    let mut all: Vec<Acting> = plans.into_iter().map(|plan| begin(scene, plan)).collect();
    while let Some((at, index)) = next(&all) {
        std::thread::sleep(at.saturating_sub(begun.elapsed()));
        let (_, deed) = all[index].deeds.remove(0);
        all[index].perform(scene, deed);
    }
    let full = all.iter().any(|acting| acting.plan.program.fills_the_device());
    for acting in all {
        acting.judge(full);
    }
}

fn begin(scene: &Scene, plan: Plan) -> Acting {
    let running = start(&mut plan.program.command(scene));
    let mut deeds = Vec::new();
    if let Some((at, long)) = plan.stop {
        deeds.push((at, Deed::Signal(Signal::STOP)));
        deeds.push((at + long, Deed::Signal(Signal::CONT)));
    }
    match plan.end {
        End::Left => {}
        End::Killed => deeds.push((plan.at, Deed::Signal(Signal::KILL))),
        End::Signalled => deeds.push((plan.at, Deed::Signal(Signal::TERM))),
        End::Terminated => deeds.push((plan.at, Deed::Terminate)),
    }
    deeds.sort_by_key(|(at, _)| *at);
    Acting { plan, running, deeds, terminated: false }
}

/// The next deed of all: when, and whose.
fn next(all: &[Acting]) -> Option<(Duration, usize)> {
    let firsts = all.iter().enumerate();
    firsts.filter_map(|(index, acting)| Some((acting.deeds.first()?.0, index))).min()
}

impl Acting {
    fn perform(&mut self, scene: &Scene, deed: Deed) {
        match deed {
            // A program that has ended is not waited for yet, so its number is still its own.
            Deed::Signal(which) => {
                try_signal(self.running.pid(), which);
            }
            Deed::Terminate => self.terminated = terminate(scene, self.running.pid()),
        }
    }

    /// Panics unless the program ended as planned. `full`: the device had no memory left meanwhile, so
    /// that it may have been refused some.
    fn judge(self, full: bool) {
        let Self { plan, running, terminated, .. } = self;
        if plan.end == End::Terminated && !terminated {
            // It was not there yet, or not any more: then the plan is void.
            try_signal(running.pid(), Signal::KILL);
        }
        let ended = running.wait();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        if full && ended.status < KILLED && said.contains("CUDA_ERROR_OUT_OF_MEMORY") {
            return;
        }
        let right = match plan.end {
            End::Left => return plan.program.expect_right(&ended),
            End::Killed => ended.status == KILLED || ended.status == 0,
            End::Signalled => ended.status == SIGNALLED || ended.status == 0,
            End::Terminated if terminated => was_terminated(&plan.program, &ended),
            End::Terminated => ended.status == KILLED || ended.status == 0,
        };
        assert!(right, "{}: {ended:?}", plan.say());
    }
}

/// Terminates a client; false if the daemon knows none with that number.
fn terminate(scene: &Scene, pid: u32) -> bool {
    scene.servers().iter().any(|server| {
        let answer = scene.control(&format!("terminate_client {server} {pid}"));
        answer.status == 0 && answer.stdout == "0\n"
    })
}

/// True if a program ended as one does that is told so. It may have been through with its work, and
/// `fault` and `api_tour` look for errors of their own.
fn was_terminated(program: &Program, ended: &Ended) -> bool {
    let told = format!("{}{}", ended.stdout, ended.stderr).contains("MPS_CLIENT_TERMINATED");
    let looks_for_errors = ["fault", "api_tour"].contains(&program.name.as_str());
    ended.status == 0 || (ended.status < 128 && (told || looks_for_errors))
}
