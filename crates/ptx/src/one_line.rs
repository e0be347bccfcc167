//! Text on one line, for messages: comments and line ends go.

/// `text` on one line: comments go, runs of white space become one blank; strings stay as they
/// are.
pub(crate) fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(256));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") || first == '#' {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if first.is_whitespace() {
            rest = rest.trim_start();
        } else {
            let length = if first == '"' { string_length(rest) } else { first.len_utf8() };
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out.trim().to_owned()
}

/// Length of the string at the start of `text`, quotes included; all of it if it has no end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeezes_comments_and_space() {
        assert_eq!(squeeze("  add.s32 /* x */\n\t%r1, // y\n %r2;"), "add.s32 %r1, %r2;");
        assert_eq!(squeeze("/* open"), "");
    }
}
