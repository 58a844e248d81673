//! Going on with another protocol, or with other parameters of the same.

use super::{Common, LOOK_PAUSE, show_status};
use crate::Failure;
use crate::modes::params;
use crate::protocol_flags::ProtocolFlags;
use clap::Args;
use quorate_protocols::Code;
use quorate_server::{ProtocolPage, StatusPage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Another way to agree.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quorate cluster switch multi-paxos\n  quorate cluster switch rs-paxos --code 5,3"
)]
pub(crate) struct SwitchOptions {
    /// The protocol to switch to
    #[arg(value_name = "PROTOCOL")]
    protocol: String,
    /// A parameter of the protocol; those not given have their defaults
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
    /// Values in N fragments, any K of which rebuild them; N is the number of members
    #[arg(long, value_name = "N,K")]
    code: Option<Code>,
    #[command(flatten)]
    protocol_flags: ProtocolFlags,
    /// The protocol may be a yardstick, one that is there to be compared with
    #[arg(long)]
    allow_measurement_protocol: bool,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    common: Common,
}

/// The options of `quorate cluster set`: parameters of the present protocol.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quorate cluster set --proposers 1\n  quorate cluster set --param window=8"
)]
pub(crate) struct SetOptions {
    /// A parameter of the protocol; those not given stay as they are
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
    #[command(flatten)]
    protocol_flags: ProtocolFlags,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    common: Common,
}

/// How long to wait for the change to be done.
#[derive(Args, Debug)]
struct Wait {
    /// How long to wait until the change is done, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

/// Goes on with another protocol.
pub(super) fn run(options: &SwitchOptions) -> Result<(), Failure> {
    let before = options.common.endpoints.status_page()?;
    let mut params = params(&options.param).map_err(Failure::Usage)?;
    if let Some(code) = options.code {
        let members = before.members.iter().filter(|one| !one.is_learner).count();
        code.add_to(members, &mut params).map_err(Failure::Usage)?;
    }
    let protocol = options.protocol.clone();
    let asked = options.protocol_flags.add_to(Some(&protocol), &mut params);
    asked.map_err(Failure::Usage)?;
    let page = ProtocolPage {
        protocol,
        params,
        allow_measurement_protocol: options.allow_measurement_protocol,
    };
    go_on(&options.common, &before, &page, &options.wait)
}

/// Goes on with other parameters.
pub(super) fn set(options: &SetOptions) -> Result<(), Failure> {
    let before = options.common.endpoints.status_page()?;
    let mut asked = params(&options.param).map_err(Failure::Usage)?;
    let flags = options
        .protocol_flags
        .add_to(Some(&before.protocol), &mut asked);
    flags.map_err(Failure::Usage)?;
    if asked.is_empty() {
        return Err(Failure::Usage(
            "nothing to change: name a parameter with --param, or --proposers or --round"
                .to_owned(),
        ));
    }
    let page = ProtocolPage {
        protocol: before.protocol.clone(),
        params: over(&before.params, asked),
        allow_measurement_protocol: true,
    };
    go_on(&options.common, &before, &page, &options.wait)
}

/// The present configuration, with what is asked for in its place.
fn over(
    present: &BTreeMap<String, String>,
    asked: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut params = present.clone();
    params.extend(asked);
    params
}

/// Asks for it, and waits until it is done.
fn go_on(
    common: &Common,
    before: &StatusPage,
    page: &ProtocolPage,
    Wait { wait }: &Wait,
) -> Result<(), Failure> {
    common.endpoints.open()?.post("/cluster/protocol", page)?;
    let epoch = |page: &StatusPage| page.epochs.last().map_or(0, |epoch| epoch.number);
    let deadline = Instant::now() + Duration::from_secs(*wait);
    loop {
        let now = common.endpoints.status_page()?;
        if epoch(&now) > epoch(before) && now.is_open {
            return show_status(common);
        }
        if Instant::now() > deadline {
            return Err(Failure::Failed(format!(
                "the change is decided, and after {wait} s too few members are known to have the \
                 state that epoch {} begins with: see quorate cluster status",
                epoch(before) + 1
            )));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let of = |params: &[(&str, &str)]| -> BTreeMap<String, String> {
            let params = params.iter();
            params
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect()
        };
        let present = of(&[("proposers", "3"), ("window", "8")]);
        assert_eq!(
            over(&present, of(&[("proposers", "1")])),
            of(&[("proposers", "1"), ("window", "8")])
        );
    }
}
