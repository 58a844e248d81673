//! Tests of RS-Paxos and Multi-Paxos: what a request costs, and the nasty schedules of a cluster
//! whose messages and disks move only as told.

mod coded;
mod costs;
mod exhaustive;
mod fate;
mod handover;
mod host;
mod leases;
mod lives;
pub(super) mod net;
mod random;
mod reads;
mod schedules;
mod traffic;
