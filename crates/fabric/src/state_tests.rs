use super::encoded::{WITH_AUX, WITH_FUNCTIONS};
use super::*;
use crate::aux_states::{AUX_MAX, AuxOutcome, FunctionsChange};
use petrel_cluster::SLOTS;

fn applicant(uuid: u128) -> Applicant {
    Applicant {
        uuid,
        key: [uuid as u8; 32],
        boot: 1,
        bus: format!("10.0.0.{uuid}:17000"),
        client: format!("10.0.0.{uuid}:7000"),
        role: Role::Data,
        zone: String::new(),
        waits_for_data: false,
        extents: restart::Reported::default(),
    }
}

fn founded() -> State {
    let mut state = State::default();
    let founder = Applicant { waits_for_data: true, ..applicant(1) };
    state.apply(Command::Found { cluster: 9, copies: Copies::All, founder });
    state
}

fn join(state: &mut State, applicant: Applicant) -> Admission {
    match state.apply(Command::Join(applicant)) {
        Answer::Joined(admission) => admission,
        other => panic!("{other:?}"),
    }
}

/// The last view, after checking the history: consecutive epochs, all slots owned by members.
fn latest(state: &State) -> Step {
    let first = state.history.front().map_or(1, |past| past.epoch);
    for epoch in first..=state.epoch {
        let step = state.step(epoch).expect("kept");
        assert_eq!(step.view.epoch, epoch);
        for range in step.view.slots.ranges() {
            assert!(range.owners.iter().all(|owner| step.view.member(*owner).is_some()));
        }
    }
    state.step(state.epoch).expect("kept")
}

fn slots_of(step: &Step, number: u16) -> usize {
    (0..SLOTS).filter(|&slot| step.view.slots.primary(slot) == Some(Node(number))).count()
}

#[test]
fn the_founder_has_all_slots_and_shares_them_with_those_that_join() {
    let mut state = founded();
    assert_eq!(slots_of(&latest(&state), 0), usize::from(SLOTS));
    let second = join(&mut state, applicant(2));
    assert_eq!((second.cluster, second.number, second.incarnation, second.epoch), (9, 1, 1, 2));
    let step = latest(&state);
    assert_eq!((slots_of(&step, 0), slots_of(&step, 1)), (8192, 8192));
    assert!((0..SLOTS).all(|slot| step.view.slots.owners(slot).len() == 2));
}

#[test]
fn the_same_question_is_answered_alike_and_another_life_is_another_incarnation() {
    let mut state = founded();
    let first = join(&mut state, applicant(2));
    assert_eq!(join(&mut state, applicant(2)), first);
    assert_eq!(state.epoch, 2);
    let second = join(&mut state, Applicant { boot: 2, ..applicant(2) });
    assert_eq!((second.id, second.number, second.incarnation), (first.id, first.number, 2));
    // A view without it lies between its incarnations.
    let between = state.step(second.epoch - 1).expect("kept");
    assert_eq!(between.members.len(), 1);
    assert_eq!(slots_of(&between, 0), usize::from(SLOTS));
}

#[test]
fn a_node_that_waits_for_its_data_holds_nothing_before_it_has_them() {
    let mut state = founded();
    let waits = join(&mut state, Applicant { waits_for_data: true, ..applicant(2) });
    assert_eq!(slots_of(&latest(&state), waits.number), 0);
    let hold = |holds| Command::Hold { number: waits.number, incarnation: 1, holds };
    state.apply(hold(true));
    assert_eq!(slots_of(&latest(&state), waits.number), 8192);
    state.apply(hold(false));
    assert_eq!(slots_of(&latest(&state), waits.number), 0);
    let epoch = state.epoch;
    state.apply(hold(false));
    state.apply(Command::Hold { number: waits.number, incarnation: 7, holds: true });
    assert_eq!(state.epoch, epoch);
}

#[test]
fn unheld_slots_are_taken_by_a_member_that_has_seen_every_view() {
    let mut state = founded();
    let waits = |uuid, boot| Applicant { boot, waits_for_data: true, ..applicant(uuid) };
    let second = join(&mut state, waits(2, 1));
    let take = |number, incarnation, epoch| Command::HoldUnheld { number, incarnation, epoch };
    let epoch = state.epoch;
    // A member holds the slots.
    state.apply(take(second.number, 1, epoch));
    assert_eq!(state.epoch, epoch);
    // The founder returns, and accepts only slots that are given to it.
    let first = join(&mut state, waits(1, 2));
    assert_eq!(slots_of(&latest(&state), first.number), 0);
    let epoch = state.epoch;
    // Earlier requests have no effect any more.
    state.apply(take(second.number, 1, epoch - 1));
    assert_eq!(state.epoch, epoch);
    state.apply(take(first.number, first.incarnation, epoch));
    assert_eq!(slots_of(&latest(&state), first.number), usize::from(SLOTS));
    state.apply(take(second.number, 1, epoch));
    state.apply(take(second.number, 1, state.epoch));
    assert_eq!(slots_of(&latest(&state), second.number), 0);
}

