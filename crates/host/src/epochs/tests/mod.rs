//! The rules, each by itself, and a model that attacks them together.

mod alarms;
mod leader;
mod model;
mod pairs;
mod payload_safety;
mod precheck;
mod rule;
mod succession;
mod unsettled;
mod wire;
