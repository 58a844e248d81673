//! The socket of all datagrams of a replica, with what the kernel has for many at once: one call cuts a buffer into
//! datagrams (GSO) and one call takes in what has arrived (recvmmsg, GRO). Without these, it is a call for each.

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// What is asked of the kernel for datagrams that have arrived; it may give less.
const BUFFER_BYTES: usize = 4 << 20;
/// Calls to receive take so many buffers.
const BUFFERS: usize = 8;
/// Each has room for what a kernel makes of many datagrams that arrive together.
const BUFFER_LEN: usize = 64 << 10;

/// The UDP socket of a replica, with what it can do at once.
#[derive(Debug)]
pub(super) struct Socket {
    inner: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    buffer_bytes: u64,
}

impl Socket {
    /// Takes over a bound port.
    ///
    /// Must be called inside the runtime that drives it.
    pub(super) fn new(port: std::net::UdpSocket) -> io::Result<Socket> {
        port.set_nonblocking(true)?;
        let inner = UdpSocket::from_std(port)?;
        let of = UdpSockRef::from(&inner);
        let state = UdpSocketState::new(of)?;
        // Less is enough, too: no more is ever under way than what the kernel gave.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&inner), BUFFER_BYTES);
        let buffer_bytes = state.recv_buffer_size(UdpSockRef::from(&inner))? as u64;
        let local = inner.local_addr()?;
        Ok(Socket {
            inner,
            state,
            local,
            buffer_bytes,
        })
    }

    /// What the kernel keeps for it.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Datagrams that one call sends.
    pub(super) fn run_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends datagrams of one length, of which the last may be shorter.
    pub(super) fn send(&self, to: SocketAddr, datagrams: &[u8], length: usize) -> io::Result<()> {
        let transmit = Transmit {
            destination: self.as_seen_here(to),
            ecn: None,
            contents: datagrams,
            segment_size: (datagrams.len() > length).then_some(length),
            src_ip: None,
        };
        // Not by way of readiness: what the socket does not take goes another way.
        self.state
            .try_send(UdpSockRef::from(&self.inner), &transmit)
    }

    /// Sockets for both families have their own way to write addresses of the older one.
    fn as_seen_here(&self, to: SocketAddr) -> SocketAddr {
        match (self.local.ip(), to.ip()) {
            (IpAddr::V6(_), IpAddr::V4(ip)) => (ip.to_ipv6_mapped(), to.port()).into(),
            (IpAddr::V4(_), IpAddr::V6(ip)) => (ip.to_canonical(), to.port()).into(),
            _ => to,
        }
    }
}

/// What has arrived.
pub(super) struct Received {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BUFFERS],
    count: usize,
}

impl Received {
    pub(super) fn new() -> Received {
        Received {
            buffers: vec![vec![0; BUFFER_LEN]; BUFFERS],
            metas: [RecvMeta::default(); BUFFERS],
            count: 0,
        }
    }

    /// Waits until something has arrived, and takes it in.
    pub(super) async fn fill(&mut self, socket: &Socket) -> io::Result<()> {
        self.count = 0;
        let Received { buffers, metas, .. } = self;
        let mut slices: [IoSliceMut<'_>; BUFFERS] = {
            let mut buffers = buffers.iter_mut();
            std::array::from_fn(|_| match buffers.next() {
                Some(buffer) => IoSliceMut::new(buffer),
                None => unreachable!("there are as many"),
            })
        };
        let receive = || {
            let of = UdpSockRef::from(&socket.inner);
            socket.state.recv(of, &mut slices, metas)
        };
        self.count = socket.inner.async_io(Interest::READABLE, receive).await?;
        Ok(())
    }

    /// The datagrams, in the order in which they arrived.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let filled = self.buffers.iter().zip(&self.metas).take(self.count);
        filled.flat_map(|(buffer, meta)| {
            let stride = meta.stride.max(1);
            buffer.get(..meta.len).unwrap_or_default().chunks(stride)
        })
    }
}
