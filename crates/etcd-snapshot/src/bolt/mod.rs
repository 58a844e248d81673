//! bbolt files: one B+ tree of pages, in whose leaves lie keys, values and the roots of further trees.
//!
//! | page | content, behind a head of 16 bytes |
//! |---|---|
//! | 0 and 1 | a *meta* each; the one with the greater transaction and a right checksum counts |
//! | freelist | numbers of pages that nothing uses |
//! | branch | elements of 16 bytes: place and length of a key, page of a child; then the keys |
//! | leaf | elements of 16 bytes: flags, place and lengths of a key and a value; then keys and values |
//!
//! A page's head: number (8 bytes), kind (2), elements (2), how many pages follow that belong to it (4). A meta: magic,
//! version, page size, flags (4 bytes each), the root bucket (16), the freelist's page, the number of pages, the
//! transaction, and FNV-1a of all that (8 each). A bucket is 16 bytes in a leaf's value: the page of its root and a
//! sequence; page 0 says that its only leaf follows there. All numbers are little-endian, places are counted from
//! the element that has them.

mod page;
mod reader;
mod writer;

pub use reader::{Bucket, Database};
pub use writer::DatabaseWriter;
