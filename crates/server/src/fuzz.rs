//! What arrives at the peer port and what lies in a data folder, from hostile bytes.

use crate::meta::{Meta, seal as seal_text, tests::meta};
use crate::peer::addresses::Addresses;
use crate::peer::call_back::{CallBack, CallBackAnswer};
use crate::peer::datagrams::packet::{self, Header, Secret};
use crate::peer::datagrams::terms::Terms;
use crate::peer::frame::{FrameDecoder, header};
use crate::peer::gateways::GatewayHello;
use crate::peer::handshake::{Hello, Lane, Welcome, tests::identity};
use crate::peer::incarnations::parse;
use crate::peer::join_question::{JoinAnswer, JoinQuestion, Stage};
use crate::peer::opening::{self, Caller, Opening};
use crate::peer::tunnels::TunnelHello;
use bytes::Bytes;
use quorate_core::{ClusterId, ReplicaId, Wire};
use quorate_fuzz::{Fuzz, Limits, check_recorded_wire};
use quorate_host::SupportedVersions;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

fn framed(payloads: &[Bytes]) -> Vec<u8> {
    let mut stream = Vec::new();
    for payload in payloads {
        let header = header(std::slice::from_ref(payload)).expect("it is short");
        stream.extend_from_slice(&header);
        stream.extend_from_slice(payload);
    }
    stream
}

/// Puts the checksums of frames right.
fn seal_frames(input: &mut [u8]) {
    let mut start = 0;
    while input.len() >= start + 8 {
        let length: [u8; 4] = input[start..start + 4].try_into().expect("four bytes");
        let end = (start + 8).saturating_add(u32::from_le_bytes(length) as usize);
        if end > input.len() {
            return;
        }
        let crc = crc_fast::crc32_iscsi(&input[start + 8..end]);
        input[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        start = end;
    }
}

#[test]
fn connections_bear_any_bytes_and_hold_no_more_than_arrived() {
    let cut = |input: Bytes| {
        let mut decoder = FrameDecoder::default();
        let mut payloads = Vec::new();
        for part in input.chunks(100) {
            payloads.extend(decoder.feed(part)?);
        }
        Ok::<_, crate::peer::frame::FrameError>(payloads)
    };
    let payloads = [&b"one"[..], &[7; 300], b"three"].map(Bytes::copy_from_slice);
    let limits = Limits {
        // A read asks the kernel for 64 KiB.
        base_bytes: 512 << 10,
        ..Limits::default()
    };
    let fuzz = fuzz("frames")
        .seeds([framed(&payloads)])
        .limits(limits)
        .seal(|input| seal_frames(input));
    fuzz.run(cut, |input, payloads| {
        let whole = framed(payloads);
        assert_eq!(whole, input[..whole.len()]);
    });
}

fn datagram_header() -> Header {
    Header {
        secret: Secret(9),
        wants_report: true,
        is_probe: false,
        number: 3,
        charged: 5000,
    }
}

/// Puts the checksum of a datagram right.
fn seal_datagram(input: &mut [u8]) {
    if let Some((head, rest)) = input.split_first_chunk_mut::<20>() {
        head[16..].copy_from_slice(&crc_fast::crc32_iscsi(rest).to_le_bytes());
    }
}

#[test]
fn the_port_for_datagrams_bears_any_bytes() {
    let open = |input: Bytes| {
        let opened = packet::open(&input).map_err(|error| format!("{error:?}"));
        opened.map(|(header, frames)| {
            let frames = frames.flatten().map(Bytes::copy_from_slice);
            (header, frames.collect::<Vec<_>>())
        })
    };
    let probe = Header {
        is_probe: true,
        ..datagram_header()
    };
    let seeds = [
        packet::tests::datagram(datagram_header(), &[b"one", &[7; 300], b"three"]),
        packet::tests::datagram(probe, &[&[0; 40]]),
    ];
    let fuzz = fuzz("datagram")
        .seeds(seeds)
        .seal(|input| seal_datagram(input));
    fuzz.run(open, |input, (header, frames)| {
        let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
        let again = packet::tests::datagram(*header, &frames);
        match header.is_probe {
            true => assert!(frames.is_empty()),
            false => assert_eq!(again, input[..]),
        }
    });
}

/// What a handshake message begins with, and its body.
fn opened<T: Opening>(message: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    ready(opening::send(
        &mut bytes,
        message,
        SupportedVersions::SHIPPED,
    ))
    .expect("memory takes everything");
    bytes
}

/// Bytes in memory are always there: nothing is waited for.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("it waits for something"),
    }
}

