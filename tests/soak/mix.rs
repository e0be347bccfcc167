//! The mix: everything at once, with rests, and with daemons and servers that end.

use crate::Progress;
use crate::draw::Draw;
use crate::plan::{self, Plan};
use crate::program::Program;
use crate::stage::Stage;
use tests::{Entry, Signal, finish, start, try_signal, wait_until};

/// Most programs of a step.
const TOGETHER_MAX: u64 = 4;
/// Most steps between two rests.
const STEPS_MAX: u64 = 24;
/// Most neighbours.
const NEIGHBOURS_MAX: u64 = 3;

/// Runs the mix until the time is up; a summary.
pub fn run(progress: &mut Progress) -> String {
    let mut draw = Draw::new(progress.seed);
    let mut stage = Stage::new();
    let (mut rests, mut ends, mut programs) = (0, 0, 0);
    let mut state = String::new();
    while !progress.is_over() {
        warm_up(&mut stage, progress);
        for _ in 0..1 + draw.below(3) {
            for _ in 0..1 + draw.below(NEIGHBOURS_MAX) {
                let until = stage.until();
                let program = Program::draw_neighbour(&mut draw, &until);
                progress.next(format!("a neighbour: {program:?}"));
                stage.add_neighbour(program, until);
            }
            for _ in 0..1 + draw.below(STEPS_MAX) {
                let plans: Vec<Plan> =
                    (0..1 + draw.below(TOGETHER_MAX)).map(|_| Plan::draw(&mut draw)).collect();
                let said: Vec<String> = plans.iter().map(Plan::say).collect();
                progress.next(said.join("; "));
                programs += plans.len();
                plan::act(&stage.scene, plans);
                stage.expect_neighbours();
                progress.say(|| {
                    format!("{programs} programs, {rests} rests, {ends} restarts; {state}")
                });
                if progress.is_over() {
                    break;
                }
            }
            progress.next("a rest".into());
            state = stage.rest();
            rests += 1;
        }
        progress.next(String::new());
        end(&mut stage, &mut draw, progress);
        ends += 1;
    }
    drop(stage);
    format!("{programs} programs, {rests} rests, {ends} restarts; {state}")
}

/// A first program of each kind, so that what is made once is there at the first rest.
pub fn warm_up(stage: &mut Stage, progress: &mut Progress) {
    for line in ["vector_add --iterations 2", "pipeline --iterations 2", "api_tour", "fault"] {
        progress.doing = format!("first programs: {line}");
        let program = Program::of(line);
        program.expect_right(&finish(&mut program.command(&stage.scene)));
    }
    progress.doing = "the first rest".into();
    stage.rest();
}

/// Starts the daemon that programs come to in a way that is drawn.
fn start_anew(stage: &mut Stage, draw: &mut Draw, progress: &mut Progress) {
    let entry = draw.one(&Entry::ALL);
    progress.doing = format!("a daemon is started: {entry:?}");
    stage.start_daemon(entry);
}

/// Ends daemon or server in one of the ways in which they end, and has both anew.
fn end(stage: &mut Stage, draw: &mut Draw, progress: &mut Progress) {
    match draw.below(5) {
        0 => {
            progress.doing = "the daemon is told to end by a signal".into();
            let ended = stage.scene.stop_daemon();
            assert_eq!(ended.status, 0, "{ended:?}");
            start_anew(stage, draw, progress);
        }
        1 => {
            progress.doing = "the daemon is told to quit".into();
            stage.scene.control("quit").expect_success();
            let ended = stage.scene.wait_for_daemon();
            assert_eq!(ended.status, 0, "{ended:?}");
            start_anew(stage, draw, progress);
        }
        2 => {
            progress.doing =
                "the server is killed under a program, which goes on at the next".into();
            let until = stage.until();
            let program = Program::draw_repeatable(draw, &until);
            let running = start(&mut program.command(&stage.scene));
            wait_until("the program is there", || stage.scene.clients().contains(&running.pid()));
            std::thread::sleep(draw.below_ms(300));
            let killed = stage.scene.servers();
            for server in &killed {
                try_signal(*server, Signal::KILL);
            }
            wait_until("the program is at another server", || {
                stage.scene.servers().iter().all(|server| !killed.contains(server))
                    && stage.scene.clients().contains(&running.pid())
            });
            std::fs::write(&until, "").expect("a file in the scene's directory");
            program.expect_right(&running.wait());
            stage.forget_rest();
        }
        3 => {
            progress.doing = "the daemon is killed under a program, and another takes over".into();
            let until = stage.until();
            let program = Program::draw_neighbour(draw, &until);
            let running = start(&mut program.command(&stage.scene));
            wait_until("the program is there", || stage.scene.clients().contains(&running.pid()));
            let servers = stage.scene.servers();
            std::thread::sleep(draw.below_ms(300));
            stage.restart_daemon();
            wait_until("the server was taken over", || stage.scene.servers() == servers);
            std::fs::write(&until, "").expect("a file in the scene's directory");
            program.expect_right(&running.wait());
        }
        _ => {
            progress.doing = "the server is shut down under a program".into();
            let program = Program::of("endless");
            let running = start(&mut program.command(&stage.scene));
            wait_until("the program is there", || stage.scene.clients().contains(&running.pid()));
            std::thread::sleep(draw.below_ms(300));
            let server = stage.scene.servers()[0];
            stage.scene.control(&format!("shutdown_server {server} -f")).expect_success();
            let ended = running.wait();
            assert!((1..128).contains(&ended.status), "an error, not a crash: {ended:?}");
            wait_until("the server is gone", || !stage.scene.servers().contains(&server));
            stage.forget_rest();
        }
    }
}
