//! Wrong input: each a refusal that says what is wrong, and an event.

use crate::cluster::{OTHER_DRIVER, Wanted, share_config};
use crate::world::World;
use serde_json::{Value, json};

/// Why a claim is refused; nothing is left of it.
#[track_caller]
fn refused(world: &World, wanted: &Wanted) -> String {
    let claim = world.cluster.allocate(wanted).unwrap();
    let error = world.prepare(&claim).unwrap_err();
    assert_eq!(world.left(), (0, 0, 0), "{error}");
    let is_of_it = |event: &Value| event["involvedObject"]["uid"] == claim["metadata"]["uid"];
    let told = || world.cluster.events().into_iter().find(is_of_it);
    tests::wait_until("the event is made", || told().is_some());
    let event = told().unwrap();
    assert_eq!((&event["type"], &event["message"]), (&json!("Warning"), &json!(error)));
    // The kubelet asks again and again: one event is enough.
    assert_eq!(world.prepare(&claim).unwrap_err(), error);
    world.cluster.delete(&wanted.name);
    error
}

#[test]
fn wrong_claims_are_refused_with_an_event() {
    let world = World::new(1);
    let beyond = |name: &str, sms: u32, memory: &str| Wanted {
        beyond: true,
        ..Wanted::share(name, sms, memory)
    };
    assert!(
        refused(&world, &beyond("sms", 9, "128Mi")).contains("9 of sms are more than the GPU's 8")
    );
    assert!(refused(&world, &beyond("memory", 2, "9Gi")).contains("of memory are more than"));
    let config = |name: &str, parameters: Value| {
        Wanted::share(name, 2, "128Mi").with("FromClaim", parameters)
    };
    let wrong = config("class", share_config(json!({"class": "urgent"})));
    assert!(refused(&world, &wrong).contains("\"urgent\" is no class"));
    let wrong = config("field", share_config(json!({"colour": "red"})));
    assert!(refused(&world, &wrong).contains("\"colour\" is no field of ShareConfig"));
    let wrong = config("malformed", json!({"class": "batch"}));
    assert!(refused(&world, &wrong).contains("apiVersion is \"gpu.openmps.io/v1alpha1\" here"));
    let wrong = config("list", json!([1, 2]));
    assert!(refused(&world, &wrong).contains("not a list"));
    let wrong = config("limit", share_config(json!({"limitSms": 1})));
    assert!(refused(&world, &wrong).contains("limitSms: from the share's 2 SMs"));
    let other = Wanted { driver: OTHER_DRIVER.into(), ..Wanted::share("other", 2, "128Mi") };
    assert!(refused(&world, &other).contains("its drivers are gpu.example.com"));
}

#[test]
fn two_claims_of_one_gpu_are_refused_for_one_container() {
    let world = World::new(1);
    let claims = crate::two_claims(&world, [0, 0]);
    let prepare = || world.runtime.block_on(world.plugin().prepare_all(&claims));
    let error = prepare().unwrap_err();
    assert!(error.starts_with("container main names the claims one and two: two of"), "{error}");
    assert_eq!((world.event("Refused"), world.left()), (error, (0, 0, 0)));
    // A container for each may have them.
    world.cluster.pod("pod", &[("first", &["one"]), ("second", &["two"])]);
    prepare().unwrap();
    assert_eq!(world.left(), (2, 2, 2));
}

#[test]
fn a_claim_that_is_gone_or_another_s_is_refused() {
    let world = World::new(1);
    let claim = world.cluster.allocate(&Wanted::share("a", 2, "128Mi")).unwrap();
    let mut other = claim.clone();
    other["metadata"]["uid"] = json!("22222222-1111-4111-8111-111111111111");
    assert!(world.prepare(&other).unwrap_err().contains("another claim of this name"));
    // A UID is a file's name here.
    other["metadata"]["uid"] = json!("../../x");
    assert!(world.prepare(&other).unwrap_err().contains("no UID of a claim"));
    world.cluster.delete("a");
    assert!(world.prepare(&claim).unwrap_err().contains("no such claim any more"));
    assert_eq!(world.left(), (0, 0, 0));
}

#[test]
fn a_node_without_gpu_publishes_nothing_and_refuses() {
    let world = World::new(1);
    let claim = world.cluster.allocate(&Wanted::share("a", 2, "128Mi")).unwrap();
    // A claim of another node's GPU, which a scheduler would not send here.
    let mut moved = claim.clone();
    moved["status"]["allocation"]["devices"]["results"][0]["device"] = json!("gpu-12345678");
    let name = ("team".to_owned(), "a".to_owned());
    world.cluster.objects.lock().unwrap().claims.insert(name, moved);
    let error = world.prepare(&claim).unwrap_err();
    assert!(error.contains("this node has no GPU \"gpu-12345678\"; it has gpu-"), "{error}");
}
