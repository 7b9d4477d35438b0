//! Random client commands from several families of keys.

use crate::content::{FAMILIES, Family};
use crate::names::{DbKey, FLUSH, slots_of, tagged};
use crate::random::Random;
use petrel_cluster::SLOTS;

/// Number of groups: slots of a group have the same primary at all times.
pub const GROUPS: u16 = 8;
/// Number of slots of a group that have keys: adjacent ones, which are in different lanes.
const SLOTS_PER_GROUP: u16 = 3;

/// The first slot of a group.
pub fn group_begin(group: u16) -> u16 {
    group * (SLOTS / GROUPS)
}

/// The slots that have keys.
pub fn used_slots() -> impl Iterator<Item = u16> {
    (0..GROUPS).flat_map(|group| (0..SLOTS_PER_GROUP).map(move |i| group_begin(group) + i))
}

/// Check of a reply.
#[derive(Clone, Debug)]
pub enum Check {
    /// No check.
    Nothing,
    /// The reply must be unique.
    Unique(DbKey),
    /// This element must be in the list from then on.
    Logged(DbKey, Vec<u8>),
    /// Checks of the replies of a transaction.
    Each(Vec<Check>),
}

/// Relation of a command to watched keys. The number identifies the client at the primary; its low
/// 16 bits count the client's earlier commands.
#[derive(Clone, Copy, Debug)]
pub enum Watch {
    /// `WATCH`, or the transaction that depends on the watched keys.
    Of(u64),
    /// End of the watches.
    End(u64),
}

/// A command of a client, or a transaction.
#[derive(Clone, Debug)]
pub struct Op {
    /// The database.
    pub db: u16,
    /// Whether the commands are a transaction.
    pub is_transaction: bool,
    /// The commands.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// The slots of its keys.
    pub slots: Vec<u16>,
    /// The keys that it reads, if it only reads.
    pub reads: Vec<DbKey>,
    /// Check of the reply.
    pub check: Check,
    /// Relation to watched keys.
    pub watch: Option<Watch>,
    /// Whether it has keys of any primaries.
    pub is_across: bool,
}

impl Op {
    /// Whether it may be blocked: its connection executes nothing meanwhile.
    pub fn may_wait(&self) -> bool {
        let name = self.commands.first().and_then(|command| command.first());
        let is_blocking = name.is_some_and(|name| name.starts_with(b"B"));
        !self.is_transaction && (is_blocking || is_flush(&self.commands))
    }
}

/// Whether a command flushes all keys of the executing primary.
pub fn is_flush(commands: &[Vec<impl AsRef<[u8]>>]) -> bool {
    let first = commands.first().and_then(|command| command.first());
    first.is_some_and(|name| name.as_ref() == b"FLUSHALL")
}

/// Writes of keys of [`Family::Text`].
const TEXT: &[&str] = &[
    "SET k v",
    "SET k v",
    "SET k v PXAT s",
    "SET k v NX",
    "SET k v XX GET",
    "APPEND k v",
    "SETRANGE k n v",
    "DEL k",
    "PEXPIREAT k s",
    "PERSIST k",
    "GETDEL k",
    "GETEX k PXAT s",
    "FCALL put 1 k v",
    "FCALL add 1 k v",
    "RENAME k o",
    "COPY k o REPLACE",
    "PEXPIREAT k s NX",
];

/// Writes of keys of [`Family::Number`].
const NUMBER: &[&str] =
    &["INCRBY k n", "DECRBY k n", "SET k n", "DEL k", "INCR k", "PEXPIREAT k s"];

/// Writes of keys of [`Family::List`].
const LIST: &[&str] = &[
    "LPUSH k v",
    "RPUSH k f",
    "LPOP k",
    "RPOP k",
    "LSET k 0 v",
    "LREM k 1 f",
    "LTRIM k 0 5",
    "LINSERT k BEFORE f v",
    "LMOVE k o LEFT RIGHT",
    "DEL k",
    "PEXPIREAT k s",
    "RENAME k o",
    "COPY k o REPLACE",
];

