//! Requests as Redis takes them; the outcomes were observed over a socket.

use petrel_resp::{Limits, Parsed, ProtocolError, Resume, encode_command, parse, recycle};
use proptest::prelude::*;

/// What a request comes to, with owned arguments.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Command(Vec<Vec<u8>>),
    Empty,
    Incomplete(usize),
    Error(ProtocolError),
}

/// Parses every request of a stream of which `cuts` more bytes arrive at a time, and what remains
/// at the end.
fn outcomes(stream: &[u8], limits: &Limits, cuts: impl IntoIterator<Item = usize>) -> Vec<Outcome> {
    let mut cuts = cuts.into_iter();
    let (mut start, mut end) = (0, 0);
    let mut resume = Resume::default();
    let mut outcomes = Vec::new();
    let mut args = Vec::new();
    loop {
        args = recycle(args);
        let parsed = parse(&stream[start..end], limits, &mut args, &mut resume);
        let (consumed, outcome) = match parsed {
            Parsed::Command { consumed } => {
                (consumed, Outcome::Command(args.iter().map(|arg| arg.to_vec()).collect()))
            }
            Parsed::Inline { consumed, args } => (consumed, Outcome::Command(args)),
            Parsed::Empty { consumed } => (consumed, Outcome::Empty),
            Parsed::Error(error) => {
                outcomes.push(Outcome::Error(error));
                return outcomes;
            }
            Parsed::Incomplete { needed } => {
                assert!(needed > end - start, "{needed} bytes needed of {}", end - start);
                assert!(args.is_empty());
                if end == stream.len() {
                    outcomes.push(Outcome::Incomplete(needed));
                    return outcomes;
                }
                end = stream.len().min(end + cuts.next().unwrap_or(stream.len()).max(1));
                continue;
            }
        };
        assert!(resume.is_start());
        assert!(consumed > 0 && consumed <= end - start);
        start += consumed;
        outcomes.push(outcome);
    }
}

fn whole(stream: &[u8]) -> Vec<Outcome> {
    let outcomes_whole = outcomes(stream, &Limits::default(), [stream.len()]);
    let bytewise = outcomes(stream, &Limits::default(), std::iter::repeat(1));
    assert_eq!(outcomes_whole, bytewise, "{}", stream.escape_ascii());
    outcomes_whole
}

fn command(args: &[&[u8]]) -> Outcome {
    Outcome::Command(args.iter().map(|arg| arg.to_vec()).collect())
}

#[track_caller]
fn is_command(stream: &[u8], args: &[&[u8]]) {
    assert_eq!(whole(stream), [command(args), Outcome::Incomplete(1)]);
}

#[track_caller]
fn is_error(stream: &[u8], error: ProtocolError) {
    assert_eq!(whole(stream), [Outcome::Error(error)], "{}", stream.escape_ascii());
}

