//! Shares of SMs on a real provider: a client's blocks are on its SMs only, by every way of launching,
//! and on others when that is changed.

mod device;
mod support;

use channel::message::{Change, ClientStatus, Message, Question, Schedule, SetBy};
use channel::payload::Payload;
use channel::request::*;
use cuda_api::attributes::MULTIPROCESSOR_COUNT;
use cuda_api::constants::device_resource::SPLIT_IGNORE_COSCHEDULING;
use cuda_api::constants::function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
use cuda_api::constants::graph_conditional;
use cuda_api::number::{cuFuncSetAttribute, cuMemsetD32Async};
use cuda_api::settings::{Percentage, Priority};
use cuda_api::{
    CUdevResource, CUdevResourceDesc, CUdeviceptr, CUgraphEdgeData, CUgraphExec, CUresult, CUstream,
};
use device::{driver, driver_but, start_with_tenants};
use server::device::Driver;
use std::ffi::{CStr, c_uint, c_void};
use std::sync::Mutex;
use support::*;

const MIB: u64 = 1 << 20;
/// Writes 1 to the word of the SM that its block is on.
const WHERE: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry where(.param .u64 p) {\n\
    .reg .b64 %p, %o; .reg .b32 %s;\n\
    ld.param.u64 %p, [p]; mov.u32 %s, %smid; mul.wide.u32 %o, %s, 4; add.u64 %p, %p, %o;\n\
    mov.u32 %s, 1; st.global.u32 [%p], %s; ret; }\n";
/// Blocks that fill all of the device, regardless of its size.
const BLOCKS: u32 = 1024;

/// A client with the kernel and memory.
fn client(server: &mut Server) -> Client {
    let mut client = server.connect();
    client.load_image(module(0), WHERE.as_bytes()).0.expect("a module");
    let request = GetFunction { function: function(0), module: module(0), name: b"where" };
    client.call(&request).expect("a kernel");
    client.chunk(0, 4 * MIB).expect("memory");
    client
}

fn clear(client: &mut Client) {
    client.write(0, &[0; 1024]);
}

/// The SMs that have written since.
fn written(client: &mut Client) -> Vec<usize> {
    let words = client.read(0, 1024);
    let words = words.chunks(4).enumerate().filter(|(_, word)| word[0] == 1);
    words.map(|(sm, _)| sm).collect()
}

fn launch(parameters: &[u8], stream: CUstream, blocks: u32, flags: u32) -> LaunchKernel<'_> {
    LaunchKernel { stream, grid: [blocks, 1, 1], flags, ..one_block(function(0), 1024, parameters) }
}

/// The SMs of a launch in a stream.
fn sms(client: &mut Client, stream: CUstream) -> Vec<usize> {
    clear(client);
    let parameters = client.address(0).to_le_bytes();
    client.post(&launch(&parameters, stream, BLOCKS, 0));
    client.synchronize(stream);
    written(client)
}

/// A stream on some SMs, of the context with that default stream.
fn on_sms(
    stream: CUstream,
    flags: u32,
    sms: std::ops::Range<u32>,
    default: CUstream,
) -> CreateGreenStream {
    let (sm_first, sms) = (sms.start, sms.end - sms.start);
    CreateGreenStream { stream, flags, priority: 0, sm_first, sms, default }
}

fn sms_of_graph(client: &mut Client, place: u32) -> Vec<usize> {
    clear(client);
    client.post(&GraphLaunch { graph: graph(place), stream: LEGACY });
    client.synchronize(LEGACY);
    written(client)
}

fn make_graph(client: &mut Client, place: u32) {
    let parameters = client.address(0).to_le_bytes();
    client.post(&GraphBegin { graph: graph(place) });
    let launch = launch(&parameters, LEGACY, BLOCKS, 0);
    client.post(&GraphKernel { graph: graph(place), launch });
    let (graph, replaces) = (graph(place), CUgraphExec::NULL);
    client.call(&GraphInstantiate { graph, replaces }).expect("a graph");
}

