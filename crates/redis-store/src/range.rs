//! Ranges of positions as clients give them: from the end if negative, both ends inclusive.

use std::ops::Range;

/// The positions from `start` to `end` of something of this length.
pub(crate) fn of(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_end = |at: i64| {
        if at < 0 {
            at.saturating_add(len as i64)
        } else {
            at
        }
    };
    let start = from_end(start).max(0) as usize;
    let end = from_end(end).saturating_add(1).clamp(0, len as i64) as usize;
    start.min(end)..end
}

/// The position that a client means in something of this length.
pub(crate) fn position(at: i64, len: usize) -> Option<usize> {
    let at = if at < 0 {
        at.checked_add(len as i64)?
    } else {
        at
    };
    usize::try_from(at).ok().filter(|at| *at < len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_within() {
        assert_eq!(of(0, -1, 3), 0..3);
        assert_eq!(of(-2, -1, 3), 1..3);
        assert_eq!(of(-100, 100, 3), 0..3);
        assert_eq!(of(2, 1, 3), 2..2);
        assert_eq!(of(5, 9, 3), 3..3);
        assert_eq!(of(0, -9, 3), 0..0);
        assert_eq!(of(i64::MIN, i64::MAX, 3), 0..3);
        assert_eq!(
            (position(-3, 3), position(-4, 3), position(3, 3)),
            (Some(0), None, None)
        );
    }
}
