//! The agent in a simulated cluster: real daemon, server and programs on the software GPU; kubelet and API server are
//! simulators of this directory.

mod cluster;
mod faults;
mod golden;
mod kubelet;
mod refusals;
mod world;

use cluster::{OTHER_DRIVER, Wanted, share_config};
use kubelet::container;
use serde_json::json;
use tests::{finish, start, wait_until};
use world::{World, patiently};

#[test]
fn pods_with_unequal_shares_of_one_gpu_have_their_sms_and_memory() {
    let world = World::new(1);
    let (small_claim, small) = world.pod(&Wanted::share("small", 2, "128Mi"));
    let (_, large) = world.pod(&Wanted::share("large", 5, "512Mi"));
    let too_much = world.cluster.allocate(&Wanted::share("third", 4, "128Mi"));
    assert!(too_much.unwrap_err().contains("sms"), "the scheduler would let it wait");
    let words = ["--size", "100000", "--seconds", "600"];
    let _running = [
        start(&mut world.program(&small, "vector_add", &words)),
        start(&mut world.program(&large, "vector_add", &words)),
    ];
    patiently("both run", || world.clients(&small).len() == 1 && world.clients(&large).len() == 1);
    for (container, sms, mebibytes) in [(&small, 2, 128), (&large, 5, 512)] {
        let limits = &world.clients(container)[0]["limits"];
        assert_eq!(limits["sms"], sms);
        assert_eq!(limits["memory_bytes"], mebibytes << 20);
    }
    // What a program gets in fact.
    for (container, mebibytes) in [(&small, 128_u64), (&large, 512)] {
        let filled =
            finish(&mut world.program(container, "memory", &["--way", "cuMemAlloc", "--json"]));
        let got = filled.expect_success().json()["rows"][0]["got_mib"].as_u64().unwrap();
        assert!(got <= mebibytes && got > mebibytes * 3 / 4, "{got} of {mebibytes} MiB");
    }
    let computed = finish(&mut world.program(&small, "vector_add", &["--json"])).expect_success();
    assert_eq!(computed.json()["verified"], true);
    // What the claim says of it.
    wait_until("the claim's status is there", || {
        world.cluster.claim("small")["status"]["devices"].is_array()
    });
    let device = &world.cluster.claim("small")["status"]["devices"][0];
    assert_eq!((&device["data"]["sms"], &device["data"]["memoryMiB"]), (&json!(2), &json!(128)));
    assert_eq!(device["conditions"][0]["type"], "Ready");
    world.end(&small_claim);
    assert_eq!(world.namespaces().len(), 1);
}

#[test]
fn a_container_has_one_directory_and_no_device_node() {
    let world = World::new(1);
    let (_, container) = world.pod(&Wanted::share("a", 2, "128Mi"));
    let inside = container.on_host("/run/openmps");
    let names = |folder: &std::path::Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&inside), ["control"], "the socket of its namespace and nothing else");
    let specs = names(&world.specs());
    let text = std::fs::read_to_string(world.specs().join(&specs[0])).unwrap();
    assert!(specs.len() == 1 && !text.contains("deviceNodes"), "{text}");
    assert_eq!(container.environment["NVIDIA_VISIBLE_DEVICES"], "void");
}

#[test]
fn prepare_and_unprepare_may_be_called_again() {
    let world = World::new(1);
    let claim = world.cluster.allocate(&Wanted::share("a", 2, "128Mi")).unwrap();
    let first = world.prepare(&claim).unwrap();
    assert_eq!(world.prepare(&claim).unwrap(), first);
    assert_eq!(first[0].share_id.as_deref(), Some("00000001-0000-4000-8000-000000000000"));
    assert_eq!(world.left(), (1, 1, 1));
    world.unprepare(&claim).unwrap();
    world.unprepare(&claim).unwrap();
    assert_eq!(world.left(), (0, 0, 0));
}

#[test]
fn a_claim_of_two_pods_is_one_share() {
    let world = World::new(1);
    let mut wanted = Wanted::share("shared", 3, "256Mi");
    wanted.pods = vec!["one".into(), "two".into()];
    let (claim, first) = world.pod(&wanted);
    let second = container(&world.specs(), &world.prepare(&claim).unwrap());
    assert_eq!(first.on_host("/run/openmps"), second.on_host("/run/openmps"));
    let words = ["--size", "100000", "--seconds", "600"];
    let _running = [
        start(&mut world.program(&first, "vector_add", &words)),
        start(&mut world.program(&second, "vector_add", &words)),
    ];
    patiently("both are clients of one namespace", || world.clients(&first).len() == 2);
}

