//! The run of an experiment: servers x points x rounds, in an order that lets drifts of the machine
//! touch all servers alike.

use std::collections::HashMap;

use indicatif::{ProgressBar, ProgressStyle};

use crate::exchange::verify;

use super::{Experiment, Lifetime, RunArgs, Session};
use crate::report;
use crate::result::{Measurement, Point, Results, ServerFacts};
use crate::server::{self, Chosen, Peer, Server};

/// One measurement to be made.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Step {
    /// Numbers of the point, the server and the round.
    point: usize,
    server: usize,
    round: usize,
    /// Steps of the same scope and server share a prepared server; what was prepared for another
    /// scope is ended first.
    scope: String,
}

/// All steps in order. Within a round the servers take turns, beginning with another one each
/// round. `groups` is the group of each point.
fn schedule(groups: &[String], servers: usize, rounds: usize, lifetime: Lifetime) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut begin = 0;
    while begin < groups.len() {
        let same = groups[begin..].iter().take_while(|group| **group == groups[begin]).count();
        let points = begin..begin + same;
        let mut add = |point: usize, server: usize, round: usize| {
            let scope = match lifetime {
                Lifetime::Group => format!("{begin}"),
                Lifetime::Round => format!("{begin} {round} {server}"),
                Lifetime::Server => format!("{begin} {server}"),
                Lifetime::Measurement => format!("{point} {round} {server}"),
            };
            steps.push(Step { point, server, round, scope });
        };
        let turns = |round: usize| (0..servers).map(move |turn| (turn + round) % servers);
        match lifetime {
            Lifetime::Group | Lifetime::Measurement => (0..rounds).for_each(|round| {
                let pairs = points.clone().flat_map(|point| turns(round).map(move |s| (point, s)));
                pairs.for_each(|(point, server)| add(point, server, round));
            }),
            Lifetime::Round => (0..rounds).for_each(|round| {
                let pairs = turns(round).flat_map(|s| points.clone().map(move |point| (point, s)));
                pairs.for_each(|(point, server)| add(point, server, round));
            }),
            Lifetime::Server => (0..servers).for_each(|server| {
                let pairs = points.clone().flat_map(|p| (0..rounds).map(move |round| (p, round)));
                pairs.for_each(|(point, round)| add(point, server, round));
            }),
        }
        begin += same;
    }
    steps
}

/// Runs an experiment, writes its result file after every round and its page at the end.
pub fn run<E: Experiment>(args: &RunArgs, experiment: &E) -> Result<(), String> {
    let mut run = Run::new(args, experiment)?;
    let outcome = run.all();
    run.results.write(&args.out)?;
    outcome?;
    report::write_page(E::DESCRIPTION, &run.results, &args.out)?;
    run.verdict()
}

/// A run in progress.
struct Run<'a, E: Experiment> {
    args: &'a RunArgs,
    experiment: &'a E,
    peers: Vec<Peer>,
    points: Vec<Point>,
    rounds: usize,
    results: Results,
    /// Prepared servers with the scope that they belong to and their number.
    open: Vec<(String, usize, E::Session)>,
    /// Why a server could not be prepared for a scope.
    refused: HashMap<(String, usize), String>,
    progress: ProgressBar,
}

impl<'a, E: Experiment> Run<'a, E> {
    /// Finds the servers and, if asked, what an earlier run has measured.
    fn new(args: &'a RunArgs, experiment: &'a E) -> Result<Self, String> {
        experiment.check()?;
        let points = experiment.points();
        let Some(first) = points.first() else { return Err("nothing to measure".to_owned()) };
        let in_process = experiment.in_process();
        let is_in_process = in_process.is_some();
        let mut chosen = match in_process {
            Some(peers) => Chosen { peers, absent: Vec::new() },
            None => args.peers.resolve(experiment.measures_clusters())?,
        };
        let libraries = experiment.libraries();
        chosen.peers.extend(libraries.peers);
        chosen.absent.extend(libraries.absent);
        let (mut peers, unfit): (Vec<_>, Vec<_>) = chosen
            .peers
            .into_iter()
            .partition(|peer| experiment.admits(peer) && peer.listens_on(args.transport()));
        for peer in unfit {
            eprintln!("{}: left out, this experiment cannot measure it", peer.name);
        }
        if experiment.server_threads_max() > 1 {
            let variants = |peer: Peer| [peer.with_one_thread(), Some(peer)].into_iter().rev();
            peers = peers.into_iter().flat_map(variants).flatten().collect();
        }
        let own = peers.iter().find(|peer| peer.name == "petrel").or(peers.first());
        let own = own.ok_or("no server that this experiment can measure")?.name.clone();
        let settings = serde_json::to_value(experiment).map_err(|error| error.to_string())?;
        let mut results = Results::new(E::DESCRIPTION.name, settings);
        let facts = |peer: &Peer| ServerFacts {
            name: peer.name.clone(),
            version: peer.version(),
            command: peer.describe(&experiment.setting(args, first)),
            is_floor: peer.is_floor(),
        };
        results.servers = peers.iter().map(facts).collect();
        results.absent = chosen.absent;
        results.base = args.base.clone().unwrap_or(own);
        results.label.clone_from(&args.label);
        results.quick = args.quick;
        let base = peers.iter().find(|peer| peer.name == results.base);
        let base = base.ok_or_else(|| format!("--base {}: no such server here", results.base))?;
        // What is measured in process is of the commit of the servers that it is shown beside.
        let servers = if is_in_process { args.peers.resolve(false).ok() } else { None };
        let servers = servers.iter().flat_map(|chosen| &chosen.peers);
        let same = servers.into_iter().find(|peer| peer.name == results.base).unwrap_or(base);
        results.commit = report::commit(&same.program());
        let usual = if args.quick { E::ROUNDS.1 } else { E::ROUNDS.0 };
        let rounds = args.rounds.map_or(usual, usize::from);
        results.rounds = rounds;
        let path = args.out.join(format!("{}.json", results.name()));
        if args.resume && path.exists() {
            results.resume(Results::read(&path)?)?;
        }
        // Whether the file can be written is better known before an hour of measuring.
        results.write(&args.out)?;
        let (open, refused) = (Vec::new(), HashMap::new());
        let progress = ProgressBar::new(0);
        Ok(Run { args, experiment, peers, points, rounds, results, open, refused, progress })
    }

