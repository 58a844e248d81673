//! Bytes of clients in memory: read without space for those who say nothing, and charged to the budget of all.

use crate::limits::{KEPT_BYTES, READ_BYTES, STALL_MAX_SHORT};
use bytes::Bytes;
use quorate_server::{Account, Charge};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout};

thread_local! {
    /// Where bytes arrive, of whichever connection has some.
    static ARRIVALS: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// The next bytes of a connection, none at its end. They take no more memory than they are long, and a connection that
/// is waited for takes none.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    poll_fn(|context| {
        ARRIVALS.with_borrow_mut(|space| {
            let mut space = ReadBuf::new(space);
            ready!(Pin::new(&mut *from).poll_read(context, &mut space))?;
            Poll::Ready(Ok(Bytes::copy_from_slice(space.filled())))
        })
    })
    .await
}

/// Charges an account for bytes that are to be kept, once there is room.
///
/// # Errors
/// When there was none in time: the connection is to be closed.
pub(crate) async fn charge(
    account: &Account,
    bytes: usize,
    patience: Duration,
) -> io::Result<Charge> {
    let mut charge = account.charge();
    let charged = (charge).add_by(bytes + KEPT_BYTES, Instant::now() + patience);
    let charged = charged.await;
    charged.map_err(|full| io::Error::new(io::ErrorKind::OutOfMemory, full))?;
    Ok(charge)
}

/// Writes bytes to a client that takes some of them within each `stall_max`; soon, while memory is short for others.
///
/// # Errors
/// When it does not, or is gone.
pub(crate) async fn write_all(
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    account: &Account,
    stall_max: Duration,
) -> io::Result<()> {
    let mut rest = bytes;
    let mut since = Instant::now();
    while !rest.is_empty() {
        match timeout(STALL_MAX_SHORT.min(stall_max), to.write(rest)).await {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                rest = &rest[written?..];
                since = Instant::now();
            }
            Err(_) if account.is_short() || since.elapsed() >= stall_max => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_server::Budget;

    #[tokio::test]
    async fn bytes_take_their_length() {
        let mut arrived = &b"PING\r\n"[..];
        assert_eq!(read(&mut arrived).await.unwrap(), "PING\r\n");
        assert_eq!(read(&mut arrived).await.unwrap(), "");
        let long = vec![b'x'; 2 * READ_BYTES];
        assert_eq!(read(&mut &long[..]).await.unwrap().len(), READ_BYTES);
    }

    #[tokio::test]
    async fn who_finds_no_room_is_told_after_a_while() {
        let budget = Budget::new(1 << 20);
        let account = budget.account();
        let patience = Duration::from_millis(20);
        let kept = charge(&account, 700_000, patience).await.unwrap();
        let error = charge(&account, 700_000, patience).await.unwrap_err();
        assert!(error.to_string().contains("--max-client-memory"), "{error}");
        assert_eq!(budget.refused(), 1);
        drop(kept);
        assert!(charge(&account, 700_000, patience).await.is_ok());
    }

    #[tokio::test]
    async fn who_takes_nothing_is_closed_soon_where_memory_is_short() {
        let budget = Budget::new(1 << 20);
        let account = budget.account();
        let stall_max = 10 * STALL_MAX_SHORT;
        let mut most = account.charge();
        most.resize_anyway(1 << 20);
        let (mut to, _from) = tokio::io::duplex(8);
        let began = Instant::now();
        let written = write_all(&mut to, b"more than eight", &account, stall_max).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < stall_max);
        drop(most);
        let late = write_all(&mut to, b"x", &account, STALL_MAX_SHORT / 10).await;
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
