//! Run of an experiment: servers x points x rounds, in an order that lets drifts of the machine
//! touch all servers alike.

use std::collections::HashMap;

use indicatif::{ProgressBar, ProgressStyle};

use super::description::{Description, Lifetime};
use super::{Case, Experiment, Options, RunArgs};
use crate::report;
use crate::result::{Measured, Measurement, Point, Results, ServerFacts};
use crate::server::{self, Chosen, Peer, Server, Setting};
use crate::wire::verify;

/// Measurement to be made.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Step {
    /// Numbers of the point, the server and the round.
    point: usize,
    server: usize,
    round: usize,
    /// Steps of the same scope and server share a prepared server; servers of another scope are
    /// ended first.
    scope: String,
}

/// All steps in order. Within a round the servers take turns, beginning with another one each
/// round. `groups` is the group of each point.
fn schedule(groups: &[String], servers: usize, rounds: usize, lifetime: Lifetime) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut begin = 0;
    while begin < groups.len() {
        let same = groups[begin..].iter().take_while(|group| **group == groups[begin]).count();
        let mut all = Vec::new();
        for point in begin..begin + same {
            let of_server = |server| (0..rounds).map(move |round| (point, server, round));
            all.extend((0..servers).flat_map(of_server));
        }
        all.sort_by_key(|&(point, server, round)| {
            // Position in the round.
            let turn = (server + servers - round % servers) % servers;
            match lifetime {
                Lifetime::Group | Lifetime::Measurement => [round, point, turn],
                Lifetime::Round => [round, turn, point],
                Lifetime::Server => [server, point, round],
            }
        });
        let step = |(point, server, round)| {
            let scope = match lifetime {
                Lifetime::Group => format!("{begin}"),
                Lifetime::Round => format!("{begin} {round} {server}"),
                Lifetime::Server => format!("{begin} {server}"),
                Lifetime::Measurement => format!("{point} {round} {server}"),
            };
            Step { point, server, round, scope }
        };
        steps.extend(all.into_iter().map(step));
        begin += same;
    }
    steps
}

/// Runs an experiment, writes its result file after every round and its page at the end.
pub fn run<E: Experiment>(args: &RunArgs, options: &Options) -> Result<(), String> {
    let mut run = Run::<E>::new(args, options)?;
    let outcome = run.all();
    run.results.write(&args.out)?;
    outcome?;
    report::write_page(&run.results, &args.out)?;
    run.verdict()
}

/// A prepared server; its state goes before it.
struct Prepared<S> {
    scope: String,
    number: usize,
    state: S,
    server: Server,
}

/// A run in progress.
struct Run<'a, E: Experiment> {
    args: &'a RunArgs,
    options: &'a Options,
    experiment: E,
    peers: Vec<Peer>,
    points: Vec<Point>,
    results: Results,
    open: Vec<Prepared<E::State>>,
    /// Errors of servers that could not be prepared for a scope.
    refused: HashMap<(String, usize), String>,
    progress: ProgressBar,
}

impl<'a, E: Experiment> Run<'a, E> {
    /// Finds the servers and, if asked, the measurements of an earlier run.
    fn new(args: &'a RunArgs, options: &'a Options) -> Result<Self, String> {
        let (experiment, own) = (E::default(), Description::named(E::NAME));
        experiment.check(options)?;
        let points = experiment.points(options);
        let Some(first) = points.first() else { return Err("nothing to measure".to_owned()) };
        let (peers, absent) = peers(args, options, &experiment)?;
        let mut results = Results::new(own.name, experiment.settings(options));
        let case = Case { options, point: first, round: 0 };
        let facts = |peer: &Peer| ServerFacts {
            name: peer.name.clone(),
            version: peer.version(),
            command: peer.describe(&setting(&experiment, args, &case)),
            is_floor: peer.is_floor(),
        };
        results.servers = peers.iter().map(facts).collect();
        results.absent = absent;
        let petrel = peers.iter().find(|peer| peer.name == "petrel").or(peers.first());
        let petrel = petrel.ok_or("no server that this experiment can measure")?;
        results.base = args.base.clone().unwrap_or(petrel.name.clone());
        results.label.clone_from(&args.label);
        results.quick = args.quick;
        let base = peers.iter().find(|peer| peer.name == results.base);
        let base = base.ok_or_else(|| format!("--base {}: no such server here", results.base))?;
        // Measurements in process are of the commit of the servers that they are shown beside.
        let is_in_process = experiment.in_process(options).is_some();
        let servers = if is_in_process { args.peers.resolve(false).ok() } else { None };
        let servers = servers.iter().flat_map(|chosen| &chosen.peers);
        let same = servers.into_iter().find(|peer| peer.name == results.base).unwrap_or(base);
        results.commit = report::commit(&same.program());
        let usual = if args.quick { own.rounds.1 } else { own.rounds.0 };
        results.rounds = args.rounds.map_or(usual, usize::from);
        let path = args.out.join(format!("{}.json", results.name()));
        if args.resume && path.exists() {
            results.resume(Results::read(&path)?)?;
        }
        // A file that cannot be written is found out before an hour of measuring.
        results.write(&args.out)?;
        let (open, refused, progress) = (Vec::new(), HashMap::new(), ProgressBar::new(0));
        Ok(Run { args, options, experiment, peers, points, results, open, refused, progress })
    }