/// A graph that launches if a word is not 0.
fn make_choice(client: &mut Client, place: u32) {
    let (word, bodies) = (client.address(2 * MIB), [graph(place + 1).0 as u64]);
    client.write(2 * MIB, &[1; 4]);
    client.post(&GraphBegin { graph: graph(place) });
    let rule = graph_conditional::IF;
    client.post(&GraphConditional { graph: graph(place), rule, condition: word, bodies: &bodies });
    let parameters = client.address(0).to_le_bytes();
    let launch = launch(&parameters, LEGACY, BLOCKS, 0);
    client.post(&GraphKernel { graph: graph(place + 1), launch });
    let (graph, replaces) = (graph(place), CUgraphExec::NULL);
    client.call(&GraphInstantiate { graph, replaces }).expect("a graph");
}

fn share(server: &mut Server, percentage: &str) {
    server.settings.share = (Percentage::parse(percentage).unwrap(), SetBy::Server);
}

fn set(server: &Server, client: &Client, change: Change) {
    server.ask(9, Question::Set(client.welcome.client_id, change));
    let answer = loop {
        match server.receive() {
            Message::ClientGone(_) => {}
            answer => break answer,
        }
    };
    assert_eq!(answer, done(9, 0));
}

fn shown_sms(client: &Client) -> i32 {
    client.welcome.devices[0].attributes[MULTIPROCESSOR_COUNT as usize]
}

fn status(server: &Server, client: &Client) -> ClientStatus {
    let clients = server.status().clients;
    clients.into_iter().find(|row| row.id == client.welcome.client_id).expect("the client")
}

#[test]
fn a_quarter_is_two_of_eight_sms_by_every_way_of_launching() {
    let Some(mut server) = start_with_tenants() else { return };
    let all = shown_sms(&client(&mut server));
    if all != 8 {
        return eprintln!("left out: the device has {all} SMs, not 8");
    }
    share(&mut server, "25");
    let (mut one, mut two) = (client(&mut server), client(&mut server));
    assert_eq!((shown_sms(&one), shown_sms(&two)), (2, 2));
    let (first, second) = (sms(&mut one, LEGACY), sms(&mut two, LEGACY));
    assert_eq!((first.len(), second.len()), (2, 2), "{first:?} {second:?}");
    assert!(first.iter().all(|sm| !second.contains(sm)), "{first:?} {second:?}: others are free");
    one.post(&CreateStream { stream: stream(1), flags: 1, priority: -1 });
    assert_eq!(sms(&mut one, stream(1)), first);
    make_graph(&mut one, 0);
    assert_eq!(sms_of_graph(&mut one, 0), first);
    // A green context of its own is on the share's SMs.
    one.post(&on_sms(stream(2), 1, 1..2, CUstream::NULL));
    let of_green = sms(&mut one, stream(2));
    assert!(!of_green.is_empty() && of_green.iter().all(|sm| first.contains(sm)), "{of_green:?}");
    clear(&mut one);
    let parameters = one.address(0).to_le_bytes();
    one.post(&launch(&parameters, LEGACY, 4, channel::request::LAUNCH_COOPERATIVE));
    one.synchronize(LEGACY);
    assert_eq!((written(&mut one), one.error()), (first.clone(), Ok(())));
    // Its account says so too.
    let work = status(&server, &one).work.expect("the provider counts");
    assert!(work.sm_active_ns <= 2 * work.busy_ns, "{work:?}");

    // While it runs, what it was shown stays.
    set(&server, &one, Change::Share(Percentage::parse("50").unwrap()));
    assert_eq!((sms(&mut one, LEGACY).len(), sms(&mut one, stream(1)).len()), (4, 4));
    assert_eq!(sms_of_graph(&mut one, 0).len(), 4);
    set(&server, &one, Change::Sms(1));
    assert_eq!((sms(&mut one, LEGACY).len(), sms_of_graph(&mut one, 0).len()), (1, 1));
    assert_eq!(sms(&mut one, stream(2)).len(), 1, "none of its own is left: the share's");
    set(&server, &one, Change::Share(Percentage::ALL));
    assert_eq!(sms(&mut one, LEGACY).len(), 8);
    let limits = status(&server, &one).limits;
    assert_eq!((limits.sms, limits.sms_of_device), ((8, SetBy::Live), 8));
    assert_eq!(sms(&mut two, LEGACY), second, "the other one's are as they were");
}

