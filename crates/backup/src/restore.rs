//! From a backup to a snapshot of a moment.

use crate::error::BackupError;
use crate::files::{begin, partial, publish};
use crate::folder::{Folder, Full};
use crate::segment::{Change, SegmentReader};
use quorate_etcd_api::mvccpb::{EventType, KeyValue};
use quorate_etcd_snapshot::{
    FileError, FileSource, LeaseRecord, Revision, Sha256, StateReader, StateRest, StateWriter,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// How long a lease lives that had ended before anybody could ask how long it was to live: as good as not at all.
const ENDED_TTL_S: i64 = 1;

/// The moment of a backup whose state is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// The last revision of the backup.
    Last,
    /// The state as of a revision.
    Revision(i64),
    /// The last revision that had come in by a time, in ms since 1970.
    Time(u64),
}

/// The state that a restored snapshot has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The revision of the state.
    pub revision: i64,
    /// When it came in, in ms since 1970.
    pub time_ms: u64,
    /// The full snapshot that it was made from.
    pub full: Full,
    /// How many revisions were added to the full snapshot.
    pub changes: u64,
}

/// What of the backup makes the state: a full snapshot, and the changes of a range of revisions.
struct Plan {
    full: Full,
    revision: i64,
    time_ms: u64,
}

impl Folder {
    /// Writes the state of a moment to a new file, as `etcdctl snapshot save` would have written it then: with all
    /// history, leases and alarms. Users and roles are those of the full snapshot before.
    ///
    /// # Errors
    /// That the backup does not have that moment, and which it has; or what is damaged, and where.
    pub fn restore(&self, moment: Moment, out: &Path) -> Result<Restored, BackupError> {
        if out.exists() {
            return Err(BackupError::new(
                out,
                "there is a file already: name another one",
            ));
        }
        let plan = self.plan(moment)?;
        let partial = partial(out);
        let file = begin(&partial)?;
        let written = self.write_state(&plan, &file);
        let written = written.and_then(|()| {
            append_digest(&file).map_err(BackupError::of(&partial))?;
            publish(&file, &partial, out)
        });
        if let Err(error) = written {
            // What is left of it is of no use to anybody.
            let _ = std::fs::remove_file(&partial);
            return Err(error);
        }
        Ok(Restored {
            revision: plan.revision,
            time_ms: plan.time_ms,
            changes: plan.revision.abs_diff(plan.full.revision),
            full: plan.full,
        })
    }

    fn plan(&self, moment: Moment) -> Result<Plan, BackupError> {
        let fulls = self.fulls()?;
        let is_asked = |revision: i64, time_ms: u64| match moment {
            Moment::Last => true,
            Moment::Revision(asked) => revision <= asked,
            Moment::Time(asked) => time_ms <= asked,
        };
        let mut before = fulls.iter().rev();
        let full = before.find(|full| is_asked(full.revision, full.time_ms));
        let Some(full) = full.cloned() else {
            let what = match fulls.first() {
                None => "there is no full snapshot yet".to_owned(),
                Some(first) => format!("the backup begins with revision {} only", first.revision),
            };
            return Err(BackupError::new(&self.dir, what));
        };
        let mut plan = Plan {
            revision: full.revision,
            time_ms: full.time_ms,
            full,
        };
        let from = plan.full.revision + 1;
        let next = self.each_change(from, |change| {
            let is_asked = is_asked(change.revision, change.time_ms);
            if is_asked {
                (plan.revision, plan.time_ms) = (change.revision, change.time_ms);
            }
            Ok(is_asked)
        })?;
        match moment {
            Moment::Revision(asked) if plan.revision != asked => Err(BackupError::new(
                &self.dir,
                format!(
                    "the changes up to revision {asked} are not all there: after the full snapshot of revision {} they \
                     end with {}",
                    plan.full.revision,
                    next - 1
                ),
            )),
            _ => Ok(plan),
        }
    }

