//! Tests of Rabia: conversations of one replica, directed schedules of a cluster, one instance
//! of Weak-MVC under every kind of sabotage, and randomised runs.

mod cluster;
mod conversations;
mod costs;
mod instance;
mod random;
mod schedules;
