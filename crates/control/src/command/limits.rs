//! Commands that set and print what clients are given: shares of SMs, memory, priorities.

use super::act::{client_ids, devices_named};
use super::query::{find, visible};
use super::request::{Failure, Request};
use channel::message::Change;
use cuda_api::CUuuid;
use cuda_api::settings::{Percentage, Priority, parse_device, parse_size, size_text};
use scheduling::{ClientSettings, Settings};

type Outcome = Result<String, Failure>;

/// A percentage, or a failure whose last line is the one that stays, as NVIDIA's shell prints it.
fn percentage(text: &str, now: Percentage) -> Result<Percentage, Failure> {
    Percentage::parse(text).map_err(|error| Failure(format!("{error}\n{now}")))
}

pub(super) fn set_default_active_thread_percentage(request: &Request<'_>) -> Outcome {
    let [text] = request.arguments.as_slice() else {
        return Err("usage: set_default_active_thread_percentage <percentage>".into());
    };
    let now = request.daemon.defaults(|settings| settings.share());
    let share = percentage(text, now)?;
    request.daemon.set_default_share(share);
    Ok(format!("{share}\n"))
}

pub(super) fn get_default_active_thread_percentage(request: &Request<'_>) -> Outcome {
    request.no_arguments("get_default_active_thread_percentage")?;
    Ok(format!("{}\n", request.daemon.defaults(|settings| settings.share())))
}

pub(super) fn set_active_thread_percentage(request: &Request<'_>) -> Outcome {
    let [server, text] = request.arguments.as_slice() else {
        return Err("usage: set_active_thread_percentage <server PID> <percentage>".into());
    };
    let server = find(request, server)?.pid;
    let now = request.daemon.settings_of(server, |settings| settings.share())?;
    let share = percentage(text, now)?;
    request.daemon.set_share(server, share)?;
    Ok(format!("{share}\n"))
}

pub(super) fn get_active_thread_percentage(request: &Request<'_>) -> Outcome {
    let server = match request.arguments.as_slice() {
        [] => find(request, "0")?,
        [pid] => find(request, pid)?,
        [_, more, ..] => {
            return Err(Failure(format!("one server PID is wanted, got {more:?} too")));
        }
    };
    let share = request.daemon.settings_of(server.pid, |settings| settings.share())?;
    Ok(format!("{share}\n"))
}

pub(super) fn set_default_device_pinned_mem_limit(request: &Request<'_>) -> Outcome {
    let [device, size] = request.arguments.as_slice() else {
        return Err("usage: set_default_device_pinned_mem_limit <device> <size>".into());
    };
    let (device, bytes) = (there(request, device)?, parse_size(size)?);
    request.daemon.set_default_memory(device, bytes, size)?;
    Ok(beyond(request, device, bytes))
}

pub(super) fn get_default_device_pinned_mem_limit(request: &Request<'_>) -> Outcome {
    let [device] = request.arguments.as_slice() else {
        return Err("usage: get_default_device_pinned_mem_limit <device>".into());
    };
    let device = parse_device(device)?;
    Ok(request.daemon.defaults(|settings| line(settings.memory(device))))
}

pub(super) fn set_device_pinned_mem_limit(request: &Request<'_>) -> Outcome {
    let [server, device, size] = request.arguments.as_slice() else {
        return Err("usage: set_device_pinned_mem_limit <server PID> <device> <size>".into());
    };
    let server = find(request, server)?.pid;
    let (device, bytes) = (there(request, device)?, parse_size(size)?);
    request.daemon.set_memory(server, device, bytes, size)?;
    Ok(beyond(request, device, bytes))
}

pub(super) fn get_device_pinned_mem_limit(request: &Request<'_>) -> Outcome {
    let [server, device] = request.arguments.as_slice() else {
        return Err("usage: get_device_pinned_mem_limit <server PID> <device>".into());
    };
    let server = find(request, server)?.pid;
    let device = parse_device(device)?;
    Ok(request.daemon.settings_of(server, |settings| line(settings.memory(device)))?)
}

