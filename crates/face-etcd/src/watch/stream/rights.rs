//! Who may watch, and for how long.

use super::{End, WatchStream};
use crate::face::refused;
use quorate_etcd_api::etcdserverpb::WatchCreateRequest;
use quorate_etcd_store::Asker;
use tonic::Status;

impl WatchStream {
    /// Who asks for a watch, or why it has no right to it.
    pub(super) async fn admit(&self, request: &WatchCreateRequest) -> Result<Asker, String> {
        let asker = self.face.identify(&self.credentials).await;
        let asker = asker.map_err(|status| reason(&status))?;
        let (key, range_end) = (&request.key, &request.range_end);
        let judged = self.face.demand_reading(&asker, key, range_end);
        judged.map_err(|why| reason(&refused(why)))?;
        Ok(asker)
    }

    /// Ends the watches whose askers have lost the right to them. To be called before anything of a watch is sent:
    /// what happened after a right was taken away is not told.
    pub(super) async fn recheck(&mut self) -> Result<(), End> {
        let stamp = self.face.auth.stamp();
        if stamp == self.checked {
            return Ok(());
        }
        self.checked = stamp;
        let lost = self.watches.iter().filter_map(|(id, watching)| {
            let (key, range_end) = (&watching.key, &watching.range_end);
            let judged = self.face.demand_reading_on(&watching.asker, key, range_end);
            judged.err().map(|why| (*id, reason(&refused(why))))
        });
        let lost: Vec<(i64, String)> = lost.collect();
        for (id, why) in lost {
            self.remove(id);
            let mut response = self.response(id, 0);
            response.canceled = true;
            response.cancel_reason = why;
            self.send(response).await?;
        }
        Ok(())
    }
}

/// The reason as etcd's clients know it: the error's text, as Go formats it.
fn reason(status: &Status) -> String {
    format!(
        "rpc error: code = {:?} desc = {}",
        status.code(),
        status.message()
    )
}
