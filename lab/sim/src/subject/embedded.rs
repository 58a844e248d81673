//! A program's own state machine as the application under test, compared with a model.
//!
//! Every result carries the command's number among all that were applied, and every answer the number of commands
//! before it. So the order of everything is known, and to be judged is that real time and the model allow it.

use super::{Ask, Asked, Subject, Who, Workload};
use crate::judge::{self, Journal};
use crate::plan::Load;
use crate::values::Values;
use bytes::Bytes;
use fastrand::Rng;
use quorate::{Applied, Cut, Replicated, StateMachine};
use quorate_core::{Application, At, Countdown, Payload};
use quorate_etcd_store::Flaw;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

/// A state machine that can be tested: it says what is asked of it, and what that should come to.
pub trait Testable:
    StateMachine<
        Command: Clone + PartialEq + Debug,
        Reply: Clone + PartialEq + Debug,
        Query: Clone + PartialEq + Debug,
        Answer: Clone + PartialEq + Debug,
    >
{
    /// What the state machine is compared with: the same in the simplest words, such as a map.
    type Model: Default;

    /// A command for a client to send, of the many there can be. `unique` is another number each time.
    fn draw_command(rng: &mut Rng, unique: u64) -> Self::Command;

    /// A query for a client to ask.
    fn draw_query(rng: &mut Rng) -> Self::Query;

    /// What a command should come to.
    fn expected_reply(
        model: &mut Self::Model,
        at: &Applied,
        command: &Self::Command,
    ) -> Self::Reply;

    /// What a query should come to.
    fn expected_answer(model: &Self::Model, query: &Self::Query) -> Self::Answer;

    /// What must hold of every state, such as that a sum never changes.
    ///
    /// # Errors
    /// What does not hold.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A command that some replica applied.
#[derive(Clone)]
struct LoggedCommand {
    at: Applied,
    body: Bytes,
    result: Bytes,
}

thread_local! {
    /// What was applied in the seed that this thread runs, by number.
    static LOG: RefCell<BTreeMap<u64, LoggedCommand>> = const { RefCell::new(BTreeMap::new()) };
}

/// Forgets what was applied in the seed before.
pub(crate) fn forget() {
    LOG.take();
}

/// A state machine that numbers what it says, and compares it with what other replicas said.
pub(crate) struct Tested<S: Testable>(Replicated<S>);

/// What clients ask of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Request<C, Q> {
    /// A command to be ordered.
    Command(C),
    /// A query to be answered.
    Query(Q),
}

/// An answer, its number and its time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Returned<R, A> {
    stamp: u64,
    /// The number of the command, or of those before the query.
    number: u64,
    told: Told<R, A>,
}

/// What an answer says.
#[derive(Clone, PartialEq, Debug)]
enum Told<R, A> {
    Reply(R),
    Answer(A),
}

impl<S: Testable> Application for Tested<S> {
    type Query = Arc<S::Query>;
    type Answer = (u64, S::Answer);
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes {
        let result = self.0.apply(at, body, payloads);
        let token = self.0.commands();
        let logged = LoggedCommand {
            at: Applied {
                slot: at.slot.0,
                index: at.index,
                time_ns: at.stamp_ns,
                who: at.principal.0,
                request: None,
                token,
            },
            body: body.clone(),
            result: result.clone(),
        };
        LOG.with_borrow_mut(|log| {
            let first = log.entry(token).or_insert_with(|| logged.clone());
            assert!(
                first.result == result && first.body == *body,
                "two replicas applied command {token}, and had different replies: {:?} and {:?}; what they do depends \
                 on something beside the commands, such as a clock",
                Replicated::<S>::reply(&first.result),
                Replicated::<S>::reply(&result),
            );
        });
        if let Err(why) = self.0.state().check() {
            panic!("after command {token} an invariant does not hold: {why}");
        }
        [&token.to_le_bytes()[..], &result].concat().into()
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.0.take_countdowns()
    }

    fn query(&self, query: &Arc<S::Query>) -> (u64, S::Answer) {
        (self.0.commands(), self.0.query(query))
    }

    fn cut(&mut self) -> Cut {
        self.0.cut()
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        self.0.piece(cut, bytes)
    }

    fn release(&mut self, cut: Cut) {
        self.0.release(cut);
    }

    fn empty(&self) -> Self {
        Tested(self.0.empty())
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.0.load(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.0.loaded()
    }

    fn installed(&mut self) {
        self.0.installed();
    }
}

impl<S: Testable> Subject for Tested<S> {
    type Request = Request<S::Command, S::Query>;
    type Returned = Returned<S::Reply, S::Answer>;
    type Workload = Drawing;

    fn fresh(_: Option<Flaw>) -> Self {
        Tested(Replicated::default())
    }

    /// Leaves out leases, watchers, compactions and users.
    fn limit(load: &mut Load) {
        (load.tenants, load.watchers, load.compact_every_ns) = (0, 0, None);
        load.users = false;
    }

    fn put(_: u8, value: u64, _: usize) -> Self::Request {
        Request::Command(S::draw_command(&mut Rng::with_seed(value), value))
    }

    fn get(key: u8) -> Self::Request {
        Request::Query(S::draw_query(&mut Rng::with_seed(key.into())))
    }

    fn command(request: &Self::Request, _: Option<usize>) -> (Bytes, Vec<Payload>) {
        let Request::Command(command) = request else {
            unreachable!("queries are not commands");
        };
        let body = Replicated::<S>::body(command);
        let body = body.unwrap_or_else(|error| panic!("{command:?} has no form: {error}"));
        (body, Vec::new())
    }

