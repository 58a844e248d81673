//! Alarms, as clients raise, list and end them.

use super::{Up, channel, eventually, metric};
use quorate_etcd_api::etcdserverpb::{AlarmAction, AlarmMember, AlarmRequest, AlarmType};
use quorate_face_etcd::client::MaintenanceClient;
use quorate_server::SupportedVersions;

/// An alarm of this kind about a member.
pub fn member(member_id: u64, kind: AlarmType) -> AlarmMember {
    AlarmMember {
        member_id,
        alarm: kind as i32,
    }
}

/// Asks for alarms, or has one raised or ended.
pub async fn alarm(url: &str, action: AlarmAction, which: AlarmMember) -> Vec<AlarmMember> {
    let mut maintenance = MaintenanceClient::new(channel(url).await);
    let request = AlarmRequest {
        action: action as i32,
        member_id: which.member_id,
        alarm: which.alarm,
    };
    let answer = maintenance.alarm(request).await.expect("it answers");
    answer.into_inner().alarms
}

/// The alarms that a replica lists.
pub async fn listed(url: &str) -> Vec<AlarmMember> {
    alarm(url, AlarmAction::Get, member(0, AlarmType::None)).await
}

/// Waits until the feature level has alarms.
pub async fn know_alarms(up: &Up) {
    for url in &up.urls {
        level_is_raised(url).await;
    }
}

/// Waits until a replica's feature level is the newest.
pub async fn level_is_raised(url: &str) {
    let level = f64::from(SupportedVersions::SHIPPED.level());
    eventually("the level is raised", || async {
        (metric(url, "quorate_feature_level").await == level).then_some(())
    })
    .await;
}
