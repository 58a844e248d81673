//! What clients and the engine of one relay share, all on one thread: where clients are served, and which answers may
//! leave.

use quorate_core::ReplicaId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use tokio::sync::{Notify, watch};

/// Where clients are served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// No executor is known, or it does not take clients yet.
    Nowhere,
    /// Another server's data is being brought over: clients are to ask that one.
    Importing,
    /// The own server takes clients, in this epoch.
    Here {
        epoch: u64,
        /// The folder of the server's socket.
        folder: PathBuf,
    },
    /// Another replica executes, in this epoch.
    There { epoch: u64, executor: ReplicaId },
}

/// What clients and the engine share.
pub(crate) struct Hub {
    state: RefCell<State>,
    place: watch::Sender<Place>,
    paused: watch::Sender<bool>,
    /// Answers came, or somebody waits, or does not any more.
    pub(crate) changed: Notify,
}

struct State {
    /// The label of answers that are read now.
    label: u64,
    /// Whether answers were read under that label.
    is_dirty: bool,
    /// The label up to which answers may leave.
    released: u64,
    /// Bytes of answers that may not leave yet.
    held: u64,
    /// How many of them the engine knows of.
    told_held: u64,
    /// Who has answers that may not leave yet, in the order of labels.
    holders: VecDeque<Holder>,
    /// Clients that wait for an executor or an answer.
    waiting: usize,
    /// Connections to the own server.
    served: usize,
    /// Clients at the port.
    clients: usize,
    /// Whether a client found nobody at the own server's socket.
    is_unreachable: bool,
}

/// A client's answers under one label.
struct Holder {
    label: u64,
    bytes: u64,
    /// Wakes the client.
    client: Rc<Notify>,
}

impl Hub {
    pub(crate) fn new() -> Rc<Hub> {
        Rc::new(Hub {
            state: RefCell::new(State {
                label: 1,
                is_dirty: false,
                released: 0,
                held: 0,
                told_held: 0,
                holders: VecDeque::new(),
                waiting: 0,
                served: 0,
                clients: 0,
                is_unreachable: false,
            }),
            place: watch::Sender::new(Place::Nowhere),
            paused: watch::Sender::new(false),
            changed: Notify::new(),
        })
    }

    /// Where clients are served, from now on.
    pub(crate) fn watch_place(&self) -> watch::Receiver<Place> {
        self.place.subscribe()
    }

    /// Whether no bytes of clients are to be taken, from now on.
    pub(crate) fn watch_paused(&self) -> watch::Receiver<bool> {
        self.paused.subscribe()
    }

    /// Clients are served somewhere else; those that were served elsewhere end.
    pub(crate) fn set_place(&self, place: Place) {
        self.place.send_if_modified(|before| {
            let is_new = *before != place;
            *before = place;
            is_new
        });
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Labels of an epoch begin: nothing of the last one is released any more.
    pub(crate) fn begin_epoch(&self) {
        let mut state = self.state.borrow_mut();
        (state.label, state.released, state.is_dirty) = (1, 0, false);
        state.holders.clear();
        (state.held, state.told_held) = (0, 0);
    }

    /// Answers were read, for the client that is woken by this when they may leave. Returns their label.
    pub(crate) fn hold(&self, bytes: usize, holder: &Rc<Notify>) -> u64 {
        let mut state = self.state.borrow_mut();
        let label = state.label;
        let bytes = bytes as u64;
        state.held += bytes;
        let last = state.holders.back_mut();
        match last.filter(|last| last.label == label && Rc::ptr_eq(&last.client, holder)) {
            Some(last) => last.bytes += bytes,
            None => state.holders.push_back(Holder {
                label,
                bytes,
                client: Rc::clone(holder),
            }),
        }
        if !state.is_dirty {
            state.is_dirty = true;
            self.changed.notify_one();
        }
        label
    }

    /// The label up to which answers may leave.
    pub(crate) fn released(&self) -> u64 {
        self.state.borrow().released
    }

    /// Closes the present batch of answers, if there is one: the label of the last batch, and the bytes that are held.
    /// `None` if neither has changed.
    pub(crate) fn take_batch(&self) -> Option<(u64, u64)> {
        let mut state = self.state.borrow_mut();
        if std::mem::take(&mut state.is_dirty) {
            state.label += 1;
        } else if state.held == state.told_held {
            return None;
        }
        state.told_held = state.held;
        Some((state.label - 1, state.held))
    }

    /// Answers up to a label may leave. Whether a client takes them is no matter of others: they are not held any more.
    pub(crate) fn release(&self, up_to: u64) {
        let mut state = self.state.borrow_mut();
        state.released = state.released.max(up_to);
        while let Some(holder) = state.holders.front()
            && holder.label <= up_to
        {
            if let Some(holder) = state.holders.pop_front() {
                state.held -= holder.bytes;
                holder.client.notify_one();
            }
        }
        // Between nothing and much, the engine learns of it with the next answers.
        if state.held <= state.told_held / 2 {
            self.changed.notify_one();
        }
    }

    /// Nobody listens at the own server's socket, or it is gone.
    pub(crate) fn note_unreachable(&self) {
        self.state.borrow_mut().is_unreachable = true;
        self.changed.notify_one();
    }

    /// Whether a client found nobody at the own server's socket since this was asked last.
    pub(crate) fn take_unreachable(&self) -> bool {
        std::mem::take(&mut self.state.borrow_mut().is_unreachable)
    }

    /// How many clients wait for an executor or an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.state.borrow().waiting
    }

