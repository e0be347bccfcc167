//! Tests of servers: one in standby, with effects that only count.

use super::{
    CANDIDATE_S_MAX, COMES_S_MAX, ClientProcess, DECLARED_MS_MAX, Effects, NoServer, Phase,
    Placement, READY_S_MAX, Role, Rules, STANDBY_PAUSE_MS, ServerKey, Servers, Serves,
    StartServers,
};
use cuda_api::CUuuid;
use std::time::{Duration, Instant};

/// Starts servers with the numbers from 1 on.
#[derive(Default)]
struct TestEffects {
    started: u32,
    /// How many of them for one candidate.
    for_candidates: u32,
    /// How often corrupted servers were notified that they may end.
    left: u32,
}

impl Effects<()> for TestEffects {
    fn shut_down(&mut self, _: &(), _: bool) -> bool {
        true
    }

    fn hand_over(&mut self, _: &()) -> bool {
        true
    }

    fn hand_over_one(&mut self, _: &(), _: u32) -> bool {
        true
    }

    fn leave(&mut self, (): &()) {
        self.left += 1;
    }

    fn kill(&mut self, _: &mut ()) {}

    fn look_again(&mut self) {}

    fn log(&mut self, _: String) {}
}

impl StartServers<()> for TestEffects {
    fn start(&mut self, _: ServerKey, _: u32, serves: Serves) -> Result<(u32, ()), String> {
        self.started += 1;
        self.for_candidates += u32::from(serves == Serves::Candidate);
        Ok((self.started, ()))
    }
}

fn run(servers: &mut Servers<()>, pid: u32) {
    servers.get(pid).expect("a server").phase = Phase::Running;
}

#[test]
fn the_next_standby_waits_until_the_last_one_has_served_for_a_while() {
    let server_key = ServerKey { uid: 7, named: 0, device: CUuuid { bytes: [1; 16] } };
    let (mut servers, mut effects) = (Servers::default(), TestEffects::default());
    servers.rules = Rules { owner: 7, standby: true, ..Rules::default() };
    let begin = Instant::now();
    servers.launch(server_key, 7, begin, &mut effects).expect("a server");
    run(&mut servers, 1);
    servers.advance(begin, &mut effects);
    assert_eq!(effects.started, 2, "one stands by the first at once");
    run(&mut servers, 2);
    servers.get(1).expect("a server").clients = 3;
    servers.has_faulted(1, begin, &mut effects);
    let stands_by =
        |servers: &Servers<()>| servers.iter().filter(|of| of.role == Role::Standby).count();
    assert_eq!((effects.started, stands_by(&servers)), (2, 0), "it serves");
    let pause = Duration::from_millis(STANDBY_PAUSE_MS);
    servers.advance(begin + pause / 2, &mut effects);
    assert_eq!(effects.started, 2, "programs come first");
    assert_eq!(servers.next_due(), Some(begin + pause));
    servers.advance(begin + pause, &mut effects);
    assert_eq!((effects.started, stands_by(&servers)), (3, 1));
    assert_ne!(servers.next_due(), Some(begin + pause), "it is done");
}

fn server_key() -> ServerKey {
    ServerKey { uid: 7, named: 0, device: CUuuid { bytes: [1; 16] } }
}

fn process(pid: u32) -> ClientProcess {
    ClientProcess { uid: 7, named: 0, pid, device: server_key().device }
}

/// Server 1 with three clients has a fault that process 10 or 11 may have caused; server 2 is next.
fn after_a_fault(standby: bool, now: Instant) -> (Servers<()>, TestEffects) {
    let (mut servers, mut effects) = (Servers::default(), TestEffects::default());
    servers.rules = Rules { owner: 7, standby, ..Rules::default() };
    servers.launch(server_key(), 7, now, &mut effects).expect("a server");
    run(&mut servers, 1);
    servers.advance(now, &mut effects);
    servers.get(1).expect("a server").clients = 4;
    if standby {
        run(&mut servers, 2);
    }
    servers.has_faulted(1, now, &mut effects);
    [10, 11].into_iter().for_each(|pid| servers.candidate(1, pid, now));
    servers.advance(now, &mut effects);
    assert_eq!(effects.started, 2);
    (servers, effects)
}

