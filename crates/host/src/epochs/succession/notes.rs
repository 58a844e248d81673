//! What a replica says about epochs and makes of what others say.

use super::{Leaving, Output, Standing, Succession, TELLS_MAX};
use crate::epochs::change::Expect;
use crate::epochs::note::{Known, Note};
use quorate_core::{Epoch, Member};
use std::collections::BTreeSet;

impl Succession {
    pub(super) fn hear(
        &mut self,
        at: &Standing<'_>,
        from: Member,
        note: Note,
        out: &mut Vec<Output>,
    ) {
        let newest = at.state.chain.newest();
        match note {
            // Whoever has left has forgotten more than the others need to know.
            _ if self.leaving == Leaving::Left => self.answer_having_left(from, &note, out),
            Note::Holds { epoch, .. } | Note::Safe { epoch } if epoch.epoch > newest.number => {
                out.push(Output::Fetch { from });
            }
            Note::Holds { epoch, .. } | Note::Safe { epoch } if epoch.epoch < newest.number => {
                self.tell(at, from, out);
            }
            // What is counted are payloads, which are the host's.
            Note::Safe { .. } => {}
            Note::Holds { epoch, .. } => {
                if epoch == Expect::of(newest) && newest.has(from) {
                    self.holders.insert(from);
                    self.see_opened(at);
                }
                if self.is_open(at) {
                    self.tell(at, from, out);
                }
            }
            Note::Ask { .. } => self.tell(at, from, out),
            // Whether it becomes one is for people, or their driver, to decide.
            Note::Ready { epoch } if epoch < newest.number => self.tell(at, from, out),
            Note::Ready { .. } => {}
            Note::Moved { epoch, .. } if epoch.number < newest.number => self.tell(at, from, out),
            Note::Moved { epoch, known, .. } => self.learn(at, from, epoch, known, out),
            Note::Heard { epoch, known } if epoch >= newest.number => {
                self.knowing.insert(from, known);
            }
            Note::Heard { .. } => {}
        }
    }

    /// The group is in an epoch that is no older than the newest here.
    fn learn(
        &mut self,
        at: &Standing<'_>,
        from: Member,
        epoch: Epoch,
        known: Known,
        out: &mut Vec<Output>,
    ) {
        let newest = at.state.chain.newest();
        if epoch.number > newest.number {
            out.push(Output::Fetch { from });
        } else {
            if epoch != *newest {
                return;
            }
            self.knowing.insert(from, known);
        }
        match &mut self.told {
            Some((told, before)) if told.number == epoch.number => {
                before.opened |= known.opened;
                before.settled |= known.settled;
            }
            Some((told, _)) if told.number > epoch.number => {}
            told => *told = Some((epoch, known)),
        }
        self.see_opened(at);
        let heard = Note::Heard {
            epoch: newest.number,
            known: self.known(at),
        };
        out.push(Output::Send {
            to: from,
            note: heard,
        });
    }

    /// Tells somebody where the group is.
    pub(super) fn tell(&self, at: &Standing<'_>, to: Member, out: &mut Vec<Output>) {
        if self.leaving == Leaving::Left {
            return;
        }
        out.push(Output::Send {
            to,
            note: Note::Moved {
                epoch: at.state.chain.newest().clone(),
                known: self.known(at),
                addresses: at.state.addresses.clone(),
            },
        });
    }

    fn answer_having_left(&self, from: Member, note: &Note, out: &mut Vec<Output>) {
        let epoch = match note {
            Note::Holds { epoch, .. } | Note::Safe { epoch } => epoch.epoch,
            Note::Moved { epoch, .. } => epoch.number,
            Note::Ask { .. } | Note::Ready { .. } | Note::Heard { .. } => return,
        };
        let known = Known {
            opened: true,
            settled: true,
        };
        out.push(Output::Send {
            to: from,
            note: Note::Heard { epoch, known },
        });
    }

    /// Says again what may not have been heard.
    pub(super) fn resend(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        if !self.has_to_speak(at) {
            return;
        }
        let is_running = self.running == Some(self.to_start(at).number);
        let is_open = self.is_open(at);
        self.tells += u32::from(is_running && is_open);
        for to in self.listeners(at) {
            if is_running && is_open {
                self.tell(at, to, out);
                continue;
            }
            let newest = self.to_start(at);
            let note = match is_running {
                true => Note::Holds {
                    epoch: Expect::of(newest),
                    base: newest.first_slot,
                },
                false => Note::Ask {
                    epoch: newest.number,
                },
            };
            out.push(Output::Send { to, note });
        }
    }

    pub(super) fn has_to_speak(&self, at: &Standing<'_>) -> bool {
        let newest = self.to_start(at);
        if self.leaving == Leaving::Left || newest.number == 1 {
            return false;
        }
        if self.running == Some(newest.number) {
            let goes_on = !self.is_open(at) || self.tells < TELLS_MAX;
            return goes_on && !self.listeners(at).is_empty();
        }
        // A leaver asks until it may go.
        self.running.is_none() && !newest.has(self.me) && self.was_member(at)
    }

    /// Those to whom there is something to say: for a member of the newest epoch, whoever was or is a
    /// member and may not know that it is open; for a leaver, the members.
    fn listeners(&self, at: &Standing<'_>) -> BTreeSet<Member> {
        let newest = self.to_start(at);
        // Nobody is there who was this replica in a former life.
        let is_other = |member: &&Member| member.id != self.me.id;
        let others = newest.members.iter().filter(is_other);
        if !newest.has(self.me) {
            let told = self.told.iter().flat_map(|(told, _)| &told.members);
            return others.chain(told.filter(is_other)).copied().collect();
        }
        let before = at.state.chain.get(newest.number - 1);
        let before = before.into_iter().flat_map(|epoch| &epoch.members);
        others
            .chain(before.filter(is_other))
            .copied()
            .filter(|member| {
                let known = self.knowing.get(member).copied().unwrap_or_default();
                !known.opened || !(known.settled || newest.has(*member))
            })
            .collect()
    }
}