    /// How many connections to the own server clients have.
    pub(crate) fn served(&self) -> usize {
        self.state.borrow().served
    }

    /// How many clients are at the port.
    pub(crate) fn clients(&self) -> usize {
        self.state.borrow().clients
    }

    /// Counts a client until what this returns is dropped.
    pub(crate) fn count_client(self: &Rc<Self>) -> Counted {
        Counted::new(self, |state| &mut state.clients)
    }

    /// Counts a connection to the own server until what this returns is dropped.
    pub(crate) fn count_served(self: &Rc<Self>) -> Counted {
        Counted::new(self, |state| &mut state.served)
    }
}

/// One of those that are counted.
pub(crate) struct Counted {
    hub: Rc<Hub>,
    of: fn(&mut State) -> &mut usize,
}

impl Counted {
    fn new(hub: &Rc<Hub>, of: fn(&mut State) -> &mut usize) -> Counted {
        *of(&mut hub.state.borrow_mut()) += 1;
        hub.changed.notify_one();
        Counted {
            hub: Rc::clone(hub),
            of,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *(self.of)(&mut self.hub.state.borrow_mut()) -= 1;
        self.hub.changed.notify_one();
    }
}

/// Whether one client waits for an executor or an answer.
pub(crate) struct Waiting {
    hub: Rc<Hub>,
    counted: RefCell<Option<Counted>>,
}

impl Waiting {
    pub(crate) fn new(hub: &Rc<Hub>) -> Waiting {
        Waiting {
            hub: Rc::clone(hub),
            counted: RefCell::new(None),
        }
    }

    pub(crate) fn set(&self, waits: bool) {
        let mut counted = self.counted.borrow_mut();
        if waits != counted.is_some() {
            *counted = waits.then(|| Counted::new(&self.hub, |state| &mut state.waiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_labelled_by_batch_and_released_in_order() {
        let hub = Hub::new();
        let [one, two] = [(), ()].map(|()| Rc::new(Notify::new()));
        assert_eq!(hub.take_batch(), None);
        assert_eq!((hub.hold(10, &one), hub.hold(5, &two)), (1, 1));
        assert_eq!(hub.take_batch(), Some((1, 15)));
        assert_eq!(hub.hold(1, &one), 2);
        assert_eq!(hub.released(), 0);
        hub.release(1);
        assert_eq!(hub.released(), 1);
        assert_eq!(hub.state.borrow().holders.len(), 1);
        // They may leave, whether or not their clients take them.
        assert_eq!(hub.take_batch(), Some((2, 1)));
        hub.begin_epoch();
        assert_eq!((hub.hold(3, &one), hub.released()), (1, 0));
    }

    #[test]
    fn who_waits_is_counted_once() {
        let hub = Hub::new();
        let waiting = Waiting::new(&hub);
        waiting.set(true);
        waiting.set(true);
        assert_eq!(hub.waiting(), 1);
        waiting.set(false);
        assert_eq!(hub.waiting(), 0);
        waiting.set(true);
        drop(waiting);
        assert_eq!(hub.waiting(), 0);
    }
}
