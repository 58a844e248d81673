//! Messages with attachments, on their way out and in.

use crate::frame::{Body, Fragment};
use crate::host::Host;
use bytes::Bytes;
use quorate_core::{
    Application, Attachment, Carry, Entry, Input, Machine, Now, Payload, Peers, ReplicaId, Share,
    Wire,
};
use std::sync::Arc;

impl<M: Machine, A: Application> Host<M, A> {
    /// Sends a message with what is attached to it: to every receiver its own fragments. One whose
    /// fragments cannot be made is not sent: loss is normal.
    pub(crate) fn send_attached(&mut self, to: Peers, message: &M::Message) {
        let Some(attachment) = message.attachment() else {
            return;
        };
        let payloads: Vec<Payload> = attachment.entry.payloads().collect();
        let encoded = message.to_bytes();
        let members = &self.seat.epoch.members;
        let receivers: Vec<(usize, ReplicaId)> = members
            .iter()
            .map(|member| member.id)
            .enumerate()
            .filter(|(_, id)| match to {
                Peers::All => *id != self.seat.me,
                Peers::One(one) => *id == one,
            })
            .collect();
        for (index, peer) in receivers {
            let index = u8::try_from(index).expect("members are few");
            let Some(fragments) = self.fragments_for(attachment, &payloads, index) else {
                continue;
            };
            let message = encoded.clone();
            let body = Body::Attached { message, fragments };
            self.post(Peers::One(peer), &body);
        }
    }

    fn fragments_for(
        &mut self,
        attachment: Attachment<'_>,
        payloads: &[Payload],
        index: u8,
    ) -> Option<Vec<Fragment>> {
        let kept = &mut self.payloads;
        let share = kept.coded.share(&kept.coder, attachment, index)?;
        let parts = share.parts.iter().zip(payloads);
        let fragment = |(bytes, payload): (&Bytes, &Payload)| {
            (kept.coder.header(&share, payload, bytes), bytes.clone())
        };
        Some(parts.map(fragment).collect())
    }

    /// A message came with fragments.
    pub(crate) fn take_attached(
        &mut self,
        now: Now,
        from: ReplicaId,
        message: Bytes,
        fragments: Vec<Fragment>,
    ) -> Result<(), String> {
        let mut message = M::Message::from_bytes(message).map_err(|e| e.to_string())?;
        let Some(attachment) = message.attachment() else {
            return Err("something is attached to a message that has no attachment".into());
        };
        let share = self.share_of(attachment, fragments)?;
        self.keep_late(attachment.entry, &share);
        if let Some(entry) = message.entry_mut() {
            *entry = entry.clone().with_share(Some(Arc::new(share)));
        }
        self.step(now, Input::Message { from, message });
        Ok(())
    }

    /// What is attached, if it is what this replica should get.
    fn share_of(
        &self,
        attachment: Attachment<'_>,
        fragments: Vec<Fragment>,
    ) -> Result<Share, String> {
        let Attachment { entry, code } = attachment;
        let payloads: Vec<Payload> = entry.payloads().collect();
        if fragments.len() != payloads.len() || fragments.is_empty() {
            return Err(format!(
                "{} fragments of {} payloads",
                fragments.len(),
                payloads.len()
            ));
        }
        let index = if code == 1 { 0 } else { self.payloads.me };
        let is_right = |((header, bytes), payload): (&Fragment, &Payload)| {
            let is_named = header.k == code
                && header.payload_len == u64::from(payload.len)
                && (code == 1 || header.index == index);
            is_named && (code > 1 || payload.is(bytes))
        };
        if !fragments.iter().zip(&payloads).all(is_right) {
            return Err("a fragment that is not the one that was announced".into());
        }
        let parts = fragments.into_iter().map(|(_, bytes)| bytes).collect();
        Ok(Share { code, index, parts })
    }
}

/// Whether a message that came by itself should have had something attached.
pub(crate) fn lacks_attachment(message: &impl Carry) -> bool {
    message
        .attachment()
        .is_some_and(|attachment: Attachment<'_>| Entry::bulk_len(attachment.entry) > 0)
}
