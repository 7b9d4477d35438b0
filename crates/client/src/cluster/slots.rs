//! Hash slots: which of 16,384 a key belongs to, and which nodes serve each.

use std::fmt;

use petrel_resp::Value;

/// Slots of a cluster.
pub(crate) const SLOTS: usize = 16_384;

/// CRC-16/XMODEM of each byte.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The slot of a key: of what stands between the first `{` and the `}` behind it, if anything does,
/// otherwise of the whole key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let behind = &key[open + 1..];
        let len = behind.iter().position(|&byte| byte == b'}').filter(|len| *len > 0)?;
        Some(&behind[..len])
    });
    let crc = tag
        .unwrap_or(key)
        .iter()
        .fold(0u16, |crc, byte| (crc << 8) ^ CRC[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS as u16
}

/// Address of a node.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Place {
    /// Reads `host:port`. A node that does not know its own address leaves the host out: it is the
    /// one that was asked.
    fn parse(text: &str, asked: &Place) -> Option<Place> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Place { host: host_or(host, asked), port: port.parse().ok()? })
    }
}

fn host_or(host: &str, asked: &Place) -> String {
    if matches!(host, "" | "?") { asked.host.clone() } else { host.to_owned() }
}

/// A primary and its replicas.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) primary: Place,
    pub(crate) replicas: Vec<Place>,
}

/// Shard of each slot.
#[derive(Debug, Default)]
pub(crate) struct SlotMap {
    pub(crate) shards: Vec<Shard>,
    /// By slot: one more than the number of its shard; 0: none.
    shard_of: Vec<u16>,
}

impl SlotMap {
    /// Reads the reply to `CLUSTER SLOTS` of the node at `asked`; `None` if it makes no sense or
    /// names no slot.
    pub(crate) fn parse(reply: &Value, asked: &Place) -> Option<SlotMap> {
        let Value::Array(ranges) = reply else { return None };
        let mut map = SlotMap { shards: Vec::new(), shard_of: vec![0; SLOTS] };
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Integer(first), Value::Integer(last), nodes @ ..] = &parts[..] else {
                return None;
            };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let mut places = nodes.iter().filter_map(|node| place(node, asked));
            let Some(primary) = places.next() else { continue };
            let number = match map.shards.iter().position(|shard| shard.primary == primary) {
                Some(at) => at,
                None => {
                    map.shards.push(Shard { primary, replicas: places.collect() });
                    map.shards.len() - 1
                }
            };
            map.shard_of.get_mut(first..=last)?.fill(u16::try_from(number + 1).ok()?);
        }
        (!map.shards.is_empty()).then_some(map)
    }

    /// The shard that serves a slot.
    pub(crate) fn shard(&self, slot: u16) -> Option<&Shard> {
        let number = self.shard_of.get(usize::from(slot))?;
        self.shards.get(usize::from(number.checked_sub(1)?))
    }

    /// Whether the same primaries serve the same slots.
    pub(crate) fn serves_alike(&self, other: &SlotMap) -> bool {
        let primaries = |map: &SlotMap| -> Vec<Place> {
            map.shards.iter().map(|shard| shard.primary.clone()).collect()
        };
        self.shard_of == other.shard_of && primaries(self) == primaries(other)
    }

    /// All nodes, primaries first.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        let replicas = self.shards.iter().flat_map(|shard| &shard.replicas);
        self.shards.iter().map(|shard| &shard.primary).chain(replicas)
    }
}

fn place(node: &Value, asked: &Place) -> Option<Place> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Integer(port), ..] = &parts[..] else { return None };
    let host = host.as_bytes().unwrap_or_default();
    let host = host_or(std::str::from_utf8(host).ok()?, asked);
    Some(Place { host, port: u16::try_from(*port).ok()? })
}

/// Redirection or retry that an error reply asks for.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Redirection {
    /// The slot is served elsewhere.
    Moved(Place),
    /// The slot is being moved; this command should go there, after `ASKING`.
    Ask(Place),
    /// Keys of the command are on both sides of a slot that is being moved.
    TryAgain,
    /// The node, or the cluster, cannot answer at the moment.
    Unready,
}

impl Redirection {
    /// Reads an error reply of the node at `asked`; `None` if trying again does not help.
    pub(crate) fn parse(error: &[u8], asked: &Place) -> Option<Redirection> {
        let text = std::str::from_utf8(error).ok()?;
        let mut words = text.split(' ');
        let code = words.next()?;
        let mut place = || Place::parse(words.nth(1)?, asked);
        match code {
            "MOVED" => Some(Redirection::Moved(place()?)),
            "ASK" => Some(Redirection::Ask(place()?)),
            "TRYAGAIN" => Some(Redirection::TryAgain),
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => Some(Redirection::Unready),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn asked() -> Place {
        Place { host: "asked".into(), port: 1 }
    }

    #[test]
    fn slots_of_keys() {
        // The check value of CRC-16/XMODEM, and the examples of the cluster specification.
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), slot_of(b"foo{}{bar}"));
        assert_ne!(slot_of(b"foo{}{bar}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo"), 12182);
    }

    #[test]
    fn redirections() {
        let parse = |text: &str| Redirection::parse(text.as_bytes(), &asked());
        let place = |host: &str, port| Place { host: host.into(), port };
        assert_eq!(parse("MOVED 3999 ::1:6381"), Some(Redirection::Moved(place("::1", 6381))));
        assert_eq!(parse("ASK 3999 :6381"), Some(Redirection::Ask(place("asked", 6381))));
        assert_eq!(parse("TRYAGAIN Multiple keys"), Some(Redirection::TryAgain));
        assert_eq!(parse("MOVED 3999"), None);
        assert_eq!(parse("MOVED 3999 host:x"), None);
        assert_eq!(parse("WRONGTYPE no"), None);
    }

    #[test]
    fn maps_of_slots() {
        let node = |host: &'static [u8], port| {
            Value::Array(vec![Value::Bulk(Bytes::from_static(host)), Value::Integer(port)])
        };
        let range = |first, last, nodes: Vec<Value>| {
            let mut parts = vec![Value::Integer(first), Value::Integer(last)];
            parts.extend(nodes);
            Value::Array(parts)
        };
        let reply = Value::Array(vec![
            range(0, 9, vec![node(b"a", 1), node(b"r", 2)]),
            range(20, 29, vec![node(b"", 3)]),
            range(30, 39, vec![node(b"a", 1), node(b"r", 2)]),
        ]);
        let map = SlotMap::parse(&reply, &asked()).unwrap();
        assert_eq!(map.shards.len(), 2);
        assert_eq!(map.shard(35).unwrap().replicas[0].port, 2);
        assert_eq!(map.shard(25).unwrap().primary.host, "asked");
        assert!(map.shard(10).is_none());
        for wrong in [
            Value::Array(Vec::new()),
            Value::Null,
            Value::Array(vec![range(0, 16_384, vec![node(b"a", 1)])]),
            Value::Array(vec![range(9, 0, vec![node(b"a", 1)]), Value::Null]),
            Value::Array(vec![range(-1, 5, vec![node(b"a", 1)])]),
        ] {
            assert!(SlotMap::parse(&wrong, &asked()).is_none(), "{wrong:?}");
        }
    }
}
