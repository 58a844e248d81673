//! What clients ask for.

use std::fmt;

use fastrand::Rng;
use quorate_resp::encode_request;
use quorate_tooling::keys::Keys;
use serde::Serialize;

/// The records of YCSB's workload: so many, of so many fields.
const RECORDS: u64 = 1000;
const FIELDS: usize = 10;

/// The data that requests read and write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DataShape {
    /// Bytes per value of a string.
    pub(super) val_size: usize,
    /// Bytes per value in a record of YCSB's workload.
    pub(super) field_size: usize,
    /// The number of strings.
    pub(super) keys: u64,
    /// The exponent of the distribution by which records are chosen: 0 for all alike.
    pub(super) skew: f64,
}

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Cell {
    /// What clients do.
    pub(super) workload: Workload,
    /// The number of clients.
    pub(super) clients: usize,
    /// Commands that a client sends at once, or keys in one command of a batch.
    pub(super) depth: usize,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Workload {
    /// Clients write strings.
    Set,
    /// Clients read strings.
    Get,
    /// Clients read and write hashes alike often: YCSB's workload A.
    Hash,
    /// Clients read and write many strings with one command, alike often: what Rabia's Redis does with a batch.
    Batch,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Set => "set",
            Workload::Get => "get",
            Workload::Hash => "hash",
            Workload::Batch => "batch",
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.workload.name(), self.clients)?;
        match self.depth {
            1 => Ok(()),
            depth => write!(f, "x{depth}"),
        }
    }
}

impl Cell {
    /// Reads what the option `--runs` names.
    pub(super) fn parse(text: &str) -> Result<Cell, String> {
        let why = || format!("'{text}' is not like set:60 or get:60x16");
        let (name, numbers) = text.split_once(':').ok_or_else(why)?;
        let all = [
            Workload::Set,
            Workload::Get,
            Workload::Hash,
            Workload::Batch,
        ];
        let workload = all.into_iter().find(|workload| workload.name() == name);
        let (clients, depth) = numbers.split_once('x').unwrap_or((numbers, "1"));
        let number = |text: &str| {
            text.parse()
                .ok()
                .filter(|number| (1..=4096).contains(number))
        };
        Ok(Cell {
            workload: workload.ok_or_else(why)?,
            clients: number(clients).ok_or_else(why)?,
            depth: number(depth).ok_or_else(why)?,
        })
    }
}

/// What makes requests of one cell.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    cell: Cell,
    keys: Keys,
    value: Vec<u8>,
    /// Replicas that shall have each batch before it counts.
    wait_for: Option<u8>,
}

impl Requests {
    pub(super) fn new(cell: Cell, data: &DataShape, wait_for: Option<u8>) -> Requests {
        let (keys, bytes) = match cell.workload {
            Workload::Hash => (Keys::new(RECORDS, data.skew), data.field_size),
            Workload::Set | Workload::Get | Workload::Batch => {
                (Keys::new(data.keys, 0.0), data.val_size)
            }
        };
        Requests {
            cell,
            keys,
            value: vec![b'x'; bytes],
            wait_for,
        }
    }

    /// Writes the next batch of a client, and gives the number of replies to it that count.
    pub(super) fn batch(&self, random: &mut Rng, out: &mut Vec<u8>) -> usize {
        let replies = self.write_requests(random, out);
        if let Some(replicas) = self.wait_for {
            encode_request(&[b"WAIT", replicas.to_string().as_bytes(), b"0"], out);
        }
        replies
    }

    /// How many operations one reply stands for.
    pub(super) fn operations_per_reply(&self) -> u64 {
        match self.cell.workload {
            Workload::Batch => self.cell.depth as u64,
            _ => 1,
        }
    }

    fn write_requests(&self, random: &mut Rng, out: &mut Vec<u8>) -> usize {
        if self.cell.workload == Workload::Batch {
            self.write_many(random, out);
            return 1;
        }
        for _ in 0..self.cell.depth {
            let key = self.key(self.keys.choose(random));
            match self.cell.workload {
                Workload::Set => encode_request(&[&b"SET"[..], &key, &self.value], out),
                Workload::Get => encode_request(&[&b"GET"[..], &key], out),
                Workload::Hash if random.bool() => encode_request(&[&b"HGETALL"[..], &key], out),
                Workload::Hash => self.write_record(&key, out),
                Workload::Batch => {}
            }
        }
        self.cell.depth
    }

