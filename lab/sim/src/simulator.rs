//! From options to seeds that run: finds the protocol, checks its parameters, breaks it if asked.

use crate::known_protocols::{KnownProtocols, branches_with};
use crate::mix::Mix;
use crate::mutants::Fault;
use crate::options::{SimOptions, StoreName};
use crate::panics;
use crate::picture;
use crate::probe::{self, Lines, Probe};
use crate::profiles::{OLD_COPIES, PROFILES, SWITCHES};
use crate::recording::{Recording, SharedRecording};
use crate::report::{Report, Totals, Violation};
use crate::schedule::Schedule;
use crate::steady::Steady;
use crate::subject::{Subject, Testable, Tested, forget};
use crate::world::{Configure, Setup, World, replica};
use quorate_core::{
    Boot, Durability, Epoch, Group, Incarnation, MILLIS, Machine, Member, Seat, Slot,
};
use quorate_etcd_store::Store as EtcdStore;
use quorate_host::Flaw;
use quorate_plain_store::Store as PlainStore;
use quorate_protocols::{
    AnyConfig, AnyMachine, AnyMessage, AnySabotaged, AnySabotagedConfig, Only, Protocol,
    ProtocolSet, Registered, Sabotage, SabotagedConfig, Visitor, all_names, visit,
};
use quorate_redis_effects::Stream;
use quorate_redis_store::Store as RedisStore;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

/// Most replicas a cluster may have.
const REPLICAS_MAX: usize = 63;

/// What is written down of a run.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    /// Everything, in words.
    pub(crate) lines: Option<Lines>,
    /// What is drawn.
    pub(crate) recording: Option<SharedRecording>,
}

/// As much as a picture shows unless told.
pub(crate) const PICTURE_MS: u64 = 20;
/// Where a picture of a run without a violation ends: everything is under way.
const QUIET_MS: u64 = 1_000;

/// Runs single seeds of one kind of cluster.
pub struct Simulator {
    run: Box<dyn Fn(u64, Watch) -> Report + Send + Sync>,
    title: String,
    mix: Mix,
    branches: &'static [&'static str],
}

impl Simulator {
    /// Checks the options.
    ///
    /// # Errors
    /// A message that says which option is wrong and what would be right.
    pub fn new(options: &SimOptions) -> Result<Simulator, String> {
        Chosen::by(options)?.of(&options.protocol)
    }

    /// Clusters that replicate a program's own state machine, whatever store the options name. Keeps what panicking
    /// seeds say from now on, instead of printing it.
    ///
    /// # Errors
    /// As [`Simulator::new`].
    pub fn embedded<S: Testable>(options: &SimOptions) -> Result<Simulator, String> {
        catch_panics();
        let embedded: RunSeed = |recipe, seed, watch| {
            forget();
            run_any::<Tested<S>>(recipe, seed, watch)
        };
        let chosen = Chosen {
            store: StoreName::Plain,
            embedded: Some(embedded),
            ..Chosen::by(options)?
        };
        chosen.of(&options.protocol)
    }

    /// Clusters that replicate a program's own state machine by a protocol of its own, which is the only one they
    /// have.
    ///
    /// # Errors
    /// As [`Simulator::new`].
    pub fn embedded_by<S: Testable, P: Protocol>(
        options: &SimOptions,
    ) -> Result<Simulator, String> {
        catch_panics();
        let embedded: RunSeed = |recipe, seed, watch| {
            forget();
            run_among::<Only<P>, Tested<S>>(recipe, P::describe_message, seed, watch)
        };
        let chosen = Chosen {
            store: StoreName::Plain,
            embedded: Some(embedded),
            known: KnownProtocols::of::<Only<P>>(),
            ..Chosen::by(options)?
        };
        chosen.visit::<P>()
    }

