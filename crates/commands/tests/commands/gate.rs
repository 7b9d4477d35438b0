//! Requests that are not executed at once: deferred by a pause, rejected or deferred because of a
//! slow script, deferred until a worker has lent its connections, or ignored in a stream.

use crate::client::Client;
use petrel_commands::{Execution, Modes, Moment, PauseReason, Session};
use petrel_resp::RespWriter;

/// A client's request, as a worker takes it that can lend its connections.
const SENT: Moment = Moment::CLIENT.with(Moment::LENDS);

/// A request at a worker that a slow script keeps out of the keyspace.
const KEPT_OUT: Moment = Moment::CLIENT.with(Moment::KEPT_OUT);

impl Client {
    /// The result of a call at a moment, and the reply if there is one.
    fn at(&mut self, moment: Moment, line: &str) -> (Execution, String) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let mut reply = RespWriter::new(&mut bytes, &mut values, self.session.protocol);
        self.exec.begin();
        let request = self.exec.prepare(&args, None);
        let execution =
            self.exec.execute_at(moment, &request, &mut self.session, &mut self.host, &mut reply);
        self.exec.end();
        assert_eq!(bytes.is_empty(), execution != Execution::Answered, "{line}");
        (execution, String::from_utf8(bytes).unwrap().trim_end().replace("\r\n", " "))
    }

    fn expect(&mut self, moment: Moment, calls: &[(&str, Execution)]) {
        for &(call, execution) in calls {
            assert_eq!(self.at(moment, call).0, execution, "{call}");
        }
    }
}

#[test]
fn a_pause_of_writes_holds_back_what_may_write() {
    use Execution::{Answered, Held};
    let mut client = Client::new();
    client.exec.shared.pause.start(PauseReason::Command, 0, i64::MAX, true);
    client.expect(
        SENT,
        &[
            ("GET k", Answered),
            ("SET k v", Held),
            ("SET k", Answered),
            ("NOSUCH k", Answered),
            ("EVAL return 0", Held),
            // Queued, but not executed.
            ("MULTI", Answered),
            ("SET k v", Answered),
            ("EXEC", Held),
            ("DISCARD", Answered),
            ("MULTI", Answered),
            ("GET k", Answered),
            ("EXEC", Answered),
        ],
    );
    // Commands that no client sends are executed.
    client.expect(Moment::NONE, &[("SET k v", Answered)]);
    client.exec.shared.pause.start(PauseReason::Failover, 0, i64::MAX, false);
    client.expect(SENT, &[("GET k", Held), ("GET", Answered), ("EXEC", Held)]);
    for reason in [PauseReason::Command, PauseReason::Failover] {
        client.exec.shared.pause.end(reason);
    }
    client.expect(SENT, &[("SET k v", Answered)]);
    let mut stranger = client.another();
    stranger.session = Session::new(false);
    client.exec.shared.pause.start(PauseReason::Command, 0, i64::MAX, false);
    assert!(stranger.at(SENT, "GET k").1.starts_with("-NOAUTH"));
}

#[test]
fn a_worker_lends_its_connections_before_it_runs_a_script() {
    use Execution::{Answered, Lends};
    let mut client = Client::new();
    client.expect(
        SENT,
        &[
            ("EVAL return 0", Lends),
            ("FCALL f 0", Lends),
            ("SCRIPT EXISTS x", Answered),
            ("MULTI", Answered),
            ("EVAL return 0", Answered),
            ("EXEC", Lends),
        ],
    );
    // It has done so.
    client.expect(Moment::CLIENT, &[("EXEC", Answered), ("EVAL return 0", Answered)]);
    // So do transactions that may take long.
    let queued = |call: &'static str| {
        [("MULTI", Answered), ("SET k v", Answered), (call, Answered), ("LRANGE l 0 -1", Answered)]
    };
    for call in ["KEYS *", "SINTERSTORE d s s", "LCS a b"] {
        client.expect(SENT, &queued(call));
        client.expect(SENT, &[("EXEC", Lends)]);
        client.expect(Moment::CLIENT, &[("EXEC", Answered)]);
    }
    client.expect(SENT, &queued("GET k"));
    client.expect(SENT, &[("EXEC", Answered), ("MULTI", Answered)]);
    (0..256).for_each(|_| client.expect(SENT, &[("GET k", Answered)]));
    client.expect(SENT, &[("EXEC", Lends)]);
}

#[test]
fn while_a_script_is_slow_only_what_needs_no_key_is_executed() {
    let mut client = Client::new();
    let shared = client.exec.shared.clone();
    // No script is slow any more, so the command can be executed in the next turn.
    client.expect(KEPT_OUT, &[("GET k", Execution::NextTurn), ("EXEC", Execution::NextTurn)]);
    client.expect(
        KEPT_OUT,
        &[
            ("SCRIPT KILL", Execution::Answered),
            ("MULTI", Execution::Answered),
            ("DISCARD", Execution::Answered),
            ("GET", Execution::Answered),
            ("EVAL return 0", Execution::NextTurn),
            ("WATCH k", Execution::NextTurn),
            ("UNWATCH", Execution::NextTurn),
        ],
    );
    // `DISCARD` would have to end the watch.
    client.expect(Moment::CLIENT, &[("WATCH k", Execution::Answered)]);
    client.expect(KEPT_OUT, &[("MULTI", Execution::Answered), ("DISCARD", Execution::NextTurn)]);
    let stats = |name: &[u8]| shared.command(shared.registry.resolve(&[name]).unwrap().index);
    assert_eq!((stats(b"get").rejected, stats(b"get").calls), (1, 0));
}

#[test]
fn streams_bring_changes_and_what_frames_them() {
    use Execution::{Answered, Skipped};
    let mut client = Client::new();
    client.session.set(Modes::LOADER, true);
    client.expect(
        Moment::NONE,
        &[
            ("SET k v", Answered),
            ("GET k", Skipped),
            ("SELECT 1", Answered),
            ("SELECT 0", Answered),
            ("EVAL return{redis.call('get','k')} 0", Answered),
            ("MULTI", Answered),
            ("GET k", Skipped),
            ("SET k w", Answered),
            ("DISCARD", Answered),
            ("WATCH k", Skipped),
            ("SLOWLOG RESET", Skipped),
            ("SCRIPT FLUSH", Answered),
        ],
    );
    assert_eq!(client.at(Moment::NONE, "EVAL return(redis.call('get','k')) 0").1, "$1 v");
}

#[test]
fn subcommands_join_a_transaction_whatever_their_names() {
    Client::new().follow(
        r#"
        MULTI => OK
        SLOWLOG RESET => QUEUED
        LATENCY RESET => QUEUED
        EXEC => [OK 0]
        "#,
    );
}
