//! Messages are read back as they were written, and nothing else is read as one.

use super::*;
use crate::region::ServerState;
use cuda_api::CUuuid;
use cuda_api::settings::{Counting, MemoryLimit, Percentage, Priority};
use proptest::collection::vec;
use proptest::prelude::*;

fn uuid() -> impl Strategy<Value = CUuuid> {
    any::<[u8; 16]>().prop_map(|bytes| CUuuid { bytes })
}

fn device() -> impl Strategy<Value = Device> {
    let attributes = vec(any::<i32>(), DEVICE_ATTRIBUTES);
    let peers = vec(any::<[i32; PEER_ATTRIBUTES]>(), 0..3);
    let numbers = (any::<u64>(), any::<u32>());
    (".{0,40}", uuid(), numbers, "[0-9a-f:.]{0,13}", attributes, peers).prop_map(
        |(name, uuid, (memory_bytes, sm_groups), pci_bus_id, attributes, peers)| Device {
            peers: peers.into_iter().map(|attributes| Peer { attributes }).collect(),
            name,
            uuid,
            memory_bytes,
            pci_bus_id,
            attributes: attributes.try_into().unwrap(),
            sm_groups,
        },
    )
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let window = || any::<(u64, u64)>().prop_map(|(address, bytes)| Window { address, bytes });
    let numbers = any::<(u32, u32, i32, i32, i32, u32)>();
    (numbers, window(), window(), ".{0,80}", vec(device(), 0..=3)).prop_map(
        |(n, window, host_window, log_path, devices)| Welcome {
            client_id: n.0,
            server_pid: n.1,
            window,
            host_window,
            driver_version: n.2,
            priority_least: n.3,
            priority_greatest: n.4,
            flags: n.5,
            log_path,
            devices,
            release: release(n.0),
        },
    )
}

fn status() -> impl Strategy<Value = ServerStatus> {
    let device = (any::<u32>(), ".{0,20}", uuid(), ".{0,20}").prop_map(
        |(ordinal, pci_bus_id, uuid, name)| {
            let counts =
                DeviceCounts { sms: ordinal, sampled: ordinal % 2 == 0, ..Default::default() };
            DeviceStatus { ordinal, pci_bus_id, uuid, name, counts }
        },
    );
    let work = any::<Option<(u64, u64, u64, u64, u64, u64, u64, u64)>>().prop_map(|work| {
        work.map(|n| ClientWork {
            busy_ns: n.0,
            worker_ns: n.1,
            blocks: n.2,
            warp_instructions: n.3,
            thread_instructions: n.4,
            global_bytes: n.5,
            sm_active_ns: n.6,
            warp_ns: n.7,
            device_ns: n.0,
            sampled: n.1 % 2 == 0,
        })
    });
    let scheduling = (".{0,60}", any::<[u64; 4]>()).prop_map(|(settings, n)| ClientScheduling {
        settings,
        paused_ns: n[0],
        pauses: n[1],
        charged_ns: n[2],
        interval_ns: n[3],
        space_sms: n[2] as u32,
        slowed_permille: n[3] as u32,
        space_changes: n[0],
    });
    let client = (any::<(u32, u32, u32, u64, u64)>(), uuid(), work, scheduling, ".{0,60}")
        .prop_map(|(n, device, work, scheduling, command_line)| ClientStatus {
            pid: n.0,
            id: n.1,
            uid: n.2,
            device,
            memory_bytes: n.3,
            limits: ClientLimits {
                memory: Some((n.3, SetBy::Live)).filter(|_| n.0 % 2 == 0 && n.3 != u64::MAX),
                sms: (n.1, SetBy::Program),
                ..ClientLimits::default()
            },
            submitted: SubmittedCounts { kernels: n.4, ..Default::default() },
            counts: ClientCounts { waits: n.3, ..Default::default() },
            work,
            host_bytes: n.4,
            scheduling,
            command_line,
        });
    let state = prop_oneof![
        Just(ServerState::Starting),
        Just(ServerState::Running),
        Just(ServerState::Ended)
    ];
    let context = any::<Option<(u64, u64, u64, u32, u32)>>().prop_map(|n| {
        n.map(|n| ContextStatus {
            calls: vec![("loading".into(), CallCounts { calls: n.0, total_ns: n.1, ..d() }); 2],
            waiting: vec![WaitingCall { client: n.2.to_string(), since_ns: n.0, ..d() }],
            warm: WarmStatus { bytes: n.1, images: n.3, kernels: n.4, spared: n.2, ..d() },
        })
    });
    (state, any::<bool>(), vec(device, 0..3), vec(client, 0..4), context).prop_map(
        |(state, more, devices, clients, context)| ServerStatus {
            state,
            more,
            devices,
            clients,
            context,
        },
    )
}