    /// Writes one command that reads or writes many strings.
    fn write_many(&self, random: &mut Rng, out: &mut Vec<u8>) {
        let keys = (0..self.cell.depth).map(|_| self.key(self.keys.choose(random)));
        let keys: Vec<Vec<u8>> = keys.collect();
        let mut args: Vec<&[u8]> = Vec::with_capacity(1 + 2 * keys.len());
        match random.bool() {
            true => {
                args.push(b"MSET");
                args.extend(keys.iter().flat_map(|key| [&key[..], &self.value[..]]));
            }
            false => {
                args.push(b"MGET");
                args.extend(keys.iter().map(|key| &key[..]));
            }
        }
        encode_request(&args, out);
    }

    /// How many replicas the reply behind each batch has to name.
    pub(super) fn wait_for(&self) -> Option<u8> {
        self.wait_for
    }

    /// What writes every key once, in batches.
    pub(super) fn filling(&self) -> impl Iterator<Item = (Vec<u8>, usize)> + '_ {
        let count = match (&self.keys, self.cell.workload) {
            (_, Workload::Set) => 0,
            (_, Workload::Hash) => RECORDS,
            (Keys::Even(count), _) => *count,
            (Keys::Skewed(shares), _) => shares.len() as u64,
        };
        let keys: Vec<u64> = (0..count).collect();
        let batches = keys.chunks(FILLED_AT_ONCE).map(|keys| {
            let mut out = Vec::new();
            for key in keys {
                let key = self.key(*key);
                match self.cell.workload {
                    Workload::Hash => self.write_record(&key, &mut out),
                    _ => encode_request(&[&b"SET"[..], &key, &self.value], &mut out),
                }
            }
            (out, keys.len())
        });
        batches.collect::<Vec<_>>().into_iter()
    }

    /// Keys of hashes and of strings differ.
    fn key(&self, number: u64) -> Vec<u8> {
        match self.cell.workload {
            Workload::Hash => format!("user{number}").into_bytes(),
            _ => format!("key:{number:012}").into_bytes(),
        }
    }

    fn write_record(&self, key: &[u8], out: &mut Vec<u8>) {
        let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field}")).collect();
        let mut args: Vec<&[u8]> = vec![b"HMSET", key];
        for field in &fields {
            args.extend([field.as_bytes(), &self.value]);
        }
        encode_request(&args, out);
    }
}

/// Keys that are written at once before a run that reads.
const FILLED_AT_ONCE: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_as_they_are_shown() {
        for text in ["set:60", "get:1x64", "hash:20", "batch:15x20"] {
            assert_eq!(Cell::parse(text).unwrap().to_string(), text);
        }
        for bad in ["set", "put:1", "set:0", "set:1x0", "set:x", "get:99999"] {
            assert!(Cell::parse(bad).is_err(), "{bad}");
        }
    }

    const DATA: DataShape = DataShape {
        val_size: 4,
        field_size: 4,
        keys: 10,
        skew: 0.0,
    };

    #[test]
    fn many_strings_in_one_command_have_one_reply() {
        let requests = Requests::new(Cell::parse("batch:1x3").unwrap(), &DATA, Some(1));
        let mut random = Rng::with_seed(1);
        let mut heads = Vec::new();
        for _ in 0..20 {
            let mut out = Vec::new();
            assert_eq!(requests.batch(&mut random, &mut out), 1);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.matches("WAIT").count(), 1);
            heads.push(text[..12].to_owned());
        }
        heads.sort();
        heads.dedup();
        assert_eq!(heads, ["*4\r\n$4\r\nMGET", "*7\r\n$4\r\nMSET"]);
        assert_eq!(requests.operations_per_reply(), 3);
    }

    #[test]
    fn a_batch_ends_with_a_wait_where_replicas_are_asked_for() {
        let cell = Cell::parse("set:1x3").unwrap();
        let text = |wait_for| {
            let mut out = Vec::new();
            let requests = Requests::new(cell, &DATA, wait_for);
            assert_eq!(requests.batch(&mut Rng::with_seed(1), &mut out), 3);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(None).matches("SET").count(), 3);
        assert!(text(Some(2)).ends_with("*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n"));
    }
}