    fn read(request: &Self::Request) -> Arc<S::Query> {
        match request {
            Request::Query(query) => Arc::new(query.clone()),
            Request::Command(_) => unreachable!("commands are not queries"),
        }
    }

    fn response(
        _: &Self::Request,
        result: &Bytes,
        _: &Values,
        stamp: u64,
    ) -> Result<Self::Returned, String> {
        let (number, result) = numbered(result).ok_or("a result has no number")?;
        let reply = Replicated::<S>::reply(&result).map_err(|error| error.to_string())?;
        let told = Told::Reply(reply);
        Ok(Returned {
            stamp,
            number,
            told,
        })
    }

    fn got(
        (number, answer): &Self::Answer,
        _: &Values,
        stamp: u64,
    ) -> Result<Self::Returned, String> {
        Ok(Returned {
            stamp,
            number: *number,
            told: Told::Answer(answer.clone()),
        })
    }

    fn judge(
        history: Vec<Asked<Self>>,
        _: Vec<judge::Op>,
        _: &[judge::Sight],
        _: &Journal,
    ) -> Result<(), String> {
        let log = LOG.with_borrow(Clone::clone);
        check_times(&history)?;
        check_model::<S>(history, &log)
    }
}

fn numbered(result: &Bytes) -> Option<(u64, Bytes)> {
    let (number, _) = result.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), result.slice(number.len()..)))
}

/// Whatever was answered before something was asked is before it in the order, too.
fn check_times<S: Testable>(history: &[Asked<Tested<S>>]) -> Result<(), String> {
    let answered = history
        .iter()
        .filter_map(|asked| Some((asked, asked.returned.as_ref()?)));
    let mut ended: Vec<(u64, u64)> = answered
        .map(|(_, told)| (told.stamp, told.number))
        .collect();
    ended.sort_unstable();
    let mut highest = 0;
    for (_, number) in &mut ended {
        highest = highest.max(*number);
        *number = highest;
    }
    for asked in history {
        let Some(told) = &asked.returned else {
            continue;
        };
        let before = ended.partition_point(|(stamp, _)| *stamp < asked.invoked);
        let floor = before.checked_sub(1).map_or(0, |last| ended[last].1);
        let is_late = match told.told {
            Told::Reply(_) => told.number <= floor,
            Told::Answer(_) => told.number < floor,
        };
        if is_late {
            return Err(format!(
                "{:?} was asked after command {floor} was answered, and came to {told:?} before it",
                asked.request
            ));
        }
    }
    Ok(())
}

/// A query, and what it came to.
type Answered<S> = (<S as StateMachine>::Query, <S as StateMachine>::Answer);

/// All replies and answers are those of the model that does the same in the same order.
fn check_model<S: Testable>(
    history: Vec<Asked<Tested<S>>>,
    log: &BTreeMap<u64, LoggedCommand>,
) -> Result<(), String> {
    let mut queries: BTreeMap<u64, Vec<Answered<S>>> = BTreeMap::new();
    for asked in history {
        if let (Request::Query(query), Some(told)) = (asked.request, asked.returned)
            && let Told::Answer(answer) = told.told
        {
            queries
                .entry(told.number)
                .or_default()
                .push((query, answer));
        }
    }
    let mut model = S::Model::default();
    let mut numbers = (0..).zip([None].into_iter().chain(log.values().map(Some)));
    numbers.try_for_each(|(number, logged)| {
        if let Some(LoggedCommand { at, body, result }) = logged {
            let command = Replicated::<S>::command(body).map_err(|error| error.to_string())?;
            let expected = S::expected_reply(&mut model, at, &command);
            let reply = Replicated::<S>::reply(result).map_err(|error| error.to_string())?;
            if at.token != number || reply != expected {
                return Err(format!(
                    "command {number}, {command:?}, came to {reply:?}, and the model has {expected:?}"
                ));
            }
        }
        for (query, answer) in queries.remove(&number).unwrap_or_default() {
            let expected = S::expected_answer(&model, &query);
            if answer != expected {
                return Err(format!(
                    "{query:?} after command {number} gave {answer:?}, and the model has {expected:?}"
                ));
            }
        }
        Ok(())
    })
}

/// Draws what clients ask: three commands for each query.
pub(crate) struct Drawing;

impl<S: Testable> Workload<Tested<S>> for Drawing {
    fn new(_: &Load, _: Rng) -> Drawing {
        Drawing
    }

    fn draw(
        &mut self,
        rng: &mut Rng,
        who: &Who,
        next_value: &mut u64,
    ) -> Ask<Request<S::Command, S::Query>> {
        if rng.u8(..4) == 0 {
            return Ask::Read(Rc::new(Request::Query(S::draw_query(rng))));
        }
        let change = Rc::new(Workload::<Tested<S>>::change(self, rng, who, next_value));
        match rng.bool() {
            true => Ask::Command(change),
            false => Ask::Write(change),
        }
    }

    fn change(
        &mut self,
        rng: &mut Rng,
        _: &Who,
        next_value: &mut u64,
    ) -> Request<S::Command, S::Query> {
        *next_value += 1;
        Request::Command(S::draw_command(rng, *next_value))
    }

    fn arrive(
        &mut self,
        rng: &mut Rng,
        next_value: &mut u64,
    ) -> (u8, Request<S::Command, S::Query>) {
        *next_value += 1;
        (0, Request::Command(S::draw_command(rng, *next_value)))
    }

    fn learn(
        &mut self,
        _: usize,
        _: u8,
        _: &Request<S::Command, S::Query>,
        _: &Returned<S::Reply, S::Answer>,
    ) {
    }
}
