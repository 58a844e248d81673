//! Tests of Racos: a cluster whose disks, segments and losses are watched, under random schedules with and
//! without sabotage, and what parameters come to.

mod adaptive;
mod costs;
mod dice;
mod merged;
mod net;
mod one_step;
mod parameters;
mod random;
mod schedules;