    /// Measures what is not there yet. An error is an interruption, or a file that cannot be
    /// written; what is wrong with a server is part of the result.
    fn all(&mut self) -> Result<(), String> {
        let group = |point: &Point| {
            let values = E::GROUP.iter().map(|axis| point[*axis].clone());
            values.collect::<Vec<_>>().join(" ")
        };
        let groups: Vec<String> = self.points.iter().map(group).collect();
        let mut steps =
            schedule(&groups, self.peers.len(), self.rounds, self.experiment.lifetime());
        steps.retain(|step| {
            let (point, peer) = (&self.points[step.point], &self.peers[step.server]);
            !self.experiment.leaves_out(peer, point)
                && !self.results.has(&peer.name, point, step.round)
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
                return Err(format!("interrupted; --resume goes on with what {name}.json has"));
            }
            measured.round = step.round;
            self.note(&step, &measured);
            let point = &self.points[step.point];
            self.results.record(&self.peers[step.server].name, point, measured);
        }
        self.progress.finish_and_clear();
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<Measurement, String> {
        self.open.retain(|(scope, ..)| *scope == step.scope);
        let key = (step.scope.clone(), step.server);
        if let Some(why) = self.refused.get(&key) {
            return Err(why.clone());
        }
        let (experiment, point) = (self.experiment, &self.points[step.point]);
        let at = match self.open.iter().position(|(_, server, _)| *server == step.server) {
            Some(at) => at,
            None => {
                let peer = &self.peers[step.server];
                let setting = experiment.setting(self.args, point);
                let is_verified = self.args.verify && peer.has_keys();
                let prepared = Server::start(peer, &setting).and_then(|server| {
                    if is_verified && experiment.in_process().is_none() {
                        let verified = verify(server.endpoint());
                        verified.map_err(|why| format!("{} {why}", peer.name))?;
                    }
                    experiment.prepare(server, point)
                });
                let session = prepared.inspect_err(|why| {
                    self.refused.insert(key, why.clone());
                })?;
                self.open.push((step.scope.clone(), step.server, session));
                self.open.len() - 1
            }
        };
        let session = &mut self.open[at].2;
        session.server().resume();
        let measured = experiment.measure(session, point, step.round);
        session.server().pause();
        if measured.is_err() {
            self.open.remove(at);
        }
        measured
    }

    /// Shows what was measured: on a terminal beside the progress bar, else a line each.
    fn note(&self, step: &Step, measured: &Measurement) {
        let description = E::DESCRIPTION;
        let axes = &self.points[step.point];
        let labels = description.axes.iter().filter_map(|(axis, _)| {
            axes.get(*axis).map(|value| description.axis_label(axis, value))
        });
        let place = labels.collect::<Vec<_>>().join(", ");
        let name = &self.peers[step.server].name;
        let figure = description.figures.iter().find_map(|figure| {
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
            eprintln!("{} {at}/{of} {text} {problems}", description.name);
        } else if !problems.is_empty() {
            self.progress.println(format!("{text} {problems}"));
        }
    }

    /// An error that names a server of which nothing could be measured, or what could not be
    /// measured of the base server.
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
                return Err(format!(
                    "{count} of {all} points of {} could not be measured: {why}",
                    peer.name
                ));
            }
        }
        Ok(())
    }
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
