//! A protocol of under 200 lines, as `docs/guide/protocol.md` explains it, under random schedules.

mod protocol;
mod schedules;
mod wire;
