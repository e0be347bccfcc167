//! Text to tokens.

/// `text` on one line: comments go, runs of white space become one blank.
pub(crate) fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(256));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if first.is_whitespace() {
            rest = rest.trim_start();
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::squeeze;

    #[test]
    fn squeezes_comments_and_space() {
        assert_eq!(squeeze("  add.s32 /* x */\n\t%r1, // y\n %r2;"), "add.s32 %r1, %r2;");
        assert_eq!(squeeze("/* open"), "");
    }
}
