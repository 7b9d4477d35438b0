//! Commands during a load: refused ones and answered ones.

use crate::harness::*;

const SLOW: [&str; 4] = ["--key-load-delay", "1000", "--enable-debug-command", "yes"];
const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// The directory of a server that has saved some keys.
fn saved() -> Scratch {
    let mut server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "20000"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    server.exit_code();
    server.into_scratch()
}

/// Loads so slowly that much can be asked meanwhile, and then at once.
fn ask_and_finish(server: &Server) {
    let mut client = server.connect();
    for refused in [
        &["GET", "key:1"][..],
        &["SET", "key:1", "other"],
        &["DEBUG", "POPULATE", "20000"],
        &["DEBUG", "RELOAD"],
        &["DEBUG", "LOADAOF"],
    ] {
        assert_eq!(client.text(refused), LOADING, "{refused:?}");
    }
    assert_eq!(server.info("loading"), 1);
    eventually("the log says that it has begun", || server.output().contains("Server initialized"));
    assert!(!server.output().contains(READY), "{}", server.output());
    assert!(client.text(&["INFO", "persistence"]).contains("loading_eta_seconds:"));
    assert_eq!(client.text(&["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    eventually("the data", || server.info("loading") == 0);
    eventually("the log says that it is ready", || server.output().contains(READY));
    assert_eq!(client.text(&["DBSIZE"]), "20000");
    assert_eq!(client.text(&["GET", "key:1"]), "value:1");
}

#[test]
fn what_needs_the_data_is_refused_while_it_is_loaded() {
    ask_and_finish(&Server::start_unready(saved(), "epoll", &SLOW));
}

#[test]
fn a_log_that_is_asked_for_meanwhile_is_written_once_the_data_is_there() {
    let server = Server::start_unready(saved(), "epoll", &SLOW);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    assert_eq!((server.info("loading"), server.info("aof_enabled")), (1, 0));
    assert_eq!(client.text(&["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    eventually("it is on", || server.info("aof_enabled") == 1);
    assert_eq!(client.text(&["SET", "logged", "1"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "30000"]), "[1 0]");
}

#[test]
fn what_a_log_begins_with_is_loaded_like_a_snapshot() {
    let args = [&SLOW[..], &["--appendonly", "yes"]].concat();
    ask_and_finish(&Server::start_unready(saved(), "epoll", &args));
}
