//! Clients that can be blocked, each with its own executor, as if on a thread of its own.

use crate::family;
use petrel_commands::{
    Answer, Blocked, Command, Execution, Executor, FAMILIES, Fail, Host, Outcome, Registry,
    Session, Shared, Standing, Ticket, WaitEnd,
};
use petrel_keyspace::{Cleared, Keyspace, Options};
use petrel_resp::RespWriter;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// State shared by all clients.
pub struct World {
    pub keyspace: Arc<Keyspace>,
    pub shared: Arc<Shared>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Replies to blocked commands, by client.
    answers: Mutex<HashMap<u64, Vec<String>>>,
    /// Standing of clients that are not [`Standing::Here`].
    standings: Mutex<HashMap<u64, Standing>>,
}

impl World {
    pub fn new(stripes: usize) -> Self {
        let families = [FAMILIES, &[family::COMMANDS]].concat();
        World {
            keyspace: Keyspace::new(&Options { stripes, ..Options::default() }),
            shared: Shared::new(Registry::new(&families)),
            state: Arc::default(),
        }
    }

    pub fn client(&self, id: u64) -> Client {
        let exec = Executor::new(self.keyspace.attach(), self.shared.clone());
        let host = ClientHost { id, acting: id, state: self.state.clone(), blocked: None };
        Client { exec, session: Session::new(true), host }
    }

    /// Asserts that no client is blocked and that no state of blocked clients is left.
    pub fn assert_idle(&self) {
        assert_eq!(self.shared.blocked_clients(), 0);
        assert_eq!(self.keyspace.waited_keys(), Default::default());
        assert!(self.state.answers.lock().unwrap().values().all(Vec::is_empty));
    }
}

pub struct Client {
    pub exec: Executor,
    pub session: Session,
    pub host: ClientHost,
}

pub struct ClientHost {
    pub id: u64,
    acting: u64,
    state: Arc<State>,
    pub blocked: Option<Arc<Blocked>>,
}

fn id_of(blocked: &Blocked) -> u64 {
    *blocked.ticket().downcast_ref::<u64>().unwrap()
}

impl Host for ClientHost {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn admit_protected(&mut self, _: Command) -> Outcome {
        Err(Fail::fixed("ERR not here"))
    }

    fn client_label(&mut self) -> (String, String) {
        (self.acting.to_string(), String::new())
    }

    fn string_len_max(&self) -> usize {
        512 << 20
    }

    fn query_buffer_limit(&self) -> usize {
        1 << 20
    }

    fn discard(&mut self, _: Cleared) {}

    fn ticket(&mut self) -> Option<Ticket> {
        Some(Arc::new(self.id))
    }

    fn wait(&mut self, blocked: &Arc<Blocked>) {
        self.blocked = Some(blocked.clone());
    }

    fn standing(&mut self, blocked: &Blocked) -> Standing {
        let standings = self.state.standings.lock().unwrap();
        standings.get(&id_of(blocked)).copied().unwrap_or(Standing::Here)
    }

    fn act_for(&mut self, client: Ticket) -> Ticket {
        let id = *client.downcast_ref::<u64>().unwrap();
        Arc::new(std::mem::replace(&mut self.acting, id))
    }

    fn answer(&mut self, blocked: &Blocked, answer: Answer) -> bool {
        let text = answer.bytes.escape_ascii().to_string().replace("\\r\\n", " ");
        let mut answers = self.state.answers.lock().unwrap();
        answers.entry(id_of(blocked)).or_default().push(text.trim_end().into());
        false
    }
}

impl Client {
    /// Runs a command. Returns its reply with spaces for line ends, or `waits`.
    pub fn run(&mut self, line: &str) -> String {
        if let Some(db) = line.strip_prefix("SELECT ") {
            self.session.db = db.parse().unwrap();
            return "+OK".into();
        }
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        let mut reply = RespWriter::new(&mut bytes, &mut shared, self.session.protocol);
        self.exec.begin();
        let request = self.exec.prepare(&args, None);
        let execution = self.exec.execute(&request, &mut self.session, &mut self.host, &mut reply);
        assert!(!self.exec.ks.holds_any(), "locks kept by {line}");
        self.exec.end();
        if execution == Execution::Waits {
            assert!(bytes.is_empty());
            return "waits".into();
        }
        bytes.escape_ascii().to_string().replace("\\r\\n", " ").trim_end().into()
    }

    /// The reply to a blocked command, if it has arrived.
    pub fn answer(&mut self) -> Option<String> {
        self.host.state.answers.lock().unwrap().get_mut(&self.host.id)?.pop()
    }

    /// Sets the standing of the client.
    pub fn stands(&self, standing: Standing) {
        self.host.state.standings.lock().unwrap().insert(self.host.id, standing);
    }

    /// Ends the wait of a client; false if it has its reply already.
    pub fn end_wait(&mut self, of: &Client, end: WaitEnd) -> bool {
        let blocked = of.host.blocked.clone().unwrap();
        self.batch(|exec, host| exec.end_wait(&blocked, end, host))
    }

    /// Ends the client's own wait without a reply, like the end of its connection.
    pub fn leave(&mut self) -> bool {
        let blocked = self.host.blocked.clone().unwrap();
        self.batch(|exec, _| exec.give_up(&blocked))
    }

    /// Tries the client's own command again, as its worker does at intervals.
    pub fn try_again(&mut self) {
        let blocked = self.host.blocked.clone().unwrap();
        assert!(blocked.polls());
        self.batch(|exec, host| exec.try_again(&blocked, host));
    }

    pub fn serve_postponed(&mut self) {
        self.batch(|exec, host| exec.serve_postponed(host));
    }

    pub fn serve_ready(&mut self) {
        self.batch(|exec, host| exec.serve_ready(host));
    }

    fn batch<T>(&mut self, work: impl FnOnce(&mut Executor, &mut ClientHost) -> T) -> T {
        self.exec.begin();
        let result = work(&mut self.exec, &mut self.host);
        assert!(!self.exec.ks.holds_any());
        self.exec.end();
        result
    }
}
