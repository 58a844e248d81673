//! Clients: one question at a time each, wherever their replica says that the executor is.

use crate::client::{Client, Phase};
use crate::fake::Socket;
use crate::history::{Ask, Op};
use crate::node::Held;
use crate::options::MS;
use crate::reference::number;
use crate::world::{Event, World};
use bytes::Bytes;
use quorate_redis_effects::Input;
use quorate_resp::{Reply, encode_request};

/// How long a client waits for an answer.
const PATIENCE_NS: u64 = 4_000 * MS;
/// Keys that are set and read.
const KEYS: u8 = 3;

/// A question in bytes, and how many replies it has.
fn request(ask: &Ask, form: u8) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut add = |words: &[&str]| encode_request(words, &mut out);
    let replies = match ask {
        Ask::Get(key) => {
            add(&["GET", &format!("k{key}")]);
            1
        }
        Ask::Set(key, value) => {
            add(&["SET", &format!("k{key}"), &value.to_string()]);
            1
        }
        Ask::Read => {
            add(&["GET", "n"]);
            1
        }
        Ask::Count if form == 0 => {
            add(&["EVAL", "script", "1", "n"]);
            1
        }
        Ask::Count if form == 1 => {
            add(&["MULTI"]);
            add(&["SET", "short", "x", "PX", "40"]);
            add(&["INCR", "n"]);
            add(&["EXEC"]);
            4
        }
        Ask::Count => {
            add(&["INCR", "n"]);
            1
        }
        Ask::Add(member) => {
            add(&["SADD", "s", &member.to_string()]);
            1
        }
        Ask::Pop => {
            add(&["SPOP", "s"]);
            1
        }
    };
    (out, replies)
}

impl World {
    pub(crate) fn client_next(&mut self, index: usize) {
        let now_ns = self.now_ns;
        match self.clients[index].phase {
            Phase::Idle if self.faults.is_over => return,
            Phase::Idle => {
                let ask = self.next_ask(index);
                let op = Op {
                    ask,
                    begin: now_ns,
                    answer: None,
                };
                self.history.push(op);
                self.clients[index].phase = Phase::Waiting(self.history.len() - 1);
                self.give(index);
            }
            Phase::Waiting(_) => {
                self.maybe_move_home(index);
                self.give(index);
            }
            Phase::Given(_, since_ns) if now_ns - since_ns > PATIENCE_NS => {
                self.close_client(index);
            }
            Phase::Given(..) => {}
        }
        self.after(5 * MS, Event::Client(index));
    }

    fn next_ask(&mut self, client: usize) -> Ask {
        let number = self.history.len() as u64 + 1;
        // Half of the runs have clients that only read.
        let only_reads = self.options.has_races
            && self.options.seed.is_multiple_of(2)
            && !client.is_multiple_of(3);
        match self.rng.u8(..12) {
            draw if only_reads && draw < 5 => Ask::Read,
            _ if only_reads => Ask::Get(self.rng.u8(..KEYS)),
            0..3 => Ask::Count,
            3..5 => Ask::Read,
            5 => Ask::Set(self.rng.u8(..KEYS), number),
            6..9 => Ask::Get(self.rng.u8(..KEYS)),
            9..11 => Ask::Add(number),
            _ => Ask::Pop,
        }
    }

    /// Where replicas come and go, a client looks for another one that may know more, now and then.
    fn maybe_move_home(&mut self, index: usize) {
        if self.wanted.is_some() && self.rng.u8(..) == 0 {
            self.clients[index].home = self.rng.usize(..self.nodes.len());
        }
    }

