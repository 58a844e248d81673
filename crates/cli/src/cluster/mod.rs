//! `quorate cluster`: what a cluster consists of, and changes of that.

mod admin;
mod force;
mod switch;
mod table;

use crate::Failure;
use crate::endpoints::Endpoints;
use admin::Admin;
use clap::{Args, Subcommand};
use force::ForceOptions;
use std::io::Write;
use std::time::{Duration, Instant};
use switch::{SetOptions, SwitchOptions};

/// The pause between two looks at whether a new replica has caught up.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// What to show or to change.
#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Show the members and learners, and whether the last change is done
    Status(Common),
    /// Show the configurations that the cluster has had
    History(Common),
    /// Let a new replica follow the cluster; started, it becomes a member once it has caught up
    Add(AddOptions),
    /// Make a learner a member
    Promote(OneOptions),
    /// Let a member or a learner leave: its process ends by itself
    Remove(OneOptions),
    /// Go on with another protocol, or with other parameters of the same: clients notice a pause at most
    Switch(SwitchOptions),
    /// Change parameters of the protocol there is, and leave the others as they are
    Set(SetOptions),
    /// Put a new replica in the place of a member, which may be dead: waits until the new one is started
    /// and has caught up, then removes the other
    Replace(ReplaceOptions),
    /// After a disaster: make a new cluster of one from the folders of replicas that are left, offline
    ForceNew(ForceOptions),
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    endpoints: Endpoints,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A new replica.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quorate cluster add --peer-url http://10.0.0.4:2380")]
pub(crate) struct AddOptions {
    /// Where the other replicas will reach it
    #[arg(long, value_name = "URL")]
    peer_url: String,
    #[command(flatten)]
    common: Common,
}

/// The options of commands about one replica.
#[derive(Args, Debug)]
pub(crate) struct OneOptions {
    /// The replica's number
    #[arg(value_name = "ID")]
    id: u16,
    #[command(flatten)]
    common: Common,
}

/// One replica for another.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quorate cluster replace 2 --peer-url http://10.0.0.4:2380")]
pub(crate) struct ReplaceOptions {
    /// The number of the one that leaves
    #[arg(value_name = "ID")]
    id: u16,
    /// Where the other replicas will reach the new one
    #[arg(long, value_name = "URL")]
    peer_url: String,
    /// How long to wait until the new one has caught up, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
    #[command(flatten)]
    common: Common,
}

/// Runs a subcommand of `quorate cluster`.
pub(crate) fn run(command: &ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status(common) => show_status(common),
        ClusterCommand::History(common) => {
            if common.json {
                return show_json(common);
            }
            print!("{}", table::history(&common.endpoints.status_page()?));
            Ok(())
        }
        ClusterCommand::Add(options) => {
            let common = &options.common;
            let id = admin(common)?.add(&options.peer_url)?;
            if !common.json {
                println!("{}", how_to_start(common, id)?);
            }
            show_json(common)
        }
        ClusterCommand::Promote(options) => {
            admin(&options.common)?.promote(options.id)?;
            show_status(&options.common)
        }
        ClusterCommand::Remove(options) => {
            admin(&options.common)?.remove(options.id)?;
            show_status(&options.common)
        }
        ClusterCommand::Switch(options) => switch::run(options),
        ClusterCommand::Set(options) => switch::set(options),
        ClusterCommand::Replace(options) => replace(options),
        ClusterCommand::ForceNew(options) => force::run(options),
    }
}

fn replace(options: &ReplaceOptions) -> Result<(), Failure> {
    let common = &options.common;
    let before = common.endpoints.status_page()?;
    if !before
        .members
        .iter()
        .any(|one| one.replica_id == options.id)
    {
        let id = options.id;
        return Err(Failure::Failed(format!(
            "there is no replica {id} in this cluster"
        )));
    }
    let admin = admin(common)?;
    let known = before
        .members
        .iter()
        .find(|one| one.peer_url == options.peer_url);
    // Asked again after an interruption, it goes on.
    let new = match known {
        Some(one) => one.replica_id,
        None => admin.add(&options.peer_url)?,
    };
    let quiet = common.json;
    if !quiet {
        println!("{}", how_to_start(common, new)?);
    }
    let deadline = Instant::now() + Duration::from_secs(options.wait);
    let mut said = String::new();
    loop {
        let page = common.endpoints.status_page()?;
        let one = page.members.iter().find(|one| one.replica_id == new);
        if one.is_some_and(|one| !one.is_learner) {
            break;
        }
        let state = match page.links_up.contains(&new) {
            true => format!("replica {new} is catching up"),
            false => format!("waiting for replica {new} to be started"),
        };
        if !quiet && state != said {
            println!("{state} ...");
            said = state;
        }
        if Instant::now() > deadline {
            let (old, wait) = (options.id, options.wait);
            return Err(Failure::Failed(format!(
                "replica {new} is no member after {wait} s: replica {old} stays; ask again once \
                 replica {new} runs, or undo it with: quorate cluster remove {new}"
            )));
        }
        let _ = std::io::stdout().flush();
        std::thread::sleep(LOOK_PAUSE);
    }
    admin.remove(options.id)?;
    show_status(common)
}

/// What to do with a replica that was added.
fn how_to_start(common: &Common, id: u16) -> Result<String, Failure> {
    let page = common.endpoints.status_page()?;
    // Those of unknown address are found through the others.
    let found = page.members.iter().filter(|one| !one.peer_url.is_empty());
    let list = found.map(|one| format!("{}={}", one.replica_id, one.peer_url));
    let list: Vec<String> = list.collect();
    let peer = page.members.iter().find(|one| one.replica_id == id);
    let peer = peer.map_or("URL", |one| &one.peer_url);
    Ok(format!(
        "replica {id} may follow the cluster; start it with an empty data folder, now and whenever it has lost its \
         data:\n  quorate serve --id {id} --listen-peer-urls {peer} --initial-cluster {}",
        list.join(",")
    ))
}

fn show_status(common: &Common) -> Result<(), Failure> {
    if common.json {
        return show_json(common);
    }
    let asked = common.endpoints.open()?;
    let page = common.endpoints.status_page()?;
    let is_up = |one: &&quorate_server::MemberPage| page.links_up.contains(&one.replica_id);
    let others = page.members.iter().filter(is_up);
    // What cannot be asked has nothing to add.
    let others = others.filter_map(|one| {
        let url = quorate_server::first_url(&one.client_url);
        asked.status_page(url).ok()
    });
    print!("{}", table::status(&page, &others.collect::<Vec<_>>()));
    Ok(())
}

/// With `--json`, every command ends with the cluster as it is.
fn show_json(common: &Common) -> Result<(), Failure> {
    if common.json {
        let json = serde_json::to_string(&common.endpoints.status_page()?);
        println!(
            "{}",
            json.map_err(|error| Failure::Failed(error.to_string()))?
        );
    }
    Ok(())
}

fn admin(common: &Common) -> Result<Admin, Failure> {
    Admin::connect(common.endpoints.open()?)
}
