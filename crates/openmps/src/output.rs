//! Standard output of commands that print much.

use std::io::Write;

/// Prints text. A reader that has enough (`head`) is no error.
pub(crate) fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}