#[test]
fn streams_have_the_share_where_there_are_no_tenants() {
    let mut server = Server::start_on(Driver { extension: None, ..driver() });
    let all = shown_sms(&client(&mut server)) as u32;
    share(&mut server, "50");
    server.settings.priority = (Priority::BelowNormal, SetBy::Server);
    let mut client = client(&mut server);
    // SMs are parted in fours or eights.
    let (step, half) = if all == 8 { (4, 4) } else { (8, all / 2 / 8 * 8) };
    assert_eq!(shown_sms(&client) as u32, half);
    let half = half as usize;
    assert_eq!(sms(&mut client, LEGACY).len(), half, "as many as it is shown");
    client.post(&CreateStream { stream: stream(1), flags: 1, priority: 0 });
    assert_eq!(sms(&mut client, stream(1)).len(), half);
    // What was submitted before a change comes before what is submitted after it.
    let parameters = client.address(0).to_le_bytes();
    for turn in 0..20 {
        client.post(&launch(&parameters, stream(1), BLOCKS, 0));
        set(&server, &client, Change::Sms(if turn % 2 == 0 { step } else { 2 * step }));
    }
    let used = sms(&mut client, stream(1));
    assert_eq!((used.len() as u32, client.error()), (2 * step, Ok(())));
    set(&server, &client, Change::Share(Percentage::ALL));
    assert_eq!(sms(&mut client, stream(1)).len() as u32, all);
    assert!(!server.log().contains("is not kept"), "{}", server.log());
}

/// A graph of a kernel that comes after a fill of what it writes to and before a fill of other memory.
fn make_chain(client: &mut Client, place: u32, replaces: CUgraphExec) {
    let fill = |client: &Client, offset, value| GraphFill {
        graph: graph(place),
        address: CUdeviceptr(client.address(offset)),
        pitch: 0,
        value,
        element_bytes: 4,
        width: 256,
        height: 1,
    };
    let parameters = client.address(0).to_le_bytes();
    client.post(&GraphBegin { graph: graph(place) });
    client.post(&fill(client, 0, 0));
    let launch = launch(&parameters, LEGACY, BLOCKS, 0);
    client.post(&GraphKernel { graph: graph(place), launch });
    client.post(&GraphKernel { graph: graph(place), launch });
    client.post(&fill(client, 0, 3));
    // The second kernel may begin early.
    let early = GraphEdges::word(1, CUgraphEdgeData::PROGRAMMATIC);
    for (node, from) in [(1, [0]), (2, [early]), (3, [2])] {
        client.post(&GraphEdges { graph: graph(place), node, from: &from });
    }
    client.call(&GraphInstantiate { graph: graph(place), replaces }).expect("a graph");
}

