//! Tests of Raft: what a request costs, and the nasty schedules of a cluster whose messages and disks move
//! only as told.

mod costs;
mod handover;
mod mutants;
mod net;
mod random;
mod replay;
mod schedules;
mod schedules_lives;