    /// A cluster without faults that is measured.
    ///
    /// # Errors
    /// As [`Simulator::new`].
    pub(crate) fn steady(
        protocol: &str,
        replicas: usize,
        durability: Durability,
        params: &[(&str, &str)],
        steady: Steady,
    ) -> Result<Simulator, String> {
        let params = params.iter();
        let params = params.map(|(name, value)| ((*name).into(), (*value).into()));
        let chosen = Chosen {
            replicas,
            durability,
            params: params.collect(),
            schedule: Schedule::steady(steady),
            mutant: None,
            embedded: None,
            known: KnownProtocols::of::<Registered>(),
            store: match steady.offers {
                Some(_) => StoreName::Plain,
                None => StoreName::Etcd,
            },
        };
        chosen.of(protocol)
    }

    /// The names of all profiles.
    #[must_use]
    pub fn profiles(&self) -> Vec<&'static str> {
        PROFILES.iter().map(|profile| profile.name).collect()
    }

    /// Faults that many seeds must show and these totals do not.
    #[must_use]
    pub fn unseen(&self, totals: &Totals) -> Vec<&'static str> {
        self.mix.unseen(&totals.faults)
    }

    /// Rare branches of the protocol that no seed of these totals has taken.
    #[must_use]
    pub fn untaken(&self, totals: &Totals) -> Vec<&'static str> {
        let untaken = self
            .branches
            .iter()
            .filter(|name| !totals.branches.contains_key(**name));
        untaken.copied().collect()
    }

    /// The names of the profiles that take part in a seed.
    #[must_use]
    pub fn taking_part(&self, seed: u64) -> Vec<&'static str> {
        self.mix.names(seed)
    }

    /// Runs a seed; a panic is a violation like any other.
    #[must_use]
    pub fn seed(&self, seed: u64) -> Report {
        self.run_caught(seed, Watch::default())
    }

    /// Runs a seed and draws a part of it, from and to a time in ms; by default the last
    /// [`PICTURE_MS`] before a violation, or some where there is none.
    ///
    /// # Errors
    /// Says how much happens in a part that holds too much to be told apart.
    pub fn picture(
        &self,
        seed: u64,
        from_ms: Option<u64>,
        to_ms: Option<u64>,
    ) -> Result<(Report, String), String> {
        let report = self.seed(seed);
        let end_ms = match &report.violation {
            Some(_) => report.totals.simulated_ns / MILLIS + 1,
            None => QUIET_MS,
        };
        let from_ms = from_ms.unwrap_or_else(|| to_ms.unwrap_or(end_ms).saturating_sub(PICTURE_MS));
        let to_ms = to_ms.unwrap_or(from_ms + PICTURE_MS);
        if from_ms >= to_ms {
            return Err(format!("from {from_ms} to {to_ms} ms is no time"));
        }
        let recording = Recording::shared(from_ms * MILLIS..to_ms * MILLIS);
        let watch = Watch {
            recording: Some(Rc::clone(&recording)),
            ..Watch::default()
        };
        let report = self.run_caught(seed, watch);
        let title = format!("{}, seed {seed}, {from_ms} to {to_ms} ms", self.title);
        let picture = picture::render(&recording.borrow(), &title, &report)?;
        Ok((report, picture))
    }

    /// Runs a seed and writes down everything that happens.
    #[must_use]
    pub fn traced(&self, seed: u64) -> (Report, Vec<String>) {
        let lines = Lines::default();
        let watch = Watch {
            lines: Some(Rc::clone(&lines)),
            ..Watch::default()
        };
        let report = self.run_caught(seed, watch);
        let lines = lines.take();
        (report, lines)
    }

    fn run_caught(&self, seed: u64, watch: Watch) -> Report {
        panics::watch(seed);
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(seed, watch)));
        let message = panics::unwatch();
        result.unwrap_or_else(|_| panicked(seed, message))
    }
}

/// The report of a seed that panicked.
pub(crate) fn panicked(seed: u64, message: String) -> Report {
    let violation = Some(Violation::new("panic", message));
    Report {
        seed,
        digest: 0,
        totals: Totals::default(),
        violation,
        measured: None,
    }
}

struct Chosen {
    replicas: usize,
    durability: Durability,
    params: BTreeMap<String, String>,
    schedule: Schedule,
    mutant: Option<String>,
    store: StoreName,
    /// Runs a seed of a program's own state machine, in the place of a store.
    embedded: Option<RunSeed>,
    known: KnownProtocols,
}

