//! Counters: each program has its own account of what the device did for it.

use serde_json::Value;
use std::time::{Duration, Instant};
use tests::{Running, Scene, dist, start, wait_until};

/// A program that has done its warm-up and waits.
fn waiting(scene: &Scene, name: &str, arguments: &[&str]) -> Running {
    let barrier = scene.file(&format!("{name}.go"));
    let arguments = [arguments, &["--barrier", barrier.to_str().expect("text")]].concat();
    let program = start(&mut scene.sample(name, &arguments));
    let ready = scene.file(&format!("{name}.go.ready.{}", program.pid()));
    wait_until("it has warmed up", || ready.exists());
    program
}

/// The row of a program in `openmps ps --json`.
fn account(scene: &Scene, program: &Running) -> Value {
    let report = scene.report();
    let clients = report["servers"].as_array().expect("servers").iter();
    let mut clients = clients.flat_map(|server| server["clients"].as_array().expect("clients"));
    let found = clients.find(|client| client["pid"] == program.pid());
    found.unwrap_or_else(|| panic!("{} is not in {report}", program.pid())).clone()
}

/// What `counts` says of the clients of the one server. Asks again as long as the server does not answer: without
/// its PID it would be left out.
fn counts(scene: &Scene) -> Vec<Value> {
    let server = scene.servers()[0];
    let mut counts = Value::Null;
    wait_until("the server answers", || {
        let answer = scene.control(&format!("counts {server}"));
        if answer.status != 0 && answer.stdout.contains("does not answer") {
            return false;
        }
        counts = answer.expect_success().json();
        true
    });
    counts.as_array().expect("clients").clone()
}

/// A count of it.
fn count(account: &Value, name: &str) -> u64 {
    let work = &account["work"];
    work[name].as_u64().unwrap_or_else(|| panic!("no {name} in {account}"))
}

/// `endless` with three blocks, whose kernel for ever is in progress: behind a short one, the time of which stands
/// still once it is the second.
fn start_endless(scene: &Scene) -> Running {
    let endless = start(&mut scene.sample("endless", &["--blocks", "3"]));
    let mut begun = None;
    wait_until("its kernel runs", || {
        if !scene.clients().contains(&endless.pid()) {
            return false;
        }
        let account = account(scene, &endless);
        let busy = (account["kernels"] == 2).then(|| count(&account, "busy_ns"));
        begun = begun.or(busy);
        busy > begun
    });
    endless
}

#[test]
fn clients_of_one_server_have_accounts_of_their_own() {
    let scene = Scene::with_daemon();
    let adding = ["--size", "65536", "--warm-up", "5", "--iterations", "1"];
    let adder = waiting(&scene, "vector_add", &adding);
    let spinning = ["--work", "300000", "--blocks", "2", "--warm-up", "3", "--iterations", "1"];
    let spinner = waiting(&scene, "spin", &spinning);
    assert_eq!(scene.servers().len(), 1, "they share a server");

    // What each has done is known: three arrays of floats, five times; two blocks, three times.
    let [added, spun] = [&adder, &spinner].map(|program| account(&scene, program));
    assert_eq!((&added["kernels"], &spun["kernels"]), (&5.into(), &3.into()));
    assert_eq!(count(&added, "global_bytes"), 5 * 3 * 4 * 65536);
    assert_eq!(count(&spun, "blocks"), 3 * 2);
    assert!(count(&spun, "thread_instructions") > 3 * 2 * 300_000, "{spun}");
    for client in [&added, &spun] {
        let [busy, sms, warps] = ["busy_ns", "sm_active_ns", "warp_ns"].map(|n| count(client, n));
        assert!(busy > 0 && sms > 0 && warps >= sms, "{client}");
        assert!(client["work"]["lanes_active"].as_f64().expect("a share") > 0.9, "{client}");
    }

    // While a third one has three SMs, its account grows and theirs do not.
    let mut endless = start_endless(&scene);
    let (before, begin) = (account(&scene, &endless), Instant::now());
    std::thread::sleep(Duration::from_millis(200));
    let least_ns = begin.elapsed().as_nanos() as u64;
    let after = account(&scene, &endless);
    let [busy, sms, warps] = ["busy_ns", "sm_active_ns", "warp_ns"]
        .map(|name| count(&after, name) - count(&before, name));
    assert!(busy >= least_ns, "its kernel ran all the time: {busy} of {least_ns}");
    assert_eq!(sms, warps, "a warp on each of its SMs");
    assert!((2 * busy..4 * busy).contains(&sms), "three SMs: {sms} in {busy}");
    for (program, known) in [(&adder, &added), (&spinner, &spun)] {
        assert_eq!(account(&scene, program)["work"], known["work"]);
    }
    endless.kill();
}

