//! The warm list: a server loads what programs used before, on a provider without tenants.

mod support;

use channel::request::{CODE_HAS_VARIABLES, GetFunction, GetGlobal, NO_CODE};
use cuda_api::{CUmodule, CudaError};
use server::device::Driver;
use server::warm::PreloadOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::*;

const MODULES: usize = 2;

/// A directory of a test's own, gone with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("openmps-warm-{}-{name}", std::process::id())))
    }

    fn start(&self, budget_bytes: u64) -> Server {
        let options =
            PreloadOptions { directory: Some(self.0.clone()), budget_bytes: Some(budget_bytes) };
        let driver = Driver { table: provider::table(), extension: None };
        Server::start_with(driver, options)
    }

    /// All files of the list.
    fn files(&self) -> Vec<PathBuf> {
        fn visit(folder: &Path, files: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => visit(&entry.path(), files),
                    false => files.push(entry.path()),
                }
            }
        }
        let mut files = Vec::new();
        visit(&self.0, &mut files);
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn modules() -> usize {
    provider::census()[MODULES]
}

/// Device memory of images and kernels that a server has loaded ahead, and the loads that it spared.
fn warm(server: &Server) -> (u32, u32, u64) {
    let warm = server.status().context.expect("its clients share a context").warm;
    (warm.images, warm.kernels, warm.spared)
}

#[test]
fn what_a_program_used_is_loaded_when_the_next_server_starts() {
    let place = Place::new("again");
    let mut server = place.start(1 << 20);
    assert_eq!(warm(&server), (0, 0, 0));
    let mut client = server.connect();
    client.load();
    client.launch("note", LEGACY, &41u32.to_le_bytes());
    client.synchronize(LEGACY);
    drop(client);
    drop(server);
    let mut server = place.start(1 << 20);
    let (images, kernels, spared) = warm(&server);
    assert_eq!((images, spared, modules()), (1, 0, 1), "before any client is there");
    assert!(kernels > 0, "with its kernels");
    assert!(server.log().contains("Warm list: 1 images"), "{}", server.log());
    let mut client = server.connect();
    client.load();
    assert_eq!((warm(&server).2, modules()), (1, 1), "the program's load is spared");
    client.launch("note", LEGACY, &42u32.to_le_bytes());
    client.synchronize(LEGACY);
    assert_eq!(provider::notes(|n| n == 41 || n == 42), [41, 42]);
}

/// Files of the list of that kind.
fn files_of(place: &Place, kind: &str) -> Vec<PathBuf> {
    let is_of = |path: &PathBuf| path.extension().is_some_and(|of| of == kind);
    place.files().into_iter().filter(is_of).collect()
}

#[test]
fn a_server_in_standby_loads_what_clients_of_another_one_load() {
    let here = Place::new("standby");
    let elsewhere = Place::new("serving");
    let mut serving = elsewhere.start(1 << 20);
    let mut client = serving.connect();
    client.load();
    let held = |place: &Place| {
        let files = files_of(place, "held");
        files.first().map(|file| std::fs::read_to_string(file).unwrap_or_default())
    };
    wait_until("it says what its clients have", || held(&elsewhere).is_some_and(|t| !t.is_empty()));
    let name = held(&elsewhere).expect("just seen");
    wait_until("the list", || files_of(&elsewhere, "kernels").len() == 1);
    assert_eq!(name, format!("{} 1\n", stem(&files_of(&elsewhere, "kernels")[0])));
    drop(client);
    drop(serving);
    assert_eq!(held(&elsewhere), None, "it has ended");

    let mut standby = here.start(1 << 20);
    assert_eq!((warm(&standby), modules()), ((0, 0, 0), 0));
    write_held(&here, &elsewhere, &name);
    copy_list(&elsewhere, &here);
    wait_until("it has loaded that too", || warm(&standby).0 == 1);
    assert_eq!(modules(), 1);
    wait_until("it says so", || standby.log().contains("1 images of programs at other servers"));
    let mut client = standby.connect();
    client.load();
    assert_eq!((warm(&standby).2, modules()), (1, 1), "the program's load is spared");
}

