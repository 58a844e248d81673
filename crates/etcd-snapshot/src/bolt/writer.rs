//! Writing a bbolt file in one go: buckets one after the other, keys ascending.
//!
//! Pages are written as they fill, behind each other; only one page of each level of a tree is held. The first three
//! pages come last: until then the file is none that anybody would open.

use super::page::{BUCKET_FLAG, ELEMENT_BYTES, HEAD_BYTES, Head, Item, Kind, Meta};
use super::page::{write_bucket, write_elements};
use crate::error::FileError;
use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};

/// Length of the pages written.
const PAGE_BYTES: usize = 4096;
/// Metas and freelist.
const FIRST_PAGES: u64 = 3;
const FREELIST: u64 = 2;
/// Most bytes of a bucket that lies in the value of its own element: as in bbolt, a quarter of a page.
const INLINE_BYTES_MAX: usize = PAGE_BYTES / 4;
/// Most elements of a page.
const COUNT_MAX: usize = u16::MAX as usize - 1;

/// A file that is being written.
#[derive(Debug)]
pub struct DatabaseWriter<W> {
    pages: Pages<W>,
    /// The buckets that are whole, as the values of their elements.
    buckets: BTreeMap<Vec<u8>, Vec<u8>>,
    open: Option<(Vec<u8>, Tree)>,
}

/// Pages so far.
#[derive(Debug)]
struct Pages<W> {
    out: W,
    next: u64,
    scratch: Vec<u8>,
}

/// A tree that is being written: the page that fills, of each level, leaves first.
#[derive(Debug, Default)]
struct Tree {
    levels: Vec<Level>,
    last: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Level {
    items: Vec<Item>,
    bytes: usize,
}

impl<W: Write + Seek> DatabaseWriter<W> {
    /// Begins a file at the beginning of `out`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(mut out: W) -> Result<Self, FileError> {
        out.seek(SeekFrom::Start(FIRST_PAGES * PAGE_BYTES as u64))?;
        Ok(DatabaseWriter {
            pages: Pages {
                out,
                next: FIRST_PAGES,
                scratch: Vec::new(),
            },
            buckets: BTreeMap::new(),
            open: None,
        })
    }

    /// Ends the bucket before, and begins one; names come in any order.
    ///
    /// # Errors
    /// That there is one of this name, or what the operating system says.
    pub fn bucket(&mut self, name: &[u8]) -> Result<(), FileError> {
        self.end_bucket()?;
        if self.buckets.contains_key(name) {
            let what = format!("bucket {} is written twice", name.escape_ascii());
            return Err(FileError::Damaged(what));
        }
        self.open = Some((name.to_vec(), Tree::default()));
        Ok(())
    }

    /// Adds a key to the bucket, behind all that it has.
    ///
    /// # Errors
    /// That the key is not the greatest so far or too long, that there is no bucket, or what the operating system says.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), FileError> {
        let Some((_, tree)) = &mut self.open else {
            return Err(FileError::damaged("a key comes before any bucket"));
        };
        if key.is_empty() || tree.last.as_ref().is_some_and(|last| last[..] >= *key) {
            let what = format!("key {} is written out of order", key.escape_ascii());
            return Err(FileError::Damaged(what));
        }
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(FileError::damaged(
                "a key or value is too long for a bbolt file",
            ));
        }
        let last = tree.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        let item = Item {
            key: key.to_vec(),
            value: value.to_vec(),
            ..Item::default()
        };
        tree.add(0, item, &mut self.pages)
    }

    /// Ends the file; says how many bytes it has.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn finish(mut self) -> Result<(W, u64), FileError> {
        self.end_bucket()?;
        let mut tree = Tree::default();
        for (key, value) in std::mem::take(&mut self.buckets) {
            let item = Item {
                flags: BUCKET_FLAG,
                key,
                value,
                child: 0,
            };
            tree.add(0, item, &mut self.pages)?;
        }
        let root = tree.end(&mut self.pages)?;
        let pages = self.pages.next;
        let mut first = Vec::with_capacity(FIRST_PAGES as usize * PAGE_BYTES);
        for id in 0..FREELIST {
            Head::new(id, Kind::Meta, 0, 0).write(&mut first);
            let meta = Meta {
                page_bytes: PAGE_BYTES as u32,
                root,
                freelist: FREELIST,
                pages,
                transaction: id,
            };
            meta.write(&mut first);
            first.resize((id as usize + 1) * PAGE_BYTES, 0);
        }
        Head::new(FREELIST, Kind::Freelist, 0, 0).write(&mut first);
        first.resize(FIRST_PAGES as usize * PAGE_BYTES, 0);
        let out = &mut self.pages.out;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&first)?;
        out.flush()?;
        Ok((self.pages.out, pages * PAGE_BYTES as u64))
    }

    fn end_bucket(&mut self) -> Result<(), FileError> {
        let Some((name, tree)) = self.open.take() else {
            return Ok(());
        };
        let mut value = Vec::new();
        match tree.as_inline() {
            Some(items) => {
                write_bucket(&mut value, 0);
                Head::new(0, Kind::Leaf, items.len() as u16, 0).write(&mut value);
                write_elements(&mut value, Kind::Leaf, items);
            }
            None => write_bucket(&mut value, tree.end(&mut self.pages)?),
        }
        self.buckets.insert(name, value);
        Ok(())
    }
}

