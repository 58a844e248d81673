//! Ranges in several messages, against the same ranges in one.

use crate::backend;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, PutRequest, RangeRequest, RangeResponse, SortOrder, SortTarget,
};
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::KvClient;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

type Client = KvClient<Channel>;

async fn start() -> Client {
    KvClient::new(backend::serve_face(backend::start(), Limits::default()).await)
        .max_decoding_message_size(usize::MAX)
}

async fn put(client: &mut Client, key: String, value: Bytes) {
    let request = PutRequest {
        key: key.into(),
        value,
        ..PutRequest::default()
    };
    client.put(request).await.expect("a put");
}

fn all() -> RangeRequest {
    RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        ..RangeRequest::default()
    }
}

/// The messages of a range.
async fn messages(
    client: &mut Client,
    request: RangeRequest,
) -> Result<Vec<RangeResponse>, Status> {
    let mut stream = client.range_stream(request).await?.into_inner();
    let mut messages = Vec::new();
    while let Some(message) = stream.message().await? {
        messages.push(message.range_response.expect("a part of the range"));
    }
    Ok(messages)
}

/// Merges messages as protobuf does.
fn merged(messages: Vec<RangeResponse>) -> RangeResponse {
    let mut whole = RangeResponse::default();
    for message in messages {
        whole.header = message.header.or(whole.header);
        whole.kvs.extend(message.kvs);
        whole.more |= message.more;
        whole.count += message.count;
    }
    whole
}

/// Ranges of every kind.
fn ranges() -> Vec<RangeRequest> {
    let key = Bytes::from_static(b"1000");
    vec![
        all(),
        RangeRequest { limit: 1, ..all() },
        RangeRequest { limit: 10, ..all() },
        RangeRequest { limit: 11, ..all() },
        RangeRequest {
            limit: 2399,
            ..all()
        },
        RangeRequest {
            limit: 2400,
            ..all()
        },
        RangeRequest {
            limit: 2401,
            ..all()
        },
        RangeRequest {
            keys_only: true,
            ..all()
        },
        RangeRequest {
            count_only: true,
            ..all()
        },
        RangeRequest {
            revision: 1200,
            ..all()
        },
        RangeRequest {
            serializable: true,
            ..all()
        },
        RangeRequest {
            key: key.clone(),
            range_end: Bytes::new(),
            ..all()
        },
        RangeRequest {
            key: "none".into(),
            range_end: Bytes::new(),
            ..all()
        },
        RangeRequest {
            range_end: key,
            limit: 7,
            ..all()
        },
        RangeRequest {
            sort_order: SortOrder::Ascend as i32,
            ..all()
        },
    ]
}

/// Scenario: ranges of every kind, over fewer keys than one message holds and over many more.
#[tokio::test]
async fn the_messages_of_a_range_make_the_range() {
    let mut client = start().await;
    for number in 0..2500 {
        let value = Bytes::from(vec![b'v'; number % 7]);
        put(&mut client, format!("{:04}", number % 2400), value).await;
    }
    for request in ranges() {
        let expected = client.range(request.clone()).await.expect("a range");
        let messages = messages(&mut client, request.clone()).await;
        let messages = messages.expect("a stream");
        let (last, before) = messages.split_last().expect("a message");
        assert!(last.header.is_some());
        for message in before {
            let rest = RangeResponse {
                kvs: Vec::new(),
                ..message.clone()
            };
            assert_eq!(rest, RangeResponse::default(), "{request:?}");
        }
        assert_eq!(merged(messages), expected.into_inner(), "{request:?}");
    }
}

/// Scenario: values of 1 MiB between short ones. No message is much larger than one of them.
#[tokio::test]
async fn messages_are_of_bounded_size() {
    let mut client = start().await;
    for number in 0..40 {
        let length = if number % 20 < 12 { 1 } else { 1 << 20 };
        put(&mut client, format!("{number:02}"), vec![7; length].into()).await;
    }
    let messages = messages(&mut client, all()).await.expect("a stream");
    for message in &messages {
        let bytes: usize = message.kvs.iter().map(|kv| kv.value.len()).sum();
        assert!(bytes <= 3 << 19, "{bytes} bytes in a message");
    }
    assert_eq!(merged(messages).kvs.len(), 40);
}

/// Takes the first message of a range of which more follows than fits into what is on its way.
async fn begin(
    client: &mut Client,
) -> Streaming<quorate_etcd_api::etcdserverpb::RangeStreamResponse> {
    for number in 0..100 {
        put(client, format!("{number:02}"), vec![1; 1 << 20].into()).await;
    }
    let stream = client.range_stream(all()).await.expect("a stream");
    let mut stream = stream.into_inner();
    stream
        .message()
        .await
        .expect("no error")
        .expect("a message");
    stream
}

#[tokio::test]
async fn what_is_written_meanwhile_is_not_seen() {
    let mut client = start().await;
    let mut stream = begin(&mut client).await;
    put(&mut client, "99".to_owned(), "later".into()).await;
    put(&mut client, "990".to_owned(), "later".into()).await;
    let mut whole = RangeResponse::default();
    while let Some(message) = stream.message().await.expect("no error") {
        let part = message.range_response.expect("a part of the range");
        whole = merged(vec![whole, part]);
    }
    let revision = whole.header.map(|header| header.revision);
    assert_eq!((whole.count, revision), (100, Some(101)));
    let last = whole.kvs.last().expect("a key");
    assert_eq!((&last.key[..], last.value.len()), (&b"99"[..], 1 << 20));
}

#[tokio::test]
async fn a_revision_that_is_compacted_meanwhile_ends_the_stream() {
    let mut client = start().await;
    let mut stream = begin(&mut client).await;
    put(&mut client, "99".to_owned(), "later".into()).await;
    let request = CompactionRequest {
        revision: 102,
        physical: true,
    };
    client.compact(request).await.expect("a compaction");
    let ended = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the whole range was on its way"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::OutOfRange);
    assert_eq!(
        ended.message(),
        "etcdserver: mvcc: required revision has been compacted"
    );
}

#[tokio::test]
async fn what_needs_the_whole_range_is_not_served() {
    let mut client = start().await;
    let sorted = RangeRequest {
        sort_target: SortTarget::Mod as i32,
        sort_order: SortOrder::Ascend as i32,
        ..all()
    };
    let filtered = RangeRequest {
        min_mod_revision: 3,
        ..all()
    };
    for (request, text) in [
        (sorted, "RangeStream does not support custom sort orders"),
        (filtered, "RangeStream does not support revision filters"),
    ] {
        let why = messages(&mut client, request).await.expect_err("refused");
        assert_eq!((why.code(), why.message()), (Code::Unimplemented, text));
    }
    let empty = RangeRequest {
        key: Bytes::new(),
        ..all()
    };
    let why = messages(&mut client, empty).await.expect_err("refused");
    assert_eq!(why.message(), "etcdserver: key is not provided");
    let future = RangeRequest {
        revision: 9,
        ..all()
    };
    let why = messages(&mut client, future).await.expect_err("refused");
    assert_eq!(
        why.message(),
        "etcdserver: mvcc: required revision is a future revision"
    );
}
