//! NVML's event sets, as health checks wait for them: an error of the device, and a client's fault by option.

use crate::node::{Node, background, skipped};
use std::process::Command;
use tests::{Running, dist, finish, wait_until};

/// Waits for an event as NVIDIA's device plugin does, and prints its index and Xid.
const WATCH: &str = r#"
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
class Event(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("kind", ctypes.c_uint64), ("data", ctypes.c_uint64),
                ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]
def ok(code, what):
    if code: sys.exit(f"{what}: {code}")
ok(nvml.nvmlInit_v2(), "init")
count = ctypes.c_uint()
ok(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), "count")
events = ctypes.c_void_p()
ok(nvml.nvmlEventSetCreate(ctypes.byref(events)), "create")
mask = 1 | 2 | 8
for index in range(count.value):
    device, types = ctypes.c_void_p(), ctypes.c_uint64()
    ok(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)), "handle")
    ok(nvml.nvmlDeviceGetSupportedEventTypes(device, ctypes.byref(types)), "types")
    ok(nvml.nvmlDeviceRegisterEvents(device, ctypes.c_uint64(mask & types.value), events), "register")
print("watching", flush=True)
open(sys.argv[1], "w").close()
seconds = int(sys.argv[2])
event = Event()
code = nvml.nvmlEventSetWait_v2(events, ctypes.byref(event), seconds * 1000)
if code == 10:
    print("timeout")
else:
    ok(code, "wait")
    index = ctypes.c_uint()
    ok(nvml.nvmlDeviceGetIndex(ctypes.c_void_p(event.device), ctypes.byref(index)), "index")
    print(index.value, event.kind, event.data)
ok(nvml.nvmlEventSetFree(events), "free")
if nvml.nvmlEventSetFree(events) != 2: sys.exit("freed twice")
"#;

fn watch(node: &Node, name: &str, seconds: &str, variables: &[(&str, &str)]) -> Running {
    let mark = node.path(name);
    let mut command = node.bare("python3");
    command.args(["-c", WATCH]).arg(&mark).arg(seconds).envs(variables.iter().copied());
    command.env("LD_LIBRARY_PATH", dist().join("lib/openmps")).env("PATH", "/usr/bin:/bin");
    command.env("CUDA_MPS_PIPE_DIRECTORY", node.path("pipe"));
    let watching = background(&mut command);
    wait_until("it watches", || mark.exists());
    watching
}

/// The last line that it printed.
fn saw(watching: Running) -> String {
    let ended = watching.wait().expect_success();
    ended.stdout.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn an_error_of_the_device_is_an_event_and_a_client_s_fault_by_option() {
    if Command::new("python3").args(["-c", "import ctypes"]).status().is_ok_and(|of| !of.success())
    {
        return skipped("python3 is wanted");
    }
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "2")]);
    let openmps = |words: &[&str]| finish(node.bare(dist().join("bin/openmps")).args(words));
    // What was before is no event.
    openmps(&["set", "--xid", "48"]).expect_success();
    let watching = watch(&node, "first", "60", &[]);
    openmps(&["set", "--xid", "79", "--device", "1"]).expect_success();
    assert_eq!(saw(watching), "1 8 79");

    let (pipe, log) = (node.path("pipe"), node.path("log"));
    let _daemon = node.start(&pipe, &log, &[]);
    let fault =
        || finish(&mut node.sample(&pipe, "fault", &["--kind", "null-write"])).expect_success();
    let quiet = watch(&node, "second", "3", &[]);
    let told = watch(&node, "third", "60", &[("OPENMPS_NVML_CLIENT_FAULTS", "1")]);
    fault();
    assert_eq!(saw(told), "0 8 31");
    assert_eq!(saw(quiet), "timeout", "a program's fault is no fault of the device");
}
