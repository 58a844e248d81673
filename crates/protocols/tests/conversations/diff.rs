//! What differs between two texts, line by line.

/// Lines shown before and after a difference.
const AROUND: usize = 2;

/// The lines that only one of the texts has (`-` the first, `+` the second), and some around them.
pub(crate) fn lines(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let common = common_from(&before, &after);
    let (mut i, mut j) = (0, 0);
    let mut marked = Vec::new();
    while i < before.len() || j < after.len() {
        let (mine, other) = (before.get(i), after.get(j));
        if mine == other {
            marked.push((' ', mine));
            (i, j) = (i + 1, j + 1);
        } else if other.is_none() || mine.is_some() && common[i + 1][j] >= common[i][j + 1] {
            marked.push(('-', mine));
            i += 1;
        } else {
            marked.push(('+', other));
            j += 1;
        }
    }
    let is_near = |at: usize| {
        let near = at.saturating_sub(AROUND)..(at + AROUND + 1).min(marked.len());
        marked[near].iter().any(|(mark, _)| *mark != ' ')
    };
    let near = marked.iter().enumerate().filter(|(at, _)| is_near(*at));
    near.map(|(_, (mark, line))| format!("{mark} {}\n", line.unwrap_or(&"")))
        .collect()
}

/// How many lines the rests from `[i]` and from `[j]` have in common.
fn common_from(before: &[&str], after: &[&str]) -> Vec<Vec<usize>> {
    let mut common = vec![vec![0; after.len() + 1]; before.len() + 1];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i][j] = if before[i] == after[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    common
}