impl Tree {
    /// Adds an element behind all others of a level. What fills a page ends it.
    fn add<W: Write>(
        &mut self,
        level: usize,
        item: Item,
        pages: &mut Pages<W>,
    ) -> Result<(), FileError> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let at = &mut self.levels[level];
        let is_full = HEAD_BYTES + at.bytes + item.bytes() > PAGE_BYTES;
        if !at.items.is_empty() && (is_full || at.items.len() == COUNT_MAX) {
            let parent = pages.write(level, &std::mem::take(at).items)?;
            self.add(level + 1, parent, pages)?;
        }
        let at = &mut self.levels[level];
        at.bytes += item.bytes();
        at.items.push(item);
        Ok(())
    }

    /// The elements of a tree that is short enough to lie in a value.
    fn as_inline(&self) -> Option<&[Item]> {
        match &self.levels[..] {
            [] => Some(&[]),
            [level] => (HEAD_BYTES + level.bytes <= INLINE_BYTES_MAX).then_some(&level.items),
            _ => None,
        }
    }

    /// Writes what is left; says where the root is.
    fn end<W: Write>(mut self, pages: &mut Pages<W>) -> Result<u64, FileError> {
        let mut level = 0;
        loop {
            let items = self.levels.get_mut(level).map(std::mem::take);
            let items = items.map(|level| level.items).unwrap_or_default();
            let is_top = level + 1 >= self.levels.len();
            // A branch with one child would only be on the way to it.
            if is_top && level > 0 && items.len() == 1 {
                return Ok(items[0].child);
            }
            let parent = pages.write(level, &items)?;
            if is_top {
                return Ok(parent.child);
            }
            level += 1;
            self.add(level, parent, pages)?;
        }
    }
}

impl<W: Write> Pages<W> {
    /// Writes a page of a level; returns the element that names it.
    fn write(&mut self, level: usize, items: &[Item]) -> Result<Item, FileError> {
        let kind = if level == 0 { Kind::Leaf } else { Kind::Branch };
        let bytes: usize = items.iter().map(Item::bytes).sum();
        let pages = (HEAD_BYTES + bytes).div_ceil(PAGE_BYTES);
        self.scratch.clear();
        Head::new(self.next, kind, items.len() as u16, pages as u32 - 1).write(&mut self.scratch);
        write_elements(&mut self.scratch, kind, items);
        self.scratch.resize(pages * PAGE_BYTES, 0);
        self.out.write_all(&self.scratch)?;
        let child = self.next;
        self.next += pages as u64;
        let key = items
            .first()
            .map(|item| item.key.clone())
            .unwrap_or_default();
        Ok(Item {
            key,
            child,
            ..Item::default()
        })
    }
}

/// Longest key, as in bbolt.
const KEY_BYTES_MAX: usize = 32768;
/// Longest value: places within a page have 32 bits.
const VALUE_BYTES_MAX: usize = (1 << 31) - KEY_BYTES_MAX - HEAD_BYTES - ELEMENT_BYTES;
