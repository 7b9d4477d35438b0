//! `--stat`: a line of figures per interval.

use std::io::Write;
use std::time::Duration;

use petrel_resp::Value;

use super::checked;
use crate::cli::Cli;

/// Lines between two headers.
const HEADER_EVERY: usize = 20;

/// Prints lines until the connection fails for good or the output is closed; the server may be
/// restarted meanwhile.
pub fn stat(cli: &mut Cli) -> Result<(), String> {
    let interval = cli.options.interval.unwrap_or(Duration::from_secs(1));
    let mut before = None;
    for line in 0.. {
        let reply = loop {
            match cli.call(&[b"INFO"]) {
                Ok(reply) => break checked("INFO", reply)?,
                Err(error) if before.is_none() => return Err(error),
                Err(error) => {
                    eprintln!("{error}");
                    std::thread::sleep(interval);
                }
            }
        };
        let (Value::Bulk(text) | Value::Verbatim { text, .. }) = reply else {
            return Err("INFO: not a text".into());
        };
        let figures = Figures::read(&String::from_utf8_lossy(&text));
        if line % HEADER_EVERY == 0 {
            println!(
                "------- data ------ --------------------- load -------------------- - child -"
            );
            println!(
                "keys       mem      clients blocked requests            connections          "
            );
        }
        println!("{}", figures.line(before));
        if std::io::stdout().flush().is_err() {
            return Ok(());
        }
        before = Some(figures.requests);
        std::thread::sleep(interval);
    }
    Ok(())
}

/// The figures of a line.
#[derive(Debug, Default, Eq, PartialEq)]
struct Figures {
    keys: u64,
    memory: u64,
    clients: u64,
    blocked: u64,
    requests: u64,
    connections: u64,
    child: &'static str,
}

impl Figures {
    fn read(info: &str) -> Self {
        let mut figures = Self::default();
        let mut children = [false; 2];
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            let number = || value.trim().parse().unwrap_or(0);
            match name {
                "used_memory" => figures.memory = number(),
                "connected_clients" => figures.clients = number(),
                "blocked_clients" => figures.blocked = number(),
                "total_commands_processed" => figures.requests = number(),
                "total_connections_received" => figures.connections = number(),
                "rdb_bgsave_in_progress" => children[0] = number() != 0,
                "aof_rewrite_in_progress" => children[1] = number() != 0,
                _ if is_database(name) => {
                    let keys = value.split(',').find_map(|field| field.strip_prefix("keys="));
                    figures.keys += keys.and_then(|keys| keys.parse::<u64>().ok()).unwrap_or(0);
                }
                _ => {}
            }
        }
        figures.child = match children {
            [true, true] => "SAVE+AOF",
            [true, false] => "SAVE",
            [false, true] => "AOF",
            [false, false] => "",
        };
        figures
    }

    fn line(&self, requests_before: Option<u64>) -> String {
        let since = requests_before.map_or(0, |before| self.requests.saturating_sub(before));
        let requests = format!("{} (+{since})", self.requests);
        format!(
            "{:<10} {:<8} {:<7} {:<7} {requests:<19} {:<19} {}",
            self.keys,
            bytes(self.memory),
            self.clients,
            self.blocked,
            self.connections,
            self.child
        )
    }
}

/// Whether a field of `INFO` is of a database: `db0`.
fn is_database(name: &str) -> bool {
    name.strip_prefix("db").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A number of bytes in the unit that leaves few digits.
fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count}B"),
        1024..1_048_576 => format!("{:.2}K", count as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", count as f64 / 1_048_576.0),
        _ => format!("{:.2}G", count as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_info() {
        let info = "used_memory:2097152\r\nconnected_clients:3\r\nblocked_clients:1\r\n\
                    total_commands_processed:50\r\nrdb_bgsave_in_progress:1\r\n\
                    db0:keys=2,expires=0\r\ndb9:keys=3,expires=1\r\ndbx:keys=9\r\n";
        let figures = Figures::read(info);
        assert_eq!((figures.keys, figures.memory, figures.child), (5, 2 << 20, "SAVE"));
        let line = figures.line(Some(40));
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["5", "2.00M", "3", "1", "50", "(+10)", "0", "SAVE"]);
    }
}