#[test]
fn a_person_sees_what_programs_do_now() {
    let scene = Scene::with_daemon();
    let mut endless = start_endless(&scene);
    let tables = scene.file("tables");
    let mut shell = scene.command("sh".as_ref());
    shell
        .args(["-c", "exec \"$0\" ps --watch >\"$1\""])
        .arg(dist().join("bin/openmps"))
        .arg(&tables);
    let mut watch = start(&mut shell);
    let read = || std::fs::read_to_string(&tables).unwrap_or_default();
    wait_until("two tables have come", || read().matches('\n').count() >= 4);
    watch.kill();
    assert_eq!(watch.wait().stderr, "");
    let text = read();
    // A share and its sign are two words.
    let words = |line: &str| -> Vec<String> {
        line.split_whitespace().filter(|word| *word != "%").map(str::to_owned).collect()
    };
    let lines: Vec<_> = text.lines().map(words).collect();
    let head = [
        "PID",
        "ID",
        "USER",
        "CLASS",
        "SERVER",
        "MEMORY",
        "HOST",
        "KERNELS/S",
        "BUSY",
        "SMS",
        "WARPS",
        "LANES",
    ];
    for table in lines.chunks_exact(2) {
        assert_eq!(table[0][..head.len()], head, "{text}");
        let [pid, _, _, _, _, memory, _, _, kernels, busy, sms, warps, lanes, command, ..] =
            &table[1][..]
        else {
            panic!("{text}");
        };
        let number = |text: &str| text.parse::<f64>().unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!((pid, &kernels[..]), (&endless.pid().to_string(), "0"), "{text}");
        assert!(number(memory) > 0.0 && number(busy) > 0.0, "{text}");
        assert!((2.0..4.0).contains(&number(sms)), "three SMs: {text}");
        // What a block has executed may not be told before it ends.
        assert!(warps == "1.0" && ["100", "-"].contains(&&lanes[..]), "{text}");
        assert!(command.ends_with("endless"), "{text}");
    }
    endless.kill();
}

#[test]
fn a_table_has_a_row_for_each_kernel_of_each_client() {
    let table = "kernels.tsv";
    let mut scene = Scene::new();
    let path = scene.file(table);
    scene.start_daemon_with(&[("OPENMPS_SOFT_PROFILE", path.to_str().expect("text"))]);
    let runs = [("3", "7"), ("4", "2")].map(|(warm_up, iterations)| {
        let arguments = ["--warm-up", warm_up, "--iterations", iterations, "--size", "4096"];
        let program = start(&mut scene.sample("vector_add", &arguments));
        let pid = program.pid();
        program.wait().expect_success();
        pid
    });
    assert_eq!(scene.stop_daemon().status, 0);
    wait_until("the server has written it", || path.exists());
    let text = std::fs::read_to_string(&path).expect("the table");
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let rows: Vec<_> = lines.collect();
    let of = |row: &[&str], name: &str| {
        let at = head.iter().position(|column| *column == name).expect("a column");
        row[at].to_owned()
    };
    for (pid, launches) in runs.into_iter().zip([10, 6]) {
        let client = format!("{pid} ");
        let mine = rows.iter().filter(|row| of(row, "client").starts_with(&client));
        let [row] = &mine.collect::<Vec<_>>()[..] else { panic!("one row of {pid}: {text}") };
        assert_eq!(of(row, "kernel"), "vector_add");
        assert_eq!(of(row, "launches"), launches.to_string());
        assert_eq!(of(row, "global_bytes"), (launches * 3 * 4 * 4096).to_string());
        let number = |name: &str| of(row, name).parse::<u64>().expect("a number");
        assert!(number("sm_ns") > 0 && number("warp_ns") >= number("sm_ns"), "{text}");
    }
}