fn release(number: u32) -> Release {
    let build = format!("0.{number}");
    Release { min: (number % 7) as u16, max: (number % 11) as u16, build }
}

fn d<T: Default>() -> T {
    T::default()
}

fn limit(number: u32) -> MemoryLimit {
    MemoryLimit { device: format!("{}", number % 4), bytes: u64::from(number) << 20 }
}

fn requested(number: u32) -> RequestedLimits {
    RequestedLimits {
        share: Percentage::from_thousandths(number % 200_000),
        memory: vec![limit(number); number as usize % 3],
        priority: Priority::from_number((number % 3) as u8),
        partition: "GPU-0/x".repeat(number as usize % 2),
        connections: number % 33,
        job: "127.0.0.1:29500".repeat(number as usize % 2),
    }
}

fn settings(number: u32) -> Settings {
    Settings {
        share: (Percentage::of_parts(number), SetBy::Daemon),
        memory: vec![(limit(number), SetBy::Server); number as usize % 3],
        priority: (Priority::BelowNormal, SetBy::Program),
        partition: number.is_multiple_of(2).then_some((number, number)),
        group: number.is_multiple_of(5).then(|| MemoryGroup {
            name: "/a".repeat(number as usize % 40),
            soft_bytes: number.into(),
            hard_bytes: u64::from(number) << 20,
        }),
        connections: number % 33,
        now: number.is_multiple_of(3),
        namespace: number.is_multiple_of(7).then(|| MemoryGroup {
            name: "namespace a".into(),
            soft_bytes: u64::MAX,
            hard_bytes: number.into(),
        }),
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u32>().prop_map(|n| Change::Memory(Some(n.into()))),
        Just(Change::Memory(None)),
        any::<u32>().prop_map(|n| Change::Share(Percentage::of_parts(n))),
        any::<u32>().prop_map(Change::Sms),
        Just(Change::Priority(Priority::Normal)),
        any::<u32>().prop_map(|n| {
            Change::Group(MemoryGroup { name: "/a".into(), soft_bytes: 0, hard_bytes: n.into() })
        }),
        any::<(u32, u32)>().prop_map(|(first, end)| Change::Partition(first, end)),
    ]
}

fn counts() -> impl Strategy<Value = CountsPart> {
    (any::<(u32, u64, u64)>(), any::<bool>(), ".{0,30}").prop_map(|((client, a, b), more, name)| {
        let shape = ShapeCounts { launches: a, grid_x: client, ..Default::default() };
        let exact = ExactCounts { launches: b, ..Default::default() };
        let stream = StreamCounts { slot: client, bytes_in: a, ..Default::default() };
        CountsPart {
            more,
            client,
            shapes: vec![(name.clone(), shape)],
            exact: vec![(name, exact)],
            streams: vec![stream],
        }
    })
}

