//! The rules, each by itself, and a model that attacks them together.

mod handoff;
mod model;
mod rails;
mod rule;
mod succession;
mod wire;