/// Puts length and checksum of a handshake message right.
fn seal_opening(input: &mut [u8]) {
    const HEAD_BYTES: usize = 24;
    if input.len() >= HEAD_BYTES {
        let length = (input.len() - HEAD_BYTES) as u32;
        let crc = crc_fast::crc32_iscsi(&input[HEAD_BYTES..]);
        input[16..20].copy_from_slice(&length.to_le_bytes());
        input[20..24].copy_from_slice(&crc.to_le_bytes());
    }
}

fn answers() -> Vec<JoinAnswer> {
    let epoch = identity(1).epoch;
    let (incarnation, digest) = (epoch.members[0].incarnation, 9);
    let stages = [
        Stage::Empty,
        Stage::Joining {
            incarnation,
            config: digest,
        },
        Stage::Confirmed {
            incarnation,
            digest,
        },
        Stage::Begun {
            epoch: epoch.clone(),
            later: Some(incarnation),
            addresses: Some(Addresses(vec![(ReplicaId(3), "h3:2380".to_owned())])),
        },
        Stage::Begun {
            epoch,
            later: Some(incarnation),
            addresses: None,
        },
    ];
    let answer = |stage| JoinAnswer {
        cluster: ClusterId(7),
        from: ReplicaId(2),
        stage,
        newest: None,
    };
    let mut answers = Vec::from(stages.map(answer));
    answers.extend(answers.last().cloned().map(|last| JoinAnswer {
        newest: Some(meta(1).epoch),
        ..last
    }));
    answers
}

fn hello() -> Hello {
    identity(1).hello(ReplicaId(2), Lane::Messages, identity(1).boot)
}

fn call_back() -> CallBack {
    let hello = hello();
    CallBack {
        cluster: hello.cluster,
        from: hello.to,
        to: hello.from,
        incarnation: hello.incarnation,
        token: hello.boot,
    }
}

fn call_back_answers() -> [CallBackAnswer; 2] {
    [false, true].map(|is_mine| CallBackAnswer { is_mine })
}

fn questions() -> [JoinQuestion; 2] {
    [None, Some(77)].map(|asker| JoinQuestion {
        cluster: identity(1).cluster,
        from: ReplicaId(3),
        to: ReplicaId(1),
        asker,
    })
}

fn welcomes() -> [Welcome; 2] {
    let one = identity(1);
    let rejection = identity(3).judge(&hello(), false);
    let rejection = rejection.expect_err("it is for another");
    [None, Some(rejection)].map(|rejected| one.welcome(rejected))
}

#[test]
fn handshakes_of_all_released_versions_are_read_and_those_of_this_one_written() {
    let place = (
        env!("CARGO_MANIFEST_DIR"),
        "wire",
        SupportedVersions::SHIPPED.newest.0,
    );
    check_recorded_wire(place, "hello", &[hello()]);
    check_recorded_wire(place, "welcome", &welcomes());
    check_recorded_wire(place, "question", &questions());
    check_recorded_wire(place, "answer", &answers());
    check_recorded_wire(place, "call-back", &[call_back()]);
    check_recorded_wire(place, "call-back-answer", &call_back_answers());
}

fn gateway() -> GatewayHello {
    GatewayHello {
        cluster: identity(1).cluster,
        me: ReplicaId(ReplicaId::GATEWAYS + 5),
        boot: identity(1).boot,
        group: identity(1).group,
    }
}

fn tunnel() -> TunnelHello {
    TunnelHello {
        cluster: identity(1).cluster,
        group: identity(1).group,
        from: ReplicaId(1),
        to: ReplicaId(2),
        purpose: Bytes::from("what for"),
    }
}