/// Writes of keys of [`Family::Set`].
const SET: &[&str] = &[
    "SADD k f v",
    "SADD k f",
    "SREM k f",
    "SPOP k",
    "SMOVE k o f",
    "SUNIONSTORE k k o",
    "DEL k",
    "PEXPIREAT k s",
    "PERSIST k",
];

/// Writes of keys of [`Family::Hash`].
const HASH: &[&str] = &[
    "HSET k f v",
    "HDEL k f",
    "HSETNX k f v",
    "HINCRBY k count n",
    "HSET k f v g v",
    "DEL k",
    "PEXPIREAT k s",
    "RENAME k o",
];

/// Writes of keys of [`Family::Scores`].
const SCORES: &[&str] = &[
    "ZADD k n f",
    "ZREM k f",
    "ZINCRBY k n f",
    "ZPOPMIN k",
    "ZADD k GT n f",
    "ZREMRANGEBYRANK k 0 0",
    "DEL k",
    "ZUNIONSTORE k 2 k o",
    "PEXPIREAT k s",
];

/// Writes of keys of [`Family::Stream`].
const STREAM: &[&str] =
    &["XADD k * f v", "XADD k * f v", "XADD k MAXLEN 4 * f v", "XTRIM k MAXLEN 3", "DEL k"];

/// Writing commands of a family. Words stand for arguments: `k` and `o` for two of its keys, `v`
/// for a new value, `f` for one of a few fields, `n` for a number, `s` for a time soon.
fn forms(family: Family, pushes: bool) -> &'static [&'static str] {
    match family {
        Family::Counter => &["INCR k"],
        Family::Log => &["RPUSH k v"],
        Family::Queue if pushes => &["RPUSH k v"],
        Family::Queue => &["LPOP k", "RPOP k", "BLPOP k 0", "BRPOP k o 0"],
        Family::Bag if pushes => &["SADD k v"],
        Family::Bag => &["SPOP k"],
        Family::Twin => &["SET k v"],
        Family::Text => TEXT,
        Family::Number => NUMBER,
        Family::List => LIST,
        Family::Set => SET,
        Family::Hash => HASH,
        Family::Scores => SCORES,
        Family::Stream => STREAM,
    }
}

/// Slots of the keys of a command.
#[derive(Clone, Copy)]
enum Spread {
    /// Only this slot of its group.
    Slot(u16),
    /// Any slots of the group, which have the same owners.
    Group,
    /// Any slots of the group and of this one. The primary is the same, other owners may differ.
    Groups(u16),
}

