//! Exporting the log of a replica that does not run. Nothing in its folder changes.

use crate::error::ServerError;
use crate::folder::Folder;
use crate::offline::OfflineFiles;
use crate::run::host_config;
use quorate_core::{Application, Boot, Durability, Slot};
use quorate_host::{Export, Exported, Limits};
use quorate_protocols::{AnyMachine, Registered};

/// What an export tells, in this order: one beginning, then every slot.
#[derive(Debug)]
pub enum ExportStep<'a, A> {
    /// The export begins.
    Begin {
        /// The stored snapshots, ascending: each is the state before its slot.
        snapshots: &'a [Slot],
        /// The first slot.
        first: Slot,
        /// The application before it.
        app: &'a A,
    },
    /// A committed slot.
    Slot {
        /// What was decided, and what it came to.
        exported: Exported<'a>,
        /// The application right after it.
        app: &'a A,
    },
}

/// Tells every committed slot of a folder in order. The application it shows is one of its own.
///
/// # Errors
/// [`ServerError::Log`] when the log is damaged or not this replica's, [`ServerError::Epoch`] when
/// the replica keeps none.
pub fn export<A: Application>(
    folder: &Folder,
    app: A,
    mut visit: impl FnMut(ExportStep<'_, A>),
) -> Result<(), ServerError> {
    let meta = folder.meta();
    if meta.epoch.durability == Durability::Memory {
        let why = "its replicas live in memory and keep no log".to_owned();
        return Err(ServerError::Epoch(why));
    }
    let config = host_config::<Registered>(meta, Boot(0), Limits::default(), 0, None)?;
    let dir = folder.log_dir();
    let mut source = OfflineFiles::new(folder);
    let log = |error| ServerError::Log {
        dir: dir.clone(),
        error,
    };
    let export = Export::<AnyMachine, A>::new(&config, &mut source, app).map_err(log)?;
    let (first, snapshots) = (export.first(), export.snapshots().to_vec());
    let step = |app: &A, exported: Option<Exported<'_>>| {
        visit(match exported {
            Some(exported) => ExportStep::Slot { exported, app },
            None => ExportStep::Begin {
                snapshots: &snapshots,
                first,
                app,
            },
        });
    };
    export.run(step).map_err(log)
}
