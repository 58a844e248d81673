//! The network between peers for datagrams: what waits on a connection is lost here.

use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::Weather;

/// What becomes of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    /// The datagram arrives so many times, each after this delay.
    Arrives(usize, Duration),
}

/// Passes datagrams on for as long as there is weather, as it lets them.
pub(super) async fn forward(socket: UdpSocket, target: String, weather: watch::Receiver<Weather>) {
    let socket = std::sync::Arc::new(socket);
    let mut random = fastrand::Rng::with_seed(0);
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // An error is of one that was sent before.
        let Ok(count) = socket.recv(&mut buffer).await else {
            continue;
        };
        let now = *weather.borrow();
        let Fate::Arrives(times, late) = fate(&now, count, &mut random) else {
            continue;
        };
        for _ in 0..times {
            let (datagram, target) = (buffer[..count].to_vec(), target.clone());
            let socket = socket.clone();
            if late.is_zero() {
                let _ = socket.send_to(&datagram, target).await;
                continue;
            }
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                let _ = socket.send_to(&datagram, target).await;
            });
        }
    }
}

/// Where connections stall, datagrams are lost and doubled; where delays vary, datagrams overtake each other.
fn fate(weather: &Weather, bytes: usize, random: &mut fastrand::Rng) -> Fate {
    if weather.cut || random.f64() < weather.stalls {
        return Fate::Lost;
    }
    let narrow = bytes as f64 / weather.bytes_per_second.max(1) as f64;
    let narrow = match weather.bytes_per_second {
        0 => Duration::ZERO,
        _ => Duration::from_secs_f64(narrow),
    };
    let late = weather.delay + narrow + weather.jitter.mul_f64(random.f64());
    let times = 1 + usize::from(random.f64() < weather.stalls);
    Fate::Arrives(times, late)
}

const DATAGRAM_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weather_is_the_same_for_datagrams() {
        let mut random = fastrand::Rng::with_seed(1);
        let calm = Weather::default();
        let once = Fate::Arrives(1, Duration::ZERO);
        assert_eq!(fate(&calm, 1000, &mut random), once);
        let cut = Weather { cut: true, ..calm };
        assert_eq!(fate(&cut, 1000, &mut random), Fate::Lost);
        let slow = Weather {
            delay: Duration::from_millis(20),
            jitter: Duration::from_millis(180),
            bytes_per_second: 10_000,
            stalls: 0.3,
            ..calm
        };
        let fates: Vec<Fate> = (0..200).map(|_| fate(&slow, 1000, &mut random)).collect();
        let late = |fate: &Fate| match fate {
            Fate::Lost => None,
            Fate::Arrives(times, late) => Some((*times, *late)),
        };
        let late: Vec<_> = fates.iter().filter_map(late).collect();
        assert!((120..180).contains(&late.len()), "{} arrive", late.len());
        assert!(late.iter().any(|(times, _)| *times == 2));
        let range = Duration::from_millis(120)..Duration::from_millis(300);
        assert!(late.iter().all(|(_, late)| range.contains(late)));
        let overtakes = |pair: &[(usize, Duration)]| pair[1].1 < pair[0].1;
        assert!(late.windows(2).any(overtakes));
    }
}
