use super::*;
use quorate_protocols::rabia::{Rabia, Record, Replica};
use quorate_protocols::{Gist, Protocol, Sabotaged, SabotagedConfig};

/// Of states taken for one, how many are not followed by the same.
fn unlike(gist: fn(&Record) -> Option<Gist>) -> (usize, usize) {
    let mut all = crate::table::configurations();
    let scope = all
        .find(|scope| scope.name == "n3-layers-two-step")
        .expect("in the table");
    let scope = Scope { depth: 3, ..*scope };
    let configure = |seat: &Seat| Rabia::config(seat).expect("its parameters are right");
    let layers = Rabia::layers().expect("it works in layers");
    let layers = Layers { gist, ..layers };
    let mut search = Search::<Replica>::new(&scope, &configure, layers, Guard::new(None));
    // A gist that says too little may be found out by the search itself.
    let _ = search.run(&scope);
    let merged = std::mem::take(&mut search.merged);
    let unlike = merged.iter().filter(|(kept, state)| {
        let kept = search.states[*kept as usize].clone();
        search.followers(&kept) != search.followers(state)
    });
    (unlike.count(), merged.len())
}

impl Search<'_, Replica> {
    /// What comes of a state: whether all is well, and what tells apart those that follow.
    fn followers(&mut self, state: &LayerState) -> (Result<(), Fault>, Vec<Key>) {
        let layers = state.places.iter().filter(|place| !place.gone);
        let layer = layers.map(|place| self.layer_of(place.local)).min();
        self.states.push(state.clone());
        // What one of the two comes to is not to be taken from the other.
        self.prospects.clear();
        let mut keys = Keys::new();
        let number = self.states.len() as u32 - 1;
        let judged = self.expand(number, layer.unwrap_or_default(), true, &mut keys);
        (judged, keys.into_keys().collect())
    }
}

#[test]
fn states_with_equal_gists_are_followed_by_the_same() {
    let gist = Rabia::layers().expect("it works in layers").gist;
    let (unlike, merged) = unlike(gist);
    assert!(merged > 0, "none were");
    assert_eq!(unlike, 0, "of {merged}");
}

#[test]
fn a_gist_that_leaves_something_out_is_noticed() {
    let (unlike, merged) = unlike(|record| {
        let gist = (Rabia::layers().expect("it works in layers").gist)(record);
        gist.map(|gist| Gist { prop: None, ..gist })
    });
    assert!(unlike > 0, "of {merged}");
}

/// What a replica said and did not write is forgotten in a crash, and it says something else.
#[test]
fn records_that_are_not_written_are_noticed() {
    for name in ["no-state-record", "no-vote-record"] {
        let mut all = crate::table::configurations();
        let scope = all.find(|scope| scope.name == "n3-layers-two-step");
        let mutants = Rabia::mutants();
        let mutant = mutants.iter().find(|mutant| mutant.name == name);
        let sabotage = mutant.map(|mutant| mutant.sabotage);
        assert!(sabotage.is_some(), "{name} is registered");
        let configure = |seat: &Seat| SabotagedConfig {
            inner: Rabia::config(seat).expect("its parameters are right"),
            sabotage,
        };
        let layers = Rabia::layers().expect("it works in layers");
        let layers = Layers {
            gist: layers.gist,
            value: layers.value,
        };
        let scope = scope.expect("in the table");
        let found = search::<Sabotaged<Replica>>(scope, &configure, layers, Guard::new(None));
        let property = found.fault.map(|(fault, _)| fault.property);
        assert_eq!(property, Some("honesty"), "{name}");
    }
}
