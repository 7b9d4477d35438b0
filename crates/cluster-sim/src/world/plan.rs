//! Parameters of a run, and the rates of the adversary's actions that follow from its seed.

use crate::fault::Fault;
use crate::random::Random;
use crate::workload::{GROUPS, Workload};
use std::fmt;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed that determines everything.
    pub seed: u64,
    /// Number of client commands.
    pub ops: u64,
    /// Deliberate fault.
    pub wrong: Option<Fault>,
    /// Whether nodes join.
    pub joins: bool,
    /// Number of owners of a slot; none if every node holds all data.
    pub copies: Option<usize>,
    /// Number of owners that have applied a change before a client sees it ([`Limits`]).
    pub acknowledge: usize,
    /// Members that die at once at most. Of two, clients may have seen changes that only they had.
    pub deaths: usize,
    /// Whether transactions of several primaries are executed.
    pub chains: bool,
    /// Whether logs are synced before anything depends on them, as with `appendfsync always`.
    pub always: bool,
}

impl Plan {
    /// The plan with copies, acknowledgements and joins that follow from the seed.
    pub fn mixed(self) -> Plan {
        let copies = [None, Some(2), Some(3), Some(1)][(self.seed % 4) as usize];
        let acknowledge = 1 + (self.seed / 4 % 2) as usize;
        Plan { copies, acknowledge, joins: !self.seed.is_multiple_of(3), ..self }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {} --ops {} --acknowledge {}", self.seed, self.ops, self.acknowledge)?;
        let copies = self.copies.map(|copies| format!(" --copies {copies}"));
        write!(f, "{} --deaths {}", copies.unwrap_or_default(), self.deaths)?;
        write!(f, " --chains {} --joins {}", u8::from(self.chains), u8::from(self.joins))?;
        if self.always { write!(f, " --always 1") } else { Ok(()) }
    }
}

/// Mean numbers of steps between the adversary's actions.
pub(super) struct Rates {
    pub reset: u64,
    pub stall: u64,
    pub pause: u64,
    pub moves: u64,
    pub death: u64,
    pub join: u64,
    /// Least mean number of steps between moves of slots on loan, for each link.
    pub pace: u64,
}

impl Rates {
    /// Draws the rates of a plan.
    pub fn new(random: &mut Random, plan: &Plan, workload: &mut Workload) -> Self {
        let rate = |random: &mut Random, most: u64| most / (1 + random.below(8));
        let rates = Rates {
            reset: rate(random, 8000),
            stall: rate(random, 4000),
            pause: rate(random, 8000),
            moves: rate(random, 20_000),
            death: rate(random, 40_000),
            join: if plan.joins { rate(random, 20_000) } else { u64::MAX },
            pace: 0,
        };
        if plan.chains { calm_down(random, rates, workload) } else { rates }
    }
}

/// Lets no slots move in some runs with transactions of several primaries: nothing but their own
/// rules frees slots on loan then. In some, half of the transactions contend for two groups.
fn calm_down(random: &mut Random, rates: Rates, workload: &mut Workload) -> Rates {
    if random.one_in(2) {
        let one = random.below(u64::from(GROUPS) - 1) as u16;
        workload.contended = Some((one, one + 1));
    }
    let (moves, pace) = match random.below(8) {
        0..3 => (u64::MAX / 2, 0),
        3 | 4 => (rates.moves, 0),
        _ => (rates.moves, 8),
    };
    Rates { moves, pace, ..rates }
}
