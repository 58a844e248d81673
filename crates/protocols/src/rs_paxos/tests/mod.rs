//! Tests of Multi-Paxos: what a request costs, and the nasty schedules of a cluster whose messages
//! and disks move only as told.

mod costs;
mod net;
mod schedules;
