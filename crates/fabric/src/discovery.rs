//! Where nodes were found that are not where the members have agreed they are: all of them may have
//! come back at other addresses, and agree on nothing before they find each other.
//!
//! ```text
//! A --cluster-join B's address --->  B    B's certificate names the node that answers there
//!             "let me in, I am at ..."    A's question says where A is
//! ```
//!
//! An address that was found is tried in turn with the one that is agreed on, until members agree on
//! another.

use crate::state::MemberInfo;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Nodes that are remembered at most: members, and some that were.
const NODES_MAX: usize = 1024;

struct Found {
    address: String,
    /// What the members had agreed on then.
    instead_of: String,
    /// It did not answer when it was tried last.
    has_missed: bool,
}

/// Addresses of buses, by the uuids of nodes.
#[derive(Default)]
pub(crate) struct FoundNodes(Mutex<BTreeMap<u128, Found>>);

impl FoundNodes {
    /// A node was found at an address, other than the one that is agreed on if there is none at
    /// this.
    pub fn note(&self, agreed: &MemberInfo, address: &str) {
        let mut found = self.0.lock();
        if agreed.bus == address {
            found.remove(&agreed.uuid);
        } else if found.len() < NODES_MAX || found.contains_key(&agreed.uuid) {
            let instead_of = agreed.bus.clone();
            let address = address.into();
            found.insert(agreed.uuid, Found { address, instead_of, has_missed: false });
        }
    }

    /// Where to look for a node: where it was found last, or where it is by agreement.
    pub fn address_of(&self, agreed: &MemberInfo) -> String {
        let mut found = self.0.lock();
        match found.get(&agreed.uuid) {
            Some(known) if known.instead_of == agreed.bus => match known.has_missed {
                true => agreed.bus.clone(),
                false => known.address.clone(),
            },
            Some(_) => {
                found.remove(&agreed.uuid);
                agreed.bus.clone()
            }
            None => agreed.bus.clone(),
        }
    }

    /// A node does not answer at an address.
    pub fn miss(&self, uuid: u128, address: &str) {
        if let Some(known) = self.0.lock().get_mut(&uuid) {
            known.has_missed = known.address == address;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Role;

    #[test]
    fn two_addresses_are_tried_in_turn_until_another_is_agreed_on() {
        let at = |bus: &str| MemberInfo {
            number: 1,
            incarnation: 1,
            uuid: 7,
            bus: bus.into(),
            client: String::new(),
            role: Role::Data,
            zone: String::new(),
            holds_slots: true,
        };
        let found = FoundNodes::default();
        assert_eq!(found.address_of(&at("a:1")), "a:1");
        found.note(&at("a:1"), "a:2");
        assert_eq!(found.address_of(&at("a:1")), "a:2");
        found.miss(7, "a:1");
        assert_eq!(found.address_of(&at("a:1")), "a:2");
        found.miss(7, "a:2");
        assert_eq!(found.address_of(&at("a:1")), "a:1");
        found.miss(7, "a:1");
        assert_eq!(found.address_of(&at("a:1")), "a:2", "it may only have been away");
        assert_eq!(found.address_of(&at("a:3")), "a:3", "that is newer");
        assert_eq!(found.address_of(&at("a:1")), "a:1");
        found.note(&at("a:1"), "a:2");
        found.note(&at("a:1"), "a:1");
        assert_eq!(found.address_of(&at("a:1")), "a:1");
    }
}
