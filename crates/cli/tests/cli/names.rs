//! Names of files outlive a power failure: a folder is synced after a file in it got its name.

use crate::support::{Client, Home, eventually};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What happens to the names in some folders.
struct Names {
    kernel: OwnedFd,
    folders: BTreeMap<i32, Folder>,
}

#[derive(Default)]
struct Folder {
    name: &'static str,
    renamed: usize,
    /// A file got its name, and nobody has opened the folder since, which who syncs it does.
    is_open: bool,
}

impl Names {
    fn watch(home: &Path, folders: [&'static str; 2]) -> Names {
        let kernel = inotify::init(CreateFlags::NONBLOCK).expect("inotify");
        let what = WatchFlags::MOVED_TO | WatchFlags::OPEN | WatchFlags::ONLYDIR;
        let watch = |name: &'static str| {
            let id = inotify::add_watch(&kernel, home.join(name), what).expect("a folder");
            let folder = Folder {
                name,
                ..Folder::default()
            };
            (id, folder)
        };
        let folders = folders.into_iter().map(watch).collect();
        Names { kernel, folders }
    }

    /// Takes note of all that has happened.
    fn read(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 64 << 10];
        let mut events = inotify::Reader::new(&self.kernel, &mut buffer);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return,
                Err(error) => panic!("{error}"),
            };
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
            let folder = self.folders.get_mut(&event.wd()).expect("a folder of ours");
            if event.events().contains(ReadFlags::MOVED_TO) {
                folder.renamed += 1;
                folder.is_open = true;
            } else if event.events().contains(ReadFlags::ISDIR) && event.file_name().is_none() {
                folder.is_open = false;
            }
        }
    }
}

/// etcd #6368: a segment of the log got its name, the folder was not synced, and after a power
/// failure the name was gone.
#[tokio::test]
async fn a_folder_is_synced_after_a_file_in_it_got_its_name() {
    let home = Home::new();
    let up = home.start(&["--replicas", "1", "--server-arg=--snapshot-count=10"]);
    let mut names = Names::watch(&home.dir.join("1"), ["log", "snap"]);
    let mut client = Client::connect(&up.urls[0]).await;
    let value = "x".repeat(1 << 20);
    // Two segments and a few snapshots.
    for n in 0..40 {
        client.put(&format!("k{}", n % 4), &value).await.unwrap();
    }
    eventually("the folders are synced", || {
        names.read();
        let done = names
            .folders
            .values()
            .all(|folder| folder.renamed > 0 && !folder.is_open);
        let counts: Vec<_> = names
            .folders
            .values()
            .map(|f| (f.name, f.renamed))
            .collect();
        async move { done.then_some(counts) }
    })
    .await;
}
