//! Clients that send much of what costs them little: their connection ends, and soon. Those who only look like them go
//! on.

use super::*;

const CONTINUATION: u8 = 9;
/// The code of a GOAWAY for who sends too much (RFC 9113, section 7).
const ENHANCE_YOUR_CALM: u32 = 11;
/// The code of a RST_STREAM for who is no longer interested.
const CANCEL: u32 = 8;

/// Sends a preface, all of this, and a ping. Says with which code the connection ended, if that was not answered.
async fn ended_with(bytes: Vec<u8>) -> Option<u32> {
    let (client, serving) = open(&ConnectionLimits::default()).await;
    let (mut read, mut write) = tokio::io::split(client);
    let ping = frame(PING, 0, 0, &[7; 8]);
    let all = [PREFACE, &bytes, &ping].concat();
    // Whoever is closed cannot send the rest.
    let sending = tokio::spawn(async move { drop(write.write_all(&all).await) });
    let end = async {
        loop {
            let (kind, flags, payload) = whole_frame(&mut read).await;
            match kind {
                GOAWAY => break Some(code(&payload[4..8])),
                PING if flags & ACK != 0 => break None,
                _ => {}
            }
        }
    };
    let ended = timeout(PATIENCE, end).await.expect("an end or an answer");
    assert!(ended.is_some() || !serving.is_finished());
    drop(read);
    drop(sending.await);
    ended
}

async fn whole_frame(client: &mut (impl AsyncRead + Unpin)) -> (u8, u8, Vec<u8>) {
    let mut header = [0; 9];
    client.read_exact(&mut header).await.expect("a frame");
    let [a, b, c, kind, flags, ..] = header;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    let read = client.read_exact(&mut payload).await;
    read.expect("a whole frame");
    (kind, flags, payload)
}

fn code(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

fn cancel(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Scenario: requests that are taken back as fast as they are made (rapid reset, CVE-2023-44487).
#[tokio::test]
async fn who_takes_requests_back_as_fast_as_they_come_is_closed() {
    let begun_and_taken_back = |number: u32| {
        let stream = 2 * number + 1;
        [head(stream, "/unary"), cancel(stream)].concat()
    };
    let requests: Vec<Vec<u8>> = (0..10_000).map(begun_and_taken_back).collect();
    assert_eq!(ended_with(requests.concat()).await, Some(ENHANCE_YOUR_CALM));
}

/// Scenario: a head of a request that goes on and on, a few bytes a frame (CONTINUATION flood, CVE-2024-27316).
#[tokio::test]
async fn a_head_in_endless_frames_is_closed() {
    let first = frame(HEADERS, 0, 1, &fields("/unary", &[]));
    let next = frame(CONTINUATION, 0, 1, &[0, 1, b'x', 1, b'y']);
    let bytes = [first, next.repeat(1_000)].concat();
    assert_eq!(ended_with(bytes).await, Some(ENHANCE_YOUR_CALM));
}

/// Scenario: a client that opens a watch, has its answer, and gives it up, five hundred times.
#[tokio::test]
async fn who_gives_up_what_was_answered_goes_on() {
    let (mut client, serving) = open(&ConnectionLimits::default()).await;
    client.write_all(PREFACE).await.expect("it is open");
    for number in 0..500 {
        let stream = 2 * number + 1;
        let begun = head(stream, "/stream");
        client.write_all(&begun).await.expect("it is open");
        let answered = async {
            loop {
                let (kind, at) = next_frame(&mut client).await;
                assert_ne!(kind, GOAWAY, "after {number}");
                if (kind, at) == (HEADERS, stream) {
                    return;
                }
            }
        };
        timeout(PATIENCE, answered).await.expect("an answer");
        client.write_all(&cancel(stream)).await.expect("it is open");
    }
    assert!(!serving.is_finished());
}
