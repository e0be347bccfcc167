//! `openmps accounting`: what programs and users have used of the device.

use crate::daemon;
use crate::output;
use anyhow::{Context, Result, bail};
use control::accounting::{self, AccountingRecord, Total};
use control::locate::own_directory;
use control::log::{DEFAULT_LOG_DIRECTORY, printable};
use cuda_api::environment::CUDA_MPS_LOG_DIRECTORY;
use jiff::civil::DateTime;
use jiff::{Span, SpanRelativeTo, Timestamp, Zoned};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what programs have used, after their end, and the sums for each user
///
/// The daemon writes a line for each client of a server when the client has ended, into
/// accounting.jsonl beside its logs; of one whose server was killed only who it was and when. The
/// file outlives the daemon; when it has 64 MiB it becomes accounting.jsonl.old, in place of the one
/// before. Programs that run are in `openmps ps`. The table has local time with what it is ahead of UTC;
/// JSON and CSV have UTC, with a Z.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps accounting                          all that is written down
  openmps accounting --since 24h              programs that ended in the last 24 hours
  openmps accounting --since 2026-11-01 --csv > november.csv
  openmps accounting --json | jq '[.users[] | {user, device_ns}]'")]
pub(crate) struct Arguments {
    /// Only programs that ended since then: a date or local time (2026-11-01, 2026-11-01T08:00), a time in
    /// UTC (2026-11-01T08:00:00Z), or how long ago (90m, 24h, 7d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only this user's: a name or a number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Directory of the daemon's logs, if it is not that of the daemon that is found
    #[arg(long, value_name = "DIRECTORY")]
    logs: Option<PathBuf>,
    /// Print JSON: clients and users
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print a table of clients with commas
    #[arg(long)]
    csv: bool,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    // Without a zone it is local time; a date alone is its midnight.
    if let Ok(local) = text.parse::<DateTime>() {
        let zone = Zoned::now().time_zone().clone();
        return local.to_zoned(zone).map(|at| at.timestamp()).map_err(|error| error.to_string());
    }
    let ago = text.parse::<Span>().ok();
    let ago = ago.and_then(|ago| ago.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let ago = ago.filter(|ago| !ago.is_negative());
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok()).ok_or_else(|| {
        "a date (2026-11-01), local time (2026-11-01T08:00), a moment (2026-11-01T08:00:00Z) or a \
         time ago (90m, 24h, 7d, 2w) is allowed"
            .to_owned()
    })
}

