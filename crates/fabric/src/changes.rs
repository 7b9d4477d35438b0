//! Description of a view's changes for the log.

use crate::state::MemberInfo;
use petrel_cluster::{SLOTS, View};

/// Differences from the previous view; all members if there is none.
pub(crate) fn describe(
    before: Option<(&View, &[MemberInfo])>,
    view: &View,
    members: &[MemberInfo],
) -> String {
    let Some((before, known)) = before else {
        return members.iter().map(shown).collect::<Vec<_>>().join(", ");
    };
    let is_in = |all: &[MemberInfo], one: &MemberInfo| {
        all.iter().any(|other| other.identity() == one.identity())
    };
    let mut changes = Vec::new();
    let gone = known.iter().filter(|one| !is_in(members, one));
    changes.extend(gone.map(|one| format!("{} was removed", shown(one))));
    let new = members.iter().filter(|one| !is_in(known, one));
    changes.extend(new.map(|one| format!("{} joined", shown(one))));
    for one in members {
        let was = known.iter().find(|other| other.identity() == one.identity());
        if was.is_some_and(|was| was.holds_slots != one.holds_slots) {
            let does = if one.holds_slots { "accepts" } else { "gives up" };
            changes.push(format!("{} {does} slots", shown(one)));
        }
    }
    let count = |differs: &dyn Fn(u16) -> bool| (0..SLOTS).filter(|&slot| differs(slot)).count();
    for (what, count) in [
        ("with another primary", count(&|slot| before.primary(slot) != view.primary(slot))),
        ("with other owners", count(&|slot| before.slots.owners(slot) != view.slots.owners(slot))),
        (
            "imported by other members",
            count(&|slot| {
                !view.incoming(slot).is_empty() && before.incoming(slot) != view.incoming(slot)
            }),
        ),
    ] {
        if count > 0 {
            let slots = if count == 1 { "slot" } else { "slots" };
            changes.push(format!("{count} {slots} {what}"));
        }
    }
    if changes.is_empty() {
        return "no other changes".into();
    }
    changes.join("; ")
}

fn shown(member: &MemberInfo) -> String {
    format!("{}.{} at {}", member.number, member.incarnation, member.bus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Role;
    use petrel_cluster::{Node, SlotMap};

    fn member(number: u16, incarnation: u32, holds_slots: bool) -> MemberInfo {
        let (bus, client) = (format!("10.0.0.{number}:17000"), String::new());
        let (uuid, role, zone) = (u128::from(number), Role::Data, String::new());
        MemberInfo { number, incarnation, uuid, bus, client, role, zone, holds_slots }
    }

    fn view(epoch: u64, members: &[MemberInfo], owners: &dyn Fn(u16) -> Vec<Node>) -> View {
        let all: Vec<Vec<Node>> = (0..SLOTS).map(owners).collect();
        let slots = SlotMap::collect(|slot| &all[usize::from(slot)]);
        let members = members.iter().map(MemberInfo::identity).collect();
        View { epoch, members, slots, incoming: Some(SlotMap::collect(|_| &[])) }
    }

    #[test]
    fn a_line_says_what_has_changed() {
        let (one, other) = (member(0, 1, true), member(1, 1, false));
        let alone = [one.clone()];
        let first = view(1, &alone, &|_| vec![Node(0)]);
        assert_eq!(describe(None, &first, &alone), "0.1 at 10.0.0.0:17000");

        let both = [one.clone(), other.clone()];
        let second = view(2, &both, &|_| vec![Node(0)]);
        let line = describe(Some((&first, &alone)), &second, &both);
        assert_eq!(line, "1.1 at 10.0.0.1:17000 joined");
        assert_eq!(describe(Some((&first, &both)), &first, &both), "no other changes");

        let holding = [one, member(1, 1, true)];
        let third = view(3, &holding, &|slot| vec![Node(u16::from(slot < 100)), Node(0)]);
        let line = describe(Some((&second, &both)), &third, &holding);
        let slots = format!("100 slots with another primary; {SLOTS} slots with other owners");
        assert_eq!(line, format!("1.1 at 10.0.0.1:17000 accepts slots; {slots}"));

        let again = [member(0, 2, true), holding[1].clone()];
        let fourth =
            View { members: again.iter().map(MemberInfo::identity).collect(), ..third.clone() };
        let line = describe(Some((&third, &holding)), &fourth, &again);
        let restart = "0.1 at 10.0.0.0:17000 was removed; 0.2 at 10.0.0.0:17000 joined";
        assert_eq!(line, format!("{restart}; {} slots with another primary", SLOTS - 100));
    }
}