/// What one launch of a kernel is, and how many of them there are.
struct Geometry {
    kernel: &'static str,
    launches: u64,
    blocks: u64,
    threads: u64,
}

fn geometry(kernel: &'static str, launches: u64, blocks: u64, threads: u64) -> Geometry {
    Geometry { kernel, launches, blocks, threads }
}

#[test]
fn counts_are_what_the_kernels_geometry_says() {
    let scene = Scene::with_daemon();
    let adding = ["--size", "4096", "--blocks", "3", "--warm-up", "7"];
    let scanning = ["--size", "1000", "--blocks", "2", "--warm-up", "4"];
    let reducing = ["--size", "3000", "--blocks", "5", "--warm-up", "3"];
    let mix = [
        (waiting(&scene, "vector_add", &adding), vec![geometry("vector_add", 7, 3, 256)]),
        (
            waiting(&scene, "scan", &scanning),
            vec![
                geometry("scan_parts", 4, 2, 128),
                geometry("scan_totals", 4, 1, 128),
                geometry("add_offsets", 4, 2, 128),
                geometry("bitonic_sort", 4, 2, 128),
            ],
        ),
        (waiting(&scene, "reduction", &reducing), vec![geometry("reduce", 3, 5, 256)]),
    ];
    let counts = counts(&scene);
    for (program, kernels) in &mix {
        let account = account(&scene, program);
        let mut rows = counts.iter().filter(|row| row["client"] == account["id"]);
        let client = rows.next().unwrap_or_else(|| panic!("no counts of {account}: {counts:?}"));
        let sum = |rows: &Value, name: &str| -> u64 {
            let rows = rows.as_array().expect("rows").iter();
            rows.map(|row| row[name].as_u64().expect("a number")).sum()
        };
        assert_eq!(client["kernels"].as_array().map(Vec::len), Some(kernels.len()), "{client}");
        for Geometry { kernel, launches, blocks, threads } in kernels {
            let rows = client["kernels"].as_array().expect("kernels").iter();
            let mut rows = rows.filter(|row| row["name"] == *kernel);
            let row = rows.next().unwrap_or_else(|| panic!("no {kernel} in {client}"));
            let counted = ["launches", "blocks", "threads"].map(|name| row[name].as_u64());
            let expected = [*launches, launches * blocks, launches * blocks * threads].map(Some);
            assert_eq!(counted, expected, "{row}");
            assert_eq!(
                (&row["timing"], sum(&row["shapes"], "launches")),
                (&"exact".into(), *launches)
            );
            let times = ["device_ns", "sm_active_ns", "warp_ns"].map(|n| row[n].as_u64());
            // A block of so many warps is resident as long as its SM has it.
            let [Some(device), Some(sms), Some(warps)] = times else { panic!("{row}") };
            assert!(device > 0 && sms > 0 && warps >= sms * (threads / 32), "{row}");
        }
        // What each kernel took is what the client took, by every way of adding up.
        let all: u64 = kernels.iter().map(|kernel| kernel.launches).sum();
        assert_eq!(
            (account["kernels"].as_u64(), sum(&client["streams"], "kernels")),
            (Some(all), all)
        );
        for name in ["device_ns", "sm_active_ns", "warp_ns", "global_bytes", "thread_instructions"]
        {
            assert_eq!(sum(&client["kernels"], name), count(&account, name), "{name}: {client}");
        }
        assert_eq!(sum(&client["kernels"], "blocks"), count(&account, "blocks"));
        for name in ["bytes_in", "bytes_out", "bytes_within"] {
            assert_eq!(
                account["copies"][name].as_u64(),
                Some(sum(&client["streams"], name)),
                "{name}"
            );
        }
    }
    // Copies whose sizes follow from the programs' options; scan puts its keys back in each round.
    let copied = |at: usize, name: &str| account(&scene, &mix[at].0)["copies"][name].as_u64();
    assert_eq!(copied(0, "bytes_in"), Some(2 * 4 * 4096));
    assert_eq!(copied(1, "bytes_within"), Some(4 * 4 * 1000 + 4 * 1000 + 4 * 8));
}