/// A driver keeps the SMs that a graph's node was made with, regardless of the stream that the
/// graph is launched in, and does not look at a context beside a function.
#[test]
fn graphs_have_the_share_where_there_are_no_tenants() {
    let mut server = Server::start_on(Driver { extension: None, ..driver() });
    let all = shown_sms(&client(&mut server)) as usize;
    share(&mut server, "50");
    let mut client = client(&mut server);
    // SMs are parted in fours or eights.
    let (step, half) = if all == 8 { (4, 4) } else { (8, all / 2 / 8 * 8) };
    make_graph(&mut client, 0);
    assert_eq!(sms_of_graph(&mut client, 0).len(), half);
    make_chain(&mut client, 1, CUgraphExec::NULL);
    for sms in [step, 2 * step, step] {
        set(&server, &client, Change::Sms(sms as u32));
        assert_eq!(sms_of_graph(&mut client, 0).len(), sms);
        // What waits for kernels, and what they wait for, is as it was.
        client.post(&GraphLaunch { graph: graph(1), stream: LEGACY });
        client.synchronize(LEGACY);
        assert_eq!(client.read(0, 1024), [3, 0, 0, 0].repeat(256));
    }
    make_graph(&mut client, 2);
    assert_eq!(sms_of_graph(&mut client, 2).len(), step);
    make_chain(&mut client, 3, graph(1));
    client.post(&GraphLaunch { graph: graph(3), stream: LEGACY });
    client.synchronize(LEGACY);
    assert_eq!(client.read(0, 1024), [3, 0, 0, 0].repeat(256));
    set(&server, &client, Change::Share(Percentage::ALL));
    assert_eq!(sms_of_graph(&mut client, 0).len(), all);
    // Streams with SMs of their own have graphs there.
    client.post(&on_sms(stream(2), 1, 0..step as u32, CUstream::NULL));
    clear(&mut client);
    client.post(&GraphLaunch { graph: graph(0), stream: stream(2) });
    client.synchronize(stream(2));
    assert_eq!(written(&mut client).len(), step);
    assert_eq!(sms_of_graph(&mut client, 0).len(), all);
    assert_eq!(client.error(), Ok(()));
    assert!(!server.log().contains("is not kept"), "{}", server.log());
}

#[test]
fn a_graph_whose_blocks_have_no_room_on_the_share_has_all_sms_and_the_log_says_so() {
    let mut server = Server::start_on(Driver { extension: None, ..driver() });
    let all = shown_sms(&client(&mut server)) as u32;
    if all != 8 {
        return eprintln!("left out: the device has {all} SMs, not 8");
    }
    let mut client = client(&mut server);
    let parameters = client.address(0).to_le_bytes();
    client.post(&GraphBegin { graph: graph(0) });
    let launch = launch(&parameters, LEGACY, 16, channel::request::LAUNCH_COOPERATIVE);
    client.post(&GraphKernel { graph: graph(0), launch });
    let (place, replaces) = (graph(0), CUgraphExec::NULL);
    client.call(&GraphInstantiate { graph: place, replaces }).expect("a graph");
    set(&server, &client, Change::Sms(2));
    assert!(!sms_of_graph(&mut client, 0).is_empty());
    assert_eq!(client.error(), Ok(()));
    let said = server.log().matches("its share of SMs is not kept").count();
    assert_eq!(said, 1, "{}", server.log());
}

/// SMs of each part of the green contexts that were made.
static PARTS: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());

support::provider::raw_functions! {
    // One group of two SMs and none of the others, as an H200 says of its last 12 SMs; of larger groups as many
    // as there are.
    few_small_groups(
        result: *mut CUdevResource, groups: *mut c_uint, input: *const CUdevResource,
        remainder: *mut CUdevResource, flags: c_uint, sms_min: c_uint
    ) {
        let small = flags == 0 && sms_min < 4;
        let flags = if small { SPLIT_IGNORE_COSCHEDULING } else { flags };
        if small {
            *groups = 1;
        }
        let table = driver().table;
        table.cuDevSmResourceSplitByCount(result, groups, input, remainder, flags, sms_min)
    }
    note_parts(description: *mut CUdevResourceDesc, parts: *mut CUdevResource, count: c_uint) {
        let sms = std::slice::from_raw_parts(parts, count as usize).iter();
        PARTS.lock().unwrap().push(sms.map(|part| part.sm.smCount).collect());
        driver().table.cuDevResourceGenerateDesc(description, parts, count)
    }
}