#[test]
fn tunnels_bear_any_bytes() {
    fuzz("tunnel-hello")
        .seeds([tunnel().to_bytes()])
        .run_wire::<TunnelHello>();
}

#[test]
fn handshakes_bear_any_bytes() {
    let (hello, call_back) = (hello(), call_back());
    let questions = questions();

    fuzz("hello").seeds([hello.to_bytes()]).run_wire::<Hello>();
    fuzz("welcome")
        .seeds(welcomes().map(|welcome| welcome.to_bytes()))
        .run_wire::<Welcome>();
    fuzz("question")
        .seeds(questions.each_ref().map(Wire::to_bytes))
        .run_wire::<JoinQuestion>();
    fuzz("call-back")
        .seeds([call_back.to_bytes()])
        .run_wire::<CallBack>();
    fuzz("call-back-answer")
        .seeds(call_back_answers().map(|answer| answer.to_bytes()))
        .run_wire::<CallBackAnswer>();
    let terms = Terms {
        secret: Secret(u128::MAX / 7),
        window: 1 << 20,
    };
    fuzz("terms").seeds([terms.to_bytes()]).run_wire::<Terms>();
    let answers = answers().into_iter().map(|answer| answer.to_bytes());
    fuzz("answer").seeds(answers).run_wire::<JoinAnswer>();

    let receive = |input: Bytes| {
        ready(opening::receive_caller(
            &mut &input[..],
            SupportedVersions::SHIPPED,
        ))
    };
    let limits = Limits {
        // A body may claim so many bytes before they come.
        base_bytes: 16 << 10,
        ..Limits::default()
    };
    let gateway = gateway();
    fuzz("gateway-hello")
        .seeds([gateway.to_bytes()])
        .run_wire::<GatewayHello>();
    let tunnel = tunnel();
    let [question, asking] = &questions;
    let seeds = [
        opened(&hello),
        opened(question),
        opened(asking),
        opened(&call_back),
        opened(&gateway),
        opened(&tunnel),
    ];
    let fuzz = fuzz("opening")
        .seeds(seeds)
        .limits(limits)
        .seal(|input| seal_opening(input));
    fuzz.run(receive, |input, caller| {
        let again = match caller {
            Caller::Peer(hello, _) => opened(hello),
            Caller::Asking(question) => opened(question),
            Caller::CallingBack(asked) => opened(asked),
            Caller::Gateway(hello, _) => opened(hello),
            Caller::Tunnel(hello) => opened(hello),
        };
        // A newer replica may say more, and one may speak older versions, too.
        if input[8..12] == again[8..12] {
            assert_eq!(again[24..], input[24..again.len()]);
        }
    });
}

/// Puts the line with the checksum right, if there is one.
fn seal_lines(input: &mut Vec<u8>) {
    const CHECKSUM: &[u8] = b"# crc32c = ";
    let at = (0..input.len())
        .rev()
        .find(|at| input[*at..].starts_with(CHECKSUM));
    if let Some(at) = at
        && let Ok(text) = str::from_utf8(&input[..at])
    {
        *input = seal_text(text).into_bytes();
    }
}

#[test]
fn identity_files_bear_any_bytes() {
    let limits = Limits {
        // What a parser of text needs for its tree.
        base_bytes: 64 << 10,
        bytes_per_byte: 128,
        time: Duration::from_millis(200),
    };
    let read = |input: Bytes| match str::from_utf8(&input) {
        Ok(text) => Meta::from_text(text).map_err(|error| format!("{error:?}")),
        Err(error) => Err(error.to_string()),
    };
    let seeds = [1, 2].map(|replica| meta(replica).to_text());
    fuzz("meta")
        .seeds(seeds)
        .limits(limits)
        .seal(seal_lines)
        .run(read, |_, meta| {
            assert_eq!(Meta::from_text(&meta.to_text()).as_ref(), Ok(meta));
        });
    let lives = seal_text("# Peers.\n2 = 0000000000000000000000000000000b\n");
    let parse = |input: Bytes| parse(&input);
    fuzz("lives")
        .seeds([lives])
        .limits(limits)
        .seal(seal_lines)
        .run(parse, |_, lives| {
            assert!(lives.len() <= usize::from(u16::MAX));
        });
}