/// Keeps what panicking seeds say from now on.
fn catch_panics() {
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| panics::install(|seed, message| eprintln!("seed {seed}: {message}")));
}

/// Runs a seed of what all seeds have in common.
type RunSeed = fn(&Recipe, u64, Watch) -> Report;

impl Chosen {
    fn by(options: &SimOptions) -> Result<Chosen, String> {
        let replicas = options.replicas;
        if !(1..=REPLICAS_MAX).contains(&replicas) {
            return Err(format!(
                "--replicas {replicas}: must be 1 to {REPLICAS_MAX}"
            ));
        }
        Ok(Chosen {
            replicas,
            durability: Durability::from(options.durability),
            params: options.params()?,
            schedule: Schedule::new(options)?,
            mutant: options.mutant.clone(),
            store: options.store,
            embedded: None,
            known: KnownProtocols::of::<Registered>(),
        })
    }

    fn of(self, protocol: &str) -> Result<Simulator, String> {
        visit(protocol, self).unwrap_or_else(|| {
            let known = all_names().join(", ");
            Err(format!("unknown protocol {protocol}: known are {known}"))
        })
    }
}

impl Visitor for Chosen {
    type Output = Result<Simulator, String>;

    fn visit<P: Protocol>(self) -> Self::Output {
        let Chosen {
            replicas,
            durability,
            params,
            schedule,
            mutant,
            store,
            embedded,
            known,
        } = self;
        let epoch = sample_epoch(P::NAME, replicas, durability, &params);
        (0..replicas).try_for_each(|index| P::config(&seat(&epoch, index)).map(drop))?;
        let failures_survived = P::failures_survived(&epoch);
        let mix = schedule.mix.clone();
        let fault = match &mutant {
            Some(name) => Fault::named::<P>(name)?,
            None => Fault::none(),
        };
        let sabotage = fault.sabotage;
        if sabotage.is_some() && mix.may_have(SWITCHES) {
            let name = P::NAME;
            return Err(format!(
                "a mutant of {name} knows no other protocol: without the profile {SWITCHES}"
            ));
        }
        if fault.store_flaw.is_some() && store != StoreName::Etcd {
            return Err("this mutant is of etcd's store: without --store".to_owned());
        }
        if fault.effects_mutant.is_some() && store != StoreName::Effects {
            return Err("this mutant is of drivers of servers: with --store effects".to_owned());
        }
        if mix.may_have(OLD_COPIES) && store == StoreName::Effects {
            return Err(format!(
                "the profile {OLD_COPIES} may take back what servers were given: without --store"
            ));
        }
        if sabotage.is_some() && store != StoreName::Etcd {
            return Err("a protocol's mutant is of etcd's store: without --store".into());
        }
        let recipe = Recipe {
            protocol: P::NAME,
            known,
            replicas,
            durability,
            params,
            schedule,
            branches: branches_with::<P>(),
            failures_survived,
            answers_name_slots: P::ANSWERS_NAME_SLOTS,
            flaw: fault.flaw,
            store_flaw: fault.store_flaw,
            effects_mutant: fault.effects_mutant,
        };
        let title = format!("{}, {replicas} replicas", P::NAME);
        let run = move |seed, watch: Watch| match (embedded, store) {
            (Some(run), _) => run(&recipe, seed, watch),
            (None, StoreName::Etcd) => run_one::<P, EtcdStore>(&recipe, sabotage, seed, watch),
            (None, StoreName::Plain) => run_any::<PlainStore>(&recipe, seed, watch),
            (None, StoreName::Redis) => run_any::<RedisStore>(&recipe, seed, watch),
            (None, StoreName::Effects) => run_any::<Stream>(&recipe, seed, watch),
        };
        Ok(Simulator {
            run: Box::new(run),
            title,
            mix,
            branches: P::branches(),
        })
    }
}

