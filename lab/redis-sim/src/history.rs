//! What clients saw, and whether one server without faults could have answered so.

use std::collections::BTreeMap;

/// What a client asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// The value of a key that clients set.
    Get(u8),
    /// A value that nobody else sets.
    Set(u8, u64),
    /// One more of the counter, by a command, a script or a transaction.
    Count,
    /// The counter as it is.
    Read,
    /// A member that nobody else adds.
    Add(u64),
    /// A member, taken out by chance.
    Pop,
}

/// A question, when it was asked, and when what was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// The question that was asked.
    pub ask: Ask,
    /// When it was asked.
    pub begin: u64,
    /// When the answer came, and the number in it if there is one; `None` if nobody knows whether it was done.
    pub answer: Option<(u64, Option<u64>)>,
}

/// Judges a history.
///
/// # Errors
/// What no single server could have answered.
pub fn judge(ops: &[Op], values: &FinalValues) -> Result<(), String> {
    judge_counter(ops, values)?;
    judge_set(ops, values)?;
    for key in 0..=u8::MAX {
        let of_key: Vec<&Op> = ops
            .iter()
            .filter(|op| matches!(op.ask, Ask::Get(k) | Ask::Set(k, _) if k == key))
            .collect();
        if of_key.is_empty() {
            break;
        }
        judge_register(key, &of_key)?;
    }
    Ok(())
}

/// What is there in the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FinalValues {
    /// The number in the counter.
    pub counter: u64,
    /// Members that are left.
    pub members: Vec<u64>,
}

/// The counter counts each acknowledged question once, in the order of time.
fn judge_counter(ops: &[Op], values: &FinalValues) -> Result<(), String> {
    let mut counted: Vec<(u64, u64, u64)> = Vec::new();
    let (mut unknown, mut reads) = (0, Vec::new());
    for op in ops {
        match (&op.ask, op.answer) {
            (Ask::Count, Some((end, Some(value)))) => counted.push((value, op.begin, end)),
            (Ask::Count, Some((_, None))) => return Err("a count without a number".to_owned()),
            (Ask::Count, None) => unknown += 1,
            (Ask::Read, Some((end, value))) => reads.push((value.unwrap_or(0), op.begin, end)),
            _ => {}
        }
    }
    counted.sort_unstable();
    if let Some(pair) = counted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("the counter was {} twice", pair[0].0));
    }
    // From the highest value down, none may have begun after the end of a higher one.
    let mut earliest_end = u64::MAX;
    for (value, begin, end) in counted.iter().rev() {
        if *begin > earliest_end {
            return Err(format!("{value} was counted after a higher value was told"));
        }
        earliest_end = earliest_end.min(*end);
    }
    let known = counted.len() as u64;
    let highest = counted.last().map_or(0, |(value, ..)| *value);
    if values.counter < highest || values.counter < known || values.counter > known + unknown {
        return Err(format!(
            "the counter is {} after {known} counts up to {highest} and {unknown} of unknown outcome",
            values.counter
        ));
    }
    for (value, begin, end) in &reads {
        if let Some((higher, ..)) = counted.iter().find(|c| c.0 > *value && c.2 < *begin) {
            return Err(format!("{value} was read after {higher} had been counted"));
        }
        if let Some((lower, ..)) = counted.iter().find(|c| c.0 <= *value && c.1 > *end) {
            return Err(format!("{value} was read before {lower} was counted"));
        }
        if let Some((higher, ..)) = reads.iter().find(|r| r.0 > *value && r.2 < *begin) {
            return Err(format!("{value} was read after {higher} had been read"));
        }
    }
    Ok(())
}

/// A member is taken out once, and none is lost that was added and not taken out.
fn judge_set(ops: &[Op], values: &FinalValues) -> Result<(), String> {
    let mut popped: Vec<u64> = Vec::new();
    let mut unknown = 0;
    for op in ops {
        match (&op.ask, op.answer) {
            (Ask::Pop, Some((end, Some(member)))) => {
                let added = ops.iter().find(|op| op.ask == Ask::Add(member));
                if added.is_none_or(|added| added.begin > end) {
                    return Err(format!("{member} was taken out before it was added"));
                }
                popped.push(member);
            }
            (Ask::Pop, None) => unknown += 1,
            _ => {}
        }
    }
    popped.sort_unstable();
    if let Some(pair) = popped.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} was taken out twice", pair[0]));
    }
    if let Some(member) = popped.iter().find(|m| values.members.contains(m)) {
        return Err(format!("{member} was taken out and is there"));
    }
    let added = ops.iter().filter_map(|op| match (&op.ask, op.answer) {
        (Ask::Add(member), Some(_)) => Some(*member),
        _ => None,
    });
    let gone = added.filter(|m| !values.members.contains(m) && popped.binary_search(m).is_err());
    match gone.count() {
        lost if lost > unknown => Err(format!(
            "{lost} members are lost, {unknown} may be taken out"
        )),
        _ => Ok(()),
    }
}

/// Operations on one value of a register.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    /// The earliest end of all.
    end_min: u64,
    /// The latest begin of all.
    begin_max: u64,
    write_begin: u64,
}

