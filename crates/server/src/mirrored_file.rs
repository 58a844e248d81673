//! Small files that a replica cannot do without, kept twice: damage to one is made good from the
//! other.
//!
//! The copy is written first, so that it is never the older of the two. What was written there and
//! not acted on yet may be acted on. Whoever writes here reads both when it starts, and writes them
//! again if they differ.

use crate::folder::{FolderError, io_error};
use crate::transient::retry_transient;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file and its copy; a crash leaves the old content or the new in each. Returns once the
/// new one survives.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<(), FolderError> {
    replace(dir, &copy_name(name), text.as_bytes())?;
    replace(dir, name, text.as_bytes())
}

/// Reads a file, or its copy if the file is damaged or missing. `None` if neither is there.
///
/// # Errors
/// What is wrong with the file, if the copy is of no use either.
pub(crate) fn read<T>(
    dir: &Path,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<T, FolderError>,
) -> Result<Option<T>, FolderError> {
    let file = read_one(&dir.join(name), &parse);
    if !matches!(file, Ok(Some(_))) {
        let copy = read_one(&dir.join(copy_name(name)), &parse);
        if let Ok(Some((content, _))) = copy {
            return Ok(Some(content));
        }
    }
    Ok(file?.map(|(content, _)| content))
}

/// What a file and its copy hold.
pub(crate) struct Copies<T> {
    pub(crate) content: Option<T>,
    /// Whether one of the two was damaged.
    pub(crate) is_damaged: bool,
    /// Whether both hold the content. If not, it is to be written again: one of them is damaged, or
    /// missing, or of before a crash.
    pub(crate) copies_agree: bool,
}

/// Does the same, and looks at both.
///
/// # Errors
/// As above.
pub(crate) fn read_copies<T>(
    dir: &Path,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<T, FolderError>,
) -> Result<Copies<T>, FolderError> {
    let path = dir.join(name);
    let file = read_one(&path, &parse);
    let copy = read_one(&dir.join(copy_name(name)), &parse);
    let is_damaged = file.is_err() || copy.is_err();
    let copies_agree = match (&file, &copy) {
        (Ok(Some((_, file))), Ok(Some((_, copy)))) => file == copy,
        (file, copy) => matches!((file, copy), (Ok(None), Ok(None))),
    };
    if matches!(
        (&file, &copy),
        (Ok(Some(_)), Ok(None)) | (Ok(None), Ok(Some(_)))
    ) {
        let path = path.display();
        tracing::warn!(%path, "this file or its copy is missing: it is restored from the other");
    }
    let found = match (file, copy) {
        (Ok(Some(file)), _) => Some(file),
        (_, Ok(Some(copy))) => Some(copy),
        (file, _) => file?,
    };
    if is_damaged {
        let path = path.display();
        tracing::warn!(%path, "this file or its copy is damaged: the other is used; check this disk");
    }
    Ok(Copies {
        content: found.map(|(content, _)| content),
        is_damaged,
        copies_agree,
    })
}

fn read_one<T>(
    path: &Path,
    parse: &impl Fn(&[u8]) -> Result<T, FolderError>,
) -> Result<Option<(T, Vec<u8>)>, FolderError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some((parse(&bytes)?, bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path, &error)),
    }
}

/// Removes a file and its copy. Returns once that survives a crash.
pub(crate) fn remove(dir: &Path, name: &str) -> Result<(), FolderError> {
    for name in [name, &copy_name(name)] {
        let path = dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &path, &error));
            }
            _ => {}
        }
    }
    sync_dir(dir)
}

/// Whether the copy is there.
pub(crate) fn has_copy(dir: &Path, name: &str) -> bool {
    dir.join(copy_name(name)).exists()
}

fn copy_name(name: &str) -> String {
    format!("{name}.copy")
}

/// Replaces a small file so that a crash leaves the old one or the new one.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
    let (temporary, path) = (dir.join(format!("{name}.tmp")), dir.join(name));
    let write = || -> io::Result<()> {
        let mut file = retry_transient(|| File::create(&temporary))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|error| io_error("write", &path, &error))?;
    sync_dir(dir)
}

/// Makes the names in a folder survive a crash.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), FolderError> {
    retry_transient(|| File::open(dir))
        .and_then(|dir| dir.sync_all())
        .map_err(|error| io_error("sync", dir, &error))
}