fn trace() -> impl Strategy<Value = TracePart> {
    (any::<(u32, u64, u64)>(), any::<bool>(), ".{0,30}").prop_map(|((client, a, b), more, name)| {
        let mut part = TracePart { more, next: a, lost: b, ..TracePart::default() };
        let command_line = name.clone();
        part.clients.push(TraceClient { client, pid: client, command_line });
        part.add(&TraceEntry { kind: 1, client, launch: b, ..Default::default() }, &name);
        part
    })
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u32>(), ".{0,80}", ".{0,20}", ".{0,80}", uuid()).prop_map(
            |(pid, command_line, library_version, scheduling, device)| {
                let requested = requested(pid);
                Message::Hello(Hello {
                    pid,
                    command_line,
                    library_version,
                    requested,
                    scheduling,
                    device,
                    token: u64::from(pid) << 7,
                    release: release(pid),
                    request: pid ^ 5,
                })
            }
        ),
        Just(Message::Describe(())),
        (any::<i32>(), vec(device(), 0..=3)).prop_map(|(driver_version, devices)| {
            Message::Devices(Devices { driver_version, devices })
        }),
        welcome().prop_map(Message::Welcome),
        (any::<u32>(), ".{0,80}")
            .prop_map(|(result, reason)| Message::Refused(Refused { result, reason })),
        Just(Message::HostFd(())),
        Just(Message::ManagedFd(())),
        Just(Message::ImageFd(())),
        any::<u64>().prop_map(Message::ChunkFd),
        ".{0,80}".prop_map(|text| Message::Command(Command { text })),
        (any::<i32>(), any::<bool>(), "(?s).{0,200}")
            .prop_map(|(status, more, text)| Message::Reply(Reply { status, more, text })),
        any::<u32>().prop_map(Message::Ready),
        ".{0,80}".prop_map(Message::Failed),
        (any::<[u8; 16]>(), any::<[bool; 2]>(), vec(any::<(u32, u32)>(), 0..5)).prop_map(
            |(bytes, [ends, fault], clients)| {
                let device = CUuuid { bytes };
                let release = release(bytes[0].into());
                Message::Serving(Serving { device, ends, fault, clients, release })
            }
        ),
        any::<u32>().prop_map(|number| Message::Settings(settings(number))),
        (any::<[u32; 3]>(), ".{0,80}", ".{0,80}").prop_map(
            |([pid, uid, gid], command_line, scheduling)| {
                let (window, settings) = (pid ^ gid, settings(pid));
                Message::Client(Client {
                    pid,
                    uid,
                    gid,
                    command_line,
                    window,
                    settings,
                    scheduling,
                    comes_again: pid.is_multiple_of(2),
                    protocol: (pid % 5) as u16,
                    request: gid,
                })
            }
        ),
        (
            any::<u32>(),
            prop_oneof![
                Just(Question::Status),
                any::<u32>().prop_map(Question::Terminate),
                (any::<u32>(), change()).prop_map(|(id, change)| Question::Set(id, change)),
                (any::<u32>(), ".{0,80}").prop_map(|(client, settings)| Question::Schedule(
                    Schedule { client, settings }
                )),
                any::<u32>().prop_map(Question::Counts),
                any::<u64>().prop_map(Question::Trace),
                (0..4usize).prop_map(|at| Question::Counters(Counting::ALL[at])),
            ]
        )
            .prop_map(|(number, question)| Message::Ask(Ask { number, question })),
        (
            any::<u32>(),
            prop_oneof![
                status().prop_map(Answered::Status),
                any::<u32>().prop_map(Answered::Done),
                ".{0,80}".prop_map(Answered::Refused),
                counts().prop_map(Answered::Counts),
                trace().prop_map(Answered::Trace),
            ]
        )
            .prop_map(|(number, answered)| Message::Answer(Answer { number, answered })),
        any::<bool>().prop_map(Message::Shutdown),
        any::<u32>().prop_map(Message::ClientGone),
        Just(Message::Exiting(())),
        Just(Message::Leave(())),
        (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(process, operations, is_lost)| {
            Message::Restored(Restored { process, operations, is_lost })
        }),
        ".{0,80}".prop_map(Message::Fault),
        any::<u32>().prop_map(Message::Candidate),
        any::<u32>().prop_map(Message::WindowFree),
        any::<u32>().prop_map(Message::MemoryWanted),
        any::<u32>().prop_map(Message::Isolate),
        any::<u32>().prop_map(Message::MoveOne),
        Just(Message::Move(())),
        ".{0,80}".prop_map(Message::Replace),
        (any::<[u64; 3]>(), status()).prop_map(|(n, status)| {
            let [began_ms, wall_ms, peak_memory_bytes] = n;
            let status = status.clients.into_iter().next().unwrap_or_default();
            Message::Ended(EndedClient { status, began_ms, wall_ms, peak_memory_bytes })
        }),
        (any::<u32>(), ".{0,40}", any::<bool>(), ".{0,40}", ".{0,80}").prop_map(
            |(pid, command, is_faulting, error, why)| {
                Message::ClientFault(ClientFault { pid, command, is_faulting, error, why })
            }
        ),
    ]
}