    fn own(&self) -> &'static Description {
        Description::named(E::NAME)
    }

    fn case<'s>(&'s self, step: &Step) -> Case<'s> {
        Case { options: self.options, point: &self.points[step.point], round: step.round }
    }

    /// Measures all steps that the result file lacks. An error is an interruption, or a file that
    /// cannot be written; failures of servers are a part of the result.
    fn all(&mut self) -> Result<(), String> {
        let group = |point: &Point| {
            let values = self.own().group.iter().filter_map(|axis| point.get(*axis).cloned());
            values.collect::<Vec<_>>().join(" ")
        };
        let groups: Vec<String> = self.points.iter().map(group).collect();
        let lifetime = self.experiment.lifetime(self.options);
        let mut steps = schedule(&groups, self.peers.len(), self.results.rounds, lifetime);
        steps.retain(|step| {
            let (case, peer) = (self.case(step), &self.peers[step.server]);
            !self.experiment.leaves_out(peer, &case)
                && !self.results.has(&peer.name, case.point, step.round)
        });
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left: {msg}");
        self.progress.set_style(style.map_err(|error| error.to_string())?);
        self.progress.set_length(steps.len() as u64);
        let mut last: Option<Step> = None;
        for step in steps {
            let before = last.replace(step.clone());
            if before.is_some_and(|last| last.round != step.round || last.scope != step.scope) {
                self.results.write(&self.args.out)?;
            }
            let mut measured = self.step(&step).unwrap_or_else(Measurement::failed);
            if server::is_stopped() {
                let name = self.results.name();
                return Err(format!("interrupted; --resume continues with {name}.json"));
            }
            measured.round = step.round;
            self.show(&step, &measured);
            let point = &self.points[step.point];
            self.results.record(&self.peers[step.server].name, point, measured);
        }
        self.progress.finish_and_clear();
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Measured {
        self.open.retain(|prepared| prepared.scope == step.scope);
        let key = (step.scope.clone(), step.server);
        if let Some(why) = self.refused.get(&key) {
            return Err(why.clone());
        }
        let at = match self.open.iter().position(|prepared| prepared.number == step.server) {
            Some(at) => at,
            None => {
                let prepared = self.prepared(step).inspect_err(|why| {
                    self.refused.insert(key, why.clone());
                })?;
                self.open.push(prepared);
                self.open.len() - 1
            }
        };
        let case =
            Case { options: self.options, point: &self.points[step.point], round: step.round };
        let Prepared { server, state, .. } = &mut self.open[at];
        server.resume();
        let measured = self.experiment.measure(&case, server, state);
        server.pause();
        if measured.is_err() {
            self.open.remove(at);
        }
        measured
    }

    /// Starts, verifies and prepares a server for a step.
    fn prepared(&self, step: &Step) -> Result<Prepared<E::State>, String> {
        let (case, peer) = (self.case(step), &self.peers[step.server]);
        let server = Server::start(peer, &setting(&self.experiment, self.args, &case))?;
        if self.args.verify && peer.has_keys() && !peer.is_in_process() {
            verify(server.endpoint()).map_err(|why| format!("{} {why}", peer.name))?;
        }
        let state = self.experiment.prepare(&case, &server)?;
        Ok(Prepared { scope: step.scope.clone(), number: step.server, state, server })
    }

    /// Shows a measurement: on a terminal beside the progress bar, else a line each.
    fn show(&self, step: &Step, measured: &Measurement) {
        let place = self.own().point_label(&self.points[step.point]);
        let name = &self.peers[step.server].name;
        let figure = self.own().figures.iter().find_map(|figure| {
            let value = measured.figures.get(figure.name)?;
            Some(format!("{value:.*} {}", figure.decimals, figure.unit))
        });
        let text = format!("{place}, {name}: {}", figure.unwrap_or_default());
        let problems = measured.failure.iter().chain(&measured.doubts).cloned();
        let problems = problems.collect::<Vec<_>>().join("; ");
        self.progress.inc(1);
        self.progress.set_message(text.clone());
        if self.progress.is_hidden() {
            let (at, of) = (self.progress.position(), self.progress.length().unwrap_or(0));
            eprintln!("{} {at}/{of} {text} {problems}", self.own().name);
        } else if !problems.is_empty() {
            self.progress.println(format!("{text} {problems}"));
        }
    }

    /// An error that names a server without any measurement, or points of the base server without
    /// one.
    fn verdict(&self) -> Result<(), String> {
        for peer in &self.peers {
            let rows = self.results.rows.iter().filter(|row| row.server == peer.name);
            let (measured, failed): (Vec<_>, Vec<_>) =
                rows.partition(|row| row.rounds.iter().any(Measurement::is_complete));
            let why = failed.iter().flat_map(|row| &row.rounds);
            let why = why.filter_map(|round| round.failure.as_deref()).next().unwrap_or_default();
            if measured.is_empty() {
                return Err(format!("nothing could be measured of {}: {why}", peer.name));
            }
            if peer.name == self.results.base && !failed.is_empty() {
                let (count, all) = (failed.len(), measured.len() + failed.len());
                let name = &peer.name;
                return Err(format!("{count} of {all} points of {name} were not measured: {why}"));
            }
        }
        Ok(())
    }
}