/// Whether the operations on one key can be put in an order: each value is set once, so that its operations are
/// together there. Values whose operations cannot overlap need all the time between them for themselves.
fn judge_register(key: u8, ops: &[&Op]) -> Result<(), String> {
    let mut clusters: BTreeMap<u64, Cluster> = BTreeMap::new();
    clusters.insert(
        0,
        Cluster {
            end_min: 0,
            begin_max: 0,
            write_begin: 0,
        },
    );
    let reads = ops
        .iter()
        .filter_map(|op| match (&op.ask, op.answer) {
            (Ask::Get(_), Some((end, value))) => Some((value.unwrap_or(0), op.begin, end)),
            _ => None,
        })
        .collect::<Vec<_>>();
    for op in ops {
        if let Ask::Set(_, value) = op.ask {
            let is_read = reads.iter().any(|(read, ..)| *read == value);
            if op.answer.is_none() && !is_read {
                continue;
            }
            let cluster = Cluster {
                end_min: op.answer.map_or(u64::MAX, |(end, _)| end),
                begin_max: op.begin,
                write_begin: op.begin,
            };
            clusters.insert(value, cluster);
        }
    }
    for (value, begin, end) in reads {
        let cluster = clusters
            .get_mut(&value)
            .ok_or_else(|| format!("key {key} was {value}, which nobody set"))?;
        if end < cluster.write_begin {
            return Err(format!("key {key} was {value} before that was set"));
        }
        cluster.end_min = cluster.end_min.min(end);
        cluster.begin_max = cluster.begin_max.max(begin);
    }
    let all: Vec<(u64, Cluster)> = clusters.into_iter().collect();
    for (at, (value, one)) in all.iter().enumerate() {
        for (other, two) in &all[at + 1..] {
            let is_forward = |cluster: &Cluster| cluster.end_min < cluster.begin_max;
            let clash = match (is_forward(one), is_forward(two)) {
                (true, true) => one.end_min < two.begin_max && two.end_min < one.begin_max,
                (true, false) => is_within(two, one),
                (false, true) => is_within(one, two),
                (false, false) => false,
            };
            if clash {
                return Err(format!("key {key}: {value} and {other} stood in turns"));
            }
        }
    }
    Ok(())
}

/// Whether a value that could have stood for an instant only, somewhere between its latest begin and its earliest end,
/// must have done so while another one stood.
fn is_within(instant: &Cluster, standing: &Cluster) -> bool {
    standing.end_min < instant.begin_max && instant.end_min < standing.begin_max
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(ask: Ask, begin: u64, end: u64, value: u64) -> Op {
        Op {
            ask,
            begin,
            answer: Some((end, Some(value))),
        }
    }

    fn values(counter: u64, members: &[u64]) -> FinalValues {
        FinalValues {
            counter,
            members: members.to_vec(),
        }
    }

    #[test]
    fn counters_that_go_back_or_repeat_are_seen() {
        let good = [
            op(Ask::Count, 1, 5, 1),
            op(Ask::Count, 2, 3, 2),
            op(Ask::Read, 6, 7, 2),
        ];
        assert_eq!(judge(&good, &values(2, &[])), Ok(()));
        assert!(judge(&good, &values(1, &[])).is_err(), "lost");
        assert!(judge(&good, &values(3, &[])).is_err(), "doubled");
        let twice = [op(Ask::Count, 1, 2, 1), op(Ask::Count, 1, 3, 1)];
        assert!(judge(&twice, &values(2, &[])).is_err());
        let back = [op(Ask::Count, 1, 2, 2), op(Ask::Count, 3, 4, 1)];
        assert!(judge(&back, &values(2, &[])).is_err());
        let stale = [op(Ask::Count, 1, 2, 1), op(Ask::Read, 3, 4, 0)];
        assert!(judge(&stale, &values(1, &[])).is_err());
    }

    #[test]
    fn members_that_come_twice_or_are_lost_are_seen() {
        let add = |m| op(Ask::Add(m), 1, 2, 1);
        let good = [add(7), add(8), op(Ask::Pop, 3, 4, 7)];
        assert_eq!(judge(&good, &values(0, &[8])), Ok(()));
        assert!(judge(&good, &values(0, &[])).is_err(), "lost");
        assert!(judge(&good, &values(0, &[7, 8])).is_err(), "still there");
        let twice = [add(7), op(Ask::Pop, 3, 4, 7), op(Ask::Pop, 5, 6, 7)];
        assert!(judge(&twice, &values(0, &[])).is_err());
    }

    #[test]
    fn stale_reads_are_seen() {
        let set = |v, begin, end| op(Ask::Set(0, v), begin, end, 0);
        let get = |v, begin, end| op(Ask::Get(0), begin, end, v);
        let good = [
            set(1, 1, 4),
            get(1, 2, 3),
            set(2, 5, 9),
            get(1, 6, 7),
            get(2, 7, 8),
        ];
        assert_eq!(judge(&good, &FinalValues::default()), Ok(()));
        let stale = [set(1, 1, 2), set(2, 3, 4), get(1, 5, 6)];
        assert!(judge(&stale, &FinalValues::default()).is_err());
        let turns = [
            set(1, 1, 10),
            set(2, 1, 10),
            get(1, 2, 3),
            get(2, 4, 5),
            get(1, 6, 7),
        ];
        assert!(judge(&turns, &FinalValues::default()).is_err());
        let early = [get(1, 1, 2), set(1, 3, 4)];
        assert!(judge(&early, &FinalValues::default()).is_err());
        let lost = [set(1, 1, 2), get(0, 3, 4)];
        assert!(judge(&lost, &FinalValues::default()).is_err());
    }
}