#[test]
fn slots_of_a_member_that_is_removed_fall_to_the_others() {
    let mut state = founded();
    for uuid in 2..=4 {
        join(&mut state, applicant(uuid));
    }
    state.apply(Command::Remove { number: 0, incarnation: 1 });
    let step = latest(&state);
    assert_eq!(step.members.len(), 3);
    assert_eq!(slots_of(&step, 0), 0);
    assert_eq!((1..4).map(|number| slots_of(&step, number)).sum::<usize>(), usize::from(SLOTS));
    // Requests of another incarnation have no effect.
    state.apply(Command::Remove { number: 1, incarnation: 5 });
    assert_eq!(latest(&state).members.len(), 3);
}

fn failed(state: &State) -> Vec<u128> {
    state.failed().map(|info| info.uuid).collect()
}

#[test]
fn failed_nodes_are_distinguished_from_leavers() {
    let mut state = founded();
    let [left, died] = [2, 3].map(|uuid| join(&mut state, applicant(uuid)));
    state.apply(Command::Leave { number: left.number, incarnation: 1 });
    assert_eq!((latest(&state).members.len(), failed(&state)), (2, vec![]));
    state.apply(Command::Forget { uuid: 3 });
    state.apply(Command::Remove { number: died.number, incarnation: 1 });
    assert_eq!(failed(&state), [3], "a member cannot be forgotten beforehand");
    let written = state.to_bytes().expect("it is plain data");
    assert_eq!(State::from_bytes(&written).expect("the same"), state);
    // Requests of an ended incarnation have no effect.
    state.apply(Command::Leave { number: died.number, incarnation: 1 });
    assert_eq!(failed(&state), [3]);
    let again = Applicant { boot: 2, ..applicant(3) };
    let died = join(&mut state, again.clone());
    assert_eq!(failed(&state), [0; 0]);
    state.apply(Command::Remove { number: died.number, incarnation: died.incarnation });
    state.apply(Command::Forget { uuid: 3 });
    assert_eq!(failed(&state), [0; 0]);
    // Forgotten nodes, and nodes that have left, may return and fail again.
    for applicant in [Applicant { boot: 3, ..again }, Applicant { boot: 2, ..applicant(2) }] {
        let admission = join(&mut state, applicant);
        let Admission { number, incarnation, .. } = admission;
        state.apply(Command::Remove { number, incarnation });
    }
    assert_eq!(failed(&state), [2, 3]);
}

#[test]
fn witnesses_and_caches_hold_nothing() {
    let mut state = founded();
    join(&mut state, Applicant { role: Role::Witness, ..applicant(2) });
    join(&mut state, Applicant { role: Role::Cache, ..applicant(3) });
    assert_eq!(slots_of(&latest(&state), 0), usize::from(SLOTS));
    state.apply(Command::Hold { number: 1, incarnation: 1, holds: true });
    assert_eq!(slots_of(&latest(&state), 1), 0);
}

#[test]
fn a_uuid_keeps_its_key() {
    let mut state = founded();
    join(&mut state, applicant(2));
    let stranger = Applicant { key: [99; 32], boot: 5, ..applicant(2) };
    assert_eq!(state.apply(Command::Join(stranger)), Answer::OtherKey);
    assert_eq!(state.epoch, 2);
}

#[test]
fn numbers_are_used_again_with_new_incarnations_and_places_in_consensus_never() {
    let mut state = founded();
    for uuid in 2..=200 {
        let admission = join(&mut state, applicant(uuid));
        assert_eq!(u128::from(admission.id), uuid);
        assert!(admission.number < NODES_MAX);
        assert_eq!(admission.incarnation > 1, uuid > u128::from(NODES_MAX));
        let (number, incarnation) = (admission.number, admission.incarnation);
        state.apply(Command::Remove { number, incarnation });
    }
    assert_eq!(latest(&state).members.len(), 1);
    let full = (201..264).map(|uuid| join(&mut state, applicant(uuid)).number);
    assert_eq!(full.collect::<std::collections::BTreeSet<u16>>().len(), 63);
    assert_eq!(state.apply(Command::Join(applicant(300))), Answer::Full);
}

#[test]
fn a_state_survives_being_written_down() {
    let mut state = founded();
    join(&mut state, applicant(2));
    let bytes = postcard::to_stdvec(&state).expect("it is plain data");
    assert_eq!(postcard::from_bytes::<State>(&bytes), Ok(state));
}

