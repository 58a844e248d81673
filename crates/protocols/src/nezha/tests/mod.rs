//! Replicas among themselves: any schedule, any clocks, crashes, lost disks.

mod mutants;
mod net;
mod random;
