//! Ways for two of three replicas to go, and to come back.

use super::{Home, Up, signal};
use rustix::process::Signal;

/// The replicas that go.
const GONE: [u16; 2] = [2, 3];

/// How two of three replicas go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// The processes are killed.
    Killed,
    /// The processes are stopped: connections stay as they are, and nobody answers.
    Stopped,
}

impl Loss {
    /// Has them go.
    pub(crate) fn strike(self, up: &Up) {
        let how = match self {
            Loss::Killed => Signal::KILL,
            Loss::Stopped => Signal::STOP,
        };
        GONE.iter().for_each(|id| signal(up.pids[id], how));
    }

    /// Waits until the supervisor of those that were killed has noticed.
    pub(crate) fn wait(self, up: &mut Up) {
        if self == Loss::Killed {
            // It says so of each, in either order.
            for _ in GONE {
                up.wait_for("replica ");
            }
        }
    }

    /// Has them come back; those that were killed run for as long as what is returned is kept.
    pub(crate) fn undo(self, home: &Home, up: &Up) -> Vec<Up> {
        match self {
            Loss::Killed => GONE
                .map(|id| Up::start(&home.dir, &["--only", &id.to_string()]))
                .into(),
            Loss::Stopped => {
                GONE.iter().for_each(|id| signal(up.pids[id], Signal::CONT));
                Vec::new()
            }
        }
    }
}

/// Tests of `$scenario`, a function of a protocol, its flags and a [`Loss`], for both losses under each protocol.
macro_rules! protocols {
    ($scenario:ident; $($name:ident: $protocol:literal $(, $flag:literal)*;)*) => {
        $(mod $name {
            use super::*;

            #[tokio::test]
            async fn killed() {
                $scenario($protocol, &[$($flag),*], Loss::Killed).await;
            }

            #[tokio::test]
            async fn stopped() {
                $scenario($protocol, &[$($flag),*], Loss::Stopped).await;
            }
        })*
    };
}
pub(crate) use protocols;
