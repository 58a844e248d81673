//! Replicas among themselves: any schedule, any clocks, crashes, lost disks.

mod directed;
mod history;
mod mutants;
mod net;
mod random;
mod schedules;
mod schedules_clocks;
mod schedules_lives;
mod schedules_views;
