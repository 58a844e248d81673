//! A log on a disk of its own: the folder of the log is a link then.

use crate::folder::{FolderError, LOG, create_folder, io_error};
use crate::mirrored_file::sync_dir;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Has the log of a data folder written to `place`, which is created if it is not there. A log that is somewhere else
/// stays there, and is an error.
///
/// # Errors
/// Where the log is, and what the operating system says.
pub fn place_log(dir: &Path, place: &Path) -> Result<(), FolderError> {
    create_folder(place)?;
    create_folder(dir)?;
    let place = fs::canonicalize(place).map_err(|error| io_error("find", place, &error))?;
    let log = dir.join(LOG);
    let link = || symlink(&place, &log).map_err(|error| io_error("create", &log, &error));
    match fs::symlink_metadata(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => link()?,
        Err(error) => return Err(io_error("read", &log, &error)),
        Ok(_) if fs::canonicalize(&log).is_ok_and(|found| found == place) => return Ok(()),
        // What bootstrapping left behind, before a log was written.
        Ok(found) if found.is_dir() && fs::remove_dir(&log).is_ok() => link()?,
        Ok(_) => {
            let found = fs::canonicalize(&log).unwrap_or(log);
            return Err(FolderError::Io {
                verb: "place the log (--wal-dir) in",
                path: place,
                why: format!(
                    "it is in {found}: leave the flag out, or move the files of {found} while the replica does not \
                     run, and remove {found}, or the link to it in the data folder",
                    found = found.display()
                ),
            });
        }
    }
    sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_placed_once_and_stays_where_it_is() {
        let home = tempfile::tempdir().unwrap();
        let (dir, place) = (home.path().join("data"), home.path().join("wal/deep"));
        for _ in 0..2 {
            place_log(&dir, &place).unwrap();
            fs::write(dir.join(LOG).join("0.seg"), "log").unwrap();
            assert_eq!(fs::read(place.join("0.seg")).unwrap(), b"log");
        }
        let other = home.path().join("other");
        let why = place_log(&dir, &other).unwrap_err().to_string();
        assert!(
            why.contains("--wal-dir") && why.contains("wal/deep"),
            "{why}"
        );
        assert_eq!(fs::read(place.join("0.seg")).unwrap(), b"log");
    }

    #[test]
    fn a_log_in_the_data_folder_stays_there_unless_it_is_empty() {
        let home = tempfile::tempdir().unwrap();
        let (dir, place) = (home.path().join("data"), home.path().join("wal"));
        fs::create_dir_all(dir.join(LOG)).unwrap();
        place_log(&dir, &place).unwrap();
        assert!(dir.join(LOG).is_symlink());
        fs::remove_file(dir.join(LOG)).unwrap();
        fs::create_dir(dir.join(LOG)).unwrap();
        fs::write(dir.join(LOG).join("0.seg"), "log").unwrap();
        let why = place_log(&dir, &place).unwrap_err();
        assert!(
            why.to_string().contains("data/log: leave the flag out"),
            "{why}"
        );
        assert_eq!(fs::read(dir.join(LOG).join("0.seg")).unwrap(), b"log");
    }
}
