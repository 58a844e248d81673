//! One change of the members.

use tokio::runtime::Runtime;

use super::fleet::Fleet;
use crate::trial::Load;

/// A change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The member of the lowest number dies for good, and a new one takes its place.
    Replace,
    /// A new replica becomes a member.
    Add,
    /// The member of the lowest number leaves.
    Remove,
    /// The cluster goes on with another protocol, while one of its replicas is dead.
    Switch(&'static str),
}

impl Step {
    /// Takes it; says what was done.
    pub(super) fn take(
        self,
        runtime: &Runtime,
        fleet: &mut Fleet,
        load: &Load,
    ) -> Result<String, String> {
        let said = match self {
            Step::Replace => {
                let old = fleet.lowest();
                fleet.destroy(old)?;
                load.go_on_with(&fleet.endpoints());
                let new = fleet.add(runtime)?;
                fleet.remove(runtime, old)?;
                format!("{new} in the place of {old}")
            }
            Step::Add => format!("{} added", fleet.add(runtime)?),
            Step::Remove => {
                let old = fleet.lowest();
                fleet.remove(runtime, old)?;
                fleet.expect_end(old)?;
                format!("{old} removed")
            }
            Step::Switch(protocol) => {
                let killed = fleet.kill_next();
                load.go_on_with(&fleet.endpoints());
                fleet.switch(protocol)?;
                fleet.restart(killed)?;
                fleet.settle()?;
                format!("to {protocol} without {killed}")
            }
        };
        load.go_on_with(&fleet.endpoints());
        Ok(format!("{said}, {} members", fleet.count()))
    }
}
