//! What ends in the middle: agent, server, daemon; and what is left of it.

use crate::cluster::Wanted;
use crate::kubelet::container;
use crate::world::{World, patiently};
use openmps_k8s::checkpoint::Store;
use std::time::Duration;
use tests::{finish, start};

#[test]
fn an_agent_that_is_killed_at_any_moment_of_a_prepare_leaves_what_the_next_one_finishes() {
    let mut world = World::new(1);
    // The first rounds before and during, the last ones after the answer.
    for round in 0..12_u64 {
        let claim =
            world.cluster.allocate(&Wanted::share(&format!("r{round}"), 2, "128Mi")).unwrap();
        let plugin = world.plugin();
        let asked = {
            let claim = claim.clone();
            world.runtime.spawn(async move { plugin.prepare(&claim).await })
        };
        std::thread::sleep(Duration::from_micros(round * round * 150));
        world.kill_agent();
        let _ = world.runtime.block_on(asked);
        world.start_agent("");
        let devices = world.prepare(&claim).unwrap();
        let made = container(&world.specs(), &devices);
        assert!(made.on_host("/run/openmps").join("control").exists());
        patiently("drafts go", || world.left() == (1, 1, 1));
        world.end(&claim);
        assert_eq!(world.left(), (0, 0, 0), "round {round}");
    }
}

#[test]
fn what_a_torn_checkpoint_was_about_goes_and_can_be_made_again() {
    let mut world = World::new(1);
    let (claim, _) = world.pod(&Wanted::share("a", 2, "128Mi"));
    world.kill_agent();
    let uid = claim["metadata"]["uid"].as_str().unwrap();
    let path = world.checkpoints().join(format!("{uid}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    world.start_agent("");
    patiently("namespace and spec go", || (world.left().0, world.left().1) == (0, 0));
    world.prepare(&claim).unwrap();
    assert_eq!((world.left().0, world.left().1), (1, 1));
    world.end(&claim);
    assert_eq!(Store::open(&world.checkpoints()).unwrap().all().unwrap().records.len(), 0);
}

#[test]
fn a_share_outlives_the_agent_the_server_and_the_daemon() {
    let mut world = World::new(1);
    let (claim, container) = world.pod(&Wanted::share("a", 3, "256Mi"));
    let words = ["--size", "100000", "--seconds", "600"];
    let _running = start(&mut world.program(&container, "vector_add", &words));
    patiently("it runs", || world.clients(&container).len() == 1);
    world.kill_agent();
    let server = world.scene.servers()[0];
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &server.to_string()])
            .status()
            .unwrap()
            .success()
    );
    patiently("it goes on at another server", || {
        world.clients(&container).len() == 1 && !world.scene.servers().contains(&server)
    });
    assert_eq!(world.clients(&container)[0]["limits"]["sms"], 3);
    world.scene.kill_daemon();
    world.start_daemon(1);
    world.start_agent("");
    let computed = finish(&mut world.program(&container, "vector_add", &["--json"]));
    assert_eq!(computed.expect_success().json()["verified"], true);
    assert_eq!(world.prepare(&claim).map(|devices| devices.len()), Ok(1));
}

#[test]
fn a_pod_may_end_while_the_daemon_is_away() {
    let mut world = World::new(1);
    let (claim, _) = world.pod(&Wanted::share("a", 3, "256Mi"));
    world.scene.kill_daemon();
    world.unprepare(&claim).unwrap();
    world.start_daemon(1);
    patiently("its namespace goes when the daemon is there", || world.left() == (0, 0, 0));
}

#[test]
fn a_daemon_that_is_away_is_a_taint_and_news_for_the_kubelet() {
    let mut world = World::new(1);
    let taints = |world: &World| world.cluster.devices()[0]["taints"].as_array().cloned();
    assert_eq!(taints(&world), None);
    let plugin = world.plugin();
    let healthy = openmps_k8s::proto::health_v1::HealthStatus::Healthy as i32;
    let news = world.runtime.block_on(plugin.health(|device| device.health == healthy));
    assert!(news.device.unwrap().device_name.starts_with("gpu-"));
    world.scene.kill_daemon();
    let news = world.runtime.block_on(plugin.health(|device| device.health != healthy));
    assert!(news.message.contains("control daemon"), "{}", news.message);
    patiently("the slice has a taint", || taints(&world).is_some());
    assert_eq!(taints(&world).unwrap()[0]["effect"], "NoSchedule");
    world.start_daemon(1);
    patiently("the taint goes", || taints(&world).is_none());
}

#[test]
fn a_namespace_or_a_spec_that_went_is_made_again() {
    let world = World::new(1);
    let (claim, _) = world.pod(&Wanted::share("a", 3, "256Mi"));
    let name = world.namespaces().remove(0);
    world.scene.control(&format!("namespace delete {name} --server=shared")).expect_success();
    let spec = std::fs::read_dir(world.specs()).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(spec).unwrap();
    world.prepare(&claim).unwrap();
    assert_eq!(world.left(), (1, 1, 1));
    // One that no claim has.
    let stray = "s0123456789abcdef0123456789abcdef";
    world.scene.control(&format!("namespace create {stray} --server=shared")).expect_success();
    patiently("it is removed", || world.namespaces() == [name.clone()]);
}

#[test]
fn a_claim_that_is_deleted_behind_the_kubelet_s_back_loses_its_share() {
    let world = World::new(1);
    let (_, _) = world.pod(&Wanted::share("a", 3, "256Mi"));
    world.cluster.delete("a");
    patiently("its share goes", || world.left() == (0, 0, 0));
}

#[test]
fn two_agents_are_side_by_side_while_one_is_replaced() {
    let mut world = World::without_agent(1);
    world.start_agent("11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa");
    world.wait_for_slice();
    let claim = world.cluster.allocate(&Wanted::share("a", 2, "128Mi")).unwrap();
    let devices = world.prepare(&claim).unwrap();
    world.start_agent("22222222-bbbb-4bbb-8bbb-bbbbbbbbbbbb");
    let plugins = world.plugins();
    assert_eq!(plugins.len(), 2);
    assert_ne!(plugins[0].info.endpoint, plugins[1].info.endpoint);
    for plugin in &plugins {
        assert_eq!(world.runtime.block_on(plugin.prepare(&claim)), Ok(devices.clone()));
    }
    assert_eq!(world.stop_agent().status, 0);
    let left = world.plugins();
    assert_eq!(left.len(), 1, "its sockets went with it");
    world.unprepare(&claim).unwrap();
    assert_eq!(world.left(), (0, 0, 0));
}