/// Runs a seed with machines of one protocol that are broken on purpose, or with those of all protocols.
fn run_one<P: Protocol, A: Subject>(
    recipe: &Recipe,
    sabotage: Option<Sabotage<P::Machine>>,
    seed: u64,
    watch: Watch,
) -> Report {
    if sabotage.is_none() {
        return run_any::<A>(recipe, seed, watch);
    }
    let configure = |seat: &Seat| {
        let mut inner = P::config(seat)?;
        if let Some(touches) = A::commands().touches {
            P::commute(&mut inner, touches);
        }
        let inner = AnySabotagedConfig::of::<P>(&SabotagedConfig { inner, sabotage });
        let lines = watch.lines.clone();
        Ok(probe::Config { inner, lines })
    };
    let words = AnyMessage::describe;
    // One world for the mutants of all protocols: most of what is compiled here is worlds.
    let setup = recipe.setup::<Probe<AnySabotaged>>(seed, &configure, words, watch.clone());
    World::<_, A>::new(setup).run()
}

/// Runs a seed with the machines that servers run. They are inside probes also when nothing is written down: a second
/// world would be compiled as long as the first, by each program that has a state machine of its own tried here.
fn run_any<A: Subject>(recipe: &Recipe, seed: u64, watch: Watch) -> Report {
    let configure = |seat: &Seat| {
        let inner = AnyConfig::of(seat)?.touching(A::commands().touches);
        let lines = watch.lines.clone();
        Ok(probe::Config { inner, lines })
    };
    let words = AnyMessage::describe;
    let setup = recipe.setup::<Probe<AnyMachine>>(seed, &configure, words, watch.clone());
    World::<_, A>::new(setup).run()
}

/// Runs a seed with machines of these protocols, of whose messages nothing is written down.
fn run_among<P: ProtocolSet, A: Subject>(
    recipe: &Recipe,
    words: fn(&<P::Machine as Machine>::Message) -> String,
    seed: u64,
    watch: Watch,
) -> Report {
    let config = |seat: &Seat| P::config(seat, A::commands().touches);
    let setup = recipe.setup::<P::Machine>(seed, &config, words, watch);
    World::<_, A>::new(setup).run()
}

/// What all seeds have in common.
struct Recipe {
    protocol: &'static str,
    known: KnownProtocols,
    replicas: usize,
    durability: Durability,
    params: BTreeMap<String, String>,
    schedule: Schedule,
    branches: Vec<&'static str>,
    failures_survived: usize,
    answers_name_slots: bool,
    flaw: Option<Flaw>,
    store_flaw: Option<quorate_etcd_store::Flaw>,
    effects_mutant: Option<quorate_redis_effects::Mutant>,
}

impl Recipe {
    fn setup<'a, M: Machine>(
        &'a self,
        seed: u64,
        configure: Configure<'a, M>,
        words: fn(&M::Message) -> String,
        watch: Watch,
    ) -> Setup<'a, M> {
        Setup {
            seed,
            protocol: self.protocol,
            known: &self.known,
            replicas: self.replicas,
            durability: self.durability,
            params: &self.params,
            schedule: &self.schedule,
            branches: &self.branches,
            failures_survived: self.failures_survived,
            answers_name_slots: self.answers_name_slots,
            flaw: self.flaw,
            store_flaw: self.store_flaw,
            effects_mutant: self.effects_mutant,
            configure,
            words,
            watch,
        }
    }
}

/// The first epoch of a cluster.
pub(crate) fn sample_epoch(
    protocol: &str,
    replicas: usize,
    durability: Durability,
    params: &BTreeMap<String, String>,
) -> Epoch {
    let member = |index| Member {
        id: replica(index),
        incarnation: Incarnation(index as u128),
    };
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (0..replicas).map(member).collect(),
        protocol: protocol.into(),
        durability,
        seed: 0,
        params: params.clone(),
    }
}

/// A replica's place in it.
pub(crate) fn seat(epoch: &Epoch, index: usize) -> Seat {
    Seat {
        group: Group(0),
        epoch: epoch.clone(),
        me: replica(index),
        boot: Boot(0),
    }
}
