//! How a state was come by, in words.

use super::listening::{End, Heard, hears};
use super::{Place, Search};
use quorate_core::Plain;
use std::rc::Rc;

impl<M: Plain> Search<'_, M> {
    /// The way to a state, and everything that may be decided in it.
    pub(super) fn tell(&mut self, state: u32) -> Vec<String> {
        let mut path = vec![state];
        while !self.states[*path.last().expect("not empty") as usize]
            .heard
            .is_empty()
        {
            let last = *path.last().expect("not empty");
            path.push(self.states[last as usize].parent);
        }
        path.reverse();
        let layer = path.len() - 1;
        let mut lines = vec!["to begin with:".to_string()];
        for (index, number) in path.iter().enumerate() {
            let state = self.states[*number as usize].clone();
            if index > 0 {
                lines.push(format!("layer {index} (coin {}):", state.coin));
            }
            for (me, place) in state.places.iter().enumerate() {
                let heard = state.heard.get(me).copied().flatten();
                lines.push(self.tell_place(me, *place, heard));
            }
        }
        let last = self.states[state as usize].clone();
        for coin in 0..2 {
            for me in 0..last.places.len() {
                let prospects = self.prospects(&last, me, (layer, coin));
                let prospects = prospects.unwrap_or_else(|_| Rc::from([]));
                for prospect in prospects.iter() {
                    if let End::Decided(code) = prospect.end {
                        let heard = self.heard(prospect, &last.places, me, layer);
                        let (heard, name) = (hears(heard), self.interner.name(code));
                        lines.push(format!("replica {} {heard} DECIDES {name}", me + 1));
                    }
                }
            }
        }
        lines
    }

    fn tell_place(&self, me: usize, place: Place, heard: Option<Heard>) -> String {
        let said = match self.record_of(place.local) {
            None => "has said nothing".to_string(),
            Some(record) => format!("has said {record:?}"),
        };
        let heard = heard.map_or_else(String::new, |heard| format!("{}, and now ", hears(heard)));
        let gone = if place.gone {
            "; it says nothing more"
        } else {
            ""
        };
        format!("    replica {} {heard}{said}{gone}", me + 1)
    }
}