/// Two claims that one container names, of GPUs by their numbers.
fn two_claims(world: &World, gpus: [usize; 2]) -> [serde_json::Value; 2] {
    world.cluster.pod("pod", &[("main", &["one", "two"])]);
    let claim = |(name, gpu, sms): (&str, usize, u32)| {
        let mut wanted = Wanted::share(name, sms, "128Mi");
        wanted.requests[0].1 = gpu;
        wanted.pods = vec!["pod".into()];
        world.cluster.allocate(&wanted).unwrap()
    };
    [("one", gpus[0], 2), ("two", gpus[1], 5)].map(claim)
}

#[test]
fn a_container_of_two_claims_has_one_directory_for_both() {
    let world = World::new(2);
    let claims = two_claims(&world, [0, 1]);
    let prepare = || world.runtime.block_on(world.plugin().prepare_all(&claims));
    let devices = prepare().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!((prepare().unwrap(), world.left()), (devices.clone(), (1, 2, 2)));
    // The order in which the container names them is all the same.
    for devices in [devices.clone(), devices.iter().rev().cloned().collect()] {
        let container = container(&world.specs(), &devices);
        assert_eq!(container.environment["CUDA_VISIBLE_DEVICES"].split(',').count(), 2);
        let words = ["--size", "100000", "--seconds", "600"];
        let visible = container.environment["CUDA_VISIBLE_DEVICES"].clone();
        let mut sms = Vec::new();
        for uuid in visible.split(',') {
            let mut program = world.program(&container, "vector_add", &words);
            let _running = start(program.env("CUDA_VISIBLE_DEVICES", uuid));
            patiently("it runs", || world.clients(&container).len() == 1);
            sms.push(world.clients(&container)[0]["limits"]["sms"].as_u64());
        }
        sms.sort_unstable();
        assert_eq!(sms, [Some(2), Some(5)], "each GPU's share");
        patiently("both ended", || world.clients(&container).is_empty());
    }
    claims.iter().for_each(|claim| world.end(claim));
    assert_eq!(world.left(), (0, 0, 0));
}

