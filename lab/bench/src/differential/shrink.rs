//! Leaves steps out of a sequence for as long as the systems still differ.

/// A shorter sequence that still fails, found with at most `runs_max` runs.
pub(crate) fn shrink(
    mut numbers: Vec<u64>,
    runs_max: u32,
    mut fails: impl FnMut(&[u64]) -> Result<bool, String>,
) -> Result<Vec<u64>, String> {
    let mut runs = 0;
    let mut piece = numbers.len().div_ceil(2);
    while piece > 0 {
        let mut from = 0;
        while from < numbers.len() && numbers.len() > 1 {
            if runs == runs_max {
                return Ok(numbers);
            }
            runs += 1;
            let to = (from + piece).min(numbers.len());
            let without = [&numbers[..from], &numbers[to..]].concat();
            if fails(&without)? {
                numbers = without;
            } else {
                from = to;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_steps_that_matter_are_left() {
        let fails = |numbers: &[u64]| Ok(numbers.contains(&17) && numbers.contains(&60));
        let left = shrink((0..100).collect(), 1000, fails);
        assert_eq!(left, Ok(vec![17, 60]));
    }

    #[test]
    fn it_gives_up_after_so_many_runs() {
        let mut runs = 0;
        let fails = |_: &[u64]| {
            runs += 1;
            Ok(false)
        };
        assert_eq!(
            shrink((0..100).collect(), 5, fails).map(|left| left.len()),
            Ok(100)
        );
        assert_eq!(runs, 5);
    }
}
