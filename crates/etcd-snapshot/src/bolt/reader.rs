//! Reading a bbolt file, of which nothing is trusted.
//!
//! A walk visits each page at most once: the pages of a walk are counted, and keys must ascend. So what it holds, and
//! how long it takes, is bounded by the length of the file.

use super::page::{BUCKET_BYTES, BUCKET_FLAG, Element, HEAD_BYTES, Head, Kind, META_BYTES, Meta};
use super::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, element};
use crate::error::FileError;
use crate::source::Source;
use bytes::{Buf, Bytes};

/// An open file.
#[derive(Debug)]
pub struct Database<S> {
    source: S,
    meta: Meta,
}

/// A tree within the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket(Root);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Root {
    Page(u64),
    /// A leaf that lies in the value of the bucket's own element.
    Inline(Bytes),
}

/// A page of a tree.
#[derive(Clone, Debug)]
struct Page {
    bytes: Bytes,
    head: Head,
    /// The next element to look at.
    next: usize,
}

impl<S: Source> Database<S> {
    /// Reads what the file says of itself.
    ///
    /// # Errors
    /// That it is no bbolt file, a damaged one, or one that was cut short.
    pub fn open(source: S) -> Result<Self, FileError> {
        let first = read_meta(&source, 0);
        let page_bytes = first.as_ref().ok().map(|meta| u64::from(meta.page_bytes));
        let second = match page_bytes {
            Some(size) => read_meta(&source, size).ok(),
            // It says itself how long a page is, so it is looked for wherever it may be.
            None => (0..)
                .map(|power| PAGE_BYTES_MIN << power)
                .take_while(|size| *size <= PAGE_BYTES_MAX)
                .find_map(|size| {
                    let found = read_meta(&source, size).ok();
                    found.filter(|meta| u64::from(meta.page_bytes) == size)
                }),
        };
        let meta = match (first, second) {
            (Ok(first), Some(second)) if second.transaction > first.transaction => second,
            (Ok(first), _) => first,
            (Err(_), Some(second)) => second,
            (Err(why), None) => return Err(why),
        };
        let bytes = meta.pages.checked_mul(meta.page_bytes.into());
        if bytes.is_none_or(|bytes| bytes > source.bytes()) {
            let (pages, size) = (meta.pages, source.bytes());
            let what = format!(
                "it was cut short: it has {size} bytes, and {pages} pages of {} bytes",
                meta.page_bytes
            );
            return Err(FileError::Damaged(what));
        }
        Ok(Database { source, meta })
    }