    /// Visits the changes from a revision on, until one is missing or `visit` wants no more. Returns the revision of
    /// the first that was not taken.
    fn each_change(
        &self,
        from: i64,
        mut visit: impl FnMut(Change) -> Result<bool, BackupError>,
    ) -> Result<i64, BackupError> {
        let mut next = from;
        let segments = self.segments()?;
        // All but the last that begin before: what comes before the first change is read in vain.
        let begins = segments.iter().rposition(|segment| segment.first <= from);
        for segment in segments.iter().skip(begins.unwrap_or(0)) {
            if segment.first > next {
                break;
            }
            let mut reader = SegmentReader::open(&segment.path, segment.first)?;
            while let Some(change) = reader.next_change()? {
                if change.revision != next {
                    continue;
                }
                if !visit(change)? {
                    return Ok(next);
                }
                next += 1;
            }
        }
        Ok(next)
    }

    fn write_state(&self, plan: &Plan, file: &File) -> Result<(), BackupError> {
        let of_full = |error: FileError| BackupError::of(&plan.full.path)(error);
        let source = File::open(&plan.full.path).and_then(FileSource::new);
        let source = source.map_err(BackupError::of(&plan.full.path))?;
        let reader = StateReader::open_snapshot(source).map_err(of_full)?;
        let mut out = StateWriter::new(BufWriter::new(file)).map_err(of_full)?;
        reader
            .each_key(|record| out.key(record.revision, record.is_deletion, &record.kv))
            .map_err(of_full)?;
        let mut rest = rest_of(&reader).map_err(of_full)?;
        let mut leases: BTreeMap<i64, LeaseRecord> = BTreeMap::new();
        leases.extend(rest.leases.drain(..).map(|lease| (lease.id, lease)));
        let mut bound = BTreeSet::new();
        self.each_change(plan.full.revision + 1, |change| {
            if change.revision > plan.revision {
                return Ok(false);
            }
            leases.extend(change.leases.iter().map(|lease| (lease.id, *lease)));
            rest.consistent_index += 1;
            for (sub, event) in (0..).zip(change.events) {
                let main = change.revision;
                let is_deletion = event.r#type == EventType::Delete as i32;
                let kv = event.kv.unwrap_or_default();
                bound.extend(Some(kv.lease).filter(|lease| *lease != 0 && !is_deletion));
                let kv = match is_deletion {
                    true => KeyValue {
                        key: kv.key,
                        ..KeyValue::default()
                    },
                    false => kv,
                };
                out.key(Revision { main, sub }, is_deletion, &kv)
                    .map_err(of_full)?;
            }
            Ok(true)
        })?;
        for id in bound {
            leases.entry(id).or_insert(LeaseRecord {
                id,
                ttl_s: ENDED_TTL_S,
                remaining_ttl_s: 0,
            });
        }
        rest.leases = leases.into_values().collect();
        let (out, _) = out.finish(&rest).map_err(of_full)?;
        let written = out.into_inner().map_err(|error| error.into_error());
        written.map(drop).map_err(BackupError::of(&plan.full.path))
    }
}

/// What a full snapshot holds besides keys.
fn rest_of(reader: &StateReader<FileSource>) -> Result<StateRest, FileError> {
    let summary = reader.summary()?;
    Ok(StateRest {
        consistent_index: summary.consistent_index,
        term: summary.term,
        compacted: summary.compacted,
        leases: reader.leases()?,
        auth_enabled: summary.auth_enabled,
        auth_revision: summary.auth_revision,
        users: reader.users()?,
        roles: reader.roles()?,
        members: reader.members()?,
        alarms: reader.alarms()?,
    })
}

/// Adds the digest that snapshots end with.
fn append_digest(mut file: &File) -> Result<(), FileError> {
    file.seek(SeekFrom::Start(0))?;
    let mut digest = Sha256::default();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut part = vec![0; 1 << 20];
    loop {
        match input.read(&mut part)? {
            0 => break,
            read => digest.update(&part[..read]),
        }
    }
    file.seek(SeekFrom::End(0))?;
    file.write_all(&digest.finish())?;
    Ok(())
}
