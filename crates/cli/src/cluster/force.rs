//! A new cluster by hand, from the folders of replicas that are left when too few are to go on.

use crate::Failure;
use crate::endpoints::Asked;
use crate::face::FaceName;
use crate::serve::create_files_for_owner_only;
use crate::user_args::UserArgs;
use clap::Args;
use quorate_core::ClusterId;
use quorate_etcd_store::{Store, UnreadableVersion};
use quorate_server::{Expected, Folder, Forced, Role, force_new_cluster, read_meta};
use quorate_tooling::tls_args::ClientTlsArgs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Keys named, at most, in one message.
const NAMED_MAX: usize = 20;

/// What is left, and what is to come of it.
#[derive(Args, Debug)]
#[command(
    after_help = "What comes of it is the state after some prefix of what the old cluster decided: writes that \
                  it acknowledged and that the survivor who knows most does not have are gone. Name the folders \
                  of all survivors: with erasure codes none has all of a long value.\n\nExample:\n  quorate \
                  cluster force-new --data-dir /var/lib/quorate --into /var/lib/quorate-new \\\n    --endpoints \
                  10.0.0.2:2379,10.0.0.3:2379"
)]
pub(crate) struct ForceOptions {
    /// Data folder of a survivor that does not run, or a copy of one; repeated. They stay as they are
    #[arg(long, value_name = "DIR", required = true)]
    data_dir: Vec<PathBuf>,
    /// Empty folder for the data of the new cluster's only replica
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Where the other replicas served clients: none of them may still reach a quorum
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    endpoints: Vec<String>,

    #[command(flatten)]
    tls: ClientTlsArgs,
    #[command(flatten)]
    user: UserArgs,
    /// Do it without asking the others, or although they reach a quorum
    #[arg(long)]
    force: bool,
    /// Go so many revisions ahead and forget all history, so that no client takes what comes for what it
    /// may have seen of the old cluster
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "1000000000")]
    bump_revision: Option<u64>,
    /// Delete keys whose values cannot be rebuilt from these folders, and forget all history
    #[arg(long)]
    drop_unreadable: bool,
}

/// Begins the new cluster, and reports what became of it.
pub(super) fn run(options: &ForceOptions) -> Result<(), Failure> {
    create_files_for_owner_only();
    let folders = options.data_dir.iter().map(|dir| open(dir));
    let folders = folders.collect::<Result<Vec<Folder>, Failure>>()?;
    for folder in &folders {
        FaceName::must_be_etcd(&folder.meta().epoch).map_err(Failure::Failed)?;
    }
    if !options.force {
        ask_others(options, folders[0].meta().cluster)?;
    }
    let edit =
        |store: &mut Store, lost: &BTreeSet<_>| edit(options, store, &store.versions_of(lost));
    let forced = force_new_cluster(&folders, &options.into, &Store::new(), edit);
    let forced = forced.map_err(|error| Failure::Failed(error.to_string()))?;
    print!("{}", report(options, &forced));
    Ok(())
}

/// Locks it: nobody may run it meanwhile.
fn open(dir: &Path) -> Result<Folder, Failure> {
    let failed = |error: quorate_server::FolderError| Failure::Failed(error.to_string());
    let expected = Expected::any(read_meta(dir).map_err(failed)?.replica);
    Folder::open(dir, &expected).map_err(failed)
}

/// A cluster that can still decide something needs no new one.
fn ask_others(options: &ForceOptions, cluster: ClusterId) -> Result<(), Failure> {
    if options.endpoints.is_empty() {
        return Err(Failure::Usage(
            "it is not known whether the cluster still has a quorum: name the other replicas' endpoints \
            for clients (--endpoints), or say that none is left (--force)"
                .to_owned(),
        ));
    }
    let asked = Asked::new(&options.endpoints, &options.tls)?;
    let asked = asked.by(options.user.resolve()?);
    for endpoint in &asked.places {
        // Who does not answer is gone, as far as can be seen from here.
        let page = match asked.status_page(endpoint) {
            Ok(page) => page,
            // Somebody is there, and may well be of the cluster.
            Err(why) if why.contains("certificate") || why.contains("--user") => {
                return Err(Failure::Failed(why));
            }
            Err(_) => continue,
        };
        let is_ours = page.cluster_id == cluster.to_string();
        if is_ours && page.has_quorum && page.role == Role::Voting {
            return Err(Failure::Failed(format!(
                "replica {} at {endpoint} reaches a quorum: the cluster goes on. Start the replica that \
                is down, or replace it (quorate cluster replace); a new cluster would lose what is \
                written meanwhile (--force makes one anyway)",
                page.replica_id
            )));
        }
    }
    Ok(())
}

/// Changes the store before the new cluster begins with it.
fn edit(
    options: &ForceOptions,
    store: &mut Store,
    gone: &[UnreadableVersion],
) -> Result<(), String> {
    if !gone.is_empty() && !options.drop_unreadable {
        return Err(format!(
            "too few fragments of {} values are in these folders:\n{}nothing was made. Name the folders of \
             further survivors, or give these values up (--drop-unreadable deletes the keys and forgets \
             history)",
            gone.len(),
            list(gone)
        ));
    }
    if !gone.is_empty() {
        eprint!(
            "these values were given up, because too few of their fragments are left:\n{}",
            list(gone)
        );
        let present = gone.iter().filter(|one| one.is_present);
        store.give_up(&present.map(|one| one.key.clone()).collect());
    }
    match options.bump_revision {
        Some(by) if !store.bump_revision(by) => Err(format!(
            "--bump-revision {by}: it takes 2 at least, and there are not more than 2^63 in all"
        )),
        _ => Ok(()),
    }
}

/// A line for each key and revision.
fn list(gone: &[UnreadableVersion]) -> String {
    let line = |one: &UnreadableVersion| {
        let when = if one.is_present { "present" } else { "former" };
        let key = one.key.escape_ascii();
        format!("  {key} ({when} value, of revision {})\n", one.revision)
    };
    let mut text: String = gone.iter().take(NAMED_MAX).map(line).collect();
    if gone.len() > NAMED_MAX {
        text += &format!("  and {} more\n", gone.len() - NAMED_MAX);
    }
    text
}

fn report(options: &ForceOptions, forced: &Forced) -> String {
    let Forced {
        cluster,
        member,
        epoch,
        next,
        lacking,
        payloads,
    } = forced;
    let into = options.into.display();
    let gap = match lacking {
        0 => String::new(),
        count => format!(
            "The survivor knows of {count} more slots that were decided, and does not have all of them.\n"
        ),
    };
    format!(
        "WARNING: this is a new cluster, made by hand. It has everything that was decided before slot {next} \
         and NOTHING after that: writes that the old cluster acknowledged may be missing, and leases \
         may be back that had ended. {gap}The folders of the old cluster are as they were; its replicas \
         cannot speak with the new one.\n\
         cluster {cluster}, epoch {epoch}, only member: replica {id}, {payloads} long values; data in {into}\n\
         start it with:\n  \
         quorate serve --id {id} --data-dir {into} --listen-client-urls URL --listen-peer-urls URL\n\
         then let others join: quorate cluster add --peer-url URL\n",
        id = member.id,
    )
}
