//! Tests of Domino: a cluster whose messages, disks and clocks move only as told.

mod net;
mod random;