/// Servers and libraries of a run, and the names of absent ones.
fn peers<E: Experiment>(
    args: &RunArgs,
    options: &Options,
    experiment: &E,
) -> Result<(Vec<Peer>, Vec<String>), String> {
    let mut chosen = match experiment.in_process(options) {
        Some(peers) => Chosen { peers, absent: Vec::new() },
        None => args.peers.resolve(E::MEASURES_CLUSTERS)?,
    };
    let libraries = experiment.libraries(options);
    chosen.peers.extend(libraries.peers);
    chosen.absent.extend(libraries.absent);
    let is_fit = |peer: &Peer| experiment.admits(peer) && peer.listens_on(args.transport());
    let (mut peers, unfit): (Vec<_>, Vec<_>) = chosen.peers.into_iter().partition(is_fit);
    for peer in unfit {
        eprintln!("{}: left out, this experiment cannot measure it", peer.name);
    }
    let threads = options.all::<usize>("server-threads").into_iter().max();
    if Description::named(E::NAME).has_one_thread && threads > Some(1) {
        let variants = |peer: Peer| [peer.with_one_thread(), Some(peer)].into_iter().rev();
        peers = peers.into_iter().flat_map(variants).flatten().collect();
    }
    Ok((peers, chosen.absent))
}

/// Setting of a server for a point: threads, connections and sizes of values are those of the axis
/// or option of that name.
fn setting<E: Experiment>(experiment: &E, args: &RunArgs, case: &Case<'_>) -> Setting {
    const CONNECTIONS_SPARE: usize = 64;
    let threads = case.some("threads").or(case.options.some("server-threads")).unwrap_or(1);
    let connections: usize = case.options.some("connections").unwrap_or(0);
    let mut setting =
        Setting::new(threads, args.transport(), (connections + CONNECTIONS_SPARE).max(1024));
    let option = || case.options.texts("values").first()?.parse().ok();
    let values: Option<crate::load::ValueSizes> = case.some("values").or_else(option);
    if let Some(values) = values {
        (setting.value_max, setting.reply_size) = (values.max, values.mean() as u32);
    }
    experiment.setting(case, setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lifetime: Lifetime) -> Vec<(usize, usize, usize)> {
        let groups = ["a".to_owned(), "a".to_owned(), "b".to_owned()];
        let steps = schedule(&groups, 2, 2, lifetime);
        // Nothing is left out, and nothing measured twice.
        assert_eq!(steps.len(), 3 * 2 * 2);
        for (at, step) in steps.iter().enumerate() {
            let same = |other: &Step| {
                (other.point, other.server, other.round) == (step.point, step.server, step.round)
            };
            assert!(!steps[at + 1..].iter().any(same), "{step:?}");
        }
        steps.iter().take(8).map(|step| (step.round, step.point, step.server)).collect()
    }

    #[test]
    fn servers_of_a_group_take_turns_at_every_point_and_another_begins_each_round() {
        let want = [
            (0, 0, 0),
            (0, 0, 1),
            (0, 1, 0),
            (0, 1, 1),
            (1, 0, 1),
            (1, 0, 0),
            (1, 1, 1),
            (1, 1, 0),
        ];
        assert_eq!(order(Lifetime::Group), want);
        assert_eq!(order(Lifetime::Measurement), want);
    }

    #[test]
    fn other_lifetimes_keep_what_shares_a_server_together() {
        let round = [
            (0, 0, 0),
            (0, 1, 0),
            (0, 0, 1),
            (0, 1, 1),
            (1, 0, 1),
            (1, 1, 1),
            (1, 0, 0),
            (1, 1, 0),
        ];
        assert_eq!(order(Lifetime::Round), round);
        let server = [
            (0, 0, 0),
            (1, 0, 0),
            (0, 1, 0),
            (1, 1, 0),
            (0, 0, 1),
            (1, 0, 1),
            (0, 1, 1),
            (1, 1, 1),
        ];
        assert_eq!(order(Lifetime::Server), server);
    }

    #[test]
    fn a_prepared_server_is_shared_within_its_lifetime_only() {
        let groups = ["a".to_owned(), "a".to_owned(), "b".to_owned()];
        let scopes = |lifetime| {
            let steps = schedule(&groups, 2, 2, lifetime).into_iter();
            let mut scopes: Vec<_> = steps.map(|step| (step.scope, step.server)).collect();
            scopes.sort();
            scopes.dedup();
            scopes.len()
        };
        assert_eq!(scopes(Lifetime::Group), 2 * 2);
        assert_eq!(scopes(Lifetime::Round), 2 * 2 * 2);
        assert_eq!(scopes(Lifetime::Server), 2 * 2);
        assert_eq!(scopes(Lifetime::Measurement), 3 * 2 * 2);
    }
}
