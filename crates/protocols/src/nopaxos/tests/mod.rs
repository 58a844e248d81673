//! Tests of NOPaxos: what a request costs, and the nasty schedules of a cluster whose messages and disks move only as
//! told.

mod costs;
mod mutants;
mod net;
mod random;
mod schedules;
mod schedules_lives;
mod silent;
mod words;