/// Messages of all kinds, the same ones at each call.
pub(crate) fn samples() -> Vec<Message> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let (mut runner, strategy) = (TestRunner::deterministic(), message());
    let mut one = || strategy.new_tree(&mut runner).expect("a message").current();
    (0..2000).map(|_| one()).collect()
}

fn forget_grown(of: &mut ClientStatus) {
    of.host_bytes = 0;
    let of = &mut of.scheduling;
    (of.space_sms, of.slowed_permille, of.space_changes) = (0, 0, 0);
}

/// A message as a peer of version 2 has it.
fn without_what_grew(mut message: Message) -> Message {
    match &mut message {
        Message::Hello(of) => (of.release, of.request) = d(),
        Message::Welcome(of) => of.release = d(),
        Message::Serving(of) => of.release = d(),
        Message::Client(of) => {
            (of.protocol, of.request) = (0, 0);
            of.settings.namespace = None;
        }
        Message::Settings(of) => of.namespace = None,
        Message::Ended(of) => forget_grown(&mut of.status),
        Message::Restored(of) => (of.operations, of.is_lost) = d(),
        Message::Answer(Answer { answered: Answered::Status(of), .. }) => {
            of.clients.iter_mut().for_each(forget_grown);
        }
        _ => {}
    }
    message
}

