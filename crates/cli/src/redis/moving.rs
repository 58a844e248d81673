//! `quorate redis move`: another replica's server executes commands.
//!
//! The executor is asked, which lets nothing new begin and offers its office. It is asked only once the other server
//! follows, so that clients wait for no longer than they have to, and asked again if nothing came of it.

use super::{Common, Server, executor, servers, table};
use crate::Failure;
use clap::Args;
use std::time::{Duration, Instant};

/// How long the executor may take to change.
const MOVED_WITHIN: Duration = Duration::from_secs(10);
/// The pause between two looks at who executes.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How soon a replica is asked again that was asked in vain.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// How long nobody may be seen to execute before the other replica is asked to, whatever became of the last executor.
const VACANT_MAX: Duration = Duration::from_secs(2);

/// The options of `quorate redis move`.
#[derive(Args, Debug)]
pub(crate) struct MoveOptions {
    /// The number of the replica that is to execute
    #[arg(value_name = "ID")]
    id: u16,
    #[command(flatten)]
    common: Common,
}

/// What to do next for a replica to execute.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Next {
    /// The replica executes.
    Done,
    /// This replica is asked to let the other one execute.
    Ask(u16),
    /// What is waited for, for people.
    Wait(String),
    /// Why it makes no sense to wait.
    Fail(String),
}

/// Has a replica execute, and waits until it does.
pub(super) fn run(options: &MoveOptions) -> Result<(), Failure> {
    let id = options.id;
    let asked = options.common.endpoints.open()?;
    let began = Instant::now();
    let mut executed = began;
    // The replica that was asked last, its epoch, and when.
    let mut asked_last: Option<(u16, u64, Instant)> = None;
    loop {
        let all = servers(&asked)?;
        if executor(&all).is_some() {
            executed = Instant::now();
        }
        let why = match next(&all, id, executed.elapsed() > VACANT_MAX) {
            Next::Done => {
                print!("{}", table(&all));
                return Ok(());
            }
            Next::Fail(why) => return Err(Failure::Failed(why)),
            Next::Wait(why) => why,
            Next::Ask(first) => {
                let server = all.iter().find(|server| server.id == first);
                let (epoch, url) =
                    server.map_or((0, ""), |server| (server.number("epoch"), &server.url));
                let is_asked = asked_last.is_some_and(|(of, in_epoch, at)| {
                    (of, in_epoch) == (first, epoch) && at.elapsed() < ASK_AGAIN
                });
                let mut why = String::new();
                if !is_asked {
                    asked_last = Some((first, epoch, Instant::now()));
                    // It may not execute any more: the next look tells.
                    if let Err(Failure::Failed(refused) | Failure::Usage(refused)) =
                        asked.post_at(url, "/redis/move", &id)
                    {
                        why = refused;
                    }
                }
                why
            }
        };
        if began.elapsed() > MOVED_WITHIN {
            let why = match why.is_empty() {
                true => String::new(),
                false => format!(": {why}"),
            };
            return Err(Failure::Failed(format!(
                "replica {id} does not execute after {} s{why}",
                MOVED_WITHIN.as_secs()
            )));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// What is to be done for a replica to execute; `is_vacant` if nobody was seen to do so for a while.
fn next(all: &[Server], id: u16, is_vacant: bool) -> Next {
    let Some(target) = all.iter().find(|server| server.id == id) else {
        return Next::Fail(format!("there is no replica {id} in this cluster"));
    };
    if all.iter().all(|server| server.page.is_err()) {
        let why = all.iter().find_map(|server| server.page.as_ref().err());
        return Next::Fail(format!(
            "no replica says that it executes: {}",
            why.map_or("", |why| why)
        ));
    }
    if all.iter().any(|server| server.role() == "commands") {
        return Next::Fail(
            "every replica's server carries out every command in this cluster: none is to be chosen"
                .to_owned(),
        );
    }
    let page = match &target.page {
        Ok(page) => page,
        Err(why) => return Next::Wait(why.clone()),
    };
    // A replica that was away may not have heard of a cutover yet.
    let furthest = all.iter().max_by_key(|server| server.number("epoch"));
    let import = furthest.and_then(|server| server.page.as_ref().ok()?["import"].as_str());
    if let Some("loading" | "following") = import {
        return Next::Fail(
            "the cluster follows another server, and none of its own executes until quorate redis cutover, or abandon"
                .to_owned(),
        );
    }
    match (executor(all), target.role()) {
        (Some(server), _) if server.id == id => Next::Done,
        (_, "failed") => Next::Fail(format!(
            "replica {id} cannot execute: {}",
            page["failure"].as_str().unwrap_or_default()
        )),
        (Some(server), "following") => Next::Ask(server.id),
        (None, "following") if is_vacant => Next::Ask(id),
        (None, "following") => Next::Wait("no replica executes".to_owned()),
        (_, role) => Next::Wait(format!("its server is {role}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: u16, page: Result<serde_json::Value, &str>) -> Server {
        Server {
            id,
            own: None,
            url: String::new(),
            page: page.map_err(str::to_owned),
            asked_us: (0, 0),
        }
    }

    fn role(id: u16, role: &str, epoch: u64) -> Server {
        let page =
            serde_json::json!({"role": role, "epoch": epoch, "import": "none", "failure": "why"});
        server(id, Ok(page))
    }

    #[test]
    fn the_executor_is_asked_once_the_other_server_follows() {
        let all = |one, two| [role(1, one, 3), role(2, two, 3), server(3, Err("gone"))];
        let next = |one, two, id| super::next(&all(one, two), id, false);
        assert_eq!(next("executing", "following", 1), Next::Done);
        assert_eq!(next("executing", "following", 2), Next::Ask(1));
        let waits = Next::Wait("its server is loading".to_owned());
        assert_eq!(next("executing", "loading", 2), waits);
        assert_eq!(
            next("executing", "following", 3),
            Next::Wait("gone".to_owned())
        );
        let vacant = all("loading", "following");
        assert!(matches!(super::next(&vacant, 2, false), Next::Wait(_)));
        assert_eq!(super::next(&vacant, 2, true), Next::Ask(2));
    }

    #[test]
    fn a_replica_that_was_deposed_is_not_taken_for_the_executor() {
        let all = [
            role(1, "executing", 3),
            role(2, "executing", 4),
            role(3, "following", 4),
        ];
        assert_eq!(next(&all, 3, false), Next::Ask(2));
    }

    #[test]
    fn what_cannot_be_is_told_at_once() {
        let fails = |all: &[Server], id, says: &str| {
            let found = next(all, id, true);
            assert!(
                matches!(&found, Next::Fail(why) if why.contains(says)),
                "{found:?}"
            );
        };
        let all = [role(1, "executing", 3), role(2, "failed", 3)];
        fails(&all, 3, "there is no replica 3");
        fails(&all, 2, "replica 2 cannot execute: why");
        fails(
            &[server(1, Err("it has no real server"))],
            1,
            "no real server",
        );
        fails(&[role(1, "commands", 0)], 1, "every replica's server");
        let page = serde_json::json!({"role": "following", "import": "following", "epoch": 2});
        let importing = |executing| [server(1, Ok(page.clone())), role(2, "executing", executing)];
        fails(&importing(1), 1, "until quorate redis cutover");
        assert_eq!(next(&importing(3), 1, false), Next::Ask(2), "it is over");
    }
}
