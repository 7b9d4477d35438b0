//! INFO replication: the fields by which sentinels and exporters know a primary and its replicas.

use crate::server::unix_ms;
use crate::state::replication::{LinkState, Replication};
use std::sync::atomic::Ordering::Relaxed;

/// A field of `INFO`.
pub(crate) type Field = (&'static str, String);

/// A replica's offset in `ROLE`: -1 while there is no link.
pub(super) fn shown_offset(replication: &Replication) -> i64 {
    match replication.link.state() {
        LinkState::Connected => replication.offset(),
        _ => -1,
    }
}

impl Replication {
    /// The fields of a replica's link to its primary; none of a primary.
    pub(crate) fn link_fields(&self) -> Vec<Field> {
        let Some((host, port)) = self.primary().filter(|_| self.is_replica()) else {
            return Vec::new();
        };
        let (link, now) = (&self.link, unix_ms() / 1000);
        let state = link.state();
        let ago = |at: i64| if at == 0 { -1 } else { (now - at).max(0) };
        let status = if state == LinkState::Connected { "up" } else { "down" };
        let heard = if state == LinkState::Connected { link.heard_at.load(Relaxed) } else { 0 };
        // As of a replica that asks for its first byte.
        let offset = self.offset().max(1);
        let mut fields = vec![
            ("master_host", host),
            ("master_port", port.to_string()),
            ("master_link_status", status.into()),
            ("master_last_io_seconds_ago", ago(heard).to_string()),
            ("master_sync_in_progress", u8::from(state == LinkState::Sync).to_string()),
            ("slave_read_repl_offset", offset.to_string()),
            ("slave_repl_offset", offset.to_string()),
            // A copy and the stream behind it come one after the other: nothing is put aside.
            ("replica_full_sync_buffer_size", "0".into()),
            ("replica_full_sync_buffer_peak", "0".into()),
            ("master_current_sync_attempts", link.tries[0].load(Relaxed).to_string()),
            ("master_total_sync_attempts", link.tries[1].load(Relaxed).to_string()),
        ];
        if state == LinkState::Sync {
            let [total, read] = [0, 1].map(|i| link.copy_bytes[i].load(Relaxed));
            let percent = if total == 0 { 0.0 } else { 100.0 * read as f64 / total as f64 };
            fields.extend([
                ("master_sync_total_bytes", total.to_string()),
                ("master_sync_read_bytes", read.to_string()),
                ("master_sync_left_bytes", (total as i64 - read as i64).to_string()),
                ("master_sync_perc", format!("{percent:.2}")),
                ("master_sync_last_io_seconds_ago", ago(link.copied_at.load(Relaxed)).to_string()),
            ]);
        }
        let mut down_seconds = link.down_seconds.load(Relaxed);
        if state != LinkState::Connected {
            let since = ago(link.down_since.load(Relaxed));
            fields.push(("master_link_down_since_seconds", since.to_string()));
            down_seconds += since.max(0);
        } else {
            let since = ago(link.up_since.load(Relaxed));
            fields.push(("master_link_up_since_seconds", since.to_string()));
        }
        fields.push(("total_disconnect_time_sec", down_seconds.to_string()));
        fields
    }
}
