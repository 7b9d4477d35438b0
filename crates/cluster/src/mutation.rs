//! Rules of the protocol that can be broken, so that the simulator can show that it notices.
//! Without the feature `mutations` none is.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mutation {
    /// A commit over several lanes is applied when its effects arrive, not when all of its places
    /// are reached.
    IgnoreParts,
    /// A forwarded command is answered as soon as the answer arrives.
    AnswerEarly,
    /// A command that was executed already is executed again when it is sent again.
    ExecuteTwice,
    /// A new primary numbers changes before the one before has ended.
    NumberEarly,
    /// Changes of a new primary are applied before those of the one before.
    ApplyEarly,
    /// Survivors of a node keep what they happen to have of its changes.
    NoTails,
    /// A node that is sent a slot's data applies only what arrives once it has loaded them.
    DropWhileLoading,
    /// Copies of keys are read on when their slot has got another primary.
    KeepCopies,
    /// A node says that it has applied what it has received.
    AcknowledgeEarly,
    /// A message is handed out each time that it could be.
    RepeatMessages,
    /// A node says that it has no copy of a key though it has just asked for one.
    UnshareEarly,
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