/// Name of a command of two keys, their family, and further arguments.
type Form = (&'static [u8], Family, &'static [&'static [u8]]);

/// Generator of commands.
pub struct Workload {
    /// Number of values that were drawn.
    drawn: u64,
    /// Whether members hold only some slots.
    is_of_few: bool,
    /// Slots of the next command.
    spread: Spread,
    /// The primary of each group.
    pub primaries: Vec<u16>,
    /// Group of most commands at present.
    pub focus: Option<u16>,
    /// Groups of half of the transactions of several primaries.
    pub contended: Option<(u16, u16)>,
}

impl Workload {
    /// Creates a generator.
    pub fn new(is_of_few: bool) -> Self {
        let (spread, primaries) = (Spread::Group, Vec::new());
        Workload { drawn: 0, is_of_few, spread, primaries, focus: None, contended: None }
    }

    /// The other groups with the same primary.
    fn beside(&self, group: u16) -> Vec<u16> {
        let primary = |group: u16| self.primaries.get(usize::from(group));
        let is_beside = |other: &u16| *other != group && primary(*other) == primary(group);
        (0..GROUPS).filter(is_beside).collect()
    }

    /// Draws the slots of a command.
    fn spread(&mut self, random: &mut Random, group: u16) {
        let place = random.below(SLOTS_PER_GROUP.into()) as u16;
        let beside = self.beside(group);
        self.spread = match random.below(4) {
            _ if !self.is_of_few => Spread::Group,
            0 => Spread::Group,
            1 if !beside.is_empty() => Spread::Groups(*random.pick(&beside)),
            _ => Spread::Slot(place),
        };
    }

    fn fresh(&mut self) -> Vec<u8> {
        self.drawn += 1;
        format!("v{}", self.drawn).into_bytes()
    }

    /// The next command of a client.
    pub fn draw(&mut self, random: &mut Random, now_ms: i64) -> Op {
        let any = random.below(GROUPS.into()) as u16;
        let group = self.focus.filter(|_| !random.one_in(4)).unwrap_or(any);
        self.spread(random, group);
        let family = *random.pick(&FAMILIES);
        if random.one_in(3) {
            return self.read(random, group, family);
        }
        if family == Family::Twin {
            return self.write_twins(random, group);
        }
        if random.one_in(6) {
            return self.transaction(random, group, now_ms);
        }
        let db = database(family);
        let key = self.name(random, group, family);
        let (commands, check) = self.write(random, (group, family), &key, now_ms);
        op(db, false, vec![commands], check)
    }

    /// A command or transaction with keys of two groups, whatever their primaries.
    pub fn across(&mut self, random: &mut Random, now_ms: i64) -> Op {
        let group = random.below(GROUPS.into()) as u16;
        let other = (group + 1 + random.below(u64::from(GROUPS) - 1) as u16) % GROUPS;
        let (group, other) = match self.contended {
            Some((one, other)) if random.one_in(2) => (one, other),
            _ => (group, other),
        };
        self.spread = Spread::Groups(other);
        let command = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let of = |group| Spread::Slot(group);
        let made = match random.below(9) {
            0 | 1 => self.write_twins(random, group),
            2 | 3 => {
                let keys = self.twins(random.below(2) as u16, group);
                let get = |key: &Vec<u8>| command(&[b"GET", key]);
                let commands = keys.iter().map(get).collect();
                let db = database(Family::Twin);
                let reads = keys.into_iter().map(|key| (db, key)).collect();
                Op { reads, ..op(db, true, commands, Check::Nothing) }
            }
            4 | 5 => {
                let family = if random.one_in(2) { Family::Counter } else { Family::Log };
                let value = self.fresh();
                let place = random.below(SLOTS_PER_GROUP.into()) as u16;
                self.spread = of(place);
                let keys = [group, other].map(|group| self.name(random, group, family));
                let write = |key: &Vec<u8>| match family {
                    Family::Counter => command(&[b"INCR", key]),
                    _ => command(&[b"RPUSH", key, &value]),
                };
                let check = |key: &Vec<u8>| match family {
                    Family::Counter => Check::Unique((database(family), key.clone())),
                    _ => Check::Logged((database(family), key.clone()), value.clone()),
                };
                let checks = Check::Each(keys.iter().map(check).collect());
                op(database(family), true, keys.iter().map(write).collect(), checks)
            }
            6 => {
                const FORMS: [Form; 4] = [
                    (b"RENAME", Family::Text, &[]),
                    (b"COPY", Family::List, &[b"REPLACE"]),
                    (b"SMOVE", Family::Set, &[b"m1"]),
                    (b"SUNIONSTORE", Family::Set, &[]),
                ];
                let (name, family, more) = random.pick(&FORMS);
                self.spread = of(random.below(SLOTS_PER_GROUP.into()) as u16);
                let (from, to) =
                    (self.name(random, group, *family), self.name(random, other, *family));
                let words = [&[*name, &from, &to], *more].concat();
                op(database(*family), false, vec![command(&words)], Check::Nothing)
            }
            _ => self.transaction(random, group, now_ms),
        };
        Op { is_across: true, ..made }
    }

    /// A flush of all keys of a slot's primary, except families that persist.
    pub fn flush(&mut self, random: &mut Random) -> Op {
        let slot = group_begin(random.below(GROUPS.into()) as u16);
        let command = vec![b"FLUSHALL".to_vec()];
        Op { slots: vec![slot], ..op(0, false, vec![command], Check::Nothing) }
    }

    /// Commands of a client that watches keys of a slot, and changes one of them in a transaction,
    /// or not.
    pub fn watched(&mut self, random: &mut Random, client: u64) -> Vec<Op> {
        let group = random.below(GROUPS.into()) as u16;
        let slot = group_begin(group) + random.below(SLOTS_PER_GROUP.into()) as u16;
        let key = |i| tagged(&format!("{}{i}", Family::Text.letter()), slot).into_bytes();
        let keys = [0, 1].map(key);
        let of = |key: &[u8], is_transaction, command: &[&[u8]], at: u64| {
            let command = command.iter().map(|word| word.to_vec()).collect();
            let watch = Some(Watch::Of(client << 16 | at));
            let op = op(database(Family::Text), is_transaction, vec![command], Check::Nothing);
            debug_assert_eq!(petrel_cluster::slot_of(key), slot);
            Op { watch, ..op }
        };
        let count = 1 + random.below(2);
        let watched = keys.iter().zip(0..count);
        let mut ops: Vec<Op> =
            watched.map(|(key, at)| of(key, false, &[b"WATCH", key], at)).collect();
        let (key, value) = (random.pick(&keys[..]).clone(), self.fresh());
        match random.below(4) {
            0 => {
                let last = ops[0].clone();
                return ops
                    .into_iter()
                    .chain([Op { watch: Some(Watch::End(client << 16)), ..last }])
                    .collect();
            }
            1 => {
                let write = of(&key, false, &[b"SET", &key, &self.fresh()], 0);
                ops.push(Op { watch: None, ..write });
            }
            _ => {}
        }
        ops.push(of(&key, true, &[b"SET", &key, &value], count));
        ops
    }

    /// With probability 1/2, a read of a key that `op` writes, to follow it.
    pub fn read_after(&mut self, random: &mut Random, op: &Op) -> Option<Op> {
        if !op.reads.is_empty() || random.one_in(2) {
            return None;
        }
        let words = op.commands.iter().flatten();
        let keys: Vec<&Vec<u8>> = words.filter(|word| word.contains(&b'{')).collect();
        let key = (*random.pick(&keys)).clone();
        let family = Family::of(&key)?;
        let read = self::op(op.db, false, vec![family.read(&key)], Check::Nothing);
        Some(Op { reads: vec![(op.db, key)], ..read })
    }

    fn read(&mut self, random: &mut Random, group: u16, family: Family) -> Op {
        let db = database(family);
        if family == Family::Twin {
            let keys = self.twins(random.below(2) as u16, group);
            let mut command = vec![b"MGET".to_vec()];
            command.extend(keys.iter().cloned());
            let reads = keys.iter().map(|key| (db, key.clone())).collect();
            return Op { reads, ..op(db, false, vec![command], Check::Nothing) };
        }
        let key = self.name(random, group, family);
        let command = family.read(&key);
        Op { reads: vec![(db, key)], ..op(db, false, vec![command], Check::Nothing) }
    }

    /// Writes keys of several slots: two keys in one command, or a key and then its copy.
    pub fn write_slots(&mut self, random: &mut Random, group: u16) -> Vec<Op> {
        let beside = self.beside(group);
        self.spread = match self.is_of_few && !beside.is_empty() && !random.one_in(4) {
            true => Spread::Groups(*random.pick(&beside)),
            false => Spread::Group,
        };
        if !self.is_of_few || random.one_in(2) {
            return vec![self.write_twins(random, group)];
        }
        let other = if let Spread::Groups(other) = self.spread { other } else { group };
        self.spread = Spread::Group;
        let from = self.name(random, other, Family::Text);
        let to = self.name(random, group, Family::Text);
        let set = vec![b"SET".to_vec(), from.clone(), self.fresh()];
        let copy = vec![b"COPY".to_vec(), from, to, b"REPLACE".to_vec()];
        let of = |command| op(database(Family::Text), false, vec![command], Check::Nothing);
        vec![of(set), of(copy)]
    }

    /// Writes two keys in one command.
    pub fn write_twins(&mut self, random: &mut Random, group: u16) -> Op {
        let keys = self.twins(random.below(2) as u16, group);
        let value = self.fresh();
        let db = database(Family::Twin);
        if random.one_in(2) {
            let mut command = vec![b"MSET".to_vec()];
            keys.iter().for_each(|key| command.extend([key.clone(), value.clone()]));
            return op(db, false, vec![command], Check::Nothing);
        }
        let set = |key: &Vec<u8>| vec![b"SET".to_vec(), key.clone(), value.clone()];
        op(db, true, keys.iter().map(set).collect(), Check::Nothing)
    }

    fn transaction(&mut self, random: &mut Random, group: u16, now_ms: i64) -> Op {
        let families = [Family::Text, Family::List, Family::Hash, Family::Set, Family::Number];
        let count = 2 + random.index(3);
        let mut commands = Vec::new();
        for _ in 0..count {
            let family = *random.pick(&families);
            let key = self.name(random, group, family);
            commands.push(self.write(random, (group, family), &key, now_ms).0);
        }
        if random.one_in(12) {
            let at = random.index(commands.len() + 1);
            commands.insert(at, vec![FLUSH.to_vec()]);
        }
        op(0, true, commands, Check::Nothing)
    }

    fn write(
        &mut self,
        random: &mut Random,
        (group, family): (u16, Family),
        key: &[u8],
        now_ms: i64,
    ) -> (Vec<Vec<u8>>, Check) {
        let fresh = String::from_utf8(self.fresh()).unwrap_or_default();
        let few = format!("m{}", random.below(6));
        let number = random.below(40).to_string();
        let soon = (now_ms + random.below(400) as i64).to_string();
        let other = self.name(random, group, family);
        let other = String::from_utf8(other).unwrap_or_default();
        let key_text = String::from_utf8(key.to_vec()).unwrap_or_default();
        let id = (database(family), key.to_vec());
        let check = match family {
            Family::Counter => Check::Unique(id),
            Family::Log => Check::Logged(id, fresh.clone().into_bytes()),
            Family::Queue | Family::Bag => Check::Unique(id),
            _ => Check::Nothing,
        };
        let pushes = random.one_in(2);
        let line = *random.pick(forms(family, pushes));
        let arg = |(i, word): (usize, &str)| -> Vec<u8> {
            let text = match word {
                "k" if i > 0 => &key_text,
                "o" => &other,
                "v" => &fresh,
                "f" => &few,
                "n" => &number,
                "s" => &soon,
                other => return other.as_bytes().to_vec(),
            };
            text.as_bytes().to_vec()
        };
        let check = match check {
            Check::Unique(_) if pushes && family != Family::Counter => Check::Nothing,
            check => check,
        };
        (line.split(' ').enumerate().map(arg).collect(), check)
    }

    fn name(&self, random: &mut Random, group: u16, family: Family) -> Vec<u8> {
        let any = random.below(SLOTS_PER_GROUP.into()) as u16;
        let (group, place) = match self.spread {
            Spread::Slot(place) => (group, place),
            Spread::Groups(other) if random.one_in(2) => (other, any),
            Spread::Group | Spread::Groups(_) => (group, any),
        };
        let name = format!("{}{}", family.letter(), random.below(2));
        tagged(&name, group_begin(group) + place).into_bytes()
    }

    /// Two keys, in different lanes if possible.
    fn twins(&self, which: u16, group: u16) -> Vec<Vec<u8>> {
        let (letter, begin) = (Family::Twin.letter(), group_begin(group));
        let names = match self.spread {
            Spread::Slot(_) => {
                [0, 1].map(|i| tagged(&format!("{letter}{which}{i}"), begin + which))
            }
            Spread::Group => [0, 1 + which].map(|i| tagged(&format!("{letter}{which}"), begin + i)),
            Spread::Groups(other) => {
                let pair = format!("{letter}{which}of{}and{}", group.min(other), group.max(other));
                [group.min(other), group.max(other)]
                    .map(|group| tagged(&pair, group_begin(group) + which))
            }
        };
        names.map(String::into_bytes).into()
    }
}

/// A transaction is of one database: that of the families in it.
fn database(family: Family) -> u16 {
    if matches!(family, Family::Queue | Family::Scores) { 3 } else { 0 }
}

fn op(db: u16, is_transaction: bool, commands: Vec<Vec<Vec<u8>>>, check: Check) -> Op {
    let words = commands.iter().flatten();
    let keys = words.filter(|word| word.contains(&b'{')).map(Vec::as_slice);
    let slots = slots_of(keys);
    Op {
        db,
        is_transaction,
        commands,
        slots,
        reads: Vec::new(),
        check,
        watch: None,
        is_across: false,
    }
}
