//! What a watch's client is told of its events.

use prost::Message;
use quorate_etcd_api::etcdserverpb::{FilterType, WatchCreateRequest, WatchResponse};
use quorate_etcd_api::mvccpb::{Event, EventType};

/// How a watch wants its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventOptions {
    puts: bool,
    deletes: bool,
    prev_kv: bool,
    /// Responses larger than this are split.
    fragment_bytes: Option<usize>,
}

impl EventOptions {
    pub(crate) fn new(request: &WatchCreateRequest, fragment_bytes: usize) -> Self {
        let unwanted = |filter: FilterType| request.filters.contains(&(filter as i32));
        EventOptions {
            puts: !unwanted(FilterType::Noput),
            deletes: !unwanted(FilterType::Nodelete),
            prev_kv: request.prev_kv,
            fragment_bytes: request.fragment.then_some(fragment_bytes),
        }
    }

    /// The event as it is wanted, if it is.
    pub(crate) fn select(&self, event: &Event) -> Option<Event> {
        let wanted = if event.r#type == EventType::Put as i32 {
            self.puts
        } else {
            self.deletes
        };
        wanted.then(|| Event {
            r#type: event.r#type,
            kv: event.kv.clone(),
            prev_kv: event.prev_kv.clone().filter(|_| self.prev_kv),
        })
    }

    /// The response, in parts if it is large and the client can put it together.
    pub(crate) fn split(&self, response: WatchResponse) -> Vec<WatchResponse> {
        match self.fragment_bytes {
            Some(bytes_max) if response.encoded_len() >= bytes_max => parts(response, bytes_max),
            _ => vec![response],
        }
    }
}

/// Parts of less than `bytes_max`, unless one event is larger. All but the last say that more
/// follows.
fn parts(mut whole: WatchResponse, bytes_max: usize) -> Vec<WatchResponse> {
    let events = std::mem::take(&mut whole.events);
    let frame = whole.encoded_len() + 2;
    let mut parts: Vec<WatchResponse> = Vec::new();
    let mut room = 0;
    for event in events {
        // A tag and a length go with every event.
        let bytes = event.encoded_len() + 6;
        if bytes > room || parts.is_empty() {
            parts.push(WatchResponse {
                fragment: true,
                ..whole.clone()
            });
            room = bytes_max.saturating_sub(frame);
        }
        room = room.saturating_sub(bytes);
        if let Some(part) = parts.last_mut() {
            part.events.push(event);
        }
    }
    match parts.last_mut() {
        Some(last) => last.fragment = false,
        None => parts.push(whole),
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_etcd_api::mvccpb::KeyValue;

    fn event(bytes: usize) -> Event {
        let kv = KeyValue {
            key: Bytes::from_static(b"k"),
            value: Bytes::from(vec![0; bytes]),
            ..KeyValue::default()
        };
        Event {
            kv: Some(kv.clone()),
            prev_kv: Some(kv),
            r#type: 0,
        }
    }

    #[test]
    fn a_large_response_is_split_only_for_those_who_ask() {
        let whole = WatchResponse {
            watch_id: 3,
            events: vec![event(10), event(200), event(2000), event(10), event(10)],
            ..WatchResponse::default()
        };
        let mut request = WatchCreateRequest::default();
        assert_eq!(
            EventOptions::new(&request, 100).split(whole.clone()).len(),
            1
        );
        request.fragment = true;
        let parts = EventOptions::new(&request, 1000).split(whole.clone());
        let seen: Vec<_> = parts.iter().map(|p| (p.events.len(), p.fragment)).collect();
        assert_eq!(seen, [(2, true), (1, true), (2, false)]);
        let events: Vec<_> = parts.into_iter().flat_map(|part| part.events).collect();
        assert_eq!(events, whole.events);
    }

    #[test]
    fn filters_and_previous_values() {
        let deleted = Event {
            r#type: 1,
            ..event(1)
        };
        for (filters, prev_kv, puts, deletes) in [
            (vec![], false, true, true),
            (vec![0], true, false, true),
            (vec![1], true, true, false),
            (vec![0, 1, 9], false, false, false),
        ] {
            let request = WatchCreateRequest {
                filters,
                prev_kv,
                ..WatchCreateRequest::default()
            };
            let wishes = EventOptions::new(&request, 0);
            for (event, wanted) in [(&event(1), puts), (&deleted, deletes)] {
                let selected = wishes.select(event);
                assert_eq!(selected.is_some(), wanted);
                assert!(selected.is_none_or(|event| event.prev_kv.is_some() == prev_kv));
            }
        }
    }
}
