//! Transfers between accounts with different primaries: their sum stays, and each is made once.

use crate::cluster::call;
use crate::cluster_takeover::eventually;
use crate::harness::{Client, Server};
use petrel_resp::Value;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Money of each account at first.
const MONEY: i64 = 1000;

/// Pause before a lost connection is replaced, or a refused command repeated.
const PAUSE: Duration = Duration::from_millis(5);

/// Accounts, and a list of the transfers at another key.
pub struct Bank {
    keys: Vec<String>,
    list: String,
    is_over: AtomicBool,
    /// Transfers that were made.
    done: Mutex<Vec<String>>,
    /// Transfers that were refused, with the errors.
    refused: Mutex<Vec<(String, String)>>,
    read: AtomicU64,
}

impl Bank {
    /// Opens accounts at these keys, of which the last is the list.
    pub fn open(client: &mut Client, mut keys: Vec<String>) -> Bank {
        let list = keys.pop().expect("a key");
        for key in &keys {
            eventually("an account is open", || {
                call(client, &format!("SET {key} {MONEY}")) == "OK"
            });
        }
        eventually("there is no list", || {
            call(client, &format!("EXISTS {list}")) == "0" || {
                call(client, &format!("DEL {list}"));
                false
            }
        });
        let (is_over, read) = (AtomicBool::new(false), AtomicU64::new(0));
        let (done, refused) = (Mutex::default(), Mutex::default());
        Bank { keys, list, is_over, done, refused, read }
    }

    /// Executes commands as a transaction. None if its outcome is not known, or the connection is
    /// lost.
    fn exec(client: &mut Client, commands: &[String]) -> Option<Value> {
        client.send(&["MULTI"]);
        for command in commands {
            client.send(&command.split(' ').collect::<Vec<_>>());
        }
        client.send(&["EXEC"]);
        let mut last = None;
        for _ in 0..commands.len() + 2 {
            last = Some(client.receive()?);
        }
        let is_unknown = |text: &[u8]| text.windows(7).any(|word| word == b"UNKNOWN");
        last.filter(|reply| !matches!(reply, Value::Error(text) if is_unknown(text)))
    }

    /// Makes transfers at a server, and reads all accounts in between, until it is over.
    pub fn work(&self, socket: &Path, first: usize) {
        let mut number = first;
        let mut connection: Option<Client> = None;
        while !self.is_over.load(SeqCst) {
            let Some(client) = &mut connection else {
                connection = Client::unix(socket).ok();
                if connection.is_none() {
                    std::thread::sleep(PAUSE);
                }
                continue;
            };
            number += 1;
            let of = |at: usize| &self.keys[at % self.keys.len()];
            let (from, to) = (of(number), of(number * 7 + 3));
            let name = format!("{first}-{number}");
            let is_read = number.is_multiple_of(4);
            let commands = match is_read {
                true => self.keys.iter().map(|key| format!("GET {key}")).collect(),
                false => vec![
                    format!("DECRBY {from} 5"),
                    format!("INCRBY {to} 5"),
                    format!("RPUSH {} {name}", self.list),
                ],
            };
            match Self::exec(client, &commands) {
                Some(Value::Array(values)) if is_read => {
                    assert_eq!(sum(&values), self.sum(), "{values:?}");
                    self.read.fetch_add(1, SeqCst);
                }
                Some(Value::Array(_)) => self.done.lock().unwrap().push(name),
                Some(error) => {
                    self.refused.lock().unwrap().push((name, format!("{error:?}")));
                    std::thread::sleep(PAUSE);
                }
                None => connection = None,
            }
        }
    }

    /// Waits until this number of further transfers is made, and the accounts are read.
    pub fn await_more(&self, count: usize) {
        let done = || self.done.lock().unwrap().len();
        let (before, read) = (done(), self.read.load(SeqCst));
        eventually("transfers are made", || {
            done() >= before + count && self.read.load(SeqCst) > read
        });
    }

    /// Lets all threads end.
    pub fn close(&self) {
        self.is_over.store(true, SeqCst);
    }

    fn sum(&self) -> i64 {
        MONEY * self.keys.len() as i64
    }

    /// Checks the accounts at a server.
    pub fn check(&self, server: &Server) {
        let (mut client, mut commands) = (server.connect(), Vec::new());
        commands.extend(self.keys.iter().map(|key| format!("GET {key}")));
        commands.push(format!("LRANGE {} 0 -1", self.list));
        let mut values = Vec::new();
        eventually("the accounts are read", || match Self::exec(&mut client, &commands) {
            Some(Value::Array(all)) => {
                values = all;
                true
            }
            Some(_) => false,
            None => {
                client = server.connect();
                false
            }
        });
        let Some(Value::Array(made)) = values.pop() else { panic!("no list") };
        assert_eq!(sum(&values), self.sum(), "{values:?}");
        let made: Vec<String> = made.iter().map(text).collect();
        let all: HashSet<&String> = made.iter().collect();
        assert_eq!(all.len(), made.len(), "a transfer was made twice: {made:?}");
        let done = self.done.lock().unwrap();
        let lost = done.iter().find(|name| !all.contains(name));
        assert_eq!(lost, None, "a transfer is lost");
        let refused = self.refused.lock().unwrap();
        let refused = refused.iter().find(|(name, _)| all.contains(name));
        assert_eq!(refused, None, "a transfer was made after all");
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?} is no text"),
    }
}

fn number(value: &Value) -> i64 {
    text(value).parse().expect("a number")
}

fn sum(values: &[Value]) -> i64 {
    values.iter().map(number).sum()
}
