//! Tests of Mencius: what a request costs, and the nasty schedules of a cluster whose messages and disks move
//! only as told.

mod costs;
mod mutants;
mod net;
mod random;
mod schedules;
mod schedules_lanes;
mod silent;
mod words;
