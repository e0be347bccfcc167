//! Sharing between processes: memory and events of this process that another one opens. The other
//! one is this program too, started with the handles.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Command, ExitCode, Stdio},
    ptr,
};

use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUevent_flags as Flags, CUipcEventHandle, CUipcMemHandle,
};

use crate::{
    Check,
    support::{
        Env, Event, Outcome, Stop, Stream, Words, call, equal, refused, status, synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[("ipc.memory_and_events", memory_and_events)];

/// The argument with which the program starts itself: memory and event follow in hexadecimal.
pub(crate) const CHILD: &str = "--ipc-child";

/// Words that the two processes share, and which of them each writes.
const LENGTH: usize = 1000;
/// What the other process says if the driver does not let it open an event, as in some virtual
/// machines.
const NO_EVENTS: &str = "no events";
const PARENTS: u32 = 41;
const CHILDS: u32 = 42;

fn to_text(bytes: &[std::ffi::c_char; 64]) -> String {
    bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect()
}

fn from_text(text: &str) -> Option<[std::ffi::c_char; 64]> {
    let mut bytes = [0; 64];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let digits = text.get(2 * index..2 * index + 2)?;
        *byte = u8::from_str_radix(digits, 16).ok()? as std::ffi::c_char;
    }
    Some(bytes)
}

fn shared_event() -> Outcome<Event> {
    let flags = Flags::CU_EVENT_DISABLE_TIMING as u32 | Flags::CU_EVENT_INTERPROCESS as u32;
    let mut event = ptr::null_mut();
    call!(cuEventCreate(&mut event, flags))?;
    Ok(Event(event))
}

fn memory_and_events(env: &Env) -> Outcome {
    if env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)? == 0 {
        return Err(Stop::Absent("the device shares nothing with other processes".to_owned()));
    }
    // An allocation before it, so that the shared one need not begin where a piece of memory does.
    let (_before, words, stream) =
        (Words::filled(10, 0)?, Words::filled(LENGTH, 0)?, Stream::non_blocking()?);
    let mut memory = CUipcMemHandle { reserved: [0; 64] };
    call!(cuIpcGetMemHandle(&mut memory, words.address))?;
    let mut address = 0;
    refused!(cuIpcOpenMemHandle_v2(&mut address, memory, 1), CUDA_ERROR_INVALID_CONTEXT)?;
    let event = shared_event()?;
    let mut handle = CUipcEventHandle { reserved: [0; 64] };
    call!(cuIpcGetEventHandle(&mut handle, event.0))?;
    let local = Event::untimed()?;
    refused!(
        cuIpcGetEventHandle(&mut handle, local.0),
        CUDA_ERROR_INVALID_HANDLE | CUDA_ERROR_INVALID_VALUE
    )?;

    // The child waits for the event, not for its time: the write is still to come.
    env.slow_write(words.address, PARENTS, 300, stream.0)?;
    event.record(stream.0)?;
    let program = env::current_exe().map_err(|error| Stop::Wrong(error.to_string()))?;
    let mut child = Command::new(program)
        .args([CHILD, &to_text(&memory.reserved), &to_text(&handle.reserved)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Stop::Wrong(error.to_string()))?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        let _ = BufReader::new(output).read_line(&mut said);
    }
    if said.trim() == NO_EVENTS {
        return Err(Stop::Absent("no event of another process can be opened here".to_owned()));
    }
    equal("what the other process says", said.trim(), "recorded")?;
    // The child has recorded the event behind its own write.
    call!(cuStreamWaitEvent(stream.0, event.0, 0))?;
    env.copy_word(words.at(1), words.at(2), stream.0)?;
    call!(cuEventSynchronize(event.0))?;
    let words = words.read()?;
    equal("the words", words[..3].to_vec(), vec![PARENTS, CHILDS, CHILDS])?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"done\n");
    }
    let status = child.wait().map_err(|error| Stop::Wrong(error.to_string()))?;
    equal("how the other process ends", status.code(), Some(0))
}

/// The other process: `arguments` are what follows [`CHILD`].
pub(crate) fn child(arguments: &[String]) -> ExitCode {
    let outcome = match arguments {
        [memory, event] => take_part(memory, event),
        _ => Err(Stop::Wrong("two handles are missing".to_owned())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn take_part(memory: &str, event: &str) -> Outcome {
    call!(cuInit(0))?;
    let env = Env::new(false)?;
    let handle = |text| from_text(text).ok_or(Stop::Wrong("not a handle".to_owned()));
    let (memory, event) = (handle(memory)?, handle(event)?);
    let (mut address, mut again) = (0, 0);
    call!(cuIpcOpenMemHandle_v2(&mut address, CUipcMemHandle { reserved: memory }, 1))?;
    call!(cuIpcOpenMemHandle_v2(&mut again, CUipcMemHandle { reserved: memory }, 1))?;
    equal("the address of what is open already", again, address)?;
    call!(cuIpcCloseMemHandle(again))?;
    let mut opened = ptr::null_mut();
    let answer = status!(cuIpcOpenEventHandle(&mut opened, CUipcEventHandle { reserved: event }));
    if answer == sys::CUresult::CUDA_ERROR_MAP_FAILED {
        println!("{NO_EVENTS}");
        return Ok(());
    }
    let event = Event(opened);
    equal("opening the event", answer, sys::CUresult::CUDA_SUCCESS)?;
    let (mut base, mut bytes) = (0, 0);
    call!(cuMemGetAddressRange_v2(&mut base, &mut bytes, address + 400))?;
    equal("the allocation", (base, bytes), (address, LENGTH * 4))?;

    let (stream, copy) = (Stream::non_blocking()?, Words::filled(1, 0)?);
    call!(cuStreamWaitEvent(stream.0, event.0, 0))?;
    env.copy_word(address, copy.address, stream.0)?;
    call!(cuEventSynchronize(event.0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("what the first process wrote", copy.first()?, PARENTS)?;
    env.slow_write(address + 4, CHILDS, 50, stream.0)?;
    event.record(stream.0)?;
    println!("recorded");
    // Memory and event stay until the first process has seen them.
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    synchronize()?;
    drop(event);
    call!(cuIpcCloseMemHandle(address))?;
    refused!(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_INVALID_HANDLE)?;
    Ok(())
}
