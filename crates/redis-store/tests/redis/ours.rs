//! The store, as a client meets it.

use bytes::{Bytes, BytesMut};
use quorate_core::{Application, At, EntryId, Wire};
use quorate_redis_store::{Answer, Call, Query, Request, Store};
use quorate_resp::{Reply, Resp};

pub(crate) struct Ours {
    pub(crate) store: Store,
    pub(crate) resp: Resp,
    pub(crate) now_ms: u64,
    entries: u64,
}

/// The words of a call.
pub(crate) fn words(line: &str) -> Vec<Bytes> {
    quorate_resp::split_words(line.as_bytes()).unwrap_or_else(|| panic!("quotes in {line:?}"))
}

pub(crate) fn call(line: &str) -> Call {
    Call { args: words(line) }
}

/// Where the command of this number is applied.
pub(crate) fn at(entry: u64, now_ms: u64) -> At {
    let mut at = At {
        stamp_ns: now_ms * 1_000_000,
        ..At::default()
    };
    at.payload.entry = EntryId {
        seq: entry,
        ..at.payload.entry
    };
    at
}

impl Ours {
    pub(crate) fn new() -> Self {
        Ours {
            store: Store::new(),
            resp: Resp::Two,
            now_ms: 1_700_000_000_000,
            entries: 0,
        }
    }

    /// Applies a body.
    pub(crate) fn apply(&mut self, request: &Request) -> Bytes {
        self.entries += 1;
        self.store
            .apply(at(self.entries, self.now_ms), &request.to_bytes(), &[])
    }

    /// The reply to one call, through the log.
    pub(crate) fn call(&mut self, args: &[Bytes]) -> Bytes {
        let args = args.to_vec();
        let request = Request {
            resp: self.resp,
            calls: vec![Call { args }],
            ..Request::default()
        };
        self.apply(&request)
    }

    /// The reply to one call that is asked as a query.
    pub(crate) fn ask(&self, args: &[Bytes]) -> Option<Bytes> {
        let args = args.to_vec();
        let query = Query::Calls {
            resp: self.resp,
            db: 0,
            clock_ns: self.now_ms * 1_000_000,
            calls: vec![Call { args }],
            asker: None,
        };
        match self.store.query(&query) {
            Answer::Replies(replies) => Some(replies),
            Answer::Due => None,
            other => panic!("calls gave {other:?}"),
        }
    }

    /// The reply to a line, as a client reads it.
    pub(crate) fn says(&mut self, line: &str) -> Reply {
        parse(&self.call(&words(line)))
    }

    /// The reply to a line, as text.
    pub(crate) fn text(&mut self, line: &str) -> String {
        self.call(&words(line)).escape_ascii().to_string()
    }
}

/// The one reply that these bytes are.
pub(crate) fn parse(reply: &[u8]) -> Reply {
    let mut input = BytesMut::from(reply);
    let parsed = Reply::take(&mut input)
        .expect("it is a reply")
        .expect("it is complete");
    assert!(input.is_empty(), "behind {parsed:?} is {input:?}");
    parsed
}

/// The whole store, as a snapshot of pieces this long.
pub(crate) fn snapshot(store: &mut Store, piece_bytes: usize) -> Vec<Bytes> {
    let mut cut = store.cut();
    let pieces = std::iter::from_fn(|| store.piece(&mut cut, piece_bytes)).collect();
    store.release(cut);
    pieces
}

/// A store that this snapshot is loaded into.
pub(crate) fn load(pieces: &[Bytes]) -> Result<Store, String> {
    let mut store = Store::new();
    pieces
        .iter()
        .try_for_each(|piece| store.load(piece.clone()))?;
    store.loaded()?;
    Ok(store)
}
