//! HOTKEYS.

use crate::harness::*;

with_each_backend!(
    keys_are_ranked_by_what_they_cost,
    sessions_begin_and_end,
    what_is_asked_for_is_checked
);

fn keys_are_ranked_by_what_they_cost(backend: &str) {
    let server = Server::start(backend, &["--threads", "4"]);
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    clients[0].call(&["SET", "large", &"v".repeat(50_000)]);
    assert_eq!(clients[0].text(&["HOTKEYS", "START", "METRICS", "1", "NET", "COUNT", "3"]), "OK");
    for client in &mut clients {
        client.call(&["SET", "foo", "bar"]);
        client.call(&["GET", "foo"]);
        client.call(&["MGET", "foo", "bar"]);
        client.call(&["PING"]);
    }
    let one = &mut clients[0];
    one.call(&["MULTI"]);
    one.call(&["SET", "queued", "v"]);
    one.call(&["EXEC"]);
    one.call(&["EVAL", "return redis.call('get', KEYS[1])", "1", "large"]);
    assert_eq!(one.text(&["HOTKEYS", "STOP"]), "OK");
    let shown = one.text(&["HOTKEYS", "GET"]);
    // 36 bytes of SET, 31 of GET, half of the 50 of MGET.
    let (_, keys) = shown.split_once("by-net-bytes ").unwrap_or_else(|| panic!("{shown}"));
    let bytes = 4 * (36 + 31 + 25);
    let large: u64 = keys.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(keys.starts_with("[large ") && (50_000..50_200).contains(&large), "{shown}");
    assert!(keys.contains(&format!(" foo {bytes} bar 100]")), "{shown}");
    assert!(
        shown.starts_with("[[tracking-active 0 sample-ratio 1 selected-slots [[0 16383]] "),
        "{shown}"
    );
    assert!(!shown.contains("cpu"), "{shown}");
}

fn sessions_begin_and_end(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["HOTKEYS", "GET"]), "nil");
    assert_eq!(client.text(&["HOTKEYS", "STOP"]), "nil");
    assert_eq!(client.text(&["HOTKEYS", "RESET"]), "OK");
    let start = ["HOTKEYS", "START", "METRICS", "2", "CPU", "NET", "SAMPLE", "2"];
    assert_eq!(client.text(&start), "OK");
    let already = "ERR hotkey tracking session already in progress";
    assert_eq!(client.text(&start), already);
    let in_progress = "ERR hotkey tracking session in progress, stop tracking first";
    assert_eq!(client.text(&["HOTKEYS", "RESET"]), in_progress);
    client.call(&["SET", "first", "v"]);
    client.call(&["SET", "second", "v"]);
    client.call(&["HELLO", "3"]);
    let shown = client.text(&["HOTKEYS", "GET"]);
    assert!(shown.starts_with("[{tracking-active:1 sample-ratio:2 "), "{shown}");
    assert!(shown.contains("first") && !shown.contains("second"), "{shown}");
    for field in
        ["total-cpu-time-user-ms:", "total-net-bytes:", "by-cpu-time-us:[", "by-net-bytes:["]
    {
        assert!(shown.contains(field), "{field} in {shown}");
    }
    assert_eq!(client.text(&["HOTKEYS", "STOP"]), "OK");
    assert_eq!(client.text(&["HOTKEYS", "STOP"]), "nil");
    assert!(client.text(&["HOTKEYS", "GET"]).contains("first"));
    assert_eq!(client.text(&["HOTKEYS", "RESET"]), "OK");
    assert_eq!(client.text(&["HOTKEYS", "GET"]), "nil");
}

fn what_is_asked_for_is_checked(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    for (args, error) in [
        ("", "METRICS parameter is required"),
        ("COUNT 5", "METRICS parameter is required"),
        ("METRICS 0", "METRICS count must be > 0 and <= 2"),
        ("METRICS 3 CPU NET", "METRICS count must be > 0 and <= 2"),
        ("METRICS 2 CPU", "METRICS count does not match number of metric types provided"),
        ("METRICS 1 CPU NET", "syntax error"),
        ("METRICS 2 GPU NYET", "METRICS no valid metrics passed. Supported: CPU|NET"),
        ("METRICS 2 CPU CPU", "METRICS CPU defined more than once!"),
        ("METRICS 2 NET NET", "METRICS NET defined more than once!"),
        ("METRICS 1 CPU COUNT 65", "COUNT must be between 1 and 64"),
        ("METRICS 1 CPU COUNT", "syntax error"),
        ("METRICS 1 CPU DURATION 0", "DURATION must be between 1 and 1000000"),
        ("METRICS 1 CPU SAMPLE 0", "SAMPLE ratio must be positive"),
        ("METRICS 1 CPU SLOTS 1 0", "SLOTS parameter cannot be used in non-cluster mode"),
        ("METRICS 1 CPU FOO", "syntax error"),
    ] {
        let call: Vec<&str> =
            ["HOTKEYS", "START"].into_iter().chain(args.split_terminator(' ')).collect();
        assert_eq!(client.text(&call), format!("ERR {error}"), "{args}");
    }
    assert_eq!(client.text(&["HOTKEYS", "START", "METRICS", "2", "GPU", "CPU"]), "OK");
}
