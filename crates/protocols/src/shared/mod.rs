//! What several protocols are made of.

pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod ballot;
pub(crate) mod claim;
#[cfg(feature = "yardsticks")]
pub(crate) mod clients;
pub(crate) mod code;
pub(crate) mod decided;
pub(crate) mod disk;
pub(crate) mod entry_names;
pub(crate) mod faults;
pub(crate) mod leadership;
pub(crate) mod led;
pub(crate) mod lives;
pub(crate) mod offers;
pub(crate) mod params;
pub(crate) mod peers;
pub(crate) mod question;
pub(crate) mod reads;
pub(crate) mod rejoin;
pub(crate) mod rejoins;
pub(crate) mod seating;
pub(crate) mod start;
pub(crate) mod timers;
pub(crate) mod under_way;
pub(crate) mod words;