/// As on NVIDIA's driver: nothing is counted by the device.
const BY_EVENTS: &[(&str, &str)] =
    &[("OPENMPS_SOFT_TENANTS", "0"), ("OPENMPS_CUPTI", "/none/libcupti.so")];

/// The row of a kernel in what `counts` prints of one client.
fn kernel(scene: &Scene, name: &str) -> Option<Value> {
    let counts = counts(scene);
    let clients = counts.iter();
    let mut kernels = clients.flat_map(|client| client["kernels"].as_array().expect("kernels"));
    kernels.find(|kernel| kernel["name"] == name).cloned()
}

#[test]
fn launches_are_counted_and_timed_as_the_operator_wants() {
    let mut scene = Scene::new();
    scene.start_daemon_with(BY_EVENTS);
    let spin = |launches: &str| {
        let work = ["--work", "20000", "--blocks", "2", "--iterations", "1", "--warm-up", launches];
        waiting(&scene, "spin", &work)
    };
    // A sample of them: the first, the second, the fourth, the eighth and the sixteenth, and all
    // that were drawn.
    let program = spin("20");
    let seen = kernel(&scene, "spin_steps").expect("it is counted");
    assert_eq!(seen["launches"], 20, "{seen}");
    // Their events are read later than the program knows of their end.
    wait_until("the last of them is read", || {
        kernel(&scene, "spin_steps")
            .is_some_and(|seen| seen["shapes"][0]["samples"].as_u64() >= Some(5))
    });
    let seen = kernel(&scene, "spin_steps").expect("it is counted");
    assert_eq!(seen["timing"], "sampled", "{seen}");
    assert!(seen["shapes"][0]["mean_ns"].as_u64() > Some(0), "{seen}");
    wait_until("what events cost is measured", || {
        let report = scene.control("report").expect_success().json();
        let counts = &report["servers"][0]["devices"][0]["counts"];
        let [pair, cost] = ["event_pair_ns", "event_cost_ns"].map(|name| counts[name].as_u64());
        // Both are null until then. What a program's kernel has beyond one that counts is a part of the cost.
        pair > Some(0) && cost.is_some() && cost <= pair.map(|pair| 2 * pair)
    });
    finish_with(&scene, program);

    scene.openmps(&["set", "--counters", "every"]).expect_success();
    assert_eq!(scene.control("counters").expect_success().stdout, "every\n");
    let program = spin("20");
    wait_until("all of them are read", || {
        kernel(&scene, "spin_steps").is_some_and(|seen| seen["shapes"][0]["samples"] == 20)
    });
    finish_with(&scene, program);

    scene.openmps(&["set", "--counters", "off"]).expect_success();
    let program = spin("20");
    let launches =
        kernel(&scene, "spin_steps").map_or(0, |seen| seen["launches"].as_u64().unwrap_or(1));
    assert_eq!(launches, 0);
    let refused = scene.openmps(&["set", "--counters", "cupti"]);
    assert!(refused.status != 0 && refused.stderr.contains("OPENMPS_CUPTI"), "{}", refused.stderr);
    finish_with(&scene, program);
}

/// Ends a program that waits, and its session, until which its kernels are counted.
fn finish_with(scene: &Scene, mut program: Running) {
    program.kill();
    program.wait();
    wait_until("its session has ended", || scene.clients().is_empty());
}
