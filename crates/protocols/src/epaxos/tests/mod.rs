//! Tests of EPaxos: what it costs, schedules that break what is nearly right, random ones, and deliberate faults.

mod costs;
mod mutants;
mod net;
mod order;
mod random;
mod schedules;
mod silent;
mod toq;
mod words;
