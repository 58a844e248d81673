//! Names for what states are made of, so that a state is a few small numbers.

use quorate_core::{Entry, Plain, Wire, carried};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_128;

/// A decided value: [`NOOP`], or a number of an entry from [`NOOP`]` + 1` on.
pub(crate) type Code = u8;

/// The code of a slot that no entry got.
pub(crate) const NOOP: Code = 0;

/// A message on its way.
#[derive(Clone)]
pub(crate) struct Mail<M: Plain> {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) message: M::Message,
}

/// Every message and entry seen so far, once.
pub(crate) struct Interner<M: Plain> {
    mails: Vec<Mail<M>>,
    /// By sender, receiver and digest.
    numbers: BTreeMap<(usize, usize, u128), u32>,
    entries: Vec<Entry>,
}

impl<M: Plain> Interner<M> {
    pub(crate) fn new() -> Self {
        Interner {
            mails: Vec::new(),
            numbers: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    /// The number of a message from one replica to another.
    pub(crate) fn post(&mut self, from: usize, to: usize, message: &M::Message) -> u32 {
        let key = (from, to, xxh3_128(&message.to_bytes()));
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.mails.len() as u32;
        let message = carried(message, to as u8);
        self.mails.push(Mail { from, to, message });
        self.numbers.insert(key, number);
        number
    }

    pub(crate) fn mail(&self, number: u32) -> &Mail<M> {
        &self.mails[number as usize]
    }

    #[cfg(test)]
    pub(crate) fn mail_count(&self) -> usize {
        self.mails.len()
    }

    /// The code of a decided value.
    pub(crate) fn code(&mut self, value: Option<&Entry>) -> Code {
        let Some(entry) = value else {
            return NOOP;
        };
        let known = self.entries.iter().position(|known| known == entry);
        let index = known.unwrap_or_else(|| {
            self.entries.push(entry.clone());
            self.entries.len() - 1
        });
        Code::try_from(index + 1).expect("a search has few entries")
    }

    /// The value of a code.
    pub(crate) fn value(&self, code: Code) -> Option<&Entry> {
        self.entries.get(usize::from(code).checked_sub(1)?)
    }

    /// Codes as people read them.
    pub(crate) fn name(&self, code: Code) -> String {
        match self.value(code) {
            None => "NULL".to_string(),
            Some(entry) => format!("{:?}", entry.id),
        }
    }
}
