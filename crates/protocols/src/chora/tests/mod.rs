//! Tests of Chora: random schedules, and the nasty ones of the notes, of a cluster whose messages and
//! disks move only as told.

mod lone;
mod net;
mod random;
mod schedules;
mod timed;
