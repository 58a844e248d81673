//! Clusters on loopback that last as long as a value: started, waited for, stopped, cleaned up.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_tooling::children::Tether;
use quorate_tooling::cleanup::TempDir;
use quorate_tooling::launch::{Launch, Running, StandardOutput, last_lines};
use quorate_tooling::ports::free_ports;
use quorate_tooling::process;
use quorate_tooling::scrape::{self, Fetcher};

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Where clients go: to gateways, where there are any.
    pub(crate) endpoints: Vec<String>,
    /// The replicas, where clients go to gateways.
    behind: Vec<String>,
    processes: Vec<Running>,
    launches: Vec<Launch>,
    directory: TempDir,
}

/// Where a member of etcd listens.
#[derive(Debug, Clone)]
pub(crate) struct EtcdMember {
    /// The URL that clients use.
    pub(crate) client: String,
    /// The URL that other members use.
    pub(crate) peer: String,
}

impl EtcdMember {
    /// What starts one of these members.
    pub(crate) fn arguments(members: &[EtcdMember], index: usize, data: &Path) -> Vec<String> {
        let named = members.iter().enumerate();
        let initial: Vec<String> = named
            .map(|(index, member)| format!("n{index}={}", member.peer))
            .collect();
        let EtcdMember { client, peer } = &members[index];
        vec![
            format!("--name=n{index}"),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", initial.join(",")),
            "--initial-cluster-state=new".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }
}

/// Says what to do where there is no etcd, and what else would do.
pub(crate) fn need_etcd(binary: &Path, or: &str) -> Result<(), String> {
    match binary.is_file() {
        true => Ok(()),
        false => Err(format!(
            "there is no etcd at {}: run scripts/build-etcd.sh, name another with --etcd, or {or}",
            binary.display()
        )),
    }
}

/// Where a cluster is found.
struct Endpoints {
    /// The URLs that clients use.
    used: Vec<String>,
    /// The URLs of the replicas behind them, where clients use gateways.
    behind: Vec<String>,
}

impl Cluster {
    /// Starts etcd, one process per replica, with its own defaults: fdatasync before every answer.
    pub(crate) fn etcd(
        binary: &Path,
        replicas: u8,
        parent: Option<&Path>,
    ) -> Result<Cluster, String> {
        Cluster::etcd_with(binary, replicas, parent, &[])
    }

    /// Starts etcd with more flags.
    pub(crate) fn etcd_with(
        binary: &Path,
        replicas: u8,
        parent: Option<&Path>,
        flags: &[&str],
    ) -> Result<Cluster, String> {
        let base = free_ports(2 * u16::from(replicas))?;
        let url = |offset: u16| format!("http://127.0.0.1:{}", base + offset);
        let members: Vec<EtcdMember> = (0..u16::from(replicas))
            .map(|index| EtcdMember {
                client: url(2 * index),
                peer: url(2 * index + 1),
            })
            .collect();
        let mut cluster = Cluster::empty(parent)?;
        for index in 0..members.len() {
            let data = cluster.directory.path().join(format!("n{index}"));
            let mut arguments = EtcdMember::arguments(&members, index, &data);
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            let log = cluster.log(&format!("etcd-{index}"));
            cluster.start(Launch {
                output: StandardOutput::Logged,
                ..Launch::new(binary, arguments, log)
            })?;
            cluster.endpoints.push(members[index].client.clone());
        }
        cluster.wait_healthy()?;
        Ok(cluster)
    }

    /// Starts `quorate up`, which prints its endpoints once every replica serves.
    pub(crate) fn quorate(
        binary: &Path,
        replicas: u8,
        parent: Option<&Path>,
        options: &[String],
    ) -> Result<Cluster, String> {
        Cluster::quorate_limited(binary, replicas, parent, options, None)
    }

    /// Starts `quorate up` with a limit of open files for each process, if one is given.
    pub(crate) fn quorate_limited(
        binary: &Path,
        replicas: u8,
        parent: Option<&Path>,
        options: &[String],
        descriptors: Option<u64>,
    ) -> Result<Cluster, String> {
        // Client and peer ports and some to spare, whatever the layout behind the base port is.
        let base = free_ports(4 * u16::from(replicas))?;
        let mut cluster = Cluster::empty(parent)?;
        let data = cluster.directory.path().join("data");
        let mut arguments = vec![
            "up".to_owned(),
            format!("--replicas={replicas}"),
            format!("--data-dir={}", data.display()),
            format!("--port={base}"),
        ];
        arguments.extend_from_slice(options);
        let log = cluster.log("quorate");
        cluster.start(Launch {
            output: StandardOutput::Read,
            tether: Tether {
                descriptors,
                ..Tether::default()
            },
            ..Launch::new(binary, arguments, log)
        })?;
        let printed = cluster.read_endpoints()?;
        (cluster.endpoints, cluster.behind) = (printed.used, printed.behind);
        Ok(cluster)
    }