proptest! {
    #[test]
    fn a_message_is_read_back_as_it_was_written(message in message()) {
        let bytes = message.encode().unwrap();
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn a_piece_of_a_message_of_version_2_is_none(
        message in message(), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = message.encode_for(2).unwrap();
        prop_assert!(Message::decode(&bytes[..cut.index(bytes.len())]).is_err());
        let mut longer = bytes;
        longer.push(0);
        prop_assert!(Message::decode(&longer).is_err());
    }

    /// What a later release adds at the end is skipped, within lists too: there it is behind the length.
    #[test]
    fn a_message_may_grow(message in message(), added in vec(any::<u8>(), 1..20)) {
        let mut longer = message.encode().unwrap();
        longer.extend(added);
        prop_assert_eq!(Message::decode(&longer), Ok(message));
    }

    /// Of a piece something may be read: fields that are not there have their defaults. It is not more than
    /// was written.
    #[test]
    fn a_piece_of_a_message_does_no_harm(
        message in message(), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = message.encode().unwrap();
        crate::oracle::message(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn version_2_has_all_that_it_had(message in message()) {
        let bytes = message.encode_for(2).unwrap();
        let (read, version) = Message::decode_with_version(&bytes).unwrap();
        prop_assert_eq!(version, 2);
        prop_assert_eq!(&read, &without_what_grew(message));
        prop_assert_eq!(read.encode_for(2).unwrap(), bytes);
    }

    /// What is read from arbitrary bytes, if anything, is written as those bytes.
    #[test]
    fn arbitrary_bodies_do_no_harm(
        kind in 0u16..56,
        body in vec(prop_oneof![3 => Just(0u8), 1 => 0u8..8, 1 => any::<u8>()], 0..400),
    ) {
        let mut bytes = Message::Exiting(()).encode().unwrap();
        bytes[6..8].copy_from_slice(&kind.to_le_bytes());
        bytes.extend(body);
        crate::oracle::message(&bytes);
    }

    #[test]
    fn a_changed_byte_does_no_harm(
        message in message(), at in any::<prop::sample::Index>(), value in any::<u8>(),
    ) {
        let mut bytes = message.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = value;
        crate::oracle::message(&bytes);
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = Message::Exiting(()).encode().unwrap();
    bytes[4..6].copy_from_slice(&(PROTOCOL_VERSION + 1).to_le_bytes());
    let error = Message::decode(&bytes).unwrap_err();
    assert_eq!(error, MessageError::Version { theirs: PROTOCOL_VERSION + 1 });
    let (theirs, ours) = (PROTOCOL_VERSION + 1, PROTOCOL_VERSION);
    let text = error.to_string();
    assert!(text.contains(&format!("speaks protocol version {theirs}, this build")), "{text}");
    assert!(text.contains(&format!("versions {PROTOCOL_VERSION_MIN} to {ours}")), "{text}");
    let too_old = PROTOCOL_VERSION_MIN - 1;
    let error = Message::Exiting(()).encode_for(too_old).unwrap_err();
    assert_eq!(error, MessageError::Version { theirs: too_old });
    bytes[0] ^= 1;
    assert_eq!(Message::decode(&bytes), Err(MessageError::Magic));
    assert_eq!(Message::decode(b"HTTP"), Err(MessageError::Magic));
}

#[test]
fn a_claim_of_many_items_takes_no_memory() {
    // A Welcome whose list of devices claims 2^32 - 1 of them, then one with as many as allowed
    // but nothing behind it.
    let empty = Message::Welcome(Welcome::default()).encode_for(2).unwrap();
    for (claim, error) in [
        (u32::MAX, CodecError::Length { found: u32::MAX as usize, max: DEVICES_MAX }),
        (DEVICES_MAX as u32, CodecError::TooShort),
    ] {
        let mut bytes = empty.clone();
        let count = bytes.len() - 4;
        bytes[count..].copy_from_slice(&claim.to_le_bytes());
        assert_eq!(Message::decode(&bytes), Err(MessageError::Body { kind: 2, error }));
    }
}

#[test]
fn the_largest_messages_fit() {
    let text = "x".repeat(100_000);
    let peers = vec![Peer::default(); DEVICES_MAX];
    let device =
        Device { name: text.clone(), pci_bus_id: text.clone(), peers, ..Device::default() };
    let devices = vec![device; DEVICES_MAX];
    let all = Devices { driver_version: 0, devices: devices.clone() };
    assert!(Message::Devices(all).encode().is_ok());
    let welcome = Welcome { devices, ..Welcome::default() };
    assert!(Message::Welcome(welcome.clone()).encode().is_ok());

    let work = Some(ClientWork::default());
    let client = ClientStatus { command_line: text.clone(), work, ..ClientStatus::default() };
    let device =
        DeviceStatus { name: text.clone(), pci_bus_id: text.clone(), ..DeviceStatus::default() };
    let all =
        ServerStatus::split(ServerState::Running, vec![device; DEVICES_MAX], vec![client; 70]);
    assert_eq!(all.iter().map(|m| m.clients.len()).collect::<Vec<_>>(), [32, 32, 6]);
    assert_eq!(all.iter().map(|m| m.more).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(all.iter().map(|m| m.devices.len()).collect::<Vec<_>>(), [DEVICES_MAX, 0, 0]);
    for status in all {
        let answered = Answered::Status(status);
        assert!(Message::Answer(Answer { number: u32::MAX, answered }).encode().is_ok());
    }

    let waiting = WaitingCall {
        call: text.clone(),
        client: text.clone(),
        others: text.clone(),
        ..WaitingCall::default()
    };
    let context = ContextStatus {
        calls: vec![(text.clone(), CallCounts::default()); CONTEXT_CALLS_MAX],
        waiting: vec![waiting; CONTEXT_CALLS_MAX],
        ..ContextStatus::default()
    };
    let status = ServerStatus::of_context(ServerState::Running, context);
    let answered = Answered::Status(status);
    assert!(Message::Answer(Answer { number: 0, answered }).encode().is_ok());

    let too_many = Welcome { devices: vec![Device::default(); DEVICES_MAX + 1], ..welcome };
    assert!(matches!(
        Message::Welcome(too_many).encode(),
        Err(MessageError::Body { error: CodecError::Length { found: 17, max: 16 }, .. })
    ));
}

#[test]
fn the_largest_parts_fit() {
    let name = |n: usize| format!("{n:0>width$}", width = KERNEL_NAME_BYTES_MAX);
    let shapes = (0..2 * KERNEL_ROWS_MAX).map(|n| (name(n), ShapeCounts::default())).collect();
    let exact = (0..KERNEL_ROWS_MAX).map(|n| (name(n), ExactCounts::default())).collect();
    let streams = vec![StreamCounts::default(); 600];
    let parts = CountsPart::split(1, shapes, exact, streams);
    assert_eq!(parts.len(), 2 + 1 + 3);
    for part in parts {
        let answered = Answered::Counts(part);
        assert!(Message::Answer(Answer { number: 1, answered }).encode().is_ok());
    }
    let command_line = "x".repeat(COMMAND_LINE_BYTES_MAX);
    let clients = vec![TraceClient { client: 1, pid: 1, command_line }; TRACE_CLIENTS_MAX];
    let mut part = TracePart { clients, ..TracePart::default() };
    let mut whole = part.clone();
    let added = (0..1000).filter(|n| part.add(&TraceEntry::default(), &name(n % 12))).count();
    assert_eq!((added, part.names.len()), (TRACE_RECORDS_MAX, 12));
    assert!(
        whole.add(&TraceEntry::default(), "k")
            && !(0..12).all(|n| whole.add(&TraceEntry::default(), &name(n)))
    );
    let short = |n: usize| format!("{n:0>400}");
    let mut part_of_short = TracePart::default();
    let added = (0..1000).filter(|n| part_of_short.add(&TraceEntry::default(), &short(n % 48)));
    assert_eq!((added.count(), part_of_short.names.len()), (TRACE_RECORDS_MAX, TRACE_NAMES_MAX));
    let answered = Answered::Trace(part);
    assert!(Message::Answer(Answer { number: 1, answered }).encode().is_ok());
}

#[test]
fn long_names_of_kernels_stay_apart() {
    let long = |length: usize, end: &str| format!("{}{end}", "é".repeat(length / 2));
    let names = [long(600, "a"), long(600, "b"), long(3000, "a"), long(3000, "b")];
    let rows = names.iter().map(|name| (name.clone(), ShapeCounts::default())).collect();
    let part = CountsPart::split(1, rows, vec![], vec![]).remove(0);
    let message = Message::Answer(Answer { number: 1, answered: Answered::Counts(part) });
    let read = Message::decode(&message.encode().unwrap()).unwrap();
    let Message::Answer(Answer { answered: Answered::Counts(part), .. }) = read else {
        panic!("counts are counts");
    };
    let read: Vec<&String> = part.shapes.iter().map(|(name, _)| name).collect();
    assert_eq!([read[0], read[1]], [&names[0], &names[1]]);
    assert!(read[2] != read[3] && read[2].len() <= KERNEL_NAME_BYTES_MAX, "{read:?}");
    assert!(read[2].starts_with("éé") && read[2].ends_with("éa"), "{read:?}");
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let command_line = format!("{}é", "x".repeat(COMMAND_LINE_BYTES_MAX - 1));
    let hello = Hello { command_line, ..Hello::default() };
    let Ok(Message::Hello(read)) = Message::decode(&Message::Hello(hello).encode().unwrap()) else {
        panic!("a Hello is a Hello");
    };
    assert_eq!(read.command_line, "x".repeat(COMMAND_LINE_BYTES_MAX - 1));
}

#[test]
fn a_long_reply_is_several_messages() {
    let text = "é".repeat(REPLY_TEXT_BYTES_MAX);
    let pieces = Reply::split(3, &text);
    assert_eq!(pieces.iter().map(|p| p.more).collect::<Vec<_>>(), [true, false]);
    assert_eq!(pieces.iter().map(|p| p.text.as_str()).collect::<String>(), text);
    assert!(pieces.iter().all(|p| p.status == 3));
    assert_eq!(Reply::split(0, ""), [Reply::default()]);
}

#[test]
fn a_device_is_found_by_its_uuid_and_no_uuid_is_the_first() {
    let device = |byte| Device { uuid: CUuuid { bytes: [byte; 16] }, ..Device::default() };
    let all = Devices { driver_version: 0, devices: vec![device(1), device(2)] };
    assert_eq!(all.find(CUuuid::default()), Some(0));
    assert_eq!(all.find(CUuuid { bytes: [2; 16] }), Some(1));
    assert_eq!(all.find(CUuuid { bytes: [3; 16] }), None);
    assert_eq!(Devices::default().find(CUuuid::default()), None);
}

#[test]
fn attributes_of_a_pair_are_numbered_from_1() {
    let peer = Peer { attributes: [7, 1, 0, 0, 9] };
    assert!(peer.can_access());
    let answers: Vec<Option<i32>> = (0..=6).map(|number| peer.attribute(number)).collect();
    assert_eq!(answers, [None, Some(7), Some(1), Some(0), Some(0), Some(9), None]);
}
