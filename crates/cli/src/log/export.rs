//! `quorate log export`: the order that a replica has executed, for checkers of any kind.

use super::json::{self, CommandLine, Line, Values};
use crate::Failure;
use crate::face::FaceName;
use clap::Args;
use quorate_core::{Application, Class, Command, Slot};
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_store::{EventsQuery, Keys, Query, QueryAnswer, Store, decode_result};
use quorate_host::{Exported, Outcome};
use quorate_server::{Expected, ExportStep, Folder, Meta, export, read_meta};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// The options of `log export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportOptions {
    /// Data folder of a replica that does not run, or a copy of one
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// First slot to write
    #[arg(long, value_name = "SLOT", default_value_t = 0)]
    from: u64,
    /// First slot not to write [default: the end of the log]
    #[arg(long, value_name = "SLOT")]
    to: Option<u64>,
    /// What to write of values: their length alone, a digest as well, or all of them in base64
    #[arg(long, value_enum, default_value = "full")]
    values: Values,
}

/// Writes the export to standard output.
pub(super) fn run(options: &ExportOptions) -> Result<(), Failure> {
    if options.to.is_some_and(|to| to < options.from) {
        return Err(Failure::Usage("--to lies before --from".to_owned()));
    }
    let failed = |error: quorate_server::FolderError| Failure::Failed(error.to_string());
    let meta = read_meta(&options.data_dir).map_err(failed)?;
    let expected = Expected::any(meta.replica);
    let folder = Folder::open(&options.data_dir, &expected).map_err(failed)?;
    let meta = folder.meta();
    FaceName::must_be_etcd(&meta.epoch).map_err(Failure::Failed)?;
    let mut writer = ExportWriter {
        out: BufWriter::new(io::stdout().lock()),
        options,
        snapshots: VecDeque::new(),
        revision: 0,
        next: Slot(0),
        failed: None,
    };
    let result = export(&folder, Store::new(), |step| match step {
        ExportStep::Begin {
            snapshots,
            first,
            app,
        } => writer.begin(meta, first, snapshots, app),
        ExportStep::Slot { exported, app } => writer.slot(&exported, app),
    });
    result.map_err(|error| Failure::Failed(error.to_string()))?;
    writer
        .end()
        .map_err(|error| Failure::Failed(format!("cannot write: {error}")))
}

/// Writes lines until that fails.
struct ExportWriter<'a, W> {
    out: W,
    options: &'a ExportOptions,
    /// Stored snapshots whose slots the export has not come to yet, ascending.
    snapshots: VecDeque<Slot>,
    /// The last one whose changes were seen.
    revision: i64,
    next: Slot,
    failed: Option<io::Error>,
}

impl<W: Write> ExportWriter<'_, W> {
    fn begin(&mut self, meta: &Meta, first: Slot, snapshots: &[Slot], store: &Store) {
        self.next = first;
        self.revision = store.revision();
        self.snapshots = snapshots.iter().copied().collect();
        self.write(&Line::Head(json::Head::new(meta, first, store.revision())));
    }

    fn slot(&mut self, exported: &Exported<'_>, store: &Store) {
        self.next = exported.slot.next();
        let mut changes = self.changes(store);
        let written = self.options.from <= exported.slot.0
            && self.options.to.is_none_or(|to| exported.slot.0 < to);
        if !written {
            return;
        }
        while let Some(slot) = self.snapshots.pop_front_if(|slot| *slot <= exported.slot) {
            self.write(&Line::Snapshot { snapshot: slot.0 });
        }
        let commands = self.commands(exported, &mut changes);
        self.write(&Line::Slot(json::SlotLine::new(exported, commands)));
    }

    fn commands(
        &self,
        exported: &Exported<'_>,
        changes: &mut BTreeMap<i64, Vec<Event>>,
    ) -> Vec<CommandLine> {
        let commands = exported
            .entry
            .into_iter()
            .flat_map(|entry| entry.commands());
        let decoded = commands.map_while(Result::ok).zip(exported.outcomes);
        let line = |(command, outcome): (Command, &Outcome)| {
            // What an order comes to is told by the host.
            let is_of_store = command.class != Class::Order;
            let applied = match outcome {
                Outcome::Executed(result) if is_of_store && !result.is_empty() => {
                    Some(decode_result(result))
                }
                _ => None,
            };
            // The first command with a revision is the one that made it.
            let revision = applied.as_ref().and_then(|applied| applied.as_ref().ok());
            let events = revision.and_then(|applied| changes.remove(&applied.revision));
            let events = events.unwrap_or_default();
            CommandLine::new(&command, outcome, applied, &events, self.options.values)
        };
        decoded.map(line).collect()
    }

    /// What changed since this was last called, by revision.
    fn changes(&mut self, store: &Store) -> BTreeMap<i64, Vec<Event>> {
        let mut changes: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
        let mut from = self.revision + 1;
        while from <= store.revision() {
            let keys = Keys::All;
            let QueryAnswer::Events(found) =
                store.query(&Query::Events(EventsQuery { keys, from }))
            else {
                break;
            };
            for event in found.events {
                let at = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
                changes.entry(at).or_default().push(event);
            }
            from = found.next;
        }
        self.revision = store.revision();
        changes
    }

    fn end(mut self) -> io::Result<()> {
        self.write(&Line::End { end: self.next.0 });
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, line: &Line) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
        self.failed = written.and_then(|()| self.out.write_all(b"\n")).err();
    }
}

/// Shown under the options.
pub(super) const HELP: &str = "\
Lines:
  {\"export\": ...}    first: whose log it is, the first slot, the store's revision before it
  {\"snapshot\": S}    a stored snapshot is the state before slot S
  {\"slot\": ...}      a slot: an entry with its commands, or a no-op
  {\"end\": ...}       last: the first slot that is not in the log

  A command names its client and sequence number, what was asked, and what it came to: executed with
  the store's revision afterwards and the changes that were made, repeated (executed before, at the
  slot named), or refused. A key that is not plain text is given as key_base64. A command of class order
  is about the cluster itself (members, protocol, leader, alarms, names); effect says what it did.
  The log goes back to the older of the two last snapshots: what came before is gone.

Examples:
  Everything a stopped replica has executed:
    quorate log export --data-dir quorate-data/1 > order.jsonl
  Without values, of a hundred slots:
    quorate log export --data-dir quorate-data/1 --from 500 --to 600 --values none
  Whether two replicas have executed the same:
    for i in 1 2; do quorate log export --data-dir quorate-data/$i --values digest |
      grep '^{\"slot\"' > $i.jsonl; done; cmp 1.jsonl 2.jsonl";