/// Kernels with clusters run only in groups of SMs that the provider schedules together. Those on a device's last
/// SMs may be there as larger groups alone.
#[test]
fn shares_at_the_end_of_the_device_are_whole_groups_too() {
    let replaced = |name: &CStr| match name.to_bytes() {
        b"cuDevSmResourceSplitByCount" => Some(few_small_groups as *const c_void),
        b"cuDevResourceGenerateDesc" => Some(note_parts as *const c_void),
        _ => None,
    };
    // SAFETY: these have the signatures of what they replace.
    let Some(driver) = (unsafe { driver_but(replaced) }) else { return };
    let mut server = Server::start_on(driver);
    if shown_sms(&client(&mut server)) != 8 {
        return eprintln!("left out: the device has not 8 SMs");
    }
    share(&mut server, "50");
    let mut clients = [client(&mut server), client(&mut server)];
    for (client, expected) in clients.iter_mut().zip([[0, 1, 2, 3], [4, 5, 6, 7]]) {
        assert_eq!((shown_sms(client), sms(client, LEGACY)), (4, expected.to_vec()));
    }
    let parts = PARTS.lock().unwrap();
    assert!(
        parts.len() >= 2 && parts.iter().all(|parts| *parts == [4]),
        "none of two SMs: {parts:?}"
    );
    assert!(!server.log().contains("is not kept"), "{}", server.log());
}

/// How many clusters of so many blocks of 1024 threads, of which two are on an SM, are there at a time.
fn clusters(client: &mut Client, blocks: u32) -> i32 {
    let flags = cluster_flags([blocks, 1, 1]).expect("a cluster");
    let (function, shared_bytes) = (function(0), 0);
    let [grid_x, grid_y, grid_z] = [64, 1, 1];
    let [block_x, block_y, block_z] = [1024, 1, 1];
    let about = CountClusters {
        function,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared_bytes,
        flags,
    };
    let (result, words) = client.ask(&about);
    result.expect("a number");
    ClusterCount::from_words(&words).expect("a number").clusters
}

/// What is said of clusters on a share is about its SMs, and a launch does as is said.
#[test]
fn clusters_are_counted_on_the_share() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut whole = client(&mut server);
    if shown_sms(&whole) != 8 {
        return eprintln!("left out: the device has not 8 SMs");
    }
    share(&mut server, "25");
    let mut quarter = client(&mut server);
    let words = [function(0).0 as u64, NON_PORTABLE_CLUSTER_SIZE_ALLOWED.into(), 1];
    for client in [&mut whole, &mut quarter] {
        client.call_row(cuFuncSetAttribute, &words).expect("clusters of 16");
    }
    assert_eq!([1, 2, 4, 8].map(|blocks| clusters(&mut whole, blocks)), [16, 8, 4, 2]);
    assert_eq!([1, 2, 4].map(|blocks| clusters(&mut quarter, blocks)), [4, 2, 1]);
    // A share refuses no cluster: one that is too large for it has it alone.
    assert_eq!(clusters(&mut quarter, 8), 1);
    clear(&mut quarter);
    let parameters = quarter.address(0).to_le_bytes();
    let flags = cluster_flags([8, 1, 1]).expect("a cluster");
    quarter.post(&launch(&parameters, LEGACY, 64, flags));
    quarter.synchronize(LEGACY);
    assert_eq!((written(&mut quarter).len(), quarter.error()), (2, Ok(())));
}

/// The same where streams keep the share: four of eight SMs.
#[test]
fn clusters_are_counted_on_the_share_where_there_are_no_tenants() {
    let mut server = Server::start_on(Driver { extension: None, ..driver() });
    let mut whole = client(&mut server);
    if shown_sms(&whole) != 8 {
        return eprintln!("left out: the device has not 8 SMs");
    }
    share(&mut server, "50");
    let mut half = client(&mut server);
    let words = [function(0).0 as u64, NON_PORTABLE_CLUSTER_SIZE_ALLOWED.into(), 1];
    for client in [&mut whole, &mut half] {
        client.call_row(cuFuncSetAttribute, &words).expect("clusters of 16");
    }
    assert_eq!([1, 2, 4, 8, 16].map(|blocks| clusters(&mut whole, blocks)), [16, 8, 4, 2, 1]);
    assert_eq!([1, 2, 4, 8, 16].map(|blocks| clusters(&mut half, blocks)), [8, 4, 2, 1, 0]);
}

