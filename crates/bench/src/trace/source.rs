//! Traces in files: oracleGeneral (binary), Twitter's cache traces and Alibaba's block traces
//! (CSV), each plain or compressed with zstd.
//!
//! | format | a record |
//! |---|---|
//! | oracleGeneral | 24 bytes, little-endian: u32 seconds, u64 object, u32 size, i64 next access |
//! | Twitter (Yang et al., OSDI 2020) | `seconds,key,key size,value size,client,operation,TTL` |
//! | Alibaba (Li et al., IISWC 2020) | `device,R or W,offset,length,microseconds` |

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::request::{Action, KEY_SIZE_MAX, KEY_SIZE_MIN, Request, spread_times};

/// Bytes of a record of oracleGeneral.
const RECORD: usize = 24;

/// Longest value, as in Redis; longer ones are cut.
const SIZE_MAX: u64 = 512 * 1024 * 1024;

/// A line of text is no longer than this.
const LINE_MAX: u64 = 64 * 1024;

/// Reader of a line of text.
type Parse = fn(&str) -> Option<Request>;

/// Reads the first `limit` requests of a file. An error names the damaged record.
pub fn read(path: &Path, limit: usize) -> Result<Vec<Request>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut reader: Box<dyn BufRead> = match name.ends_with(".zst") {
        true => {
            let decoder = zstd::Decoder::new(file).map_err(|error| failed(&error))?;
            Box::new(BufReader::new(decoder))
        }
        false => Box::new(BufReader::with_capacity(1 << 20, file)),
    };
    let format = format(&name, reader.fill_buf().map_err(|error| failed(&error))?);
    let mut trace = match format {
        None => records(&mut reader, limit),
        Some(parse) => lines(&mut reader, limit, parse),
    }
    .map_err(|error| failed(&error))?;
    if trace.is_empty() {
        return Err(failed(&"no requests"));
    }
    spread_times(&mut trace);
    Ok(trace)
}

/// Finds the format by the name, or by the number of fields in the first line; `None` is
/// oracleGeneral.
fn format(name: &str, beginning: &[u8]) -> Option<Parse> {
    let line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_text =
        line.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ' || *byte == b'\r');
    let fields = line.split(|byte| *byte == b',').count();
    match (is_text && !line.is_empty(), fields) {
        _ if name.contains("oraclegeneral") => None,
        (true, 5) => Some(alibaba),
        (true, 6..) => Some(twitter),
        _ => None,
    }
}

