//! Tests of the screen, as text.

use super::*;
use crate::rates::DeviceRates;
use crate::rates::tests::reading;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn app() -> App {
    let start = Instant::now();
    let s = 1_000_000_000;
    let before = reading(start, 10, &[(1, 0, 0), (2, 0, 0)]);
    let now = reading(start + Duration::from_secs(2), 12, &[(1, 10, s / 2), (2, 400, s)]);
    let mut app = App::new(false);
    app.update(Rates::between(&before, &now));
    app
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '>' => KeyCode::Down,
            '$' => KeyCode::End,
            other => KeyCode::Char(other),
        };
        app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

#[test]
fn util_stands_beside_sm_activity_in_80_columns() {
    let text = frame_text(&app(), (80, 24));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(lines[1].contains("GPU-UTIL") && lines[1].contains("SM ACTIVITY"), "{text}");
    // 1.5 s of 2 s, on half of the SMs.
    assert!(lines[2].contains("75 %") && lines[2].contains("38 % ███"), "{text}");
    let client = lines.iter().find(|line| line.starts_with("502")).expect("the busier one");
    assert!(client.contains("25 % █▌····") && client.contains("50 %"), "{text}");
    assert!(client.contains("200") && client.contains("program2"), "{text}");
    let first = lines.iter().position(|line| line.starts_with("502"));
    assert!(first < lines.iter().position(|line| line.starts_with("501")), "{text}");
}

#[test]
fn keys_sort_filter_and_choose_devices() {
    let mut app = app();
    press(&mut app, "ssss");
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("sorted by ID") && text.find("501") < text.find("502"), "{text}");
    press(&mut app, "/program2\n");
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("program2") && !text.contains("program1"), "{text}");
    press(&mut app, "/\x1b\t");
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("on device 0") && text.contains("program1"), "{text}");
}

#[test]
fn help_fits_80_columns_and_escape_leaves_it_and_a_filter() {
    let mut app = app();
    press(&mut app, "h");
    let help = frame_text(&app, (80, 24));
    for end in
        ["one block on one SM makes it", "HELD the time for which its work was", "highest of them."]
    {
        let found = help.lines().any(|line| line.trim_end().ends_with(end));
        assert!(found, "{end}: {help}");
    }
    press(&mut app, "\x1b/program2\n\x1b\x1b");
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("program1") && text.contains("program2"), "{text}");
    assert_eq!(app.take_wish(), None, "escape ends nothing");
    press(&mut app, "q");
    assert_eq!(app.take_wish(), Some(Wish::Quit));
}

#[test]
fn a_client_is_ended_only_after_asking() {
    let mut app = app();
    press(&mut app, "x");
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("End PID 502 (./program2)?"), "{text}");
    press(&mut app, "n");
    assert_eq!(app.take_wish(), None);
    press(&mut app, "xy");
    assert_eq!(app.take_wish(), Some(Wish::Command("terminate_client 2 id:2".to_owned())));
}

#[test]
fn a_long_command_leaves_room_for_what_is_asked() {
    let mut app = app();
    let command = format!("python3 ./träin.py {}", "--steps 1000 ".repeat(20));
    app.rates.clients.iter_mut().for_each(|client| client.command.clone_from(&command));
    press(&mut app, "x");
    let text = frame_text(&app, (80, 24));
    let line =
        text.lines().find(|line| line.contains("End PID 502 (python3")).expect("the question");
    assert!(line.contains("…)? What it has on the device is destroyed. (y/n)"), "{text}");
    assert!(line.chars().count() <= 80, "{text}");
    assert!(frame_text(&app, (200, 24)).contains("--steps 1000"), "room is used");
}

#[test]
fn a_share_is_checked_and_set() {
    let mut app = app();
    press(&mut app, ">l300\n");
    assert_eq!(app.take_wish(), None);
    assert!(frame_text(&app, (80, 24)).contains("\"300\" is no percentage"));
    press(&mut app, "l30\n");
    assert_eq!(app.take_wish(), Some(Wish::Command("set id:1 server=2 sms=30%".to_owned())));
}

#[test]
fn tab_comes_to_the_last_of_eight_devices() {
    let mut app = app();
    let model = app.rates.devices[0].clone();
    app.rates.devices = (0..8)
        .map(|ordinal| DeviceRates { ordinal, uuid: format!("GPU-{ordinal}"), ..model.clone() })
        .collect();
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("0 software GPU") && !text.contains("7 software GPU"), "{text}");
    press(&mut app, "\t\t\t\t\t\t\t\t");
    let text = frame_text(&app, (80, 24));
    assert!(text.contains("7 software GPU") && text.contains("on device 7"), "{text}");
}