#[test]
fn a_cluster_that_does_not_fit_beside_the_floor_has_all_sms() {
    let mut server = Server::start_on(Driver { extension: None, ..driver() });
    server.scheduling = "class=latency".to_owned();
    let mut latency = client(&mut server);
    server.scheduling = "class=batch".to_owned();
    let mut client = client(&mut server);
    let all = shown_sms(&client) as u32;
    if all != 8 {
        return eprintln!("left out: the device has {all} SMs, not 8");
    }
    let settings = "preset=floor floor=6".to_owned();
    server.ask(9, Question::Schedule(Schedule { client: 0, settings }));
    assert_eq!(server.receive(), done(9, 0));
    // The floor is kept for a second after latency-critical work. SMs are parted in fours.
    wait_until("the floor is kept", || {
        sms(&mut latency, LEGACY);
        sms(&mut client, LEGACY).len() == 4
    });
    let parameters = client.address(0).to_le_bytes();
    let flags = cluster_flags([16, 1, 1]).expect("a cluster");
    let words = [function(0).0 as u64, NON_PORTABLE_CLUSTER_SIZE_ALLOWED.into(), 1];
    client.call_row(cuFuncSetAttribute, &words).expect("clusters of 16");
    for _ in 0..2 {
        sms(&mut latency, LEGACY);
        clear(&mut client);
        client.post(&launch(&parameters, LEGACY, BLOCKS, flags));
        client.synchronize(LEGACY);
        assert_eq!(client.error(), Ok(()));
        assert!(written(&mut client).len() > 4);
    }
}

#[test]
fn a_context_of_some_sms_has_a_default_stream_on_them() {
    let Some(mut server) = start_with_tenants() else { return };
    let mut client = client(&mut server);
    if shown_sms(&client) != 8 {
        return eprintln!("left out: the device has not 8 SMs");
    }
    let own = stream(1);
    client.post(&on_sms(own, 0, 2..4, own));
    client.post(&on_sms(stream(2), 0, 2..4, own));
    client.post(&on_sms(stream(3), 1, 2..4, own));
    for place in 1..4 {
        assert_eq!(sms(&mut client, stream(place)), [2, 3]);
    }
    clear(&mut client);
    let parameters = client.address(0).to_le_bytes();
    client.post(&launch(&parameters, own, 4, channel::request::LAUNCH_COOPERATIVE));
    client.synchronize(own);
    assert_eq!(written(&mut client), [2, 3]);
    make_graph(&mut client, 0);
    clear(&mut client);
    client.post(&GraphLaunch { graph: graph(0), stream: own });
    client.synchronize(own);
    assert_eq!(written(&mut client), [2, 3], "graphs too");
    assert_eq!(sms_of_graph(&mut client, 0).len(), 8, "where they are launched");
    make_choice(&mut client, 1);
    for _ in 0..2 {
        clear(&mut client);
        client.post(&GraphLaunch { graph: graph(1), stream: own });
        client.synchronize(own);
        assert_eq!(written(&mut client), [2, 3], "their conditional nodes too");
        assert_eq!(sms_of_graph(&mut client, 1).len(), 8);
    }
    // It takes turns with its context's stream: what comes later reads what came before.
    for turn in 0..20u8 {
        let (first, second) = if turn % 2 == 0 { (own, stream(2)) } else { (stream(2), own) };
        clear(&mut client);
        client.post(&launch(&parameters, first, BLOCKS, 0));
        let words = [client.address(0), u64::from(turn) + 2, 256, second.0 as u64];
        client.post_row(cuMemsetD32Async, &words);
        client.synchronize(second);
        let bytes = client.read(0, 1024);
        assert!(bytes.chunks(4).all(|word| word[0] == turn + 2), "turn {turn}");
    }
    client.post(&DestroyStream { stream: own });
    assert_eq!(sms(&mut client, stream(2)), [2, 3], "its streams may outlive it");
    assert_eq!(client.error(), Ok(()));
}
