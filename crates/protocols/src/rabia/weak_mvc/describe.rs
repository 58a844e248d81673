//! Messages, records and states in the paper's words, one line each, and why nothing happens, for people.

use super::Replica;
use super::messages::{Message, Record, SlotMessage};
use super::slot::Instance;
use super::trail::Trail;
use super::voice::{SlotValue, Voice};
use quorate_core::{EntryId, Slot};
use std::fmt::Write;

/// Undecided slots described; a stuck replica is stuck in the first.
const SLOTS_MAX: usize = 4;

/// A message on one line.
pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Batch { entry } => format!("batch {:?}", entry.id),
        Message::Need { from, ids } => format!("need {ids:?}, delivered up to {from:?}"),
        Message::Have { ids } => format!("have {ids:?}"),
        Message::Slot(said) => slot_message(said),
        Message::Nulls(said) => {
            let slots = said.bits.iter().map(|offset| said.base.0 + offset as u64);
            let slots: Vec<_> = slots.map(|slot| format!("s{slot}")).collect();
            format!("{} NULL{}", slots.join(" "), asks(said.want, said.more))
        }
        Message::Decided { slot, value } => format!("{slot:?} is decided: {}", prop(*value)),
        Message::Recover { boot, from } => format!("recover {boot:?} from {from:?}"),
        Message::RecoverA { boot, started } => format!("to {boot:?}: begun up to {started:?}"),
        Message::Nudge { until, from } => format!("nudge from {from:?} until {until:?}"),
        Message::ReadQ(query) => format!("query {:?}/{}", query.boot, query.number),
        Message::ReadA { query, mark } => {
            format!("to query {:?}/{}: mark {mark:?}", query.boot, query.number)
        }
    }
}

fn slot_message(said: &SlotMessage) -> String {
    let own = own(said.slot, said.prop, said.trail, said.q);
    format!("{own}{}", asks(said.want, said.more))
}

fn asks(want: bool, more: bool) -> &'static str {
    match (want, more) {
        (false, false) => "",
        (true, false) => ", wants",
        (false, true) => ", has more",
        (true, true) => ", wants, has more",
    }
}

/// A record on one line.
pub(crate) fn record(record: &Record) -> String {
    match record {
        Record::Batch { entry } => format!("batch {:?}", entry.id),
        Record::Own {
            slot,
            prop,
            trail,
            q,
        } => own(*slot, *prop, *trail, *q),
        Record::Reserve { until } => format!("NULL is reserved up to {until:?}"),
        Record::Floor { slot: None } => "a recovery begins".into(),
        Record::Floor { slot: Some(slot) } => format!("floor {slot:?}"),
    }
}

/// What a replica knows, a line per slot.
pub(crate) fn state(replica: &Replica) -> Vec<String> {
    let slots = (replica.ap.0..).map(Slot).zip(&replica.slots);
    slots
        .map(|(slot, instance)| slot_state(slot, instance))
        .collect()
}

fn slot_state(slot: Slot, instance: &Instance) -> String {
    let voices = instance.voices.iter().enumerate().map(|(member, voice)| {
        let said = match voice.prop.is_heard() {
            true => format!("{} {:?}", prop(voice.prop.request()), voice.trail),
            false => "-".into(),
        };
        format!("{}: {said}", member + 1)
    });
    let voices = voices.collect::<Vec<_>>().join(", ");
    let q = instance.q.map(|q| format!(", q={q:?}")).unwrap_or_default();
    let decided = match instance.is_decided() {
        true => format!(", decided {}", prop(instance.decided.request())),
        false => String::new(),
    };
    format!("{slot:?} {voices}{q}{decided}")
}

fn own(slot: Slot, proposed: Option<EntryId>, trail: Trail, q: Option<EntryId>) -> String {
    let trail = if trail.is_empty() {
        String::new()
    } else {
        format!(" {trail:?}")
    };
    let q = q.map(|q| format!(" q={q:?}")).unwrap_or_default();
    format!("{slot:?} {}{trail}{q}", prop(proposed))
}

fn prop(value: Option<EntryId>) -> String {
    value.map_or("NULL".into(), |id| format!("{id:?}"))
}

impl Replica {
    pub(super) fn describe(&self) -> String {
        let mut text = format!(
            "first slot not delivered {}, {} undecided batches held, {} of them own",
            self.ap,
            self.pool.oldest_first().count(),
            self.offers.len()
        );
        if !self.queue.is_empty() {
            text.push_str("; commands or reads wait for a batch");
        }
        if let Some(rejoin) = &self.rejoin {
            let _ = write!(text, "; lost its promises: {}", rejoin.describe());
        }
        if !self.needs.is_empty() {
            let ids: Vec<String> = self.needs.ids().take(SLOTS_MAX).map(name).collect();
            let _ = write!(text, "; asks peers for batches {}", ids.join(", "));
        }
        if let Some((peer, slot)) = self.behind.ahead {
            let _ = write!(text, "; replica {peer} is far ahead, in slot {slot}");
        }
        let slots = self.slots.iter().enumerate();
        for (offset, instance) in slots.filter(|(_, i)| i.is_started()).take(SLOTS_MAX) {
            let slot = Slot(self.ap.0 + offset as u64);
            let _ = write!(
                text,
                "; slot {slot}: {}",
                self.describe_slot(slot, instance)
            );
        }
        text
    }

    fn describe_slot(&self, slot: Slot, instance: &Instance) -> String {
        if instance.is_decided() {
            let value = instance.decided.request();
            let held = value.is_none_or(|id| self.pool.holds(id));
            let missing = if held { "" } else { ", which is not here" };
            return format!("decided for {}{missing}", proposal(value));
        }
        let members = self.config.members.iter().zip(&instance.voices);
        let voices: Vec<String> = members
            .map(|(id, voice)| format!("r{id} {}", describe_voice(voice)))
            .collect();
        let next = if instance.is_proposed() {
            let next = instance.next_value(&self.config, slot, self.presence.expected());
            format!("{next:?}")
        } else {
            "to propose".into()
        };
        format!(
            "{}; n-f = {}; next: {next}",
            voices.join(", "),
            self.config.thresholds.wait
        )
    }
}

fn describe_voice(voice: &Voice) -> String {
    match voice.prop {
        SlotValue::Unheard => "silent".into(),
        prop => format!("{} {:?}", proposal(prop.request()), voice.trail),
    }
}

fn proposal(value: Option<EntryId>) -> String {
    value.as_ref().map_or_else(|| "NULL".into(), name)
}

fn name(id: &EntryId) -> String {
    format!("{}#{}", id.origin, id.seq)
}