/// A device's name, of one that is there as far as the devices are known.
fn there<'a>(request: &Request<'_>, word: &'a str) -> Result<&'a str, Failure> {
    let device = parse_device(word)?;
    if let Some(known) = request.daemon.known_devices() {
        devices_named(&known, Some(device))?;
    }
    Ok(device)
}

/// A line that says so of a limit that is more than the device has: it limits nothing.
fn beyond(request: &Request<'_>, device: &str, bytes: u64) -> String {
    let Some(known) = request.daemon.known_devices() else { return String::new() };
    let uuids: Vec<CUuuid> = known.devices.iter().map(|device| device.uuid).collect();
    let place = cuda_api::visible::device_named(device, &uuids);
    let memory_bytes =
        place.and_then(|place| known.devices.get(place)).map_or(0, |d| d.memory_bytes);
    match (1..bytes).contains(&memory_bytes) {
        true => format!(
            "The device has {}: a limit beyond that limits nothing\n",
            size_text(memory_bytes)
        ),
        false => String::new(),
    }
}

/// A line with a value; nothing for none.
fn line(value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!("{value}\n"))
}

pub(super) fn set_default_client_priority(request: &Request<'_>) -> Outcome {
    let [text] = request.arguments.as_slice() else {
        return Err("usage: set_default_client_priority <0|1>".into());
    };
    let Ok(priority) = Priority::parse(text) else {
        // NVIDIA's words.
        return Err("Invalid priority value - must be 0 or 1!".into());
    };
    request.daemon.set_default_priority(priority);
    Ok(String::new())
}

pub(super) fn get_default_client_priority(request: &Request<'_>) -> Outcome {
    request.no_arguments("get_default_client_priority")?;
    Ok(format!("{}\n", request.daemon.defaults(|settings| settings.priority().number())))
}

fn needs_partitions(request: &Request<'_>, line: &str) -> Result<(), Failure> {
    if request.daemon.is_partitioned() {
        return Ok(());
    }
    // NVIDIA's words, as without -S the command is not there.
    Err(Failure(format!("Unknown command \"{line}\"\nThe daemon has to be started with -S")))
}

pub(super) fn sm_partition(request: &Request<'_>) -> Outcome {
    let line = format!("sm_partition {}", request.arguments.join(" "));
    needs_partitions(request, line.trim_end())?;
    match request.arguments.as_slice() {
        ["add", device, chunks] => {
            let Some(chunks) = chunks.parse::<u32>().ok().filter(|chunks| *chunks > 0) else {
                return Err(Failure(format!("{chunks:?} is not a number of chunks above 0")));
            };
            Ok(format!("{}\n", request.daemon.add_partition(device, chunks)?))
        }
        ["rm", device, partition] => {
            request.daemon.remove_partition(device, partition)?;
            Ok(String::new())
        }
        _ => Err("usage: sm_partition add <device> <chunks> | rm <device> <partition>".into()),
    }
}

pub(super) fn lspart(request: &Request<'_>) -> Outcome {
    needs_partitions(request, "lspart")?;
    request.no_arguments("lspart")?;
    Ok(request.daemon.partitions()?)
}

const SET_USAGE: &str = "usage: set <client PID | id:ID> [server=PID] [memory=SIZE|none] \
                         [sms=PERCENTAGE%|NUMBER|none] [priority=0|1] [class=latency|normal|batch] \
                         [weight=N] [deadline=TIME|none] [quota=TIME|none]";

/// `set`: other limits for a client that runs.
pub(super) fn set(request: &Request<'_>) -> Outcome {
    let [client, words @ ..] = request.arguments.as_slice() else { return Err(SET_USAGE.into()) };
    let mut server = None;
    let mut changes = Vec::new();
    let mut scheduling = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("server", pid)) => server = Some(pid),
            Some(("class" | "weight" | "deadline" | "quota", _)) => scheduling.push(*word),
            Some((name, value)) => changes.push(change(name, value)?),
            None => return Err(SET_USAGE.into()),
        }
    }
    if changes.is_empty() && scheduling.is_empty() {
        return Err(SET_USAGE.into());
    }
    let scheduling = scheduling.join(" ");
    ClientSettings::default().change(&scheduling)?;
    let (server, clients) = named(request, client, server)?;
    // All or nothing would need a second round: each change is checked above, and again there.
    for client in clients {
        for change in &changes {
            request.daemon.set_of_client(server, client, change.clone())?;
        }
        if !scheduling.is_empty() {
            request.daemon.schedule_client(server, client, &scheduling)?;
        }
    }
    let in_vain = Settings::parse(&request.daemon.server_scheduling())
        .map(|settings| settings.unused(&scheduling))
        .unwrap_or_default();
    Ok(in_vain.iter().map(|sentence| format!("{sentence}\n")).collect())
}