#[test]
fn after_a_fault_a_candidate_and_the_corrupted_server_come_after_the_others() {
    let begin = Instant::now();
    for (declared, ms) in [(true, 40), (false, DECLARED_MS_MAX)] {
        let (mut servers, mut effects) = after_a_fault(true, begin);
        let early = begin + Duration::from_millis(ms) - Duration::from_millis(1);
        let launched = servers.launch_for_process(process(10), 7, early, &mut effects);
        assert_eq!(launched, Err(NoServer::UnaffectedFirst));
        assert!(NoServer::UnaffectedFirst.is_worth_waiting());
        servers.advance(early, &mut effects);
        assert_eq!((effects.started, effects.left), (2, 0));
        assert!(servers.next_due() <= Some(begin + Duration::from_millis(DECLARED_MS_MAX)));
        if declared {
            (0..2).for_each(|_| servers.has_declared(2, &mut effects));
        }
        let then = begin + Duration::from_millis(ms);
        servers.advance(then, &mut effects);
        assert_eq!(effects.left, 1, "the corrupted server may end");
        assert_eq!(servers.launch_for_process(process(10), 7, then, &mut effects), Ok(3));
    }
}

#[test]
fn without_a_standby_a_candidate_waits_for_the_others_server_and_the_corrupted_one_does_not() {
    let begin = Instant::now();
    let (mut servers, mut effects) = after_a_fault(false, begin);
    assert_eq!(effects.left, 1, "it ends while the next one starts");
    let ready = begin + Duration::from_millis(1900);
    let launched = servers.launch_for_process(process(10), 7, ready, &mut effects);
    assert_eq!(launched, Err(NoServer::UnaffectedFirst));
    assert!(servers.is_ready(2));
    servers.finish_replacing(2, ready, &mut effects);
    let then = ready + Duration::from_millis(DECLARED_MS_MAX);
    servers.advance(then - Duration::from_millis(1), &mut effects);
    let launched = servers.launch_for_process(process(10), 7, ready, &mut effects);
    assert_eq!(launched, Err(NoServer::UnaffectedFirst));
    assert_eq!(servers.launch_for_process(process(10), 7, then, &mut effects), Ok(3));
    // A next server that does not start holds up no client.
    let (mut servers, mut effects) = after_a_fault(false, begin);
    servers.has_ended(2, ("exited", false), ready, &mut effects);
    servers.advance(ready, &mut effects);
    let after_its_pause = ready + Duration::from_millis(1001);
    assert_eq!(servers.launch_for_process(process(10), 7, after_its_pause, &mut effects), Ok(3));
}

#[test]
fn a_standby_waits_for_the_servers_of_candidates() {
    let begin = Instant::now();
    let (mut servers, mut effects) = after_a_fault(true, begin);
    let declared = begin + Duration::from_millis(DECLARED_MS_MAX);
    servers.advance(declared, &mut effects);
    assert_eq!(servers.launch_for_process(process(10), 7, declared, &mut effects), Ok(3));
    assert_eq!(effects.for_candidates, 1, "it loads nothing that its one program does not need");
    let pause = begin + Duration::from_millis(STANDBY_PAUSE_MS);
    let later = pause + Duration::from_millis(500);
    servers.advance(later, &mut effects);
    assert_eq!(effects.started, 3, "two contexts are made after each other");
    assert!(servers.next_due() > Some(later), "nothing is done again and again meanwhile");
    run(&mut servers, 3);
    servers.advance(later, &mut effects);
    assert_eq!((effects.started, effects.for_candidates), (4, 1));
}

