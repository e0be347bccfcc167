//! Nearest known word: which of some words a misspelt one was probably meant to be.

use alloc::vec::Vec;

/// Wrong characters in a word that is still meant to be another: one in so many, two at least.
const CHARACTERS_PER_SLIP: usize = 5;

/// The one of `known` that was probably meant by `word`, if any is near.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(word, known, (word.len() / CHARACTERS_PER_SLIP).max(2))
}

/// As [`nearest`], with so many wrong characters at most.
pub(crate) fn nearest_within<'a>(
    word: &str,
    known: impl Iterator<Item = &'a str>,
    slips_max: usize,
) -> Option<&'a str> {
    let near = known.map(|name| (slips(word, name), name)).min_by_key(|(slips, _)| *slips);
    near.filter(|(slips, name)| *slips <= slips_max && *slips < name.len()).map(|(_, name)| name)
}

/// The Damerau-Levenshtein distance of two words, of which no part is changed twice: how many
/// characters are missing, too many, wrong, or in the place of their neighbours.
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Option<(char, Vec<usize>)> = None;
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, of_one) in one.chars().enumerate() {
        let mut now = Vec::with_capacity(above.len());
        now.push(row + 1);
        for (column, of_other) in other.iter().enumerate() {
            let wrong = above[column] + usize::from(of_one != *of_other);
            let mut least = wrong.min(above[column + 1] + 1).min(now[column] + 1);
            if let Some((last, rows)) = &before
                && column > 0
                && last == of_other
                && of_one == other[column - 1]
            {
                least = least.min(rows[column - 1] + 1);
            }
            now.push(least);
        }
        before = Some((of_one, core::mem::replace(&mut above, now)));
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_seen_and_a_foreign_word_is_not() {
        let known = ["get_server_list", "get_client_list", "ps", "quit"];
        let meant = |word| nearest(word, known.into_iter());
        assert_eq!(meant("get_server_lst"), Some("get_server_list"));
        assert_eq!(meant("get_clientlist"), Some("get_client_list"));
        assert_eq!(meant("quti"), Some("quit"));
        assert_eq!([meant("bogus"), meant(""), meant("lspart")], [None; 3]);
    }

    #[test]
    fn each_kind_of_slip_counts_one() {
        for (one, other, count) in [
            ("quit", "quit", 0),
            ("qit", "quit", 1),
            ("quiit", "quit", 1),
            ("quat", "quit", 1),
            ("quti", "quit", 1),
            ("", "quit", 4),
            ("lspt", "quit", 3),
        ] {
            assert_eq!((slips(one, other), slips(other, one)), (count, count), "{one} {other}");
        }
    }
}