    /// Everybody who has something to tell: replicas, and gateways.
    pub(crate) fn pages(&self) -> Vec<String> {
        [&self.endpoints[..], &self.behind].concat()
    }

    /// Waits until all replicas know that all of them know this feature level.
    pub(crate) fn await_level(&mut self, by: &Fetcher, level: u32) -> Result<(), String> {
        let deadline = Instant::now() + START_PATIENCE;
        let replicas = match self.behind.is_empty() {
            true => self.endpoints.clone(),
            false => self.behind.clone(),
        };
        let is_there = |url: &String| {
            let page = by.get(url, "/metrics").unwrap_or_default();
            let mut lines = page.lines();
            let known = lines.find_map(|line| line.strip_prefix("quorate_feature_level "));
            known.is_some_and(|known| known.parse().is_ok_and(|known: f64| known >= level.into()))
        };
        while !replicas.iter().all(is_there) {
            self.check_alive()?;
            if Instant::now() > deadline {
                return Err(self.not_started(&format!("it did not come to feature level {level}")));
            }
            std::thread::sleep(HEALTH_POLL);
        }
        Ok(())
    }

    /// Every process of the cluster, those its processes started included.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes
            .iter()
            .flat_map(|process| process::descendants(process.pid()))
            .collect()
    }

    /// Stops every process, starts them all again, and says how long it took from their start until
    /// every replica answers linearizable reads.
    pub(crate) fn restart(&mut self) -> Result<Duration, String> {
        for process in &mut self.processes {
            process.stop(STOP_PATIENCE);
        }
        self.processes.clear();
        let began = Instant::now();
        for launch in &self.launches {
            self.processes.push(launch.start()?);
        }
        self.wait_healthy()?;
        Ok(began.elapsed())
    }

    fn empty(parent: Option<&Path>) -> Result<Cluster, String> {
        let directory = TempDir::new(parent).map_err(|error| error.to_string())?;
        Ok(Cluster {
            endpoints: Vec::new(),
            behind: Vec::new(),
            processes: Vec::new(),
            launches: Vec::new(),
            directory,
        })
    }

    fn start(&mut self, launch: Launch) -> Result<(), String> {
        self.processes.push(launch.start()?);
        self.launches.push(launch);
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }

    fn wait_healthy(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_PATIENCE;
        let healthy =
            |url: &String| scrape::get(url, "/health").is_ok_and(|body| body.contains("\"true\""));
        while !self.endpoints.iter().all(healthy) {
            self.check_alive()?;
            if Instant::now() > deadline {
                return Err(self.not_started("it was not healthy in time"));
            }
            std::thread::sleep(HEALTH_POLL);
        }
        Ok(())
    }

    /// Waits until the program says where clients find it.
    fn read_endpoints(&mut self) -> Result<Endpoints, String> {
        let urls = |list: &str| -> Vec<String> {
            let urls = list.split([',', ' ']).filter(|url| !url.is_empty());
            urls.map(str::to_owned).collect()
        };
        let mut gateways = None;
        let found = self.processes[0].wait_for(Instant::now() + START_PATIENCE, |line| {
            if let Some(list) = line.strip_prefix("gateway endpoints:") {
                gateways = Some(urls(list));
                return None;
            }
            line.strip_prefix("endpoints:").map(urls)
        });
        let replicas = found.map_err(|why| self.not_started(&format!("it {why}")))?;
        Ok(match gateways {
            Some(gateways) => Endpoints {
                used: gateways,
                behind: replicas,
            },
            None => Endpoints {
                used: replicas,
                behind: Vec::new(),
            },
        })
    }

    pub(crate) fn check_alive(&mut self) -> Result<(), String> {
        let ended = self.processes.iter_mut().find_map(Running::ended);
        ended.map_or(Ok(()), |status| {
            Err(self.not_started(&format!("it ended with {status}")))
        })
    }

    /// Why the cluster did not start, with the last words of its logs.
    fn not_started(&self, why: &str) -> String {
        let mut text = format!("the cluster did not start: {why}");
        let entries = fs::read_dir(self.directory.path())
            .into_iter()
            .flatten()
            .flatten();
        let logs = entries.filter(|entry| entry.path().extension() == Some(OsStr::new("log")));
        for log in logs {
            for line in last_lines(&log.path(), LOG_LINES_SHOWN).lines() {
                text.push_str("\n  ");
                text.push_str(line);
            }
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let family = self.pids();
        for process in &mut self.processes {
            process.stop(STOP_PATIENCE);
        }
        // What a parent that did not end in time left behind; those that ended are not found.
        self.processes.clear();
        for pid in family
            .into_iter()
            .filter(|&pid| process::mentions(pid, self.directory.path()))
        {
            quorate_tooling::children::signal(pid, rustix::process::Signal::KILL);
        }
    }
}

const START_PATIENCE: Duration = Duration::from_secs(120);
const HEALTH_POLL: Duration = Duration::from_millis(20);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const LOG_LINES_SHOWN: usize = 3;