fn records(reader: &mut dyn BufRead, limit: usize) -> Result<Vec<Request>, String> {
    let mut trace = Vec::new();
    let mut record = [0; RECORD];
    while trace.len() < limit {
        let mut filled = 0;
        while filled < RECORD {
            match reader.read(&mut record[filled..]).map_err(|error| at(trace.len(), &error))? {
                0 => break,
                count => filled += count,
            }
        }
        match filled {
            0 => break,
            RECORD => {}
            _ => {
                let rest = format!("the file ends {filled} bytes into a record of {RECORD}");
                return Err(at(trace.len(), &rest));
            }
        }
        let number = |from: usize, to: usize| {
            let bytes = record[from..to].iter().rev();
            bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        trace.push(Request {
            at_us: number(0, 4) * 1_000_000,
            object: number(4, 12),
            size: number(12, 16).min(SIZE_MAX) as u32,
            key_size: KEY_SIZE_MIN,
            action: Action::Get,
            ttl_s: 0,
        });
    }
    Ok(trace)
}

fn lines(reader: &mut dyn BufRead, limit: usize, parse: Parse) -> Result<Vec<Request>, String> {
    let mut trace = Vec::new();
    let (mut line, mut number) = (Vec::new(), 0);
    while trace.len() < limit {
        line.clear();
        let count = reader.take(LINE_MAX).read_until(b'\n', &mut line);
        if count.map_err(|error| at(number, &error))? == 0 {
            break;
        }
        number += 1;
        let text = String::from_utf8_lossy(&line);
        match parse(text.trim_end()) {
            Some(request) => trace.push(request),
            // The first line may be a heading.
            None if number == 1 => {}
            None => {
                let shown: String = text.trim_end().chars().take(80).collect();
                return Err(at(number, &format!("'{shown}' is no record")));
            }
        }
    }
    Ok(trace)
}

fn at(number: usize, error: &dyn std::fmt::Display) -> String {
    format!("at record {number}: {error}")
}

fn twitter(line: &str) -> Option<Request> {
    // Keys may hold commas, so the fields behind them are counted from the end.
    let (at_s, rest) = line.split_once(',')?;
    let mut fields = rest.rsplitn(6, ',');
    let ttl_s = fields.next()?.parse().ok()?;
    let operation = fields.next()?;
    let _client = fields.next()?;
    let size: u64 = fields.next()?.parse().ok()?;
    let key_size: u64 = fields.next()?.parse().ok()?;
    let mut hasher = DefaultHasher::new();
    fields.next()?.hash(&mut hasher);
    Some(Request {
        at_us: at_s.parse::<u64>().ok()?.checked_mul(1_000_000)?,
        object: hasher.finish(),
        size: size.min(SIZE_MAX) as u32,
        key_size: key_size.clamp(u64::from(KEY_SIZE_MIN), u64::from(KEY_SIZE_MAX)) as u16,
        action: match operation {
            "get" | "gets" => Action::Get,
            "delete" => Action::Delete,
            "set" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => {
                Action::Set
            }
            _ => return None,
        },
        ttl_s,
    })
}

fn alibaba(line: &str) -> Option<Request> {
    let mut fields = line.split(',');
    let device: u64 = fields.next()?.parse().ok()?;
    let action = match fields.next()? {
        "R" => Action::Get,
        "W" => Action::Set,
        _ => return None,
    };
    let offset: u64 = fields.next()?.parse().ok()?;
    let length: u64 = fields.next()?.parse().ok()?;
    let at_us = fields.next()?.parse().ok()?;
    let mut hasher = DefaultHasher::new();
    (device, offset).hash(&mut hasher);
    Some(Request {
        at_us,
        object: hasher.finish(),
        size: length.min(SIZE_MAX) as u32,
        key_size: KEY_SIZE_MIN,
        action,
        ttl_s: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(name: &str, bytes: &[u8]) -> Result<Vec<Request>, String> {
        let path = std::env::temp_dir().join(format!("pb-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        let trace = read(&path, 1000);
        fs::remove_file(&path).unwrap();
        trace
    }

    fn record(at_s: u32, object: u64, size: u32) -> Vec<u8> {
        let mut bytes = at_s.to_le_bytes().to_vec();
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    }

    #[test]
    fn binary_records_plain_and_compressed() {
        let bytes = [record(5, 77, 512), record(6, u64::MAX, 4096), record(9, 77, 512)].concat();
        let plain = of("a.oracleGeneral.bin", &bytes).unwrap();
        let seen: Vec<_> = plain.iter().map(|r| (r.at_us, r.object, r.size)).collect();
        assert_eq!(seen, [(0, 77, 512), (1_000_000, u64::MAX, 4096), (4_000_000, 77, 512)]);
        let packed = zstd::encode_all(&bytes[..], 3).unwrap();
        assert_eq!(of("a.oracleGeneral.bin.zst", &packed).unwrap(), plain);
    }

    #[test]
    fn damaged_files_say_where() {
        let bytes = [record(5, 1, 2), record(6, 1, 2)].concat();
        let error = of("cut.oracleGeneral", &bytes[..40]).unwrap_err();
        assert!(error.contains("record 1") && error.contains("16 bytes into"), "{error}");
        let packed = zstd::encode_all(&bytes[..], 3).unwrap();
        assert!(of("cut.oracleGeneral.zst", &packed[..packed.len() - 4]).is_err());
        assert!(of("empty.csv", b"").unwrap_err().contains("no requests"));
        let error = of("bad.csv", b"1,R,0,512,100\n1,R,0\n").unwrap_err();
        assert!(error.contains("record 2") && error.contains("'1,R,0'"), "{error}");
        assert!(read(Path::new("/nowhere/x"), 1).unwrap_err().contains("/nowhere/x"));
    }

    #[test]
    fn lines_of_twitter_and_alibaba() {
        let trace = of("t.csv", b"0,a,b,3,200,1,get,0\n1,x,18,10,1,set,300\n1,x,18,0,2,delete,0\n");
        let trace = trace.unwrap();
        let seen: Vec<_> = trace.iter().map(|r| (r.action, r.size, r.key_size, r.ttl_s)).collect();
        let want =
            [(Action::Get, 200, 16, 0), (Action::Set, 10, 18, 300), (Action::Delete, 0, 18, 0)];
        assert_eq!(seen, want);
        assert!(trace[1].object == trace[2].object && trace[0].object != trace[1].object);

        let text =
            b"device_id,opcode,offset,length,timestamp\n3,R,4096,512,1000\n3,W,4096,8192,3500\n";
        let trace = of("a.csv", text).unwrap();
        assert_eq!(trace[0].object, trace[1].object);
        assert_eq!((trace[1].action, trace[1].at_us, trace[1].size), (Action::Set, 2500, 8192));
        assert_eq!(of("few.csv", &text[..]).unwrap().len(), 2);
    }
}
