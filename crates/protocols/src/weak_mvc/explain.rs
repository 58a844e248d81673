//! Why nothing happens, for people.

use super::Replica;
use super::slot::{Instance, Voice};
use quorate_core::{EntryId, Slot};
use std::fmt::Write;

/// Undecided slots described; a stuck replica is stuck in the first.
const SLOTS_MAX: usize = 4;

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
            let ids: Vec<String> = self.needs.keys().take(SLOTS_MAX).map(name).collect();
            let _ = write!(text, "; asks peers for batches {}", ids.join(", "));
        }
        if let Some((peer, slot)) = self.ahead {
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
        if let Some(value) = instance.decided {
            let held = value.is_none_or(|id| self.pool.holds(id));
            let missing = if held { "" } else { ", which is not here" };
            return format!("decided for {}{missing}", proposal(value));
        }
        let members = self.config.members.iter().zip(&instance.voices);
        let voices: Vec<String> = members
            .map(|(id, voice)| format!("r{id} {}", describe_voice(voice)))
            .collect();
        let next = if instance.is_proposed() {
            let expected = self.up & !self.late;
            format!("{:?}", instance.next_value(&self.config, slot, expected))
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
        None => "silent".into(),
        Some(prop) => format!("{} {:?}", proposal(prop), voice.trail),
    }
}

fn proposal(value: Option<EntryId>) -> String {
    value.as_ref().map_or_else(|| "NULL".into(), name)
}

fn name(id: &EntryId) -> String {
    format!("{}#{}", id.origin, id.seq)
}
