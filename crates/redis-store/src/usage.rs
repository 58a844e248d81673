//! `MEMORY USAGE`: about how much memory a key takes.

use crate::context::View;
use crate::fault::{Done, Fault};
use crate::keyspace::Item;
use crate::number::at_least;
use crate::reply::Reply;
use crate::text::{Name, Sought};
use crate::value::{Hash, Ranked, Set, Value};
use bytes::Bytes;
use std::mem::size_of;

/// Elements of a collection whose lengths are looked at unless the call says otherwise.
const SAMPLES: usize = 5;

/// Bytes of a shared piece of memory beside its content: two counts, and what the allocator takes.
const SHARED_BYTES: usize = 32;

pub(crate) fn memory(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    if !args[1].eq_ignore_ascii_case(b"USAGE") {
        let given = String::from_utf8_lossy(&args[1]);
        let text = format!("ERR unknown subcommand '{given}'. Try MEMORY USAGE.");
        return Err(Fault(text.into()));
    }
    let samples = match &args[2..] {
        [] => return Err(Fault::arity("memory|usage")),
        [_] => SAMPLES,
        [_, word, samples] if word.eq_ignore_ascii_case(b"SAMPLES") => {
            match at_least(0, samples, "ERR syntax error")? {
                0 => usize::MAX,
                samples => samples as usize,
            }
        }
        _ => return Err(Fault::SYNTAX),
    };
    match view.item(Sought::new(&args[2])) {
        Some(item) => out.count(bytes(&args[2], item, samples)),
        None => out.null(),
    }
    Ok(())
}

/// About how many bytes a key and its value take, from the lengths of so many elements.
fn bytes(key: &[u8], item: &Item, samples: usize) -> usize {
    let own = size_of::<Name>() + size_of::<Item>() + SHARED_BYTES + key.len();
    let of_value = match &item.value {
        Value::Str(value) => SHARED_BYTES + value.bytes.len(),
        Value::List(list) => {
            let elements = list
                .iter()
                .map(|((), element)| SHARED_BYTES + element.len());
            estimate(elements, list.len(), samples)
        }
        Value::Set(Set::Ints(ints)) => ints.len() * size_of::<i64>(),
        Value::Set(Set::Names(names)) => {
            let members = names.iter().map(|(name, ())| name_bytes(name));
            estimate(members, names.len(), samples)
        }
        Value::Hash(Hash::Packed(packed)) => {
            let pairs = packed.iter();
            pairs
                .map(|(field, value)| 2 + field.len() + value.len())
                .sum()
        }
        Value::Hash(Hash::Names(names)) => {
            let fields = names.iter();
            let fields = fields.map(|(name, value)| name_bytes(name) + SHARED_BYTES + value.len());
            estimate(fields, names.len(), samples)
        }
        Value::Sorted(sorted) => {
            let each = size_of::<Name>() + size_of::<Ranked>() + size_of::<f64>() + SHARED_BYTES;
            let members = sorted.iter_from(0).map(|ranked| each + ranked.member.len());
            estimate(members, sorted.len(), samples)
        }
    };
    own + of_value
}

fn name_bytes(name: &Name) -> usize {
    size_of::<Name>() + SHARED_BYTES + name.text().len()
}

/// The bytes of all elements, if the others are as long as the first ones.
fn estimate(elements: impl Iterator<Item = usize>, len: usize, samples: usize) -> usize {
    let samples = samples.min(len).max(1);
    elements.take(samples).sum::<usize>() * len / samples
}
