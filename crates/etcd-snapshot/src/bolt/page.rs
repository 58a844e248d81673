//! Pages, metas and elements, as bytes.

use crate::error::FileError;
use bytes::{Buf, BufMut};

pub(super) const HEAD_BYTES: usize = 16;
pub(super) const ELEMENT_BYTES: usize = 16;
pub(super) const BUCKET_BYTES: usize = 16;
pub(super) const META_BYTES: usize = 64;
/// Bytes of a meta that its checksum is over.
const SUMMED_BYTES: usize = 56;
const MAGIC: u32 = 0xed0c_daed;
const VERSION: u32 = 2;
/// The flag of an element whose value is a bucket.
pub(super) const BUCKET_FLAG: u32 = 1;
/// Page sizes are those of operating systems.
pub(super) const PAGE_BYTES_MIN: u64 = 512;
pub(super) const PAGE_BYTES_MAX: u64 = 1 << 20;

/// What a page holds, by the flag in its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Branch = 0x01,
    Leaf = 0x02,
    Meta = 0x04,
    Freelist = 0x10,
}

/// The head of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) id: u64,
    pub(super) flags: u16,
    pub(super) count: u16,
    pub(super) overflow: u32,
}

impl Head {
    pub(super) fn new(id: u64, kind: Kind, count: u16, overflow: u32) -> Self {
        let flags = kind as u16;
        Head {
            id,
            flags,
            count,
            overflow,
        }
    }

    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= HEAD_BYTES).then(|| Head {
            id: bytes.get_u64_le(),
            flags: bytes.get_u16_le(),
            count: bytes.get_u16_le(),
            overflow: bytes.get_u32_le(),
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.id);
        out.put_u16_le(self.flags);
        out.put_u16_le(self.count);
        out.put_u32_le(self.overflow);
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        self.flags == kind as u16
    }
}

/// What a file says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    pub(super) page_bytes: u32,
    /// The page of the root bucket's root.
    pub(super) root: u64,
    pub(super) freelist: u64,
    /// The number of the first page that was never used.
    pub(super) pages: u64,
    pub(super) transaction: u64,
}

impl Meta {
    /// Reads a meta page, of which `bytes` are the beginning.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, FileError> {
        let wrong = |what: &str| Err(FileError::damaged(what));
        let head = Head::read(bytes).filter(|head| head.is(Kind::Meta));
        let body = bytes.get(HEAD_BYTES..HEAD_BYTES + META_BYTES);
        let (Some(_), Some(mut body)) = (head, body) else {
            return wrong("it does not begin with a page that says what the file is");
        };
        let found = fnv1a(&body[..SUMMED_BYTES]);
        if body.get_u32_le() != MAGIC {
            return wrong("it has not the mark of a bbolt file");
        }
        match body.get_u32_le() {
            VERSION => {}
            other => {
                let what =
                    format!("it is a bbolt file of version {other}; version {VERSION} can be read");
                return Err(FileError::Damaged(what));
            }
        }
        let page_bytes = body.get_u32_le();
        let _flags = body.get_u32_le();
        let root = body.get_u64_le();
        let _sequence = body.get_u64_le();
        let meta = Meta {
            page_bytes,
            root,
            freelist: body.get_u64_le(),
            pages: body.get_u64_le(),
            transaction: body.get_u64_le(),
        };
        if body.get_u64_le() != found {
            return wrong("the checksum of the page that says what the file is does not match");
        }
        let size = u64::from(page_bytes);
        if !size.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&size) {
            return Err(FileError::Damaged(format!("it has pages of {size} bytes")));
        }
        Ok(meta)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.put_u32_le(MAGIC);
        out.put_u32_le(VERSION);
        out.put_u32_le(self.page_bytes);
        out.put_u32_le(0);
        write_bucket(out, self.root);
        out.put_u64_le(self.freelist);
        out.put_u64_le(self.pages);
        out.put_u64_le(self.transaction);
        let checksum = fnv1a(&out[from..]);
        out.put_u64_le(checksum);
    }
}

/// Writes the head of a bucket; the root 0 says that its page follows.
pub(super) fn write_bucket(out: &mut Vec<u8>, root: u64) {
    out.put_u64_le(root);
    // Sequence numbers are not used by etcd.
    out.put_u64_le(0);
}

/// FNV-1a in 64 bits.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An element of a branch or a leaf: places within the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Element {
    pub(super) flags: u32,
    pub(super) key: std::ops::Range<usize>,
    pub(super) value: std::ops::Range<usize>,
    /// Of a branch, the page of the child.
    pub(super) child: u64,
}

/// Reads an element of a page, and checks that what it names lies behind the elements and within the page.
pub(super) fn element(page: &[u8], head: &Head, index: usize) -> Option<Element> {
    let at = HEAD_BYTES + index * ELEMENT_BYTES;
    let mut fields = page.get(at..at + ELEMENT_BYTES)?;
    let behind = HEAD_BYTES + usize::from(head.count) * ELEMENT_BYTES;
    let mut number = || fields.get_u32_le();
    let (flags, place, key_bytes, value_bytes, child);
    if head.is(Kind::Branch) {
        (flags, place, key_bytes, value_bytes) = (0, number(), number(), 0);
        child = u64::from(number()) | u64::from(number()) << 32;
    } else {
        (flags, place, key_bytes, value_bytes) = (number(), number(), number(), number());
        child = 0;
    }
    let from = at.checked_add(place as usize)?;
    let middle = from.checked_add(key_bytes as usize)?;
    let end = middle.checked_add(value_bytes as usize)?;
    (from >= behind && end <= page.len()).then_some(Element {
        flags,
        key: from..middle,
        value: middle..end,
        child,
    })
}

/// Writes the elements of a page and what they name, behind its head.
pub(super) fn write_elements(out: &mut Vec<u8>, kind: Kind, items: &[Item]) {
    let mut place = items.len() * ELEMENT_BYTES;
    for item in items {
        match kind {
            Kind::Branch => {
                out.put_u32_le(place as u32);
                out.put_u32_le(item.key.len() as u32);
                out.put_u64_le(item.child);
            }
            _ => {
                out.put_u32_le(item.flags);
                out.put_u32_le(place as u32);
                out.put_u32_le(item.key.len() as u32);
                out.put_u32_le(item.value.len() as u32);
            }
        }
        // The next element is that much nearer to what it names.
        place = place + item.bytes() - 2 * ELEMENT_BYTES;
    }
    for item in items {
        out.extend_from_slice(&item.key);
        out.extend_from_slice(&item.value);
    }
}

/// An element that is to be written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Item {
    pub(super) flags: u32,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The page of the child, in a branch.
    pub(super) child: u64,
}

impl Item {
    /// Bytes that it takes in a page, of a branch or of a leaf.
    pub(super) fn bytes(&self) -> usize {
        ELEMENT_BYTES + self.key.len() + self.value.len()
    }
}
