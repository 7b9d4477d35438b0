//! What a run has come to, in figures.

/// What a run has come to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was found.
    pub violations: Vec<String>,
    /// Replies to clients.
    pub replies: u64,
    /// Reads that were explained.
    pub reads: u64,
    /// Reads of copies.
    pub near: u64,
    /// Commits of homes.
    pub commits: u64,
    /// Commands that were executed for other nodes.
    pub forwarded: u64,
    /// Views beyond the first.
    pub views: u64,
    /// Nodes that died.
    pub deaths: u64,
    /// Nodes that wanted to join, those that have loaded their copies, and those that gave up.
    pub joins: u64,
    /// See `joins`.
    pub loaded: u64,
    /// See `joins`.
    pub failed_joins: u64,
    /// Links that broke.
    pub resets: u64,
    /// Commands that were answered `UNKNOWN`.
    pub unknown: u64,
    /// Of those, commands to a node that was taken for out of reach.
    pub unreachable: u64,
    /// Commands that waited for keys at another node.
    pub parked: u64,
    /// Those of them that were forwarded again.
    pub again: u64,
    /// Transactions of clients that watch keys: those that were executed, and those that were not.
    pub watching: [u64; 2],
    /// How often all keys of a home were removed.
    pub flushes: u64,
    /// Messages that nodes have got.
    pub messages: u64,
    /// Acknowledgements that were compared with what was applied.
    pub acknowledged: u64,
    /// A number that two runs with one seed have in common.
    pub digest: u64,
}

impl Outcome {
    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Outcome) {
        self.replies += other.replies;
        self.reads += other.reads;
        self.near += other.near;
        self.commits += other.commits;
        self.forwarded += other.forwarded;
        self.views += other.views;
        self.deaths += other.deaths;
        self.joins += other.joins;
        self.loaded += other.loaded;
        self.failed_joins += other.failed_joins;
        self.resets += other.resets;
        self.unknown += other.unknown;
        self.unreachable += other.unreachable;
        self.parked += other.parked;
        self.again += other.again;
        for (sum, other) in self.watching.iter_mut().zip(other.watching) {
            *sum += other;
        }
        self.flushes += other.flushes;
        self.messages += other.messages;
        self.acknowledged += other.acknowledged;
    }

    /// The figures in words.
    pub fn figures(&self) -> String {
        format!(
            "{} replies, {} reads explained ({} of copies), {} commits, {} commands forwarded, {} views, {} deaths, {} joins ({} \
             loaded, {} given up), {} links broken, {} unknown ({} out of reach), {} waited ({} forwarded again), {} transactions of watching clients \
             ({} refused), {} flushes, {} messages, {} acknowledgements compared",
            self.replies,
            self.reads,
            self.near,
            self.commits,
            self.forwarded,
            self.views,
            self.deaths,
            self.joins,
            self.loaded,
            self.failed_joins,
            self.resets,
            self.unknown,
            self.unreachable,
            self.parked,
            self.again,
            self.watching[0],
            self.watching[1],
            self.flushes,
            self.messages,
            self.acknowledged
        )
    }
}
