//! Observe: what is reported of clients in detail, where a server says nothing.

use crate::harness::{Setting, signal};
use rustix::process::Signal;

crate::tests! {
    a_silent_server_does_not_keep_others_traces_and_counts,
}

fn a_silent_server_does_not_keep_others_traces_and_counts() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let server = client.server;
    signal(server, Signal::STOP);
    // A stopped one would outlive the test.
    let goes_on = Continued(server);
    let (text, status) = setting.command(&format!("trace {server}:7"));
    let traces: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (traces[0]["server"].as_u64(), traces[0]["next"].as_u64()),
        (Some(server.into()), Some(7))
    );
    let error = traces[0]["error"].as_str().expect("why");
    assert!(error.contains(&server.to_string()) && status == 0, "{text}");
    assert_eq!(setting.command("counts"), ("[]\n".to_owned(), 0));
    // Who asks for one only wants to know.
    let (text, status) = setting.command(&format!("counts {server}"));
    assert!(text.contains(&server.to_string()) && status == 1, "{text}");
    drop(goes_on);
}

struct Continued(u32);

impl Drop for Continued {
    fn drop(&mut self) {
        signal(self.0, Signal::CONT);
    }
}