/// What `name=value` asks for.
fn change(name: &str, value: &str) -> Result<Change, Failure> {
    Ok(match (name, value) {
        ("memory", "none") => Change::Memory(None),
        ("memory", size) => Change::Memory(Some(parse_size(size)?)),
        // What it was given at first.
        ("sms", "none") => Change::Sms(0),
        ("sms", share) if share.ends_with('%') => Change::Share(Percentage::parse(share)?),
        ("sms", number) => match number.parse::<u32>() {
            Ok(sms) if sms > 0 => Change::Sms(sms),
            _ => {
                let allowed = "a number of SMs above 0, nor a percentage as 25%, nor none";
                return Err(Failure(format!("{number:?} is not {allowed}")));
            }
        },
        ("priority", priority) => Change::Priority(Priority::parse(priority)?),
        _ => return Err(Failure(format!("{name:?} cannot be set\n{SET_USAGE}"))),
    })
}

/// A client's number at its server, and its PID if that is known.
type Named = (u32, Option<u32>);

/// The server of a client that a word names, and the client's numbers there, one for each of the
/// process's sessions, with its PID if that is known.
fn named(
    request: &Request<'_>,
    client: &str,
    server: Option<&str>,
) -> Result<(u32, Vec<Named>), Failure> {
    let servers = match server {
        Some(pid) => vec![find(request, pid)?],
        None => visible(request),
    };
    let pids: Vec<u32> = servers.iter().map(|server| server.pid).collect();
    let mut found = Vec::new();
    let unknown = |text: &str| Failure(format!("{text} `openmps ps` lists the PIDs and IDs"));
    let mut why = unknown(&format!("Invalid process {client}!"));
    for (pid, status) in request.daemon.statuses(&pids) {
        let ids = status.map_err(Failure::from).and_then(|status| {
            let ids = client_ids(&status.clients, client);
            let ids = ids.map_err(|Failure(text)| unknown(&text))?;
            let pid_of = |id| status.clients.iter().find(|of| of.id == id).and_then(|of| of.pid);
            Ok(ids.into_iter().map(|id| (id, pid_of(id))).collect())
        });
        match ids {
            Ok(ids) => found.push((pid, ids)),
            Err(error) => why = error,
        }
    }
    match found.len() {
        0 => Err(why),
        1 => Ok(found.remove(0)),
        _ => Err(Failure(format!(
            "{client} is a client of several servers: say which one by server=PID, of {}",
            found.iter().map(|(pid, _)| pid.to_string()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_or_refused_with_what_is_allowed() {
        let read = |name, value| change(name, value).map_err(|Failure(text)| text);
        assert_eq!(read("memory", "2G"), Ok(Change::Memory(Some(2 << 30))));
        assert_eq!(read("memory", "none"), Ok(Change::Memory(None)));
        assert_eq!(read("sms", "30%"), Ok(Change::Share(Percentage::parse("30").unwrap())));
        assert_eq!(read("sms", "4"), Ok(Change::Sms(4)));
        assert_eq!(read("sms", "none"), Ok(Change::Sms(0)));
        assert_eq!(read("priority", "1"), Ok(Change::Priority(Priority::BelowNormal)));
        for (name, value, part) in [
            ("memory", "2", "with K, M or G"),
            ("sms", "0", "above 0"),
            ("sms", "101%", "at most 100"),
            ("priority", "2", "0 (normal) or 1 (below normal)"),
            ("colour", "red", "usage: set"),
        ] {
            let text = read(name, value).unwrap_err();
            assert!(text.contains(part), "{name}={value}: {text}");
        }
    }
}
