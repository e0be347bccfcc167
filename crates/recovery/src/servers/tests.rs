//! Tests of servers: one in standby, with hands that only count.

use super::{Phase, Rules, STANDBY_PAUSE_MS, Seat, Servers, Start, Tell};
use cuda_api::CUuuid;
use std::time::{Duration, Instant};

/// Starts servers with the numbers from 1 on.
#[derive(Default)]
struct Hands {
    started: u32,
}

impl Tell<()> for Hands {
    fn shut_down(&mut self, _: &(), _: bool) -> bool {
        true
    }

    fn hand_over(&mut self, _: &()) -> bool {
        true
    }

    fn hand_over_one(&mut self, _: &(), _: u32) -> bool {
        true
    }

    fn kill(&mut self, _: &mut ()) {}

    fn look_again(&mut self) {}

    fn log(&mut self, _: String) {}
}

impl Start<()> for Hands {
    fn start(&mut self, _: Seat, _: u32) -> Result<(u32, ()), String> {
        self.started += 1;
        Ok((self.started, ()))
    }
}

fn run(servers: &mut Servers<()>, pid: u32) {
    servers.get(pid).expect("a server").phase = Phase::Running;
}

#[test]
fn the_next_standby_waits_until_the_last_one_has_served_for_a_while() {
    let seat = Seat { uid: 7, named: 0, device: CUuuid { bytes: [1; 16] } };
    let (mut servers, mut hands) = (Servers::default(), Hands::default());
    servers.rules = Rules { owner: 7, standby: true, ..Rules::default() };
    let begin = Instant::now();
    servers.launch(seat, 7, begin, &mut hands).expect("a server");
    run(&mut servers, 1);
    servers.advance(begin, &mut hands);
    assert_eq!(hands.started, 2, "one stands by the first at once");
    run(&mut servers, 2);
    servers.get(1).expect("a server").clients = 3;
    servers.has_faulted(1, begin, &mut hands);
    let stands_by = |servers: &Servers<()>| servers.iter().filter(|of| of.standby).count();
    assert_eq!((hands.started, stands_by(&servers)), (2, 0), "it serves");
    let pause = Duration::from_millis(STANDBY_PAUSE_MS);
    servers.advance(begin + pause / 2, &mut hands);
    assert_eq!(hands.started, 2, "programs come first");
    assert_eq!(servers.next_due(), Some(begin + pause));
    servers.advance(begin + pause, &mut hands);
    assert_eq!((hands.started, stands_by(&servers)), (3, 1));
    assert_ne!(servers.next_due(), Some(begin + pause), "it is done");
}
