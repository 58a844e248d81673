//! `bench cost`: the CPU time that one put costs, of builds of the program or of its options, beside one of them run
//! twice.
//!
//! A machine is never as fast twice: the first variant is run a second time in each turn, as a control, and another
//! variant is dearer only when its ratio to the first lies beyond what the control's ratios do.

mod users;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cluster::Cluster;
use crate::compare::Workload;
use crate::generator::Generator;
use crate::spread::Spread;
use quorate_load::load::{Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_server::USERS_LEVEL;
use quorate_tooling::program::Place;
use quorate_tooling::scrape::Fetcher;
use quorate_tooling::tables::Table;
use quorate_tooling::tls_args::ClientTlsArgs;
use quorate_tooling::units;

/// What `bench cost` can be told.
#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// A name, and options of `quorate up` behind it: NAME, or "NAME=--option=value --option=value"; program=FILE among
    /// them names another build, and users has clients log in as one who may write all keys; repeated. The first is
    /// what the others are held against
    #[arg(long, value_name = "NAME=OPTIONS", required = true, num_args = 1, value_parser = Variant::parse)]
    variant: Vec<Variant>,
    /// How the replicas agree, each in its turn, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "rabia")]
    protocols: Vec<String>,
    /// Numbers of clients, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "64")]
    clients: Vec<u32>,
    /// The clients that ask
    #[command(flatten)]
    generator: Generator,
    /// Most connections that the clients share [default: 16, with --client go 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    conns: Option<u32>,
    /// What clients do
    #[arg(long, value_enum, default_value = "put")]
    workload: Workload,
    /// How often every variant, and the control, gets its turn
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// Measured time of each run
    #[arg(long, default_value = "8s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    warmup: Duration,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Replicas of each cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// An option of `quorate up` for all variants; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// A build of the program, and how it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variant {
    name: String,
    program: Option<PathBuf>,
    options: Vec<String>,
    /// Whether clients are users, whose rights are looked at.
    users: bool,
}

impl Variant {
    fn parse(text: &str) -> Result<Variant, String> {
        let (name, options) = text.split_once('=').unwrap_or((text, ""));
        if name.is_empty() || name.starts_with('-') {
            return Err("must be a name, or a name, = and options".to_owned());
        }
        let mut program = None;
        let (mut others, mut users) = (Vec::new(), false);
        for option in options.split_whitespace() {
            match option.strip_prefix("program=") {
                Some(file) => program = Some(PathBuf::from(file)),
                None if option.starts_with("--") => others.push(option.to_owned()),
                None if option == "users" => users = true,
                None => {
                    return Err(format!(
                        "{option} is neither program=FILE, users nor a --option"
                    ));
                }
            }
        }
        Ok(Variant {
            name: name.to_owned(),
            program,
            options: others,
            users,
        })
    }
}

/// What runs measure one after the other in a turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    protocol: String,
    clients: u32,
}

/// Microseconds of CPU time per operation, of one turn: the variants in their order, and the first one again.
#[derive(Debug, Clone, PartialEq)]
struct Turn {
    variants: Vec<f64>,
    control: f64,
}

