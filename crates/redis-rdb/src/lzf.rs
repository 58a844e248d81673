//! LZF, by which servers shorten strings: runs of bytes, and references to those before them.

/// The most bytes that one byte of a compressed string stands for.
const EXPANSION_MAX: usize = 264;

/// The `length` bytes that some compressed ones stand for; `None` if they do not.
pub(crate) fn decompress(input: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > input.len().checked_mul(EXPANSION_MAX)? {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    let mut rest = input;
    while let Some((&control, behind)) = rest.split_first() {
        rest = behind;
        let control = usize::from(control);
        if control < 32 {
            let (run, behind) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(run);
            rest = behind;
        } else {
            let mut count = control >> 5;
            if count == 7 {
                let (&more, behind) = rest.split_first()?;
                count += usize::from(more);
                rest = behind;
            }
            let (&low, behind) = rest.split_first()?;
            rest = behind;
            let back = ((control & 0x1f) << 8 | usize::from(low)) + 1;
            let from = out.len().checked_sub(back)?;
            // What is referred to may be what is being written.
            for at in from..from + count + 2 {
                out.push(out[at]);
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_references_become_what_they_stand_for() {
        // "ab", then two more bytes and one from two bytes before.
        assert_eq!(
            decompress(b"\x01ab\x20\x01", 5).as_deref(),
            Some(&b"ababa"[..])
        );
        assert_eq!(
            decompress(b"\x00a\xe0\x00\x00", 10).as_deref(),
            Some(&b"aaaaaaaaaa"[..])
        );
        for (bytes, length) in [
            (&b"\x01ab"[..], 3),
            (b"\x01ab", 1),
            (b"\x02ab", 3),
            (b"\x20\x00", 3),
            (b"\x00a\xe0", 9),
            (b"\x00a", usize::MAX),
        ] {
            assert_eq!(decompress(bytes, length), None, "{bytes:?}");
        }
    }
}
