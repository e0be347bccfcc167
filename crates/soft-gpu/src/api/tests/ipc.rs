//! Memory and events of another process: this test program once more, which does only its part.

use super::super::managed::*;
use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// The line by which a process says that it waits.
const WAITS: &str = "it waits for the other process";
const WORDS: usize = 300;
/// Longer than what the driver cuts from a common chunk.
const LARGE_WORDS: usize = 400_000;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> [u8; 64] {
    let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    std::array::from_fn(byte)
}

fn memory_handle(pointer: CUdeviceptr) -> CUipcMemHandle {
    let mut handle = CUipcMemHandle { reserved: [0; 64] };
    cu!(cuIpcGetMemHandle(&mut handle, pointer)).unwrap();
    handle
}

fn interprocess_event() -> (CUevent, CUipcEventHandle) {
    let (mut event, mut handle) = (CUevent::NULL, CUipcEventHandle { reserved: [0; 64] });
    let flags = event_flags::DISABLE_TIMING | event_flags::INTERPROCESS;
    cu!(cuEventCreate(&mut event, flags)).unwrap();
    cu!(cuIpcGetEventHandle(&mut handle, event)).unwrap();
    (event, handle)
}

/// Runs the other half of a test in a process of its own, with handles as its input.
/// `waits` is called once the process says that it does, if it does.
fn other_process(part: &str, handles: &[[u8; 64]], waits: impl FnOnce()) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("api::tests::ipc::{part}"), "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for handle in handles {
        writeln!(input, "{}", hex(handle)).unwrap();
    }
    drop(input);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    if lines.any(|line| line == WAITS) {
        waits();
    }
    // Up to its end, so that it never waits for us.
    lines.for_each(drop);
    assert!(child.wait().unwrap().success(), "{part}");
}

fn given() -> Vec<[u8; 64]> {
    std::io::stdin().lines().map(|line| unhex(line.unwrap().trim())).collect()
}

#[test]
fn another_process_reads_and_writes_and_waits() {
    let _alive = start();
    let stream = new_stream(1);
    let (small, large) = (allocate(8 * WORDS), allocate(8 * LARGE_WORDS));
    // What was there before the memory was shared is there afterwards, beside it too.
    let beside = allocate(8);
    for (pointer, value) in [(small, 11), (large, 22), (beside, 33)] {
        cu!(cuMemsetD32_v2(pointer, value, 2)).unwrap();
    }
    // The other process waits for nothing of this one's but the event.
    cu!(cuCtxSynchronize()).unwrap();
    let (ours, our_handle) = interprocess_event();
    let (theirs, their_handle) = interprocess_event();
    let flag = Arc::new(AtomicU32::new(0));
    let handles = [memory_handle(small), memory_handle(large)];
    launch(spin(&flag), 1, stream, &mut []).unwrap();
    launch(store(), 4, stream, &mut [small.0, 100]).unwrap();
    cu!(cuEventRecord(ours, stream)).unwrap();
    assert_eq!(cu!(cuEventQuery(ours)), Err(Error::NOT_READY));
    let release = flag.clone();
    let opener = std::thread::spawn(move || {
        let all = [handles[0].reserved, handles[1].reserved];
        other_process(
            "the_other_half",
            &[all[0], all[1], our_handle.reserved, their_handle.reserved],
            || release.store(1, Ordering::Release),
        );
    });
    opener.join().unwrap();
    // The other process recorded its event before it ended.
    cu!(cuEventQuery(theirs)).unwrap();
    cu!(cuEventSynchronize(theirs)).unwrap();
    cu!(cuEventSynchronize(ours)).unwrap();
    assert_eq!(read(small, 5)[..5], [100, 101, 102, 103, 7]);
    assert_eq!(read(large, LARGE_WORDS)[LARGE_WORDS - 1], 0x0505_0505_0505_0505);
    assert_eq!(read(beside, 1), [33 << 32 | 33]);
    for pointer in [small, large, beside] {
        cu!(cuMemFree_v2(pointer)).unwrap();
    }
}

