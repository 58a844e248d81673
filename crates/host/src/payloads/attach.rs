//! Messages with attachments, on their way out and in.

use super::PayloadHandler;
use crate::frame::{Body, Fragment};
use bytes::Bytes;
use quorate_core::{
    Application, Attachment, Carry, Entry, Machine, Payload, Peers, ReplicaId, Share, Written,
};

impl<M: Machine, A: Application> PayloadHandler<'_, M, A> {
    /// Sends a message with what is attached to it: to every receiver its own fragments. One whose
    /// fragments cannot be made is not sent: loss is normal.
    pub(crate) fn send_attached(&mut self, to: Peers, message: &M::Message) {
        let Some(attachment) = message.attachment() else {
            return;
        };
        if self.waits_for_coding(to, message, attachment) {
            return;
        }
        if message.is_to_keep() {
            self.keep_own_early(attachment);
        }
        let payloads: Vec<Payload> = attachment.entry.payloads().collect();
        let encoded = message.written();
        let places = self.context.epochs().places.iter();
        let receivers: Vec<(ReplicaId, u8)> = places
            .map(|(id, place)| (*id, *place))
            .filter(|(id, _)| match to {
                Peers::All => *id != self.context.seat.me,
                Peers::One(one) => *id == one,
            })
            .collect();
        for (peer, index) in receivers {
            let Some(fragments) = self.fragments_for(attachment, &payloads, index) else {
                continue;
            };
            let message = encoded.clone();
            let body = Body::Attached { message, fragments };
            self.context.post(Peers::One(peer), &body);
        }
    }

    /// The own fragments of what is sent to others begin their way to the disk, if they are long.
    fn keep_own_early(&mut self, attachment: Attachment<'_>) {
        let entry = attachment.entry;
        let is_long = entry.bulk_len() >= self.context.limits.long_bytes_min as u64;
        if !is_long || self.context.storage.fragments.is_none() || self.context.base_has(entry.id) {
            return;
        }
        let kept = &mut *self.payloads;
        if let Some((share, checksums)) = kept.coded.share(&kept.coder, attachment, kept.me)
            && share.len() >= self.context.limits.long_bytes_min
        {
            let lengths: Vec<u32> = entry.payloads().map(|payload| payload.len).collect();
            self.append_early(entry.id, (&share, &checksums), &lengths);
        }
    }

    fn fragments_for(
        &mut self,
        attachment: Attachment<'_>,
        payloads: &[Payload],
        index: u8,
    ) -> Option<Vec<Fragment>> {
        let kept = &mut *self.payloads;
        let (share, checksums) = kept.coded.share(&kept.coder, attachment, index)?;
        let parts = share.parts.iter().zip(payloads).enumerate();
        let fragment = |(part, (bytes, payload)): (usize, (&Bytes, &Payload))| {
            let known = (&bytes[..], checksums.get(part).copied());
            (kept.coder.header(&share, payload, known), bytes.clone())
        };
        Some(parts.map(fragment).collect())
    }

    /// A message came with fragments: returned for the machine, unless it has to wait.
    pub(crate) fn take_attached(
        &mut self,
        from: ReplicaId,
        message: Bytes,
        fragments: Vec<Fragment>,
    ) -> Result<Option<M::Message>, String> {
        let encoded = message.clone();
        let message = self.context.read_one_message(message)?;
        let Some(attachment) = message.attachment() else {
            return Err("something is attached to a message that has no attachment".into());
        };
        let checksums: Vec<u64> = fragments.iter().map(|(header, _)| header.digest).collect();
        let share = self.share_of(attachment, fragments)?;
        if message.is_to_keep() {
            self.keep_late(attachment.entry, (&share, &checksums));
        }
        Ok(self.stage(from, (message, encoded), (share, &checksums)))
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
