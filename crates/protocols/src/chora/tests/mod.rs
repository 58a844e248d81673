//! Tests of Chora: random schedules, and nasty ones, of a cluster whose messages and
//! disks move only as told.

mod lives;
mod lone;
mod mutants;
mod nasty;
mod net;
mod random;
mod schedules;
mod timed;
