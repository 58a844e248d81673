//! Alarms: raised by hand, by a write for which there is no room, and ended.

use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, PutRequest, PutResponse,
};
use quorate_face_etcd::client::MaintenanceClient;

use super::call::with_token;
use super::json::is_well;
use super::side::{Served, Side};
use super::step::{Action, Outcome};
use super::world::World;

impl Side {
    /// Lists the alarms.
    pub(super) async fn alarms(&mut self, at: usize) -> Served {
        self.alarm(at, AlarmRequest::default()).await
    }

    /// Raises an alarm that is about no member.
    pub(super) async fn raise(&mut self, at: usize, alarm: AlarmType) -> Served {
        let request = AlarmRequest {
            action: AlarmAction::Activate as i32,
            member_id: 0,
            alarm: alarm as i32,
        };
        self.alarm(at, request).await
    }

    /// Writes more than the quota has room for. Gateways do not know of it, so members are asked.
    pub(super) async fn put_too_much(&mut self, at: usize, key: &Bytes) -> Served {
        let request = PutRequest {
            key: key.clone(),
            value: vec![b'x'; TOO_MUCH_BYTES].into(),
            ..PutRequest::default()
        };
        let (members, answer) = (self.members.len(), |_: &mut Side, _: &mut PutResponse| ());
        let gateways = members - self.channels.len();
        let at = match gateways {
            0 => at,
            _ => self.channels.len() + at % gateways,
        };
        self.call(at, "/etcdserverpb.KV/Put", request, answer).await
    }

    /// Raises alarm CORRUPT, performs these actions, and ends the alarm.
    pub(super) async fn while_corrupt(
        &mut self,
        at: usize,
        actions: &[Action],
        world: &World,
    ) -> Served {
        let mut whole = self.raise(at, AlarmType::Corrupt).await?;
        if !whole.succeeded {
            return Ok(whole);
        }
        for action in actions {
            whole.add(Box::pin(self.serve(at, action, world)).await?);
        }
        whole.add(self.alarms(at).await?);
        let request = AlarmRequest {
            action: AlarmAction::Deactivate as i32,
            member_id: 0,
            alarm: AlarmType::Corrupt as i32,
        };
        whole.add(self.alarm(at, request).await?);
        self.await_uncorrupted().await?;
        Ok(whole)
    }

    /// Waits until every member knows that alarm CORRUPT is over: until then it refuses whatever it is asked, who logs
    /// in as well.
    async fn await_uncorrupted(&self) -> Result<(), String> {
        let gateways = self.members.len() - self.channels.len();
        let first = match gateways {
            0 => 0,
            _ => self.channels.len(),
        };
        for at in first..self.members.len() {
            while !is_well(&self.authority(at), "/readyz/data_corruption").await? {
                tokio::time::sleep(AGAIN).await;
            }
        }
        Ok(())
    }

    /// Ends all alarms, as the caller of the step.
    pub(super) async fn disarm(&mut self, at: usize) -> Served {
        let (mut whole, mut all_ended) = (Outcome::default(), true);
        let listed = self.listed_alarms(at, self.token.as_deref()).await;
        for AlarmMember { member_id, alarm } in listed.unwrap_or_default() {
            let request = AlarmRequest {
                action: AlarmAction::Deactivate as i32,
                member_id,
                alarm,
            };
            let ended = self.alarm(at, request).await?;
            all_ended &= ended.succeeded;
            whole.add(ended);
        }
        let left = self.alarms(at).await?;
        all_ended &= left.succeeded;
        whole.add(left);
        whole.succeeded = all_ended;
        Ok(whole)
    }

    /// What is raised, with the real numbers of members.
    pub(super) async fn listed_alarms(
        &self,
        at: usize,
        token: Option<&str>,
    ) -> Result<Vec<AlarmMember>, String> {
        let mut maintenance = MaintenanceClient::new(self.channel(at));
        let request = with_token(AlarmRequest::default(), token)?;
        let listed = maintenance.alarm(request).await;
        let listed = listed.map_err(|status| status.to_string())?;
        let mut alarms = listed.into_inner().alarms;
        alarms.sort_by_key(|alarm| (alarm.alarm, alarm.member_id));
        Ok(alarms)
    }

    /// Raises or ends these alarms, for what belongs to no step.
    pub(super) async fn change_alarms(
        &self,
        at: usize,
        alarms: &[AlarmMember],
        action: AlarmAction,
        token: Option<&str>,
    ) -> Result<(), String> {
        let mut maintenance = MaintenanceClient::new(self.channel(at));
        for AlarmMember { member_id, alarm } in alarms.iter().copied() {
            let request = AlarmRequest {
                action: action as i32,
                member_id,
                alarm,
            };
            let changed = maintenance.alarm(with_token(request, token)?).await;
            changed.map_err(|status| status.to_string())?;
        }
        Ok(())
    }

    async fn alarm(&mut self, at: usize, request: AlarmRequest) -> Served {
        let answer = |_: &mut Side, message: &mut AlarmResponse| {
            for alarm in &mut message.alarms {
                alarm.member_id = alarm.member_id.min(1);
            }
            // etcd has them in no order.
            message
                .alarms
                .sort_by_key(|alarm| (alarm.alarm, alarm.member_id));
        };
        self.call(at, "/etcdserverpb.Maintenance/Alarm", request, answer)
            .await
    }
}

/// How soon a member is asked again whether an alarm is over.
const AGAIN: Duration = Duration::from_millis(2);

/// More than the quota that both systems are started with, and less than a request may be.
const TOO_MUCH_BYTES: usize = 1_400_000;