#[test]
fn a_process_with_long_kernels_gets_a_server_with_all_that_programs_need() {
    let begin = Instant::now();
    let (mut servers, mut effects) = after_a_fault(true, begin);
    servers.isolate(2, 12, begin, &mut effects);
    assert_eq!((effects.started, effects.for_candidates), (3, 0));
}

#[test]
fn a_second_fault_lets_the_first_corrupted_server_end() {
    let begin = Instant::now();
    let (mut servers, mut effects) = after_a_fault(true, begin);
    let soon = begin + Duration::from_millis(DECLARED_MS_MAX / 2);
    servers.advance(soon, &mut effects);
    assert_eq!(effects.left, 0, "others go on first");
    servers.has_faulted(2, soon, &mut effects);
    assert_eq!(
        effects.left, 2,
        "the next one is not ready, and no program goes from the first to the second"
    );
}

#[test]
fn a_server_that_cannot_be_killed_is_not_looked_at_again_and_again() {
    let begin = Instant::now();
    let (mut servers, mut effects) = (Servers::default(), TestEffects::default());
    servers.launch(server_key(), 7, begin, &mut effects).expect("a server");
    let late = begin + Duration::from_secs(READY_S_MAX);
    assert_eq!(servers.next_due(), Some(late));
    servers.advance(late, &mut effects);
    assert!(servers.next_due() > Some(late), "it is stuck in the driver");
}

#[test]
fn a_program_that_comes_gets_the_standby_of_a_server_that_drains() {
    let begin = Instant::now();
    let (mut servers, mut effects) = (Servers::default(), TestEffects::default());
    servers.rules = Rules { owner: 7, standby: true, ..Rules::default() };
    servers.launch(server_key(), 7, begin, &mut effects).expect("a server");
    run(&mut servers, 1);
    servers.advance(begin, &mut effects);
    run(&mut servers, 2);
    servers.get(1).expect("a server").clients = 1;
    servers.is_exiting(1, begin);
    assert_eq!(servers.launch_for_process(process(20), 7, begin, &mut effects), Ok(2));
    assert_eq!(servers.place_of(process(20)), Placement::At(2));
}

#[test]
fn a_candidate_that_does_not_come_is_forgotten() {
    let begin = Instant::now();
    let (mut servers, mut effects) = after_a_fault(true, begin);
    assert!(servers.sorts_out_a_fault(begin), "the daemon is not replaced meanwhile");
    let later = begin + Duration::from_secs(COMES_S_MAX);
    servers.advance(later, &mut effects);
    assert!(!servers.sorts_out_a_fault(later));
    assert_eq!(servers.place_of(process(10)), Placement::Nowhere, "it would be alone");
    servers.advance(begin + Duration::from_secs(CANDIDATE_S_MAX), &mut effects);
    assert_eq!(servers.place_of(process(10)), Placement::At(2));
}

#[test]
fn an_upgrade_replaces_what_starts_when_it_is_ready_and_waits_for_no_server_that_failed() {
    let begin = Instant::now();
    let (mut servers, mut effects) = (Servers::default(), TestEffects::default());
    servers.launch(server_key(), 7, begin, &mut effects).expect("a server");
    assert_eq!(servers.begin_upgrade(begin, &mut effects), [1]);
    assert!(servers.is_being_replaced(1));
    assert!(servers.is_ready(1));
    servers.finish_replacing(1, begin, &mut effects);
    assert_eq!(effects.started, 2, "one of the new version");
    assert!(servers.is_being_replaced(1));
    servers.has_ended(2, ("exited with status 0", false), begin, &mut effects);
    assert!(!servers.is_being_replaced(1), "it serves on");
    let later = begin + Duration::from_secs(1);
    assert_eq!(servers.begin_upgrade(later, &mut effects), [1]);
    assert!(servers.is_ready(3));
    servers.finish_replacing(3, later, &mut effects);
    assert!(servers.is_being_replaced(1), "its clients go");
    servers.has_ended(1, ("exited", false), begin, &mut effects);
    assert!(!servers.is_being_replaced(1));
}