#[test]
fn multibulk() {
    is_command(b"*1\r\n$4\r\nPING\r\n", &[b"PING"]);
    is_command(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n", &[b"SET", b"k", b""]);
    is_command(b"*2\r\n$4\r\nECHO\r\n$10\r\n0123\r\n6789\r\n", &[b"ECHO", b"0123\r\n6789"]);
    let long = vec![b'x'; 1_234_567];
    let mut stream = b"*2\r\n$4\r\nECHO\r\n$1234567\r\n".to_vec();
    stream.extend_from_slice(&long);
    stream.extend_from_slice(b"\r\n");
    let parsed = outcomes(&stream, &Limits::default(), std::iter::repeat(16_384));
    assert_eq!(parsed[0], command(&[b"ECHO", &long]));
}

#[test]
fn line_ends_are_looked_at() {
    for stream in [
        &b"*1\rX$4\r\nPING\r\n"[..],
        b"*1\r\n$4\rXPING\r\n",
        b"*1\r\n$4\r\nPINGXX",
        b"*1\r\n$4\r\nPING\rX",
        b"*1\r\n$4\r\nPINGX\n",
        b"*1\r\n$4\r\nPING\n\r",
        b"*1234567\rX",
        b"*1\r\n$123456\rX",
    ] {
        is_error(stream, ProtocolError::InvalidLineEnd);
    }
}

#[test]
fn counts_without_a_command() {
    for stream in [&b"*0\r\n"[..], b"*-1\r\n", b"*-5\r\n", b"*-2147483649\r\n"] {
        assert_eq!(whole(stream), [Outcome::Empty, Outcome::Incomplete(1)]);
    }
}

#[test]
fn bad_counts() {
    for count in
        ["", "a", "+1", "01", "00", "-0", " 1", "1 ", "2147483648", "9223372036854775808", "1\n"]
    {
        let stream = format!("*{count}\r\n");
        is_error(stream.as_bytes(), ProtocolError::InvalidMultibulkLength);
    }
    is_error(b"*1\n$4\r\nPING\r\n", ProtocolError::InvalidMultibulkLength);
    assert_eq!(whole(b"*2147483647\r\n"), [Outcome::Incomplete(14)]);
}

#[test]
fn bad_bulk_lengths() {
    for len in ["", "a", "-1", "-0", "04", "+4", " 4", "536870913"] {
        let stream = format!("*1\r\n${len}\r\n");
        is_error(stream.as_bytes(), ProtocolError::InvalidBulkLength);
    }
    is_error(b"*1\r\n$4\nPING\r\n", ProtocolError::InvalidBulkLength);
    assert_eq!(whole(b"*1\r\n$536870912\r\n"), [Outcome::Incomplete(536_870_912 + 18)]);
}

#[test]
fn no_bulk() {
    is_error(b"*1\r\nXX\r\n", ProtocolError::ExpectedBulk(b'X'));
    is_error(b"*1\r\n\r\n", ProtocolError::ExpectedBulk(b'\r'));
    is_error(b"*2\r\n$1\r\na\r\n:4\r\n", ProtocolError::ExpectedBulk(b':'));
    assert_eq!(whole(b"*1\r\nX"), [Outcome::Incomplete(6)]);
}

#[test]
fn needed_reaches_to_the_end_of_the_bulk() {
    assert_eq!(whole(b"*2\r\n$3\r\nGET\r\n$100\r\nxyz"), [Outcome::Incomplete(121)]);
    assert_eq!(whole(b""), [Outcome::Incomplete(1)]);
}

#[test]
fn long_lines() {
    let line = |len: usize, first: &[u8]| {
        let mut line = first.to_vec();
        line.resize(len, b'1');
        line
    };
    let at_once = |stream: &[u8]| outcomes(stream, &Limits::default(), [stream.len()]);
    for (first, error) in [
        (&b"*"[..], ProtocolError::MultibulkCountTooLong),
        (b"*1\r\n$", ProtocolError::BulkCountTooLong),
        (b"x", ProtocolError::InlineTooLong),
    ] {
        let before = first.len() - 1;
        let allowed = line(before + 65_536, first);
        assert_eq!(at_once(&allowed), [Outcome::Incomplete(allowed.len() + 1)]);
        let mut too_long = line(before + 65_537, first);
        assert_eq!(at_once(&too_long), [Outcome::Error(error)]);
        too_long.extend_from_slice(b"\r\n");
        assert_eq!(at_once(&too_long), [Outcome::Error(error)]);
        let pieces = outcomes(&too_long, &Limits::default(), std::iter::repeat(1_000));
        assert_eq!(pieces, [Outcome::Error(error)]);
    }
}

#[test]
fn unauthenticated() {
    let limits = Limits::default().unauthenticated();
    let parsed = |stream: &[u8]| outcomes(stream, &limits, [stream.len()]).remove(0);
    assert_eq!(parsed(b"*10\r\n"), Outcome::Incomplete(6));
    let too_many = Outcome::Error(ProtocolError::UnauthenticatedMultibulkLength);
    assert_eq!(parsed(b"*11\r\n"), too_many);
    let invalid = Outcome::Error(ProtocolError::InvalidMultibulkLength);
    assert_eq!(parsed(b"*2147483648\r\n"), invalid);
    assert_eq!(parsed(b"*1\r\n$16384\r\n"), Outcome::Incomplete(16_384 + 14));
    let too_long = Outcome::Error(ProtocolError::UnauthenticatedBulkLength);
    assert_eq!(parsed(b"*1\r\n$16385\r\n"), too_long);
    assert_eq!(parsed(b"*1\r\n$999999999\r\n"), Outcome::Error(ProtocolError::InvalidBulkLength));
}

#[test]
fn inline() {
    is_command(b"PING\n", &[b"PING"]);
    is_command(b"PING\r\r\n", &[b"PING"]);
    is_command(b"  PING  \r\n", &[b"PING"]);
    is_command(b"\tECHO\t\x0bx\x0c\r\n", &[b"ECHO", b"x"]);
    is_command(b"a\rb\r\n", &[b"a", b"b"]);
    is_command(b"\"\"\r\n", &[b""]);
    is_command(b"a\0b \x85\xa0\r\n", &[b"a\0b", b"\x85\xa0"]);
    is_command(b"\"a\\x41\\n\\r\\t\\b\\a\\q\\\"z\"\r\n", &[b"aA\n\r\t\x08\x07q\"z"]);
    is_command(b"\"\\xZZ\" \"\\x4\" a\\x41\r\n", &[b"xZZ", b"x4", b"a\\x41"]);
    is_command(b"'a\\'b\\n' a\"b\" a'b'\r\n", &[b"a'b\\n", b"ab", b"ab"]);
    is_command(b"\"a\rb\"\r\n", &[b"a\rb"]);
    for blank in [&b"\r\n"[..], b"\n", b"  \r\n"] {
        assert_eq!(whole(blank), [Outcome::Empty, Outcome::Incomplete(1)]);
    }
    for line in [
        &b"\"a\"b\r\n"[..],
        b"\"a\r\n",
        b"'a\r\n",
        b"a\"b\"c\r\n",
        b"a'b'c\r\n",
        b"\"a\\\r\n",
        b"a\"\r\n",
    ] {
        is_error(line, ProtocolError::UnbalancedQuotes);
    }
}

#[test]
fn error_texts() {
    let got = ProtocolError::ExpectedBulk(0xff).text();
    assert_eq!(&got[..], b"ERR Protocol error: expected '$', got '\xff'");
    let text = ProtocolError::InvalidBulkLength.to_string();
    assert_eq!(text, "ERR Protocol error: invalid bulk length");
}

#[test]
fn arguments_are_appended() {
    let stream = b"*2\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n*2\r\n$1\r\nd\r\n";
    let (mut args, mut resume) = (Vec::new(), Resume::default());
    let limits = Limits::default();
    parse(stream, &limits, &mut args, &mut resume);
    parse(&stream[18..], &limits, &mut args, &mut resume);
    let last = parse(&stream[29..], &limits, &mut args, &mut resume);
    assert!(matches!(last, Parsed::Incomplete { needed: 12 }));
    assert_eq!(args, [b"a", b"b", b"c"]);
}

#[test]
fn where_the_argument_in_hand_begins_is_known() {
    let stream = b"*2\r\n$3\r\nSET\r\n$100000\r\nxxxx";
    let (mut args, mut resume) = (Vec::new(), Resume::default());
    assert_eq!(resume.argument_begin(stream), 0);
    parse(stream, &Limits::default(), &mut args, &mut resume);
    assert_eq!(resume.argument_begin(stream), stream.len() - 4);
}

#[test]
fn recycled_arguments_keep_their_allocation() {
    let mut args: Vec<&[u8]> = Vec::with_capacity(64);
    args.push(b"a");
    let before = args.as_ptr() as usize;
    let recycled = recycle(args);
    assert!(recycled.is_empty() && recycled.capacity() >= 64);
    assert_eq!(recycled.as_ptr() as usize, before);
}

/// A command of very many arguments that arrives byte by byte must not be read from its start each
/// time.
#[test]
fn many_arguments_in_small_pieces() {
    let args = vec![&b"abc"[..]; 100_000];
    let mut stream = Vec::new();
    encode_command(&args, &mut stream);
    let parsed = outcomes(&stream, &Limits::default(), std::iter::repeat(1));
    assert_eq!(parsed, [command(&args), Outcome::Incomplete(1)]);
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let arg = prop::collection::vec(any::<u8>(), 0..40);
    let encoded = prop::collection::vec(arg, 1..6).prop_map(|args| {
        let mut out = Vec::new();
        encode_command(&args.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut out);
        out
    });
    let odd = prop::collection::vec(prop::sample::select(&b"*$\r\n0123-\"'\\x a"[..]), 0..20);
    prop_oneof![4 => encoded, 1 => odd, 1 => "[a-z ]{0,20}\r?\n".prop_map(String::into_bytes)]
}

proptest! {
    #[test]
    fn splitting_changes_nothing(
        requests in prop::collection::vec(request(), 0..6),
        cuts in prop::collection::vec(1..30usize, 0..60),
    ) {
        let stream = requests.concat();
        let limits = Limits::default();
        let at_once = outcomes(&stream, &limits, [stream.len()]);
        prop_assert_eq!(&at_once, &outcomes(&stream, &limits, cuts));
        prop_assert_eq!(&at_once, &outcomes(&stream, &limits, std::iter::repeat(1)));
    }

    #[test]
    fn commands_round_trip(
        commands in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8), 0..5),
        cuts in prop::collection::vec(1..400usize, 0..40),
    ) {
        let mut stream = Vec::new();
        for args in &commands {
            encode_command(&args.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut stream);
        }
        let mut expected: Vec<_> = commands.into_iter().map(Outcome::Command).collect();
        expected.push(Outcome::Incomplete(1));
        prop_assert_eq!(outcomes(&stream, &Limits::default(), cuts), expected);
    }
}