#[test]
fn the_last_of_many_kernels_can_be_seen() {
    let mut app = app();
    press(&mut app, "\n");
    let kernels: Vec<_> =
        (0..100).map(|n| serde_json::json!({"name": format!("kernel_{n}")})).collect();
    let counts = serde_json::json!([{"server": 2, "client": 2, "kernels": kernels}]);
    app.set_counts(Ok(serde_json::from_value(counts).expect("counts")));
    assert!(!frame_text(&app, (80, 24)).contains("kernel_99"));
    press(&mut app, "$");
    assert!(frame_text(&app, (80, 24)).contains("kernel_99"));
    press(&mut app, ">");
    assert!(frame_text(&app, (80, 24)).contains("kernel_99"));
}

#[test]
fn what_was_wrong_is_said_until_a_look_succeeds() {
    let mut app = app();
    app.lost("no daemon answers".to_owned());
    assert!(frame_text(&app, (80, 24)).contains("no daemon answers"));
    let rates = app.rates.clone();
    app.said(Ok(String::new()));
    app.update(rates);
    let text = frame_text(&app, (80, 24));
    assert!(!text.contains("no daemon answers") && text.contains("done"), "{text}");
}

#[test]
fn a_client_s_kernels_are_shown_with_their_time() {
    let mut app = app();
    press(&mut app, "\n");
    assert_eq!(app.take_wish(), Some(Wish::Kernels));
    let counts = serde_json::json!([{"server": 2, "client": 2, "kernels": [
        {"name": "_Z9add_arrayPfi", "timing": "sampled", "launches": 4, "device_ns": 8_000_000,
         "shapes": [{"grid": [10, 2, 1], "block": [64, 1, 1], "launches": 4}]},
        {"name": "idle", "timing": "none", "launches": 1}]}]);
    app.set_counts(Ok(serde_json::from_value(counts).expect("counts")));
    let text = frame_text(&app, (100, 24));
    let line = text.lines().find(|line| line.contains("add_array")).expect("its row");
    for part in ["4", "~8.00 ms", "100 %", "~2.00 ms", "20x64"] {
        assert!(line.contains(part), "{part}: {text}");
    }
    press(&mut app, "\x1bq");
    assert_eq!(app.take_wish(), Some(Wish::Quit));
}

#[test]
fn a_narrow_screen_has_fewer_columns_and_whole_figures() {
    let mut app = app();
    app.rates.clients[0].pid = Some(4_194_303);
    app.rates.clients[1].kernels_per_s = 1_234_567.0;
    for width in [40, 60, 80, 120] {
        let text = frame_text(&app, (width, 24));
        for whole in ["4194303", "1234567", "502", "program2", "75 %"] {
            let found = text.lines().any(|line| {
                line.match_indices(whole).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| c == ' ')
                })
            });
            assert!(found, "{width}, {whole}: {text}");
        }
        // Whole, or not there.
        assert_eq!(text.contains("1.5 GiB"), text.contains("MEMORY"), "{width}: {text}");
    }
    let narrow = frame_text(&app, (40, 24));
    assert!(!narrow.contains("QUEUE") && narrow.contains("KERN/S"), "{narrow}");
}

#[test]
fn a_wide_screen_has_a_longer_history() {
    let mut app = app();
    let rates = app.rates.clone();
    (0..100).for_each(|_| app.update(rates.clone()));
    let columns = |width| {
        let text = frame_text(&app, (width, 24));
        let line = text.lines().nth(2).expect("the device").to_owned();
        line.chars().filter(|c| "▁▂▃▄".contains(*c)).count()
    };
    assert!((12..20).contains(&columns(80)), "{}", columns(80));
    assert!(columns(200) > 60, "{}", columns(200));
}

#[test]
fn without_utf_8_the_screen_is_ascii() {
    let mut app = app();
    app.ascii = true;
    for keys in ["", "x", "n\n"] {
        press(&mut app, keys);
        assert!(frame_text(&app, (120, 24)).is_ascii());
    }
    let locale = |all: &str, lang: &str| {
        let of = |name: &str| match name {
            "LC_ALL" => Some(all.to_owned()),
            "LANG" => Some(lang.to_owned()),
            _ => None,
        };
        is_utf8(of)
    };
    assert!(!locale("C", "en_US.UTF-8") && locale("", "de_DE.utf8") && !locale("", "POSIX"));
    assert!(is_utf8(|_| None));
}
