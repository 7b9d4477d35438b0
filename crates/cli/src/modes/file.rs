//! `--rdb`: the server's data as a file; `--replica`: the commands that a replica is sent.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use petrel_replication::primary::Extent;
use petrel_resp::Value;

use super::checked;
use crate::cli::Cli;
use crate::connection::{Connection, reason};
use crate::options::Contents;

/// Bytes of a header's line at most.
const HEADER_LEN_MAX: usize = 1024;

/// Asks for the file, and returns its extent.
fn ask(connection: &mut Connection, contents: Contents) -> Result<Extent, String> {
    let io = |error: io::Error| reason(&error);
    // A server that does not know it sends the length first.
    connection.call(&[b"REPLCONF", b"capa", b"eof"]).map_err(io)?;
    connection.call(&[b"REPLCONF", b"rdb-only", b"1"]).map_err(io)?;
    if contents == Contents::Functions {
        let reply =
            connection.call(&[b"REPLCONF", b"rdb-filter-only", b"functions"]).map_err(io)?;
        checked("REPLCONF rdb-filter-only", reply)?;
    }
    connection.send(&[b"SYNC"]).map_err(io)?;
    header(connection)
}

/// Reads the line before the file. Line ends before it keep the connection alive.
fn header(connection: &mut Connection) -> Result<Extent, String> {
    let mut line = Vec::new();
    loop {
        let bytes = connection.take_bytes().map_err(|error| reason(&error))?;
        if bytes.is_empty() {
            return Err("the server closed the connection before it sent a file".into());
        }
        line.extend(bytes);
        let blanks = line.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        line.drain(..blanks);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            connection.put_back(&line[end + 1..]);
            line.truncate(end);
            break;
        }
        if line.len() > HEADER_LEN_MAX {
            return Err("no answer of SYNC".into());
        }
    }
    let line = line.strip_suffix(b"\r").unwrap_or(&line);
    Extent::read(line).ok_or_else(|| {
        let text = String::from_utf8_lossy(line);
        text.trim_start_matches('-').to_owned()
    })
}

/// Copies the file; returns its length.
fn copy(connection: &mut Connection, extent: Extent, out: &mut impl Write) -> io::Result<u64> {
    let (mut held, mut length) = (Vec::new(), 0);
    loop {
        let (count, is_whole) = extent.take(&held, length);
        out.write_all(&held[..count])?;
        held.drain(..count);
        length += count as u64;
        if is_whole {
            connection.put_back(&held[extent.mark_len()..]);
            return Ok(length);
        }
        let bytes = connection.take_bytes()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        held.extend(bytes);
    }
}

/// Stores the server's data in a file, `-` being standard output. The file has its name once it is
/// whole and on the disk.
pub fn rdb(cli: &mut Cli, path: &Path, contents: Contents) -> Result<(), String> {
    let connection = cli.connection()?;
    let extent = ask(connection, contents)?;
    if path == Path::new("-") {
        let mut out = io::stdout().lock();
        let copied = copy(connection, extent, &mut out).and_then(|_| out.flush());
        return copied.map_err(|error| reason(&error));
    }
    let at = |error: &io::Error| format!("{}: {}", path.display(), reason(error));
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = Path::new(&name);
    let store = |connection: &mut Connection| {
        let mut file = File::create(part)?;
        let length = copy(connection, extent, &mut file)?;
        file.sync_all()?;
        std::fs::rename(part, path)?;
        Ok(length)
    };
    let length = store(connection).map_err(|error| {
        let _ = std::fs::remove_file(part);
        at(&error)
    })?;
    eprintln!("Transfer finished with success after {length} bytes");
    Ok(())
}

/// Prints the commands that the server sends its replicas, after its data is thrown away.
pub fn replica(cli: &mut Cli) -> Result<(), String> {
    let connection = cli.connection()?;
    let io = |error: io::Error| reason(&error);
    // Without `capa eof`, commands follow the file at once; else the server waits for an answer.
    connection.send(&[b"SYNC"]).map_err(io)?;
    let extent = header(connection)?;
    let length = copy(connection, extent, &mut io::sink()).map_err(io)?;
    eprintln!("SYNC done: {length} bytes of data. Logging commands from master.");
    loop {
        let Some(connection) = cli.connection.as_mut() else { return Ok(()) };
        let value = connection.receive_any().map_err(io)?;
        cli.print(&value);
        if let Value::Error(text) = value {
            return Err(String::from_utf8_lossy(&text).into_owned());
        }
    }
}
