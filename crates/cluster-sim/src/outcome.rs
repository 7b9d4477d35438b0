//! Statistics of a run.

/// Statistics of one run, or the sum of several.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Violations found.
    pub violations: Vec<String>,
    /// Steps of the simulation.
    pub steps: u64,
    /// Replies to clients.
    pub replies: u64,
    /// Reads explained.
    pub reads: u64,
    /// Reads of copies.
    pub near: u64,
    /// Commits of primaries.
    pub commits: u64,
    /// Commits of several slots.
    pub spread: u64,
    /// Transactions of several primaries: executed, answered, and parts of them.
    pub chains: [u64; 3],
    /// Forwarded commands executed.
    pub forwarded: u64,
    /// Views beyond the first.
    pub views: u64,
    /// Nodes that died.
    pub deaths: u64,
    /// Nodes that tried to join.
    pub joins: u64,
    /// Copies and imports that were loaded.
    pub loaded: u64,
    /// Joins that were given up.
    pub failed_joins: u64,
    /// Links that broke.
    pub resets: u64,
    /// Commands that were answered `UNKNOWN`.
    pub unknown: u64,
    /// Number of `unknown` that were sent to an unreachable node.
    pub unreachable: u64,
    /// Commands blocked at another node.
    pub parked: u64,
    /// Number of `parked` that were forwarded again.
    pub again: u64,
    /// Transactions of watching clients: executed, and refused.
    pub watching: [u64; 2],
    /// Completed flushes of a primary's keys.
    pub flushes: u64,
    /// Messages received.
    pub messages: u64,
    /// Acknowledgements compared with the applied position.
    pub acknowledged: u64,
    /// Cached values compared at rest.
    pub cached: u64,
    /// Stops of all members that their logs would survive.
    pub stops: u64,
    /// Hash of the final contents; equal for runs with the same seed.
    pub digest: u64,
}

impl Outcome {
    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Outcome) {
        self.steps += other.steps;
        self.replies += other.replies;
        self.reads += other.reads;
        self.near += other.near;
        self.commits += other.commits;
        self.spread += other.spread;
        for (sum, other) in self.chains.iter_mut().zip(other.chains) {
            *sum += other;
        }
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
        self.cached += other.cached;
        self.stops += other.stops;
    }

    /// The statistics as text.
    pub fn figures(&self) -> String {
        format!(
            "{} steps, {} replies, {} reads explained ({} of copies), {} commits ({} of several slots), {} commands forwarded, \
             {} views, {} deaths, {} joins ({} loaded, {} given up), {} links broken, \
             {} unknown ({} unreachable), {} blocked ({} forwarded again), \
             {} transactions of watching clients ({} refused), {} flushes, {} messages, \
             {} acknowledgements compared, {} cached values compared, \
             {} transactions of several primaries ({} answered, {} parts), logs compared {} times",
            self.steps,
            self.replies,
            self.reads,
            self.near,
            self.commits,
            self.spread,
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
            self.acknowledged,
            self.cached,
            self.chains[0],
            self.chains[1],
            self.chains[2],
            self.stops
        )
    }
}
