//! Rules of the protocol that tests can disable, to show that the simulator detects each violation.
//! Without the feature `mutations` all rules hold.

/// A rule that is disabled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mutation {
    /// A commit over several lanes is applied once its effects arrive, before all its parts are
    /// next.
    IgnoreParts,
    /// A forwarded command is answered as soon as the answer arrives.
    AnswerEarly,
    /// A forwarded command that is sent again is executed again.
    ExecuteTwice,
    /// A new primary orders changes before the previous one has ended.
    OrderEarly,
    /// Changes of a new primary are applied before those of the previous one.
    ApplyEarly,
    /// Survivors of a dead member keep only the records that they happen to have of its lanes.
    NoTails,
    /// A node that imports a slot drops the changes that arrive before the data are loaded.
    DropWhileLoading,
    /// Copies of keys are still read after their slot has changed its primary.
    KeepCopies,
    /// A node acknowledges records when it has received them, not when it has applied them.
    AcknowledgeEarly,
    /// A published message is delivered twice.
    RepeatMessages,
    /// A node reports that it has no copy of a key while it awaits one.
    ForgetEarly,
    /// Clients keep what they have read of keys whose slots get another primary.
    KeepReaders,
    /// Replies do not wait until another owner has applied the changes that they depend on.
    AnswerAlone,
    /// Members that do not own a slot are sent changes and answers that are not safe.
    ShowUnsafe,
    /// Owners of earlier views do not contribute to the recovery of a dead primary's changes.
    ForgetPastOwners,
    /// Changes that only the origin of their command has are not recovered.
    IgnoreKept,
    /// Such changes are recovered whether or not the change before them was.
    AppendAnyway,
    /// An origin is answered though changes of others before its own are not safe.
    OvertakeOthers,
    /// A commit of several slots is sent to others than a slot's owners though the slot's changes
    /// before it are on no second owner.
    CommitEarly,
    /// The recovery decides on the changes of such a commit slot by slot.
    RecoverParts,
    /// A commit may survive though changes that its command has read in other slots are lost.
    ForgetReads,
    /// A reply is delivered though a change that it shows is lost.
    AnswerLost,
    /// Commands use slots that are on loan to a transaction of several primaries.
    UseLent,
    /// A primary ends a loan by itself, when it adopts a view.
    EndLoans,
    /// An executor decides though a primary of the transaction has changed.
    DecideLate,
    /// Survivors of a dead member do not tell each other the decisions that they have.
    KeepSilent,
    /// A part of a decision is sent without the decision.
    PartAlone,
    /// Members forget a decision once their own parts have their places.
    ForgetDecisions,
    /// A new primary gives no places to parts that its dead predecessor has not.
    SkipMissing,
    /// Loans to transactions that have died with a primary stay.
    KeepLoans,
    /// A transaction that is sent again is executed again.
    ExecuteChainTwice,
    /// The origin of a transaction is answered before it has all its parts.
    AnswerDecided,
    /// A loan stays if the decision arrives after all its parts.
    KeepDecided,
    /// A member that lags is asked again for the end of loans and the places of parts.
    AskAlways,
    /// A refusal ends only the loans of the member that refuses.
    RefuseAlone,
    /// A loan is forgotten when its slot moves.
    ForgetLoans,
    /// Keys are lent though no second owner has their last change.
    LendUnsafe,
    /// Transactions go through their primaries in any order.
    AnyOrder,
}

#[cfg(feature = "mutations")]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Breaks a rule for the calling thread, or none.
#[cfg(feature = "mutations")]
pub fn break_rule(mutation: Option<Mutation>) {
    BROKEN.set(mutation);
}

#[cfg(feature = "mutations")]
thread_local! {
    static TURNS_LEFT: std::cell::Cell<u64> = const { std::cell::Cell::new(u64::MAX) };
}

/// Sets how often loops of this thread that wait for nothing to be left may turn from now on.
#[cfg(feature = "mutations")]
pub fn limit_turns(turns: u64) {
    TURNS_LEFT.set(turns);
}

/// Counts a turn of such a loop. True if it has to give up, since it does not end.
#[cfg(feature = "mutations")]
pub fn is_endless() -> bool {
    let left = TURNS_LEFT.get();
    TURNS_LEFT.set(left.saturating_sub(1));
    left == 0
}

#[cfg(not(feature = "mutations"))]
#[inline]
pub(crate) fn is_endless() -> bool {
    false
}

#[inline]
pub(crate) fn is_broken(mutation: Mutation) -> bool {
    #[cfg(feature = "mutations")]
    return BROKEN.get() == Some(mutation);
    #[cfg(not(feature = "mutations"))]
    {
        let _ = mutation;
        false
    }
}