#[test]
fn programs_of_a_share_have_its_memory_together_and_no_more_programs_than_it_says() {
    let world = World::new(1);
    let mut wanted = Wanted::share("a", 2, "128Mi")
        .with("FromClaim", share_config(json!({"softMemory": "64Mi"})));
    wanted.requests[0].2["clients"] = json!("2");
    let (_, container) = world.pod(&wanted);
    // Three vectors of 24 MiB; the second program's are beyond what the first one leaves.
    let words = ["--size", "6291456", "--seconds", "600"];
    let _running = start(&mut world.program(&container, "vector_add", &words));
    patiently("it has its memory", || {
        let clients = world.clients(&container);
        clients.first().is_some_and(|of| of["memory_bytes"].as_u64() >= Some(72 << 20))
    });
    let second = finish(&mut world.program(&container, "vector_add", &["--size", "6291456"]));
    assert!(second.stderr.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{second:?}");
    finish(&mut world.program(&container, "vector_add", &["--size", "1048576"])).expect_success();
    let words = ["--size", "100000", "--seconds", "600"];
    let _other = start(&mut world.program(&container, "vector_add", &words));
    patiently("two run", || world.clients(&container).len() == 2);
    let third = finish(&mut world.program(&container, "vector_add", &[]));
    assert!(third.status != 0 && third.stderr.contains("2 of its 2 clients"), "{third:?}");
}

#[test]
fn parameters_reach_the_program() {
    let world = World::new(1);
    let wanted = Wanted::share("a", 2, "128Mi")
        .with("FromClass", share_config(json!({"class": "batch", "priority": 1})))
        .with("FromClaim", share_config(json!({"class": "latency", "limitSms": 6})));
    let (_, container) = world.pod(&wanted);
    let words = ["--size", "100000", "--seconds", "600"];
    let _running = start(&mut world.program(&container, "vector_add", &words));
    patiently("it runs", || world.clients(&container).len() == 1);
    let client = &world.clients(&container)[0];
    assert_eq!(client["scheduling"]["class"], "latency");
    assert_eq!((&client["limits"]["sms"], &client["limits"]["priority"]), (&json!(6), &json!(1)));
}

#[test]
fn an_annotation_resizes_what_runs() {
    let world = World::new(1);
    let (_, container) = world.pod(&Wanted::share("a", 4, "256Mi"));
    let words = ["--size", "100000", "--seconds", "600"];
    let _running = start(&mut world.program(&container, "vector_add", &words));
    patiently("it runs", || world.clients(&container).len() == 1);
    let key = "gpu.openmps.io/share";
    world.cluster.annotate("a", key, r#"{"sms": 2, "memory": "128Mi", "class": "batch"}"#);
    let limits = || world.clients(&container)[0]["limits"].clone();
    patiently("it has less", || limits()["sms"] == 2);
    assert_eq!(limits()["memory_bytes"], 128 << 20);
    assert_eq!(world.clients(&container)[0]["scheduling"]["class"], "batch");
    assert!(world.event("Resized").contains("1 running programs"));
    world.cluster.annotate("a", key, r#"{"sms": 7}"#);
    let refused = world.event("ResizeRefused");
    assert!(refused.contains("7 are more than the 4 allocated"), "{refused}");
    world.cluster.annotate("a", key, "");
    patiently("it has what was allocated", || limits()["sms"] == 4);
}

#[test]
fn unequal_shares_of_two_gpus_in_one_pod_have_one_directory() {
    let world = World::new(2);
    let mut wanted = Wanted::share("pair", 4, "256Mi");
    wanted.requests.push(("second".into(), 1, json!({"sms": "2", "memory": "512Mi"})));
    let (claim, container) = world.pod(&wanted);
    assert_eq!(world.left(), (1, 1, 1));
    let visible = &container.environment["CUDA_VISIBLE_DEVICES"];
    assert_eq!(visible.split(',').count(), 2);
    let words = ["--devices", "2", "--iterations", "1000000"];
    let running = start(&mut world.program(&container, "peers", &words));
    patiently("it is a client on both", || world.clients(&container).len() == 2);
    for (uuid, sms, mebibytes) in
        visible.split(',').zip([(4, 256), (2, 512)]).map(|(u, (s, m))| (u, s, m))
    {
        let clients = world.clients(&container);
        let on_gpu = clients.iter().find(|of| of["device_uuid"] == uuid).unwrap();
        assert_eq!(on_gpu["limits"]["sms"], sms);
        assert_eq!(on_gpu["limits"]["memory_bytes"], mebibytes << 20);
    }
    drop(running);
    let computed = finish(&mut world.program(&container, "peers", &["--devices", "2", "--json"]));
    assert_eq!(computed.expect_success().json()["verified"], true);
    world.end(&claim);
    assert_eq!(world.left(), (0, 0, 0));
}

#[test]
fn a_gpu_that_is_not_in_the_claim_is_no_use() {
    let world = World::new(2);
    let (_, container) = world.pod(&Wanted::share("a", 4, "256Mi"));
    let report = world.scene.report();
    let devices = report["devices"].as_array().unwrap();
    let own = &container.environment["CUDA_VISIBLE_DEVICES"];
    let other = devices.iter().find(|of| of["uuid"] != own.as_str()).unwrap();
    let mut greedy = world.program(&container, "memory", &["--way", "cuMemAlloc", "--json"]);
    greedy.env("CUDA_VISIBLE_DEVICES", other["uuid"].as_str().unwrap());
    let got = finish(&mut greedy).expect_success().json()["rows"][0]["got_mib"].as_u64().unwrap();
    assert!(got <= 1, "{got} MiB of another one's GPU");
}

#[test]
fn another_driver_s_results_of_a_claim_are_left_to_it() {
    let world = World::new(1);
    let claim = world.cluster.allocate(&Wanted::share("a", 2, "128Mi")).unwrap();
    let mut both = claim.clone();
    let results = both["status"]["allocation"]["devices"]["results"].as_array_mut().unwrap();
    results.push(json!({"request": "net", "driver": OTHER_DRIVER, "pool": "p", "device": "d"}));
    let name = ("team".to_owned(), "a".to_owned());
    world.cluster.objects.lock().unwrap().claims.insert(name, both);
    let devices = world.prepare(&claim).unwrap();
    assert_eq!(devices.len(), 1);
}

#[test]
fn two_hundred_pods_come_and_go_and_leave_nothing() {
    let world = World::new(1);
    for round in 0..50 {
        let claims: Vec<_> = (0..4)
            .map(|pod| world.pod(&Wanted::share(&format!("r{round}-{pod}"), 2, "128Mi")).0)
            .collect();
        assert_eq!(world.left(), (4, 4, 4));
        claims.iter().for_each(|claim| world.end(claim));
    }
    assert_eq!(world.left(), (0, 0, 0));
}
