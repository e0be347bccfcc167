//! Transcripts: what a document shows as output beside what was printed, by columns and not by figures, paths and UUIDs.

/// Units that a figure may have: which of them depends on the figure.
const UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "ns", "us", "ms"];

/// A line without what differs from run to run: figures are 0, paths are /, units are one.
pub fn shape(line: &str) -> String {
    let word = |word: &str| {
        if UNITS.contains(&word) {
            return "unit".to_owned();
        }
        if word == "-" {
            // Stands where a figure is not known.
            return "0".to_owned();
        }
        if let Some(uuid) = word.strip_prefix("GPU-") {
            let behind = uuid.split_once('/').map_or("", |(_, behind)| behind);
            return format!("GPU-/{behind}");
        }
        let (mut shape, mut figure) = (String::new(), false);
        if let Some(path) = word.strip_prefix('/') {
            let end: String = path.chars().rev().take_while(|c| ";:,)".contains(*c)).collect();
            return format!("/{}", end.chars().rev().collect::<String>());
        }
        for character in word.chars() {
            match character {
                '0'..='9' if !figure => {
                    shape.push('0');
                    figure = true;
                }
                '0'..='9' => {}
                '.' if figure => {}
                other => {
                    shape.push(other);
                    figure = false;
                }
            }
        }
        shape
    };
    // A share that is not known is a dash without this.
    let words = line.split_whitespace().filter(|word| *word != "%");
    words.map(word).collect::<Vec<_>>().join(" ")
}

/// The first line of `shown` that is not among `printed`, behind the ones before it; `None` if all are.
pub fn first_missing<'a>(shown: &[&'a str], printed: &str, user: &str) -> Option<&'a str> {
    // The document's user is ann.
    let name = |word: &str| if word == user { "ann".to_owned() } else { word.to_owned() };
    let mut printed = printed.lines().map(|line| {
        let words: Vec<String> = line.split_whitespace().map(name).collect();
        shape(&words.join(" "))
    });
    shown.iter().copied().find(|line| !printed.any(|printed| printed == shape(line)))
}

#[test]
fn figures_differ_and_columns_do_not() {
    let shown = [
        "  PID  USER   MEMORY  BUSY  COMMAND",
        "18903  ann   8.0 MiB  42 %  ./n_body",
        "18904  ann   8.0 MiB     -  ./spin",
    ];
    let rows = "7  root  512 KiB  1.5 %  ./n_body\n8  root  9.0 GiB  3 %  ./spin\n";
    let printed = format!("noise\nPID USER MEMORY BUSY COMMAND\n{rows}");
    assert_eq!(first_missing(&shown, &printed, "root"), None);
    let other = format!("PID CLASS USER MEMORY BUSY COMMAND\n{rows}");
    assert_eq!(first_missing(&shown, &other, "root"), Some(shown[0]));
    let less = "PID USER MEMORY BUSY COMMAND\n7 root 512 KiB ./n_body\n";
    assert_eq!(first_missing(&shown, less, "root"), Some(shown[1]));
    assert_eq!(first_missing(&shown[1..], "8 ann 9 B 1 % ./spin\n", "ann"), Some(shown[1]));
}

#[test]
fn paths_are_places() {
    assert_eq!(shape("(PID 18907) in /tmp/openmps-1001; stop"), "(PID 0) in /; stop");
    assert_eq!(shape("3.19x    9%"), "0x 0%");
    assert_eq!(shape("GPU-d0a1cf3e-b77a/EABA"), shape("GPU-00000000-1111/EABA"));
}
