//! Deliberate faults, which the simulator has to detect.

use petrel_cluster::mutation::Mutation;

/// A deliberate fault, which the simulator has to detect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A rule of the protocol is disabled.
    Rule(Mutation),
    /// Reads of a connection do not wait for its forwarded commands.
    ReadsPastWrites,
    /// Every node removes expired keys, not only the primary.
    ExpiresEverywhere,
    /// Transactions ignore their clients' watches.
    IgnoresWatches,
    /// A flush removes the keys of one database only.
    FlushesOneDatabase,
    /// A node keeps watches of slots of which it is not the primary any more.
    KeepsWatches,
    /// A primary's own clients read changes that are not safe.
    ReadsUnsafe,
}

/// All deliberate faults, by name.
pub const FAULTS: [(&str, Fault); 44] = [
    ("ignore-parts", Fault::Rule(Mutation::IgnoreParts)),
    ("answer-early", Fault::Rule(Mutation::AnswerEarly)),
    ("execute-twice", Fault::Rule(Mutation::ExecuteTwice)),
    ("order-early", Fault::Rule(Mutation::OrderEarly)),
    ("apply-early", Fault::Rule(Mutation::ApplyEarly)),
    ("no-tails", Fault::Rule(Mutation::NoTails)),
    ("drop-while-loading", Fault::Rule(Mutation::DropWhileLoading)),
    ("keep-copies", Fault::Rule(Mutation::KeepCopies)),
    ("keep-readers", Fault::Rule(Mutation::KeepReaders)),
    ("forget-early", Fault::Rule(Mutation::ForgetEarly)),
    ("reads-past-writes", Fault::ReadsPastWrites),
    ("expires-everywhere", Fault::ExpiresEverywhere),
    ("acknowledge-early", Fault::Rule(Mutation::AcknowledgeEarly)),
    ("answer-alone", Fault::Rule(Mutation::AnswerAlone)),
    ("show-unsafe", Fault::Rule(Mutation::ShowUnsafe)),
    ("read-unsafe", Fault::ReadsUnsafe),
    ("forget-past-owners", Fault::Rule(Mutation::ForgetPastOwners)),
    ("ignore-kept", Fault::Rule(Mutation::IgnoreKept)),
    ("append-anyway", Fault::Rule(Mutation::AppendAnyway)),
    ("overtake-others", Fault::Rule(Mutation::OvertakeOthers)),
    ("commit-early", Fault::Rule(Mutation::CommitEarly)),
    ("recover-parts", Fault::Rule(Mutation::RecoverParts)),
    ("forget-reads", Fault::Rule(Mutation::ForgetReads)),
    ("answer-lost", Fault::Rule(Mutation::AnswerLost)),
    ("use-lent", Fault::Rule(Mutation::UseLent)),
    ("end-loans", Fault::Rule(Mutation::EndLoans)),
    ("decide-late", Fault::Rule(Mutation::DecideLate)),
    ("keep-silent", Fault::Rule(Mutation::KeepSilent)),
    ("part-alone", Fault::Rule(Mutation::PartAlone)),
    ("forget-decisions", Fault::Rule(Mutation::ForgetDecisions)),
    ("skip-missing", Fault::Rule(Mutation::SkipMissing)),
    ("keep-loans", Fault::Rule(Mutation::KeepLoans)),
    ("execute-chain-twice", Fault::Rule(Mutation::ExecuteChainTwice)),
    ("answer-decided", Fault::Rule(Mutation::AnswerDecided)),
    ("keep-decided", Fault::Rule(Mutation::KeepDecided)),
    ("ask-always", Fault::Rule(Mutation::AskAlways)),
    ("refuse-alone", Fault::Rule(Mutation::RefuseAlone)),
    ("forget-loans", Fault::Rule(Mutation::ForgetLoans)),
    ("lend-unsafe", Fault::Rule(Mutation::LendUnsafe)),
    ("any-order", Fault::Rule(Mutation::AnyOrder)),
    ("repeat-messages", Fault::Rule(Mutation::RepeatMessages)),
    ("ignore-watches", Fault::IgnoresWatches),
    ("flush-one-database", Fault::FlushesOneDatabase),
    ("keep-watches", Fault::KeepsWatches),
];