#[test]
#[ignore = "the other process of another test"]
fn the_other_half() {
    let _alive = start();
    let handles = given();
    let stream = new_stream(1);
    let open = |bytes: [u8; 64]| {
        let mut pointer = CUdeviceptr(0);
        let handle = CUipcMemHandle { reserved: bytes };
        cu!(cuIpcOpenMemHandle_v2(&mut pointer, handle, 1)).unwrap();
        pointer
    };
    let open_event = |bytes: [u8; 64]| {
        let mut event = CUevent::NULL;
        cu!(cuIpcOpenEventHandle(&mut event, CUipcEventHandle { reserved: bytes })).unwrap();
        event
    };
    let (small, large) = (open(handles[0]), open(handles[1]));
    assert_eq!(open(handles[0]), small, "where it was");
    let (mut base, mut bytes) = (CUdeviceptr(0), 0);
    cu!(cuMemGetAddressRange_v2(&mut base, &mut bytes, CUdeviceptr(small.0 + 8))).unwrap();
    assert_eq!((base, bytes), (small, 8 * WORDS));
    let (theirs, ours) = (open_event(handles[2]), open_event(handles[3]));
    assert_eq!(read(large, 1), [22 << 32 | 22]);
    // Behind the other process' kernel, which waits until this one has seen that it runs.
    assert_eq!(cu!(cuEventQuery(theirs)), Err(Error::NOT_READY));
    cu!(cuStreamWaitEvent(stream, theirs, 0)).unwrap();
    let mut fifth = CUdeviceptr(small.0 + 32);
    launch(store(), 1, stream, &mut [fifth.0, 7]).unwrap();
    fifth.0 -= 32;
    cu!(cuMemsetD8Async(CUdeviceptr(large.0 + 8), 5, 8 * (LARGE_WORDS - 1), stream)).unwrap();
    cu!(cuEventRecord(ours, stream)).unwrap();
    assert_eq!(cu!(cuEventQuery(ours)), Err(Error::NOT_READY));
    println!("\n{WAITS}");
    cu!(cuEventSynchronize(ours)).unwrap();
    assert_eq!(read(fifth, 5), [100, 101, 102, 103, 7]);
    cu!(cuEventSynchronize(theirs)).unwrap();
    assert_eq!(cu!(cuMemFree_v2(small)), Err(Error::INVALID_VALUE));
    for _ in 0..2 {
        cu!(cuIpcCloseMemHandle(small)).unwrap();
    }
    assert_eq!(cu!(cuIpcCloseMemHandle(small)), Err(Error::INVALID_VALUE));
    cu!(cuIpcCloseMemHandle(large)).unwrap();
    cu!(cuEventDestroy_v2(ours)).unwrap();
}

#[test]
fn what_is_no_handle_or_no_longer_one_is_refused() {
    let _alive = start();
    let memory = allocate(64);
    let handle = memory_handle(memory);
    let mut pointer = CUdeviceptr(0);
    let own = cu!(cuIpcOpenMemHandle_v2(&mut pointer, handle, 0));
    assert_eq!(own, Err(Error::INVALID_CONTEXT));
    let nothing = CUipcMemHandle { reserved: [0; 64] };
    assert_eq!(cu!(cuIpcOpenMemHandle_v2(&mut pointer, nothing, 0)), Err(Error::INVALID_VALUE));
    // Another process' descriptor that is no memory: the first process' first one.
    let mut other = handle;
    other.reserved[8..16].copy_from_slice(&(1u64 << 32).to_le_bytes());
    let refused = cu!(cuIpcOpenMemHandle_v2(&mut pointer, other, 0));
    assert!(matches!(refused, Err(Error::INVALID_HANDLE | Error::NOT_PERMITTED)), "{refused:?}");
    let mut managed = CUdeviceptr(0);
    cu!(cuMemAllocManaged(&mut managed, 64, 1)).unwrap();
    let mut handle = handle;
    assert_eq!(cu!(cuIpcGetMemHandle(&mut handle, managed)), Err(Error::INVALID_VALUE));
    let mut event = CUevent::NULL;
    cu!(cuEventCreate(&mut event, event_flags::DISABLE_TIMING)).unwrap();
    let mut handle = CUipcEventHandle { reserved: [0; 64] };
    assert_eq!(cu!(cuIpcGetEventHandle(&mut handle, event)), Err(Error::INVALID_HANDLE));
}
