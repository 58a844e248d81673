//! A budget for the memory that clients make a process take.
//!
//! The bytes of requests that are received and of answers that wait for their client are charged to the client's
//! connection before they are kept, and given back when they are dropped. No connection gets more than three quarters
//! of the budget, and the last eighth is for connections that hold little: whatever the greedy do, small requests of
//! others are served.

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The default budget of clients' requests and answers, in bytes.
pub const CLIENT_MEMORY: usize = 256 << 20;
/// A connection that holds no more than this holds little, in bytes.
const SMALL_HOLDING_BYTES: usize = 256 << 10;
/// The time between two looks for room by a request that waits for it.
const RETRY: Duration = Duration::from_millis(5);

/// The budget of a process. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    used: AtomicUsize,
    refused: AtomicU64,
}

impl Pool {
    /// Whether a connection may hold so much, when all together hold `used` with it.
    fn allows(&self, held: usize, used: usize) -> bool {
        let most = match held {
            0..=SMALL_HOLDING_BYTES => self.limit,
            _ => self.limit - self.limit / 8,
        };
        used <= most && held <= self.limit / 4 * 3
    }
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Budget {
        Budget(Arc::new(Pool {
            limit,
            used: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// The account of a new connection.
    #[must_use]
    pub fn account(&self) -> Account {
        Account(Arc::new(Holder {
            pool: Arc::clone(&self.0),
            held: AtomicUsize::new(0),
        }))
    }

    /// All bytes that may be charged.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes charged at present.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Requests refused so far because there was no room for them.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

/// What one connection holds of a budget. Clones are the same account.
#[derive(Clone, Debug)]
pub struct Account(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    pool: Arc<Pool>,
    held: AtomicUsize,
}

impl Account {
    /// A charge of no bytes yet.
    #[must_use]
    pub fn charge(&self) -> Charge {
        Charge {
            account: self.clone(),
            bytes: 0,
        }
    }

    /// Whether little of the budget is left: who has taken some of it for nothing is to give it back.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.0.pool.used.load(Ordering::Relaxed) >= self.0.pool.limit / 4 * 3
    }

    /// Bytes that this connection holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }
}

/// Bytes charged to a connection for one request or answer, given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
}

/// There is no room in the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "too many requests: the memory that this server has for clients (--max-client-memory) is in use",
        )
    }
}

impl std::error::Error for Exhausted {}

impl Charge {
    /// The bytes charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The account that the bytes are charged to.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Charges `bytes` more for what is otherwise refused.
    ///
    /// # Errors
    /// There is no room; the charge is as it was, and a refusal is counted.
    pub fn add(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.try_add(bytes).map_err(|_| self.refuse())
    }

    /// Charges `bytes` more, if there is room.
    ///
    /// # Errors
    /// There is none; the charge is as it was.
    pub fn try_add(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let (held, used) = self.charge(bytes);
        if self.pool().allows(held, used) {
            return Ok(());
        }
        self.give_back(bytes);
        Err(Exhausted)
    }

    /// Charges `bytes` more, for which the caller waits until `deadline` if there is no room yet.
    ///
    /// # Errors
    /// There was none until then; the charge is as it was, and a refusal is counted.
    pub async fn add_by(&mut self, bytes: usize, deadline: Instant) -> Result<(), Exhausted> {
        while self.try_add(bytes).is_err() {
            if Instant::now() >= deadline || bytes > self.pool().limit {
                return Err(self.refuse());
            }
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    /// Counts a refusal for want of room.
    #[must_use]
    pub fn refuse(&self) -> Exhausted {
        self.pool().refused.fetch_add(1, Ordering::Relaxed);
        Exhausted
    }

    /// Charges for `bytes` from now on that are in memory already, whether or not there is room.
    pub fn resize_anyway(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                self.charge(more);
            }
            None => self.give_back(self.bytes - bytes),
        }
    }

    /// Gives back `bytes` of what is charged.
    pub fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.account.0.held.fetch_sub(bytes, Ordering::Relaxed);
        self.pool().used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// All that is charged, as a charge of its own; this one goes on with none.
    #[must_use]
    pub fn take(&mut self) -> Charge {
        let rest = self.account.charge();
        std::mem::replace(self, rest)
    }

    /// Attaches this charge to bytes: it lasts until the last reference to them is gone.
    #[must_use]
    pub fn attach(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Attached {
            bytes,
            _charge: self,
        })
    }

    /// Takes bytes; says what the connection holds then, and all connections.
    fn charge(&mut self, bytes: usize) -> (usize, usize) {
        self.bytes += bytes;
        let held = self.account.0.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let used = self.pool().used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (held, used)
    }

    fn pool(&self) -> &Pool {
        &self.account.0.pool
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Bytes and what was charged for them.
struct Attached<T> {
    bytes: T,
    _charge: Charge,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Attached<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = Budget::new(1000);
        let account = budget.account();
        let mut charge = account.charge();
        charge.add(500).unwrap();
        charge.give_back(100);
        assert_eq!(
            (charge.bytes(), account.held(), budget.used()),
            (400, 400, 400)
        );
        let bytes = charge.attach(vec![1, 2, 3]);
        let slice = bytes.slice(1..);
        drop(bytes);
        assert_eq!((&slice[..], budget.used()), (&[2, 3][..], 400));
        drop(slice);
        assert_eq!((account.held(), budget.used()), (0, 0));
    }

    #[test]
    fn the_greedy_leave_something_for_who_comes_next() {
        const LIMIT: usize = 256 << 20;
        let budget = Budget::new(LIMIT);
        let greedy = |_| {
            let mut charge = budget.account().charge();
            while charge.try_add(64 << 10).is_ok() {}
            charge
        };
        let mut held = vec![greedy(0)];
        assert_eq!(held[0].bytes(), LIMIT / 4 * 3);
        held.extend((1..=100).map(greedy));
        let places = (LIMIT - budget.used()) / SMALL_HOLDING_BYTES;
        assert!(places > 20, "{places}");
        for place in 0..places {
            let mut charge = budget.account().charge();
            assert_eq!(charge.add(SMALL_HOLDING_BYTES), Ok(()), "{place}");
            assert_eq!(charge.add(1), Err(Exhausted), "{place}");
            held.push(charge);
        }
        assert!(budget.used() <= LIMIT && budget.used() + SMALL_HOLDING_BYTES > LIMIT);
        drop(held);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let budget = Budget::new(1000);
        let account = budget.account();
        let mut charge = account.charge();
        assert_eq!(charge.add(751), Err(Exhausted));
        assert_eq!((charge.bytes(), account.held(), budget.used()), (0, 0, 0));
        charge.resize_anyway(2000);
        assert_eq!(charge.add(1), Err(Exhausted));
        assert_eq!(budget.account().charge().add(1), Err(Exhausted));
    }

    #[tokio::test]
    async fn who_waits_gets_room_once_there_is_some() {
        let budget = Budget::new(1000);
        let mut first = budget.account().charge();
        first.add(750).unwrap();
        let mut second = budget.account().charge();
        let soon = || Instant::now() + Duration::from_millis(100);
        assert_eq!(second.add_by(500, soon()).await, Err(Exhausted));
        assert_eq!((second.bytes(), budget.refused()), (0, 1));
        let later = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(first);
        };
        let (added, ()) = tokio::join!(second.add_by(500, soon()), later);
        assert_eq!((added, second.bytes(), budget.refused()), (Ok(()), 500, 1));
    }
}