/// Where logs are: what the daemon says, else where one would write them.
fn log_directory(arguments: &Arguments) -> PathBuf {
    if let Some(directory) = &arguments.logs {
        return directory.clone();
    }
    let running = daemon::ask(&daemon::pipe_directory()).ok().flatten();
    if let Some(directory) = running.and_then(|report| report.log_directory) {
        return directory;
    }
    if let Some(directory) = std::env::var_os(CUDA_MPS_LOG_DIRECTORY).filter(|d| !d.is_empty()) {
        return directory.into();
    }
    let places = [PathBuf::from(DEFAULT_LOG_DIRECTORY), own_directory()];
    let has_file = |place: &&PathBuf| place.join(accounting::FILE_NAME).exists();
    places.iter().find(has_file).cloned().unwrap_or_else(|| places[0].clone())
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let directory = log_directory(arguments);
    if arguments.logs.is_some() && !directory.is_dir() {
        bail!("--logs {}: there is no such directory", directory.display());
    }
    let mut records = accounting::read(&directory)
        .with_context(|| format!("reading {} in {}", accounting::FILE_NAME, directory.display()))?;
    let written = records.len();
    let wanted = arguments.user.as_deref().map(|user| uid_of(user, &records)).transpose()?;
    if let Some(since) = arguments.since {
        let since_ms = u64::try_from(since.as_millisecond()).unwrap_or(0);
        records.retain(|record| record.ended_ms() >= since_ms);
    }
    if let Some(uid) = wanted {
        records.retain(|record| record.uid == uid);
    }
    let users = accounting::by_user(&records);
    if arguments.json {
        output::print_json(&serde_json::json!({ "clients": records, "users": users }))?;
    } else if arguments.csv {
        output::print(&csv(&records)?)?;
    } else if records.is_empty() && written > 0 {
        output::print(&format!(
            "no record matches, of {written} that are written down in {}\n",
            directory.display()
        ))?;
    } else if records.is_empty() {
        output::print(&format!("nothing is written down in {}\n", directory.display()))?;
    } else {
        output::print(&table(&records, &users))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The number of a user: of one whom records name, else of one whom the system knows.
fn uid_of(user: &str, records: &[AccountingRecord]) -> Result<u32> {
    // A user who is gone still has records, and a number may be that of no user.
    let recorded = records.iter().rev().find(|record| record.user == user);
    let known = || control::users::find_by_name(user).map(|user| user.uid);
    let uid = recorded.map(|record| record.uid).or_else(known).or_else(|| user.parse().ok());
    uid.with_context(|| format!("--user {user}: there is no such user, and none in the records"))
}

fn csv(records: &[AccountingRecord]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        writer.serialize(record)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn seconds(ms: u64) -> String {
    format!("{:.1}", ms as f64 / 1e3)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Local time of a moment, with what it is ahead of UTC and without fractions of the second.
fn local(moment: &str) -> String {
    match moment.parse::<Timestamp>() {
        Ok(moment) => {
            let zone = Zoned::now().time_zone().clone();
            moment.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        }
        Err(_) => moment.to_owned(),
    }
}

fn table(records: &[AccountingRecord], users: &[Total]) -> String {
    let head =
        ["BEGAN", "USER", "PID", "WALL_S", "DEVICE_S", "KERNELS", "IN_MIB", "OUT_MIB", "PEAK_MIB"];
    let mut rows: Vec<([String; 9], String)> = vec![(head.map(str::to_owned), "COMMAND".into())];
    for record in records {
        let about = if record.sampled { "~" } else { "" };
        let began = local(&record.began);
        let used = [
            format!("{about}{}", seconds(record.device_ns / 1_000_000)),
            record.kernels.to_string(),
            mebibytes(record.bytes_in),
            mebibytes(record.bytes_out),
            mebibytes(record.peak_memory_bytes),
        ];
        // What one has used whose server was killed is not known: it is not nothing.
        let [device, kernels, bytes_in, bytes_out, peak] = match (record.lost, record.uncounted) {
            (true, _) => used.map(|_| "-".to_owned()),
            // Nor is what was launched and copied while nothing was counted.
            (_, true) => {
                let [device, kernels, bytes_in, bytes_out, peak] = used;
                let [device, kernels, bytes_in, bytes_out] =
                    [device, kernels, bytes_in, bytes_out].map(|cell| cell + "+");
                [device, kernels, bytes_in, bytes_out, peak]
            }
            _ => used,
        };
        let wall = seconds(record.wall_ms);
        let (began, user, pid) = (began, record.user.clone(), record.pid.to_string());
        let cells = [began, user, pid, wall, device, kernels, bytes_in, bytes_out, peak];
        rows.push((cells, printable(&record.command)));
    }
    for total in users {
        let cells = [
            "all".to_owned(),
            total.user.clone(),
            "-".to_owned(),
            seconds(total.wall_ms),
            seconds(total.device_ns / 1_000_000),
            total.kernels.to_string(),
            mebibytes(total.bytes_in),
            mebibytes(total.bytes_out),
            mebibytes(total.peak_memory_bytes),
        ];
        let lost = records.iter().filter(|record| record.lost && record.uid == total.uid).count();
        let mut note = match lost {
            0 => String::new(),
            _ => format!(", {lost} lost with a server: of those only WALL_S is in the sums"),
        };
        let of = |record: &&AccountingRecord| record.uncounted && record.uid == total.uid;
        match records.iter().filter(of).count() {
            0 => {}
            uncounted => note += &format!(", {uncounted} not counted for a time (+)"),
        }
        rows.push((cells, format!("{} clients{note}", total.clients)));
    }
    let mut widths = [0; 9];
    for (cells, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |(cells, last): &([String; 9], String)| {
        let cell = |(index, cell): (usize, &String)| match index {
            0 | 1 => format!("{cell:<width$}", width = widths[index]),
            _ => format!("{cell:>width$}", width = widths[index]),
        };
        let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
        format!("{}  {last}\n", cells.join("  "))
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn moments_are_dates_and_times_ago() {
        let day = moment("2026-11-01T08:00:00Z").unwrap();
        assert_eq!(day.as_millisecond(), 1_793_520_000_000);
        assert!(moment("2026-11-01").is_ok());
        let before = Timestamp::now();
        for (ago, hours) in [("1h", 1), ("1d", 24), ("1w", 168), ("2 days 1h", 49)] {
            let now = moment(ago).unwrap() + SignedDuration::from_hours(hours);
            assert!((before..=Timestamp::now()).contains(&now), "{ago}: {now}, not after {before}");
        }
        // Local time, of which no part is lost.
        let zone = Zoned::now().time_zone().clone();
        let at = |hour, minute, second| {
            let date = jiff::civil::date(2026, 11, 29).at(hour, minute, second, 0);
            date.to_zoned(zone.clone()).unwrap().timestamp()
        };
        assert_eq!(moment("2026-11-29T23:59:59"), Ok(at(23, 59, 59)));
        assert_eq!(moment("2026-11-29 16:00"), Ok(at(16, 0, 0)));
        assert_eq!(moment("2026-11-29"), Ok(at(0, 0, 0)));
        for text in ["", "yesterday", "-1h", "13", "1 month"] {
            assert!(moment(text).is_err_and(|error| error.contains("24h")), "{text}");
        }
    }

    #[test]
    fn a_row_a_client_and_a_sum_a_user() {
        let record = AccountingRecord {
            began: "2026-11-01T08:00:00.123Z".into(),
            wall_ms: 1500,
            user: "ann".into(),
            uid: 1000,
            pid: 42,
            device_ns: 250_000_000,
            kernels: 7,
            bytes_in: 3 << 20,
            peak_memory_bytes: 1 << 30,
            command: "./train, \"fast\"".into(),
            ..AccountingRecord::default()
        };
        let records = [record.clone(), AccountingRecord { sampled: true, ..record }];
        let text = table(&records, &accounting::by_user(&records));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let began = local("2026-11-01T08:00:00.123Z");
        assert!(lines[1].starts_with(&format!("{began}  ann    42     1.5")), "{text}");
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        assert_eq!(moment(&began), moment("2026-11-01T08:00:00Z"), "with its zone");
        assert!(lines[2].contains("~0.2") && lines[1].ends_with("./train, \"fast\""), "{text}");
        assert!(lines[3].starts_with("all ") && lines[3].contains("3.0"), "{text}");
        assert!(lines[3].ends_with("2 clients"), "{text}");
        assert!(!text.contains("lost"), "{text}");
        let text = csv(&records).unwrap();
        assert!(text.starts_with("began,began_ms,wall_ms,uid,user,"), "{text}");
        assert!(
            text.lines().nth(1).unwrap().ends_with("\"./train, \"\"fast\"\"\",false,false,0"),
            "{text}"
        );
    }
    #[test]
    fn what_a_lost_client_used_is_not_shown_as_nothing() {
        let began = "2026-11-01T08:00:00Z".to_owned();
        let whole = AccountingRecord {
            began,
            user: "ann".into(),
            uid: 1000,
            kernels: 7,
            ..AccountingRecord::default()
        };
        let lost = AccountingRecord { lost: true, kernels: 0, wall_ms: 2500, ..whole.clone() };
        let records = [whole, lost];
        let text = table(&records, &accounting::by_user(&records));
        let cells: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[2][2..], ["0", "2.5", "-", "-", "-", "-", "-"], "{text}");
        assert_eq!(cells[3][3..6], ["2.5", "0.0", "7"], "{text}");
        assert!(text.contains("2 clients, 1 lost with a server"), "{text}");
    }

    #[test]
    fn what_was_not_counted_is_marked() {
        let counted =
            AccountingRecord { user: "ann".into(), kernels: 7, ..AccountingRecord::default() };
        let records =
            [counted.clone(), AccountingRecord { uncounted: true, kernels: 0, ..counted }];
        let text = table(&records, &accounting::by_user(&records));
        let cells: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(cells[1].contains(&"7") && cells[2].contains(&"0+"), "{text}");
        assert!(text.contains("2 clients, 1 not counted for a time (+)"), "{text}");
    }

    #[test]
    fn a_user_is_one_of_the_records_or_of_the_system() {
        let gone =
            AccountingRecord { user: "gone".into(), uid: 4_000_000, ..AccountingRecord::default() };
        let records = [gone];
        let uid = |user| uid_of(user, &records).map_err(|error| error.to_string());
        assert_eq!(uid("gone"), Ok(4_000_000));
        assert_eq!((uid("root"), uid("4000001")), (Ok(0), Ok(4_000_001)));
        assert!(uid("nosuch").is_err_and(|error| error.contains("--user nosuch")));
    }
}
