//! Text in a binary: PTX as plain text among a program's data, as a program has it that includes a
//! file of it.
//!
//! Where a text starts is known, `.version` and a number, but not where it ends: C puts a zero
//! there, other languages the next text, of any kind. So it ends behind a `}` that closes all
//! and is not followed by another directive. That is a guess for people's eyes; what programs load
//! is not found this way.

use crate::limits::{ENTRIES_MAX, SOURCE_BYTES_MAX};

const START: &[u8] = b".version ";
/// What must come next, in front of everything else, and within how many bytes.
const TARGET: &[u8] = b".target";
const HEADER_BYTES_MAX: usize = 4096;

/// The texts in `data`, in order.
pub(crate) fn texts(data: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = position(&data[at..], START)
        && found.len() < ENTRIES_MAX
    {
        let text = text(&data[at + start..]);
        at += start + text.map_or(START.len(), <[u8]>::len);
        found.extend(text);
    }
    found
}

fn position(data: &[u8], what: &[u8]) -> Option<usize> {
    // Most bytes are no dots.
    let mut at = 0;
    while let Some(next) = data[at..].iter().position(|&byte| byte == what[0]) {
        if data[at + next..].starts_with(what) {
            return Some(at + next);
        }
        at += next + 1;
    }
    None
}

/// The text that starts with `data`, if it is one.
fn text(data: &[u8]) -> Option<&[u8]> {
    let data = &data[..data.len().min(SOURCE_BYTES_MAX)];
    let printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    let data = &data[..data.iter().position(|byte| !printable(byte)).unwrap_or(data.len())];
    let number = data[START.len()..].trim_ascii_start();
    let head = &data[..data.len().min(HEADER_BYTES_MAX)];
    (number.first()?.is_ascii_digit() && position(head, TARGET).is_some()).then_some(())?;
    let mut depth = 0usize;
    let mut end = None;
    for (at, byte) in data.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            end = Some(at + 1);
            // An initial value ends with `};` or, in a list of variables, a comma.
            let rest = data[at + 1..].trim_ascii_start();
            let goes_on = [&b"//"[..], b"/*", b";", b","].iter().any(|next| rest.starts_with(next));
            if !goes_on && !is_directive(rest) {
                break;
            }
        }
    }
    end.map(|end| &data[..end])
}

/// A dot and a word, but not the start of another text.
fn is_directive(text: &[u8]) -> bool {
    let word = text.first() == Some(&b'.') && text.get(1).is_some_and(u8::is_ascii_alphabetic);
    word && !text.starts_with(START)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn found(data: &str) -> Vec<String> {
        texts(data.as_bytes()).into_iter().map(|t| String::from_utf8(t.to_vec()).unwrap()).collect()
    }

    #[test]
    fn texts_end_where_the_last_body_does() {
        let one =
            format!("{HEAD}.global .b32 t[2] = {{1, 2}};\n.visible .entry a() {{ {{ ret; }} }}");
        let two = format!("{HEAD}.entry b() {{ ret; }}\n// the last\n.entry c() {{\n ret;\n}}");
        for between in ["\0", "", "\n", "cannot open it", "x\0\u{1}", ".rodata and a word{}"] {
            let data = format!("words{one}{between}{two}no such file{{}}\0");
            let expected = match between {
                ".rodata and a word{}" => vec![format!("{one}{between}"), two.clone()],
                _ => vec![one.clone(), two.clone()],
            };
            assert_eq!(found(&data), expected, "{between:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_text_is_none() {
        for data in [
            "",
            ".version ",
            ".version %d.%d\n.target %s { }",
            ".version 8.0 { }",
            HEAD,
            ".version 8.0\0.target sm_80 { }",
        ] {
            assert!(found(data).is_empty(), "{data:?}");
        }
        let far = format!(".version 8.0{}.target sm_80 {{ }}", " ".repeat(HEADER_BYTES_MAX));
        assert!(found(&far).is_empty());
        assert_eq!(found(&format!("{HEAD}}}")), [format!("{HEAD}}}")]);
    }
}
