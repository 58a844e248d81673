//! Tests of Domino: what a request costs, and the nasty schedules of a cluster whose messages, disks and clocks move
//! only as told.

mod costs;
mod mutants;
mod net;
mod random;
mod schedules;
mod silent;
mod words;
