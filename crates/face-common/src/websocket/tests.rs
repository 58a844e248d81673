//! Frames as clients send them, and as they must not.

use super::*;
use quorate_server::Budget;
use tokio::io::duplex;

const MAX: usize = 200_000;

/// A frame of a client.
fn frame(flags: u8, content: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut frame = vec![flags];
    match content.len() {
        short @ ..=125 => frame.push(MASKED | short as u8),
        middle @ ..=0xffff => {
            frame.push(MASKED | 126);
            frame.extend((middle as u16).to_be_bytes());
        }
        long => {
            frame.push(MASKED | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    let masks = mask.iter().cycle();
    frame.extend(content.iter().zip(masks).map(|(byte, mask)| byte ^ mask));
    frame
}

/// What is read of these bytes, after which the connection ends.
async fn read(bytes: &[u8], budget: &Budget) -> Vec<Incoming> {
    let (mut client, server) = duplex(1 << 20);
    client.write_all(bytes).await.expect("there is room");
    drop(client);
    let mut reader = Reader::new(server, MAX, budget.account().charge());
    let mut all = Vec::new();
    loop {
        all.push(reader.next().await);
        if let Some(Incoming::End(_) | Incoming::Failed(_)) = all.last() {
            return all;
        }
    }
}

#[tokio::test]
async fn messages_come_whole_whatever_their_frames() {
    let long = vec![7; 70_000];
    let frames = [
        frame(FINAL | TEXT, b"one"),
        frame(TEXT, b"tw"),
        frame(FINAL | PING, b"there?"),
        frame(CONTINUATION, b""),
        frame(FINAL | PONG, b""),
        frame(FINAL | CONTINUATION, b"o"),
        frame(FINAL | BINARY, &long),
        frame(FINAL | TEXT, &long[..300]),
        frame(FINAL | CLOSE, b"\x03\xe8"),
        frame(FINAL | TEXT, b"never read"),
    ];
    let budget = Budget::new(1 << 20);
    let read = read(&frames.concat(), &budget).await;
    let expected: [&[u8]; 5] = [b"one", b"there?", b"two", &long, &long[..300]];
    for (incoming, expected) in read.iter().zip(expected) {
        match incoming {
            Incoming::Message(content) | Incoming::Ping(content) => assert_eq!(content, expected),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(read[5], Incoming::End(CloseReason::Normal)));
    assert!(budget.used() >= long.len(), "messages are charged");
    drop(read);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn what_is_no_frame_of_a_client_ends_the_connection() {
    use CloseReason::{NoRoom, Protocol, TooLong};
    let unmasked = [FINAL | TEXT, 1, b'a'].to_vec();
    let endless = [&[FINAL | TEXT, MASKED | 127][..], &[0xff; 12]].concat();
    let cases = [
        (unmasked, Protocol),
        (frame(FINAL | CONTINUATION, b"a"), Protocol),
        (
            [frame(TEXT, b"a"), frame(FINAL | TEXT, b"b")].concat(),
            Protocol,
        ),
        (frame(FINAL | 0x40 | TEXT, b"compressed"), Protocol),
        (frame(FINAL | 3, b""), Protocol),
        (frame(PING, b""), Protocol),
        (frame(FINAL | PING, &[0; 126]), Protocol),
        (frame(FINAL | TEXT, &vec![0; MAX + 1]), TooLong),
        (
            [frame(TEXT, &vec![0; MAX]), frame(FINAL, b"a")].concat(),
            TooLong,
        ),
        (endless, TooLong),
        (frame(FINAL | TEXT, &vec![0; 150_000]), NoRoom),
    ];
    for (bytes, expected) in cases {
        let budget = Budget::new(if expected == NoRoom { 100_000 } else { 1 << 20 });
        let read = read(&bytes, &budget).await;
        let [Incoming::End(reason)] = read[..] else {
            panic!("{read:?}")
        };
        assert_eq!(reason, expected);
        assert_eq!(budget.used(), 0);
    }
    let cut_off = &frame(FINAL | TEXT, b"cut off")[..9];
    let read = read(cut_off, &Budget::new(1 << 20)).await;
    assert!(matches!(read[..], [Incoming::Failed(_)]));
}

#[tokio::test]
async fn messages_of_any_length_are_sent() {
    for length in [0, 125, 126, 0xffff, 0x1_0000] {
        let (mut client, server) = duplex(1 << 20);
        let mut writer = Writer::new(server);
        let text = vec![b'x'; length];
        writer.text(&text).await.expect("it is sent");
        writer.pong(b"here").await.expect("it is sent");
        writer
            .close(CloseReason::TooLong)
            .await
            .expect("it is sent");
        let mut sent = Vec::new();
        client.read_to_end(&mut sent).await.expect("all of it");
        let head: &[u8] = match length {
            0..=125 => &[0x81, length as u8],
            126..=0xffff => &[0x81, 126, (length >> 8) as u8, length as u8],
            _ => &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0],
        };
        let words = "the message is too long";
        let close = [&[0x88, 2 + words.len() as u8, 0x03, 0xf1], words.as_bytes()].concat();
        assert_eq!(sent, [head, &text, &b"\x8a\x04here"[..], &close].concat());
    }
}