/// The device's directory, of a list at `here` that is of the same device as the one `elsewhere`.
fn directory(here: &Place, elsewhere: &Place) -> PathBuf {
    let files = elsewhere.files();
    let of_device = files[0].parent().and_then(Path::file_name).expect("the device's");
    here.0.join(of_device)
}

/// Writes what a server that is another process would write of what its clients have.
fn write_held(here: &Place, elsewhere: &Place, text: &str) {
    let process = std::os::unix::process::parent_id();
    let path = directory(here, elsewhere).join(format!("{process}.held"));
    std::fs::write(path, text).expect("written");
}

/// Puts another server's list beside what is there.
fn copy_list(from: &Place, to: &Place) {
    let to = directory(to, from);
    for file in from.files() {
        let unfinished = to.join("copy.unfinished");
        std::fs::copy(&file, &unfinished).expect("copied");
        std::fs::rename(unfinished, to.join(file.file_name().expect("a name"))).expect("renamed");
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn what_clients_of_another_server_have_is_loaded_first_whatever_the_budget() {
    let place = Place::new("planned");
    let mut server = place.start(1 << 20);
    server.connect().load();
    drop(server);
    let list = &files_of(&place, "kernels")[0];
    assert_eq!(warm(&place.start(1)).0, 0, "the budget is less than the image");
    let process = std::os::unix::process::parent_id();
    let held = list.with_file_name(format!("{process}.held"));
    std::fs::write(held, stem(list)).expect("written");
    let server = place.start(1);
    assert_eq!((warm(&server).0, modules()), (1, 1));
    assert!(server.log().contains("1 of them of programs at other servers"), "{}", server.log());
}

#[test]
fn local_memory_of_known_kernels_is_taken_before_there_are_clients() {
    let place = Place::new("local");
    let mut server = place.start(32 << 20);
    let mut client = server.connect();
    client.load();
    drop((client, server));
    let before = provider::local_runs();
    let server = place.start(1 << 20);
    assert_eq!(provider::local_runs(), before, "that would be more than the budget");
    drop(server);
    let server = place.start(32 << 20);
    assert_eq!(provider::local_runs(), before + 1);
    assert!(server.log().contains("Local memory for 103 bytes a thread"), "{}", server.log());
    assert_eq!(modules(), 1, "what took it is gone again");
    // So no launch takes it.
    let mut server = server;
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        client.load();
        client.launch("note", LEGACY, &9300u32.to_le_bytes());
        client.synchronize(LEGACY);
    }
    let calls = server.status().context.expect("its clients share a context").calls;
    assert!(calls.iter().all(|(call, of)| call != "taking local memory" || of.calls == 0));
}

#[test]
fn a_program_that_makes_code_for_ever_does_not_fill_the_disk() {
    const IMAGE_BYTES: usize = 4 << 20;
    // The least that a list may have.
    const LIST_BYTES_MAX: u64 = 64 << 20;
    let place = Place::new("for_ever");
    let bytes = |place: &Place| -> u64 {
        place.files().iter().flat_map(std::fs::metadata).map(|file| file.len()).sum()
    };
    let mut server = place.start(2 * IMAGE_BYTES as u64);
    let mut client = server.connect();
    let mut before = Vec::new();
    for number in 0..20 {
        let mut image = format!(".version 8.0\n// {number} ").into_bytes();
        image.resize(IMAGE_BYTES, b' ');
        client.load_image(module(number), &image).0.expect("a module");
        wait_until("it is written", || files_of(&place, "image") != before);
        before = files_of(&place, "image");
        assert!(bytes(&place) <= LIST_BYTES_MAX, "after image {number}: {} bytes", bytes(&place));
    }
    drop((client, server));
    assert!((8..=16).contains(&files_of(&place, "image").len()), "{before:?}");
    assert_eq!(files_of(&place, "image").len(), files_of(&place, "kernels").len());
}

#[test]
fn a_list_that_was_damaged_is_harmless() {
    let place = Place::new("damaged");
    let mut server = place.start(1 << 20);
    server.connect().load();
    drop(server);
    let files = place.files();
    assert_eq!(files.len(), 2, "an image and its use");
    for file in &files {
        std::fs::write(file, b"something else").expect("it can be written");
    }
    let mut server = place.start(1 << 20);
    assert_eq!((warm(&server), modules()), ((0, 0, 0), 0));
    server.connect().load();
    drop(server);
    let server = place.start(1 << 20);
    assert_eq!(warm(&server).0, 1, "it is on the list again");
}

#[test]
fn nothing_is_kept_or_loaded_without_a_budget() {
    let place = Place::new("off");
    let mut server = place.start(0);
    server.connect().load();
    drop(server);
    assert_eq!(place.files(), Vec::<PathBuf>::new());
    let mut server = place.start(1 << 20);
    server.connect().load();
    drop(server);
    let kept = place.files();
    // A budget below the image's length loads nothing, and corrupts nothing.
    let server = place.start(1);
    assert_eq!((warm(&server), modules()), ((0, 0, 0), 0));
    drop(server);
    let server = place.start(0);
    assert_eq!((warm(&server), modules()), ((0, 0, 0), 0));
    drop(server);
    assert_ne!(place.files(), Vec::<PathBuf>::new());
    assert_eq!(place.files(), kept);
}

/// An image with a variable.
const TABLE: &[u8] =
    b".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .b8 table[64];\n\0";

/// Where a module of [`TABLE`] has its variable.
fn table_of(client: &mut Client, module: CUmodule) -> u64 {
    let global = GetGlobal { module, name: b"table", managed: false };
    let (result, words) = client.ask(&global);
    result.expect("a variable");
    words[0]
}

/// Checks that the variable has its first values, and writes others to it.
fn use_up(table: u64) {
    assert_eq!(provider::bytes_at(table, 64), [7; 64], "its first values");
    provider::put_bytes(table, &[9; 64]);
}

/// Three programs have the image beside each other at the server that serves: so it is loaded three times.
#[test]
fn a_module_with_variables_is_loaded_ahead_once_for_each_program_that_has_one() {
    let place = Place::new("each");
    let mut server = place.start(1 << 20);
    server.connect().load_image(module(7), TABLE).0.expect("a module");
    drop(server);
    let list = &files_of(&place, "kernels")[0];
    write_held(&place, &place, &format!("{} 3\n", stem(list)));
    let mut server = place.start(1 << 20);
    assert_eq!((warm(&server).0, modules()), (3, 3), "before any client is there");
    let mut clients = [0; 3].map(|_| server.connect());
    let mut tables = Vec::new();
    for client in &mut clients {
        client.load_image(module(7), TABLE).0.expect("a module");
        let table = table_of(client, module(7));
        use_up(table);
        tables.push(table);
    }
    tables.sort_unstable();
    tables.dedup();
    assert_eq!((tables.len(), warm(&server).2, modules()), (3, 3, 3), "each has its own");
    let mut fourth = server.connect();
    fourth.load_image(module(7), TABLE).0.expect("a module");
    use_up(table_of(&mut fourth, module(7)));
    assert_eq!((warm(&server).2, modules()), (3, 4), "no more than they have there");
}

#[test]
fn a_server_in_standby_keeps_up_with_how_many_programs_have_a_module_with_variables() {
    let (here, elsewhere) = (Place::new("follows"), Place::new("followed"));
    let mut serving = elsewhere.start(1 << 20);
    serving.connect().load_image(module(7), TABLE).0.expect("a module");
    serving.connect().load_image(module(7), b".version 8.0").0.expect("a module");
    drop(serving);
    let has_variables = |list: &PathBuf| {
        std::fs::read_to_string(list).expect("a list").lines().any(|line| line == "variables 1")
    };
    let (with, without): (Vec<_>, Vec<_>) =
        files_of(&elsewhere, "kernels").into_iter().partition(has_variables);
    let standby = here.start(1 << 20);
    copy_list(&elsewhere, &here);
    for (count, loaded) in [(1, 2), (3, 4)] {
        let lines = [&with[0], &without[0]].map(|list| format!("{} {count}\n", stem(list)));
        write_held(&here, &elsewhere, &lines.concat());
        wait_until("it has loaded them", || modules() == loaded);
    }
    wait_until("it says so", || warm(&standby).0 == 4);
    // It looks four times a second.
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!((modules(), warm(&standby).0), (4, 4), "one without variables serves all");
}

/// Code with variables is taken by its key as other code is, by one client at a time.
#[test]
fn a_module_with_variables_is_taken_without_its_image_and_is_one_clients() {
    let place = Place::new("known");
    let mut server = place.start(1 << 20);
    let mut client = server.connect();
    let (result, loaded) = client.load_image(module(7), TABLE);
    assert_eq!((result, loaded.flags), (Ok(()), CODE_HAS_VARIABLES));
    assert_ne!(loaded.code, NO_CODE);
    drop((client, server));
    let mut server = place.start(1 << 20);
    for _ in 0..2 {
        let mut client = server.connect();
        let (result, again) = client.load_known(module(7), loaded.code, b"garbage");
        assert_eq!((result, again.code, again.flags), (Ok(()), loaded.code, CODE_HAS_VARIABLES));
        use_up(table_of(&mut client, module(7)));
        let mut other = server.connect();
        let (result, none) = other.load_known(module(7), loaded.code, b"garbage");
        assert_eq!((result, none.flags), (Err(CudaError::INVALID_PTX), 0), "it is the other one's");
        drop((client, other));
        server.wait_for_clients(0);
        assert_eq!(modules(), 1);
    }
}

#[test]
fn a_module_with_variables_is_loaded_ahead_with_their_first_values() {
    let place = Place::new("table");
    let begin = |server: &mut Server| {
        let mut client = server.connect();
        client.load_image(module(7), TABLE).0.expect("a module");
        let get = GetFunction { function: function(0), module: module(7), name: b"note" };
        client.call(&get).expect("a kernel");
        let table = table_of(&mut client, module(7));
        (client, table)
    };
    let mut server = place.start(1 << 20);
    drop(begin(&mut server).0);
    drop(server);
    let mut server = place.start(1 << 20);
    assert_eq!((warm(&server), modules()), ((1, 1, 0), 1), "before any client is there");
    for spared in 1..=2 {
        let (client, table) = begin(&mut server);
        assert_eq!((warm(&server).2, modules()), (spared, 1), "the program's load is spared");
        use_up(table);
        drop(client);
        server.wait_for_clients(0);
    }
}

/// What no client has had is as its load has left it: nothing is written, so that no client waits for that.
#[test]
fn first_values_are_written_only_where_a_client_had_the_module() {
    let place = Place::new("fresh");
    let mut server = place.start(1 << 20);
    let (result, loaded) = server.connect().load_image(module(7), TABLE);
    result.expect("a module");
    drop(server);
    let mut server = place.start(1 << 20);
    for (image, written) in [(TABLE, 0), (TABLE, 1), (b"known by its key", 1)] {
        let before = provider::values_written();
        let mut client = server.connect();
        client.load_known(module(7), loaded.code, image).0.expect("a module");
        use_up(table_of(&mut client, module(7)));
        assert_eq!((provider::values_written() - before, modules()), (written, 1));
        drop(client);
        server.wait_for_clients(0);
    }
    drop(server);
    // The same of one that is found by its image.
    let mut server = place.start(1 << 20);
    for written in [0, 1] {
        let before = provider::values_written();
        let mut client = server.connect();
        client.load_image(module(7), TABLE).0.expect("a module");
        use_up(table_of(&mut client, module(7)));
        assert_eq!((provider::values_written() - before, modules()), (written, 1));
        drop(client);
        server.wait_for_clients(0);
    }
}

#[test]
fn variables_that_cannot_be_written_keep_their_image_off_the_list() {
    let place = Place::new("variables");
    let mut server = place.start(1 << 20);
    let image = b".version 8.0\n.target sm_80\n.global .u32 counter;\n\0";
    let mut client = server.connect();
    client.load_image(module(7), image).0.expect("the provider takes any image");
    drop(client);
    drop(server);
    assert_eq!(place.files(), Vec::<PathBuf>::new());
}

#[test]
fn calls_that_wait_for_the_context_are_counted_by_kind() {
    let mut server = Server::start(false);
    let mut client = server.connect();
    client.load();
    let context = server.status().context.expect("its clients share a context");
    let [(call, counts)] = &context.calls[..] else { panic!("{:?}", context.calls) };
    assert_eq!((call.as_str(), counts.calls, counts.beside_others), ("loading code", 1, 0));
    assert_eq!(context.waiting, []);
    drop(client);
    drop(server);
    let server = Server::start(true);
    assert_eq!(server.status().context, None, "tenants wait for no other client");
}
