//! The known word that was probably meant.

/// The known word with the fewest letters to change, if these are few enough for a slip.
pub(crate) fn of<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = &word[..word.floor_char_boundary(WORD_BYTES_MAX)];
    let distances = known.map(|other| (strsim::osa_distance(word, other), other));
    let (changes, nearest) = distances.min()?;
    (changes <= word.chars().count() / 3).then_some(nearest)
}

/// Longer than any flag: of longer words the beginning counts.
const WORD_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_another_word_is_not() {
        let known = [
            "data-dir",
            "name",
            "wal-dir",
            "initial-cluster",
            "initial-cluster-state",
        ];
        for (word, nearest) in [
            ("dta-dir", Some("data-dir")),
            ("datadir", Some("data-dir")),
            ("naem", Some("name")),
            ("initial-clutser", Some("initial-cluster")),
            ("initial-cluster-stat", Some("initial-cluster-state")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(of(word, known.into_iter()), nearest, "{word}");
        }
    }
}
