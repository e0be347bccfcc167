//! A limit of device memory, by every way of making memory, as a program sees it.

use serde_json::Value;
use tests::{Scene, finish, start, wait_until};

const LIMIT_MIB: u64 = 64;

#[test]
fn a_limit_holds_for_every_way_of_making_memory() {
    let scene = Scene::with_daemon();
    // A neighbour without a limit, which notices nothing.
    let go = scene.file("go");
    let until = ["--verify-each", "--until", go.to_str().expect("a path"), "--json"];
    let neighbour = start(&mut scene.sample("vector_add", &until));
    wait_until("the neighbour is there", || scene.clients().len() == 1);
    let mut limited = scene.sample("memory", &["--json", "--most", "256"]);
    limited.env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={LIMIT_MIB}M"));
    let answer = finish(&mut limited).expect_success().json();
    let rows = answer["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12, "{rows:?}");
    let mut wrong = Vec::new();
    for row in rows {
        let number = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
        let got = number("got_mib");
        if row["way"] == "cuMemAllocManaged" {
            // Managed memory is the host's, which the device reaches: it takes nothing of the limit.
            assert_eq!((got, number("free_mib")), (256, LIMIT_MIB), "{row}");
            assert_eq!(row["given_back"], true, "{row}");
            continue;
        }
        let good = row["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
            && (LIMIT_MIB / 2..=LIMIT_MIB).contains(&got)
            && number("total_mib") > LIMIT_MIB
            && number("free_mib") <= LIMIT_MIB - got
            && number("nvml_total_mib") == LIMIT_MIB
            && number("nvml_used_mib") >= got
            && row["given_back"] == true;
        if !good {
            wrong.push(row);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let log = scene.log("server.log");
    assert!(log.contains("is at its device memory limit of 67108864 bytes"), "{log}");
    std::fs::write(&go, "").expect("the end");
    let ended: Value = neighbour.wait().expect_success().json();
    assert_eq!(ended["verified"], true);
}
