//! Modes of a connection.

use petrel_table::bitset;

bitset! {
    /// Modes of a connection that are off by default.
    Modes: u8 {
        /// `CLIENT NO-TOUCH`: reads do not count as use of a key.
        NO_TOUCH = 0 "no-touch",
        /// Subscribed to a channel or pattern. RESP2 then allows few commands.
        SUBSCRIBER = 1 "subscriber",
        /// Receives every executed command. It may send no command on keys.
        MONITOR = 2 "monitor",
        /// Loads data: its commands are not rejected while the server is loading.
        LOADER = 3 "loader",
        /// `CLIENT CAPA redirect`: follows redirections from a replica to its primary.
        REDIRECTABLE = 4 "redirectable",
        /// A transaction of a primary that is Petrel, in which members of sets may be effects.
        EFFECTS = 5 "effects",
        /// Speaks Redis Cluster's protocol (`cluster-enabled yes`): commands for hash slots of
        /// other nodes are redirected to them.
        CLUSTER_CLIENT = 6 "cluster-client",
        /// `READONLY` in Redis Cluster: reads slots of which the node is a backup.
        READS_BACKUPS = 7 "reads-backups",
    }
}

impl Modes {
    /// Modes that apply to a command of the connection that is executed later, too.
    pub(crate) fn kept(self) -> Modes {
        const KEPT: Modes = Modes::NO_TOUCH.with(Modes::CLUSTER_CLIENT).with(Modes::READS_BACKUPS);
        self.without(Modes::FULL.without(KEPT))
    }
}