    /// Gives a question to the executor's server, if it can be reached.
    fn give(&mut self, index: usize) {
        let Phase::Waiting(op) = self.clients[index].phase else {
            return;
        };
        if !self.nodes[self.clients[index].home].is_up {
            self.clients[index].home = self.rng.usize(..self.nodes.len());
        }
        let home = self.clients[index].home;
        let Some((epoch, executor)) = self.nodes[home].executor else {
            return;
        };
        let node = &self.nodes[executor];
        if !node.is_up || node.gate != Some(epoch) || node.is_paused {
            return;
        }
        let life = node.server_life;
        let client = &mut self.clients[index];
        let number = match client.connection {
            Some((at, of, number)) if (at, of) == (executor, epoch) => number,
            _ => op as u64,
        };
        client.connection = Some((executor, epoch, number));
        client.input.clear();
        client.phase = Phase::Given(op, self.now_ns);
        let form = self.rng.u8(..4);
        let (bytes, replies) = request(&self.history[op].ask, form);
        self.clients[index].replies_left = replies;
        let mut delay_ns = self.hop();
        if executor != home {
            delay_ns += self.trip();
        }
        let socket = Socket::Client((index as u64) << 32 | number);
        self.after(
            delay_ns,
            Event::ToServer(executor, life, socket, bytes.into()),
        );
    }

    /// The face read bytes of an answer: they are held.
    pub(crate) fn answer_read(&mut self, index: usize, client: u64, bytes: Bytes) {
        let node = &mut self.nodes[index];
        if node.gate.is_none() {
            return;
        }
        node.label += 1;
        let label = node.label;
        node.held.push_back(Held {
            label,
            client,
            bytes,
        });
        let held = node.held.iter().map(|held| held.bytes.len() as u64).sum();
        let life = node.life;
        self.tell(index, life, Input::Answers { total: label, held });
    }

    pub(crate) fn release(&mut self, index: usize, up_to: u64) {
        let is_first_kept = |held: &Held| held.label > up_to;
        if self.nodes[index].held.front().is_none_or(is_first_kept) {
            return;
        }
        while let Some(held) = self.nodes[index].held.pop_front() {
            if held.label > up_to {
                self.nodes[index].held.push_front(held);
                break;
            }
            let delay_ns = self.hop();
            let client = (held.client >> 32) as usize;
            let lane = self.nodes[index].lane(Socket::Client(held.client), self.now_ns, delay_ns);
            let event = Event::Answered(client, held.client & 0xffff_ffff, held.bytes);
            self.after(lane - self.now_ns, event);
        }
        let node = &self.nodes[index];
        let held = node.held.iter().map(|held| held.bytes.len() as u64).sum();
        let (life, total) = (node.life, node.label);
        self.after(0, Event::Tell(index, life, Input::Answers { total, held }));
    }

    pub(crate) fn answered(&mut self, index: usize, number_of: u64, bytes: &[u8]) {
        let now_ns = self.now_ns;
        let client = &mut self.clients[index];
        let Phase::Given(op, _) = client.phase else {
            return;
        };
        if client
            .connection
            .is_none_or(|(.., number)| number != number_of)
        {
            return;
        }
        client.input.extend_from_slice(bytes);
        let mut last = None;
        while client.replies_left > 0
            && let Ok(Some(reply)) = Reply::take(&mut client.input)
        {
            client.replies_left -= 1;
            last = Some(reply);
        }
        if client.replies_left > 0 {
            return;
        }
        client.phase = Phase::Idle;
        let value = match last {
            Some(Reply::Error(_)) | None => return,
            Some(Reply::Array(parts)) => parts.last().and_then(value_of),
            Some(reply) => value_of(&reply),
        };
        self.history[op].answer = Some((now_ns, value));
    }

    /// A client's connection ends: nobody knows what became of its question.
    pub(crate) fn close_client(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some((executor, _, number)) = client.connection.take() else {
            return;
        };
        if matches!(client.phase, Phase::Given(..)) {
            client.phase = Phase::Idle;
        }
        let life = self.nodes[executor].server_life;
        let socket = Socket::Client((client.index as u64) << 32 | number);
        self.after(MS, Event::ServerClosed(executor, life, socket));
    }

    /// All connections to the server of a replica end, and what is held for them.
    pub(crate) fn close_clients(&mut self, index: usize) {
        self.nodes[index].held.clear();
        let of_node = |client: &&Client| client.connection.is_some_and(|(at, ..)| at == index);
        let closed: Vec<usize> = (self.clients.iter())
            .filter(of_node)
            .map(|client| client.index)
            .collect();
        for client in closed {
            self.close_client(client);
        }
    }
}

fn value_of(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Integer(value) => u64::try_from(*value).ok(),
        Reply::Bulk(text) => number(&[b":", &text[..]].concat()),
        _ => None,
    }
}