fn set_functions(state: &mut State, from: u64, mark: u64, sources: &[&str]) -> AuxOutcome {
    let sources = sources.iter().map(|source| source.as_bytes().to_vec()).collect();
    let epoch = state.epoch;
    state.apply(Command::SetFunctions(FunctionsChange { from, mark, sources }));
    assert_eq!(state.epoch, epoch);
    state.aux_states().outcome(from, mark)
}

#[test]
fn libraries_of_functions_change_from_the_version_that_a_change_was_made_from() {
    let mut state = founded();
    assert_eq!(state.aux_states().outcome(0, 7), AuxOutcome::Open);
    assert_eq!(set_functions(&mut state, 0, 7, &["a"]), AuxOutcome::Made);
    assert_eq!(set_functions(&mut state, 0, 8, &["b"]), AuxOutcome::Lost);
    // A repeated request is applied once.
    assert_eq!(set_functions(&mut state, 1, 9, &["a", "b"]), AuxOutcome::Made);
    assert_eq!(set_functions(&mut state, 1, 9, &["a", "b"]), AuxOutcome::Made);
    assert_eq!((state.aux_states().version, state.aux_states().sources.len()), (2, 2));
    assert_eq!(set_functions(&mut state, 3, 10, &[]), AuxOutcome::Open);
    let large = "x".repeat(AUX_MAX);
    assert_eq!(set_functions(&mut state, 2, 11, &[&large]), AuxOutcome::Open);
    for mark in 100..200 {
        let from = state.aux_states().version;
        assert_eq!(set_functions(&mut state, from, mark, &[]), AuxOutcome::Made);
    }
    assert_eq!(state.aux_states().outcome(1, 9), AuxOutcome::Unknown);
}

#[test]
fn a_state_with_libraries_of_functions_survives_being_written_down() {
    for copies in [Copies::All, Copies::Of(2)] {
        let mut state = State::default();
        let command = Command::Found { cluster: 9, copies, founder: applicant(1) };
        state.apply(command);
        join(&mut state, applicant(2));
        let read = |state: &State| {
            let bytes = state.to_bytes().expect("it is plain data");
            (bytes[0], State::from_bytes(&bytes).expect("it was just written"))
        };
        let (first, again) = read(&state);
        // Versions without libraries can read it.
        assert!(first < WITH_FUNCTIONS);
        assert_eq!(again, state);
        set_functions(&mut state, 0, 7, &["a", "b"]);
        let (first, mut again) = read(&state);
        assert_eq!(first, WITH_FUNCTIONS);
        assert_eq!(again, state);
        assert_eq!(set_functions(&mut again, 0, 7, &["a", "b"]), AuxOutcome::Made);
        assert_eq!(again, state);
    }
}

#[test]
fn other_auxiliary_state_changes_by_name_and_survives_being_written_down() {
    let mut state = founded();
    let set = |state: &mut State, from, mark, sources, others: &[(&str, &str)]| {
        let others = others.iter().map(|(name, form)| ((*name).into(), (*form).into()));
        let change = AuxChange { from, mark, sources, others: others.collect() };
        state.apply(Command::SetAux(change));
        state.aux_states().outcome(from, mark)
    };
    assert_eq!(set(&mut state, 0, 7, None, &[("a", "1"), ("b", "2")]), AuxOutcome::Made);
    assert_eq!(set(&mut state, 0, 8, None, &[("a", "3")]), AuxOutcome::Lost);
    assert_eq!(set_functions(&mut state, 1, 9, &["source"]), AuxOutcome::Made);
    assert_eq!(set(&mut state, 2, 10, None, &[("b", "")]), AuxOutcome::Made);
    let large = "x".repeat(AUX_MAX);
    assert_eq!(set(&mut state, 3, 11, None, &[("b", &large)]), AuxOutcome::Open);
    let aux = state.aux_states().clone();
    assert_eq!(aux.others, [(b"a".to_vec(), b"1".to_vec())].into());
    assert_eq!((aux.version, &aux.sources[..]), (3, &[b"source".to_vec()][..]));
    let bytes = state.to_bytes().expect("it is plain data");
    assert_eq!(bytes[0], WITH_AUX);
    let mut again = State::from_bytes(&bytes).expect("it was just written");
    assert_eq!(again, state);
    assert_eq!(set(&mut again, 3, 12, Some(vec![]), &[("a", "")]), AuxOutcome::Made);
    assert!(again.aux_states().is_empty());
    // Versions without other states can read it.
    assert_eq!(again.to_bytes().expect("it is plain data")[0], WITH_FUNCTIONS);
}

#[path = "sparse_tests.rs"]
mod sparse;
