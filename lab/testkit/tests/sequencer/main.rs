//! The protocol of the library's example, as `docs/guide/protocol.md` explains it, under random schedules.

mod schedules;
#[allow(dead_code, reason = "the schedules run its machine alone")]
#[path = "../../../../crates/quorate/examples/protocol/sequencer/mod.rs"]
mod sequencer;
