//! Discovery: addresses of nodes that differ from the agreed ones. All members may have returned
//! with new addresses, and cannot agree on anything before they find each other.
//!
//! ```text
//! A --cluster-join B's address --->  B    B's certificate identifies the node at that address
//!             "join, my bus is ..."       A's request contains A's address
//! ```
//!
//! A discovered address is tried alternately with the agreed one, until members agree on another.

use crate::state::MemberInfo;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Maximum number of nodes remembered: present and some former members.
const NODES_MAX: usize = 1024;

struct Found {
    address: String,
    /// The agreed address at the time of discovery.
    instead_of: String,
    /// The last attempt at this address failed.
    has_missed: bool,
}

/// Discovered bus addresses, by node uuid.
#[derive(Default)]
pub(crate) struct Discovery(Mutex<BTreeMap<u128, Found>>);

impl Discovery {
    /// Records the address at which a node was found; forgets an earlier one if it is the agreed
    /// address.
    pub fn record(&self, agreed: &MemberInfo, address: &str) {
        let mut found = self.0.lock();
        if agreed.bus == address {
            found.remove(&agreed.uuid);
        } else if found.len() < NODES_MAX || found.contains_key(&agreed.uuid) {
            let instead_of = agreed.bus.clone();
            let address = address.into();
            found.insert(agreed.uuid, Found { address, instead_of, has_missed: false });
        }
    }

    /// The address to try next: the discovered or the agreed one.
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

    /// Records that a node did not answer at an address.
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
        let found = Discovery::default();
        assert_eq!(found.address_of(&at("a:1")), "a:1");
        found.record(&at("a:1"), "a:2");
        assert_eq!(found.address_of(&at("a:1")), "a:2");
        found.miss(7, "a:1");
        assert_eq!(found.address_of(&at("a:1")), "a:2");
        found.miss(7, "a:2");
        assert_eq!(found.address_of(&at("a:1")), "a:1");
        found.miss(7, "a:1");
        assert_eq!(found.address_of(&at("a:1")), "a:2", "it may only have been away");
        assert_eq!(found.address_of(&at("a:3")), "a:3", "that is newer");
        assert_eq!(found.address_of(&at("a:1")), "a:1");
        found.record(&at("a:1"), "a:2");
        found.record(&at("a:1"), "a:1");
        assert_eq!(found.address_of(&at("a:1")), "a:1");
    }
}
