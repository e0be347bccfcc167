//! Rounds of one kind, each beside a neighbour that verifies: figures for one promise at a time.

use crate::Progress;
use crate::draw::Draw;
use crate::mix;
use crate::plan::{self, End, Plan};
use crate::program::Program;
use crate::stage::Stage;
use std::time::Duration;
use tests::{Scene, dist, finish};

/// What a round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Two programs are ended by kill -9 in mid-work
    Kill,
    /// Two programs are ended by terminate_client in mid-work
    Terminate,
    /// Two programs come to their own end
    Leave,
    /// A daemon is started, runs a program, and is ended: no neighbour
    Restart,
    /// `openmps bench`: no neighbour
    Bench,
}

/// Rounds between two rests.
const ROUNDS_OF_A_REST: u32 = 200;
/// Longest time until a program is ended, ms.
const LIFE_MS_MAX: u64 = 300;

/// Runs so many rounds; a summary.
pub fn run(kind: Kind, rounds: u32, program: &str, progress: &mut Progress) -> String {
    match kind {
        Kind::Kill => beside(End::Killed, rounds, program, progress),
        Kind::Terminate => beside(End::Terminated, rounds, program, progress),
        Kind::Leave => beside(End::Left, rounds, program, progress),
        Kind::Restart => {
            alone(rounds, progress, |scene| {
                scene.openmps(&["up"]).expect_success();
                let program = Program::of(program);
                program.expect_right(&finish(&mut program.command(scene)));
                scene.openmps(&["down"]).expect_success();
            });
            format!("{} rounds of up, run, down", progress.step)
        }
        Kind::Bench => {
            alone(rounds, progress, |scene| {
                finish(scene.command(&dist().join("bin/openmps")).arg("bench")).expect_success();
            });
            format!("{} runs of openmps bench", progress.step)
        }
    }
}

fn beside(end: End, rounds: u32, program: &str, progress: &mut Progress) -> String {
    let mut draw = Draw::new(progress.seed);
    let mut stage = Stage::new();
    let mut state = String::new();
    mix::warm_up(&mut stage, progress);
    for round in 0..rounds {
        if progress.is_over() {
            break;
        }
        if round % ROUNDS_OF_A_REST == 0 {
            if round > 0 {
                state = stage.rest();
            }
            let until = stage.until();
            stage.add_neighbour(Program::neighbour(&until), until);
        }
        let at = |draw: &mut Draw| match end {
            End::Left => Duration::ZERO,
            _ => draw.below_ms(LIFE_MS_MAX),
        };
        let plan = |draw: &mut Draw| Plan::new(Program::of(program), end, at(draw));
        let plans = vec![plan(&mut draw), plan(&mut draw)];
        progress.next(plans[0].say());
        plan::act(&stage.scene, plans);
        stage.expect_neighbours();
        progress.say(|| state.clone());
    }
    state = stage.rest();
    let rounds = progress.step;
    format!("{rounds} rounds of two programs, {end:?}: {program}; {state}")
}

fn alone(rounds: u32, progress: &mut Progress, round: impl Fn(&Scene)) {
    let mut scene = Scene::new();
    scene.keep_after_failure();
    for _ in 0..rounds {
        if progress.is_over() {
            break;
        }
        progress.next("a round".into());
        round(&scene);
        progress.say(String::new);
    }
}
