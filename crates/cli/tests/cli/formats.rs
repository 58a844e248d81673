//! Data folders of every released format: this build opens them and serves what is in them. Folders
//! of a newer format are refused, and left as they are.

use crate::support::{Client, Home, Up, converged, expect_failure, free_ports, quorate};
use quorate_server::META_FORMAT;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file with the keys and values that a recorded cluster serves.
const VALUES: &str = "values.txt";
/// The recorded data folder beside it.
const DATA: &str = "data";
/// Where a segment's header says how long the file is.
const SEGMENT_SIZE_AT: usize = 58;
const FOLDER_FILES_MAX: usize = 40;
const FOLDER_BYTES_MAX: usize = 128 << 10;

fn fixture(format: u32) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(format!("format-{format}"))
}

/// All files below a folder, by their path in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Whether a file belongs to the data, and not to the process that serves it.
fn is_data(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    !has_extension(path, "tmp") && !matches!(name, Some("lock" | "log.txt"))
}

/// Puts files where they belong; segments are kept without the zeros at their ends.
fn unpack(files: &BTreeMap<PathBuf, Vec<u8>>, dir: &Path) {
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = bytes.clone();
        if has_extension(name, "seg") {
            let size = &bytes[SEGMENT_SIZE_AT..SEGMENT_SIZE_AT + 4];
            let size = u32::from_le_bytes(size.try_into().unwrap());
            bytes.resize(size as usize, 0);
        }
        fs::write(path, bytes).unwrap();
    }
}

/// A cluster's folder, with the data of a format.
fn unpacked(format: u32) -> (Home, BTreeMap<String, String>) {
    let home = Home::new();
    let recorded = fixture(format);
    unpack(&files(&recorded.join(DATA)), &home.dir);
    let values = fs::read_to_string(recorded.join(VALUES)).unwrap();
    let pairs = values.lines().map(|line| line.split_once(' ').unwrap());
    let values = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    (home, values.collect())
}

async fn expect_all(up: &Up, values: &BTreeMap<String, String>) {
    for url in &up.urls {
        let mut client = Client::connect(url).await;
        for (key, value) in values {
            let found = client.get(key).await.unwrap();
            assert_eq!(found.as_ref(), Some(value), "{key} through {url}");
        }
        assert_eq!(client.get("gone").await.unwrap(), None, "through {url}");
    }
}

/// Scenario: a cluster of every released format is started by this build, serves what was written,
/// takes more, and serves all of it after another start.
#[tokio::test]
async fn data_of_every_released_format_is_served() {
    for format in 1..=META_FORMAT {
        let (home, mut values) = unpacked(format);
        let up = home.start(&[]);
        expect_all(&up, &values).await;
        converged(&up.urls).await;
        let mut client = Client::connect(&up.urls[0]).await;
        client.put("more", "of this build").await.unwrap();
        values.insert("more".into(), "of this build".into());
        assert!(up.stop().success());
        let up = home.start(&[]);
        expect_all(&up, &values).await;
    }
}

/// Raises the number in a file's place, and puts the checksum over it right.
fn raise_meta(bytes: &[u8]) -> Vec<u8> {
    const CHECKSUM: &str = "# crc32c = ";
    let text = str::from_utf8(bytes).unwrap();
    let (body, _) = text.rsplit_once(CHECKSUM).unwrap();
    let format = |number: u32| format!("format = {number}\n");
    let body = body.replace(&format(META_FORMAT), &format(META_FORMAT + 1));
    let crc = crc_fast::crc32_iscsi(body.as_bytes());
    format!("{body}{CHECKSUM}{crc:08x}\n").into_bytes()
}

/// Raises the format version in a segment's header.
fn raise_segment(bytes: &[u8]) -> Vec<u8> {
    const VERSION_AT: usize = 8;
    const FIELDS: usize = 66;
    let mut bytes = bytes.to_vec();
    bytes[VERSION_AT] += 1;
    let crc = crc_fast::crc32_iscsi(&bytes[..FIELDS]);
    bytes[FIELDS..FIELDS + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Scenario: a newer program has written the folder of replica 1, or the log in it. It is refused
/// with what to do about it, and not a byte of it changes.
#[tokio::test]
async fn a_folder_of_a_newer_format_is_refused_and_left_as_it_is() {
    type Raise = fn(&[u8]) -> Vec<u8>;
    let newer = META_FORMAT + 1;
    let cases: [(&str, Raise, String); 2] = [
        (
            "1/meta",
            raise_meta,
            format!(
                "has format {newer} and this program reads up to {META_FORMAT}: run the version"
            ),
        ),
        (
            "seg",
            raise_segment,
            format!("has format version {newer}, newer than this program reads: run the version"),
        ),
    ];
    for (name, raise, message) in cases {
        let (home, _) = unpacked(META_FORMAT);
        let is_meant = |path: &Path| {
            path == Path::new(name) || path.starts_with("1/log") && has_extension(path, name)
        };
        let mut data = files(&home.dir);
        for (path, bytes) in data.iter_mut().filter(|(path, _)| is_meant(path)) {
            *bytes = raise(bytes);
            fs::write(home.dir.join(path), bytes).unwrap();
        }
        data.retain(|path, _| is_data(path));
        let flags = ["--only", "1"];
        let mut command = quorate();
        command
            .arg("up")
            .arg("--data-dir")
            .arg(&home.dir)
            .args(flags);
        expect_failure(&mut command, 1, &message);
        let mut after = files(&home.dir);
        after.retain(|path, _| is_data(path));
        assert!(after == data, "the folder was changed");
    }
}

/// Writes the fixture of this build's format; see docs/guide/testing.md. One that is there is never
/// written again: it is what was released.
#[tokio::test]
#[ignore = "run it once, when a format is new"]
async fn record() {
    let recorded = fixture(META_FORMAT);
    assert!(!recorded.exists(), "{} is there", recorded.display());
    let home = Home::new();
    let flags = [
        "--port",
        &free_ports(6).to_string(),
        "--snapshot-count",
        "25",
    ];
    let up = Up::start(&home.dir, &flags);
    let mut values = BTreeMap::new();
    for i in 0..60 {
        let mut client = Client::connect(&up.urls[i % 3]).await;
        let (key, value) = (format!("key-{:02}", i % 20), format!("value-{i}"));
        client.put(&key, &value).await.unwrap();
        values.insert(key, value);
    }
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("gone", "soon").await.unwrap();
    client.delete("gone").await.unwrap();
    client.put_leased("leased", "for years").await.unwrap();
    values.insert("leased".into(), "for years".into());
    client.compact().await.unwrap();
    converged(&up.urls).await;
    assert!(up.stop().success());

    let mut data = files(&home.dir);
    data.retain(|path, _| is_data(path));
    for (path, bytes) in &mut data {
        if has_extension(path, "seg") {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            bytes.truncate(end + 1);
        }
    }
    let size = data.values().map(Vec::len).sum::<usize>();
    assert!(
        size <= FOLDER_BYTES_MAX && data.len() <= FOLDER_FILES_MAX,
        "{size} B"
    );
    for (path, bytes) in data {
        let path = recorded.join(DATA).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let values = values.iter().map(|(key, value)| format!("{key} {value}\n"));
    fs::write(recorded.join(VALUES), values.collect::<String>()).unwrap();
}
