//! One change of the cluster.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::fleet::Fleet;
use quorate_load::trial::Load;

/// A change of members or protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// None, for as long.
    Nothing(Duration),
    /// The member of the lowest number dies for good, and a new one takes its place.
    Replace,
    /// A new replica becomes a member.
    Add,
    /// The member of the lowest number leaves.
    Remove,
    /// A parameter of the protocol has this value from now on, and all others their defaults.
    Parameter(&'static str, u32),
    /// From now on this many fragments rebuild a value.
    Code(usize),
    /// The cluster goes on with another protocol.
    Switch {
        to: &'static str,
        /// While one of its replicas is dead.
        without_one: bool,
    },
}

impl Step {
    /// What kind of change it is.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Step::Nothing(_) => NOTHING,
            Step::Replace => "replace one that died",
            Step::Add => "add",
            Step::Remove => "remove",
            Step::Parameter(..) => "parameter",
            Step::Code(_) => "code",
            Step::Switch { .. } => "protocol",
        }
    }

    /// Takes it; says what was done.
    pub(super) fn take(
        self,
        runtime: &Runtime,
        fleet: &mut Fleet,
        load: &Load,
    ) -> Result<String, String> {
        let said = match self {
            Step::Nothing(time) => {
                std::thread::sleep(time);
                NOTHING.to_owned()
            }
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
                // Clients of the one that leaves are its operator's to move.
                load.go_on_with(&fleet.endpoints_without(old));
                fleet.remove(runtime, old)?;
                fleet.expect_end(old)?;
                format!("{old} removed")
            }
            Step::Parameter(name, value) => {
                fleet.set(name, value)?;
                format!("{name} {value}")
            }
            Step::Code(k) => {
                fleet.recode(k)?;
                format!("any {k} rebuild a value")
            }
            Step::Switch { to, without_one } => {
                let killed = without_one.then(|| fleet.kill_next());
                load.go_on_with(&fleet.endpoints());
                fleet.switch(to)?;
                killed.map_or(Ok(()), |killed| fleet.restart(killed))?;
                let without = killed.map(|killed| format!(" without {killed}"));
                format!("to {to}{}", without.unwrap_or_default())
            }
        };
        fleet.wait_settled()?;
        load.go_on_with(&fleet.endpoints());
        Ok(format!("{said}, {} members", fleet.count()))
    }
}

/// The kind of change that is none.
pub(super) const NOTHING: &str = "nothing";
