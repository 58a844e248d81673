//! Patterns of keys and members: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that stands for itself.

/// Whether a text fits a pattern. The work is at most the product of both lengths.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut pattern_at) = (0, 0);
    // The place behind the last `*`, and that of the text from which it is tried.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = &pattern[pattern_at..];
        let step = match rest {
            [] if at == text.len() => return true,
            [b'*', ..] => {
                star = Some((pattern_at + 1, at));
                pattern_at += 1;
                continue;
            }
            [] => None,
            _ => text.get(at).and_then(|byte| one(rest, *byte)),
        };
        match (step, star) {
            (Some(width), _) => {
                pattern_at += width;
                at += 1;
            }
            (None, Some((behind, from))) if from < text.len() => {
                star = Some((behind, from + 1));
                (pattern_at, at) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

/// The length of the pattern's first part if this byte fits it.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (fits, width) = in_class(class, byte);
            fits.then_some(width + 1)
        }
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Whether a byte is in a class, and how long the class is with its end. One that has no end ends with the pattern.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let is_inverted = class.first() == Some(&b'^');
    let mut at = usize::from(is_inverted);
    let mut fits = false;
    while at < class.len() {
        match class[at..] {
            [b'\\', literal, ..] => {
                fits |= literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [start, b'-', end, ..] => {
                fits |= (start.min(end)..=start.max(end)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                fits |= literal == byte;
                at += 1;
            }
            [] => break,
        }
    }
    (fits != is_inverted, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_say() {
        let fits = [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("a\\*c", "a*c"),
            ("*a*b*", "xxaxxbxx"),
            ("[a\\]b]", "]"),
            ("[a", "a"),
        ];
        for (pattern, text) in fits {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        let not = [
            ("", "a"),
            ("a", ""),
            ("h[^e]llo", "hello"),
            ("a\\*c", "abc"),
            ("*b", "ba"),
        ];
        for (pattern, text) in not {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = [&b"a*"[..]].repeat(2000).concat();
        assert!(!matches(&[&pattern[..], b"b"].concat(), &[b'a'; 4000]));
    }
}