    /// The bytes of all pages, without what may follow them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.meta.pages * u64::from(self.meta.page_bytes)
    }

    /// The names of the buckets at the root, ascending.
    ///
    /// # Errors
    /// What is damaged on the way.
    pub fn buckets(&self) -> Result<Vec<Bytes>, FileError> {
        let mut names = Vec::new();
        self.walk(&Root::Page(self.meta.root), &mut |name, _, is_bucket| {
            if is_bucket {
                names.push(name.clone());
            }
            Ok::<_, FileError>(())
        })?;
        Ok(names)
    }

    /// The bucket of a name at the root, if there is one.
    ///
    /// # Errors
    /// What is damaged on the way.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, FileError> {
        let mut found = None;
        self.walk(&Root::Page(self.meta.root), &mut |key, value, is_bucket| {
            if is_bucket && key == name {
                found = Some(bucket(value)?);
            }
            Ok::<_, FileError>(())
        })?;
        Ok(found)
    }

    /// Visits keys and values of a bucket, ascending by key. Buckets within it are passed over.
    ///
    /// # Errors
    /// What is damaged on the way, or what `visit` says.
    pub fn each<E: From<FileError>>(
        &self,
        bucket: &Bucket,
        mut visit: impl FnMut(&Bytes, &Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk(&bucket.0, &mut |key, value, is_bucket| match is_bucket {
            true => Ok(()),
            false => visit(key, value),
        })
    }

    fn walk<E: From<FileError>>(
        &self,
        root: &Root,
        visit: &mut impl FnMut(&Bytes, &Bytes, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pages_left = self.meta.pages;
        let first = match root {
            Root::Page(id) => self.page(*id, &mut pages_left)?,
            Root::Inline(bytes) => inline(bytes)?,
        };
        let mut path = vec![first];
        let mut last: Option<Bytes> = None;
        while let Some(page) = path.last_mut() {
            if page.next == usize::from(page.head.count) {
                path.pop();
                continue;
            }
            let element = page.take()?;
            if page.head.is(Kind::Branch) {
                let child = self.page(element.child, &mut pages_left)?;
                path.push(child);
                continue;
            }
            let key = page.bytes.slice(element.key);
            let value = page.bytes.slice(element.value);
            if last.as_ref().is_some_and(|last| *last >= key) {
                let what = format!("keys of page {} do not ascend", page.head.id);
                return Err(FileError::Damaged(what).into());
            }
            visit(&key, &value, element.flags & BUCKET_FLAG != 0)?;
            last = Some(key);
        }
        Ok(())
    }

    /// Reads a page, if it is one of a tree; `pages_left` are those that a walk may still visit.
    fn page(&self, id: u64, pages_left: &mut u64) -> Result<Page, FileError> {
        let wrong = |what: &str| Err(FileError::Damaged(format!("page {id} {what}")));
        let page_bytes = u64::from(self.meta.page_bytes);
        if id < 2 || id >= self.meta.pages {
            return wrong("is named and is not there");
        }
        let mut head = [0; HEAD_BYTES];
        let at = id * page_bytes;
        self.source.read_at(at, &mut head)?;
        let head = Head::read(&head).filter(|head| head.id == id);
        let Some(head) = head.filter(|head| head.is(Kind::Branch) || head.is(Kind::Leaf)) else {
            return wrong("is none of a tree, where one should be");
        };
        let pages = u64::from(head.overflow) + 1;
        if pages > self.meta.pages - id {
            return wrong("goes on behind the end of the file");
        }
        if head.is(Kind::Branch) && head.count == 0 {
            return wrong("is a branch without children");
        }
        match pages_left.checked_sub(pages) {
            Some(left) => *pages_left = left,
            None => return wrong("is named more than once"),
        }
        let mut bytes = vec![0; (pages * page_bytes) as usize];
        self.source.read_at(at, &mut bytes)?;
        let bytes = bytes.into();
        Ok(Page {
            bytes,
            head,
            next: 0,
        })
    }
}

impl Page {
    /// The next element, of which there is one.
    fn take(&mut self) -> Result<Element, FileError> {
        let (index, id) = (self.next, self.head.id);
        self.next += 1;
        let found = element(&self.bytes, &self.head, index);
        found.ok_or_else(|| {
            FileError::Damaged(format!("element {index} of page {id} lies outside of it"))
        })
    }
}

fn read_meta<S: Source>(source: &S, at: u64) -> Result<Meta, FileError> {
    let mut bytes = [0; HEAD_BYTES + META_BYTES];
    if source.bytes() < at + bytes.len() as u64 {
        return Err(FileError::damaged("it is too short for a bbolt file"));
    }
    source.read_at(at, &mut bytes)?;
    Meta::read(&bytes)
}

/// The bucket that a value is.
fn bucket(value: &Bytes) -> Result<Bucket, FileError> {
    if value.len() < BUCKET_BYTES {
        return Err(FileError::damaged("a bucket is too short"));
    }
    Ok(Bucket(match (&value[..]).get_u64_le() {
        0 => Root::Inline(value.slice(BUCKET_BYTES..)),
        page => Root::Page(page),
    }))
}

fn inline(bytes: &Bytes) -> Result<Page, FileError> {
    let head = Head::read(bytes).filter(|head| head.is(Kind::Leaf));
    let head = head.ok_or_else(|| FileError::damaged("a bucket's own page is no leaf"))?;
    let bytes = bytes.clone();
    Ok(Page {
        bytes,
        head,
        next: 0,
    })
}
