//! The rules, each by itself, and a model that attacks them together.

mod alarms;
mod handoff;
mod model;
mod pairs;
mod rails;
mod rule;
mod succession;
mod unsettled;
mod wire;