/// Runs them and prints a table.
pub fn run(args: &CostArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    args.generator.check()?;
    let rows = args.protocols.iter().flat_map(|protocol| {
        args.clients.iter().map(|&clients| Row {
            protocol: protocol.clone(),
            clients,
        })
    });
    let mut table = Table::new(&HEADINGS);
    for row in rows {
        let turns = (0..args.turns)
            .map(|turn| measure_turn(args, &row, turn))
            .collect::<Result<Vec<Turn>, String>>()?;
        for cells in lines(&args.variant, &row, &turns) {
            table.add(cells);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "CPU time of all {} replicas per {} of {} B, {}, {cores} cores for replicas and clients together; medians \
         of {} turns [least-most], ratios within each turn\n{table}",
        args.replicas,
        args.workload.name(),
        args.val_size,
        args.generator.client.title(),
        args.turns
    );
    Ok(())
}

const HEADINGS: [&str; 6] = [
    "protocol",
    "clients",
    "variant",
    "CPU us/op",
    "to the first",
    "beyond the control",
];

/// Every variant and the control once; who comes first changes with the turn.
fn measure_turn(args: &CostArgs, row: &Row, turn: u16) -> Result<Turn, String> {
    let count = args.variant.len();
    let mut costs = vec![0.0; count + 1];
    for step in 0..=count {
        let place = (step + usize::from(turn)) % (count + 1);
        // The place behind the last variant is the control's.
        let variant = args.variant.get(place).unwrap_or(&args.variant[0]);
        costs[place] = measure(args, row, variant)?;
        eprintln!(
            "turn {} of {}: {}, {} clients, {}{}: {:.1} us",
            turn + 1,
            args.turns,
            row.protocol,
            row.clients,
            variant.name,
            if place == count { " again" } else { "" },
            costs[place],
        );
    }
    let control = costs[count];
    costs.truncate(count);
    Ok(Turn {
        variants: costs,
        control,
    })
}

fn measure(args: &CostArgs, row: &Row, variant: &Variant) -> Result<f64, String> {
    let program = match &variant.program {
        Some(program) => program.clone(),
        None => args.place.binary()?,
    };
    let mut options = vec![format!("--protocol={}", row.protocol)];
    options.extend_from_slice(&args.quorate_option);
    options.extend_from_slice(&variant.options);
    let mut cluster = Cluster::quorate(&program, args.replicas, args.place.parent(), &options)?;
    let tls = ClientTlsArgs {
        // Each replica has made its own certificate: what is measured is what encryption costs.
        insecure_skip_tls_verify: cluster.endpoints[0].starts_with("https://"),
        ..ClientTlsArgs::default()
    };
    let user = match variant.users {
        true => {
            let fetcher = Fetcher::new(tls.connector(&cluster.endpoints)?);
            cluster.await_level(&fetcher, USERS_LEVEL)?;
            Some(users::enable(&cluster.endpoints[0], &tls)?)
        }
        false => None,
    };
    let most = (args.conns).unwrap_or(args.generator.client.connections_default_max());
    let is_get = args.workload == Workload::Get;
    let report = args.generator.run(&Job {
        name: args.workload.name(),
        read_share: if is_get { 1.0 } else { 0.0 },
        load: LoadArgs {
            tls,
            user,
            conns: Some(most.min(row.clients)),
            clients: row.clients,
            duration: Some(args.duration),
            warmup: args.warmup,
            val_size: args.val_size,
            server_pids: cluster.pids(),
            ..LoadArgs::at(cluster.endpoints.clone())
        },
        read: ReadArgs {
            fill: is_get,
            serializable: false,
        },
        verify: VerifyArgs::default(),
    })?;
    match &report.servers {
        Some(servers) if report.errors.is_empty() => Ok(servers.cpu_us_per_op),
        _ => Err(format!(
            "{}: {}s failed: {:?}",
            variant.name,
            args.workload.name(),
            report.errors
        )),
    }
}

/// The table's lines for one row: each variant, and the control.
fn lines(variants: &[Variant], row: &Row, turns: &[Turn]) -> Vec<Vec<String>> {
    let control = Spread::of(turns.iter().map(|turn| turn.control / turn.variants[0]));
    let line = |name: &str, costs: Spread, ratios: Option<Spread>, verdict: &str| {
        vec![
            row.protocol.clone(),
            row.clients.to_string(),
            name.to_owned(),
            costs.show(1),
            ratios.map_or_else(|| "1".to_owned(), |ratios| ratios.show(3)),
            verdict.to_owned(),
        ]
    };
    let mut lines = Vec::new();
    for (place, variant) in variants.iter().enumerate() {
        let costs = Spread::of(turns.iter().map(|turn| turn.variants[place]));
        let ratios = Spread::of(
            turns
                .iter()
                .map(|turn| turn.variants[place] / turn.variants[0]),
        );
        lines.push(match place {
            0 => line(&variant.name, costs, None, "-"),
            _ => line(&variant.name, costs, Some(ratios), verdict(ratios, control)),
        });
    }
    let costs = Spread::of(turns.iter().map(|turn| turn.control));
    let again = format!("{} again (control)", variants[0].name);
    lines.push(line(&again, costs, Some(control), "-"));
    lines
}

/// Whether the middle lies within what the same program shows beside itself.
fn verdict(ratios: Spread, control: Spread) -> &'static str {
    if ratios.middle > control.most {
        "dearer"
    } else if ratios.middle < control.least {
        "cheaper"
    } else {
        "no"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_a_name_with_options() {
        let plain = Variant::parse("plain").unwrap();
        assert_eq!((plain.program, plain.options.len()), (None, 0));
        let other = Variant::parse("other=program=target/dist/quorate --layout=fused").unwrap();
        assert_eq!(other.name, "other");
        assert_eq!(other.program, Some(PathBuf::from("target/dist/quorate")));
        assert_eq!(other.options, ["--layout=fused"]);
        for bad in ["", "=--layout=fused", "--layout=fused", "a=layout"] {
            assert!(Variant::parse(bad).is_err(), "{bad}");
        }
    }

    /// Scenario: the machine is half as fast in the second turn. One variant costs a tenth more in both, the other
    /// differs by less than the control does.
    #[test]
    fn a_variant_is_dearer_beyond_what_the_control_shows() {
        let variants = ["first", "dear", "alike"].map(|name| Variant::parse(name).unwrap());
        let row = Row {
            protocol: "rabia".to_owned(),
            clients: 1,
        };
        let turn = |speed: f64, control: f64| Turn {
            variants: vec![50.0 * speed, 55.0 * speed, 51.0 * speed],
            control: control * speed,
        };
        let lines = lines(&variants, &row, &[turn(1.0, 49.0), turn(2.0, 52.0)]);
        let verdicts: Vec<&str> = lines.iter().map(|line| line[5].as_str()).collect();
        assert_eq!(verdicts, ["-", "dearer", "no", "-"]);
        assert_eq!(lines[1][4], "1.100 [1.100-1.100]");
        assert_eq!(lines[3][4], "1.010 [0.980-1.040]");
    }
}
