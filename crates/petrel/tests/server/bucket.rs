//! Minimal S3 server over HTTP, in memory: puts, gets, lists and deletes objects. The XML API of
//! Google Cloud Storage differs only in how requests are signed; Azure's API is in `azure`.

mod azure;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A bucket called `bucket`, in a server of its own.
#[derive(Clone)]
pub struct Bucket {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Parts by upload.
    uploads: HashMap<String, BTreeMap<u32, Vec<u8>>>,
    /// Azure's parts, by object and name.
    blocks: HashMap<(String, String), Vec<u8>>,
    /// Received requests: the method, and the address without the key.
    requests: Vec<String>,
    aborted: usize,
    /// Requests that are not signed as S3 wants it are refused.
    needs_signature: bool,
    /// Error for requests with this text in their first line: text, status and code.
    refusal: Option<(String, u16, &'static str)>,
}

struct Request {
    method: String,
    key: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

/// Keys that a page of a listing has.
const PAGE: usize = 3;
const BODY_BYTES_MAX: usize = 64 << 20;

impl Bucket {
    pub fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { needs_signature: true, ..State::default() };
        let bucket = Bucket { port, state: Arc::new(Mutex::new(state)) };
        let served = bucket.clone();
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bucket = served.clone();
                std::thread::spawn(move || bucket.serve(stream));
            }
        });
        bucket
    }

    /// Makes later requests fail if their method and address contain a text; an empty one disables
    /// this.
    pub fn refuse(&self, what: &str, status: u16, code: &'static str) {
        let refusal = (!what.is_empty()).then(|| (what.to_owned(), status, code));
        self.state.lock().unwrap().refusal = refusal;
    }

    /// Takes requests of any client.
    pub fn open(&self) {
        self.state.lock().unwrap().needs_signature = false;
    }

    pub fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    /// Number of requests with this text in their method and address.
    pub fn asked(&self, what: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|request| request.contains(what)).count()
    }

    /// Numbers of aborted uploads and of pending ones.
    pub fn unfinished(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.aborted, state.uploads.len())
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(request) = read(&mut reader) {
            let is_head = request.method == "HEAD";
            let answer = self.answer(request);
            let head = format!(
                "HTTP/1.1 {} x\r\ncontent-length: {}\r\nlast-modified: Sat, 21 Nov 2026 20:03:01 GMT\r\netag: \"e\"\r\n{}\r\n",
                answer.status,
                answer.body.len(),
                answer.headers
            );
            let body = if is_head { &[][..] } else { &answer.body };
            if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: Request) -> Answer {
        let mut state = self.state.lock().unwrap();
        let line = format!("{} {}?{:?}", request.method, request.key, request.query);
        let refusal = state.refusal.as_ref().filter(|(what, ..)| line.contains(&what[..]));
        let refusal = refusal.map(|&(_, status, code)| refused(status, code));
        state.requests.push(line);
        let is_signed = request.headers.get("authorization").is_some_and(|value| {
            value.starts_with("AWS4-HMAC-SHA256 Credential=test-key/")
                && value.contains("Signature=")
        });
        let is_signed = is_signed
            || request
                .headers
                .get("authorization")
                .is_some_and(|v| v.starts_with("SharedKey acc:"));
        if state.needs_signature && !is_signed {
            return refused(403, "AccessDenied");
        }
        if let Some(refusal) = refusal {
            return refusal;
        }
        let asks = |name: &str| request.query.contains_key(name);
        if asks("comp") {
            return state.answer_as_azure(request);
        }
        match &request.method[..] {
            "POST" if asks("uploads") => state.begin(&request),
            "POST" if asks("uploadId") => state.complete(&request),
            "POST" if asks("delete") => state.delete_all(&request),
            "PUT" if asks("partNumber") => state.put_part(request),
            "PUT" => {
                state.objects.insert(request.key, request.body);
                done(Vec::new())
            }
            "DELETE" if asks("uploadId") => {
                state.uploads.remove(&request.query["uploadId"]);
                state.aborted += 1;
                Answer { status: 204, ..done(Vec::new()) }
            }
            "DELETE" => {
                state.objects.remove(&request.key);
                Answer { status: 204, ..done(Vec::new()) }
            }
            "GET" if asks("list-type") => state.list(&request),
            "GET" | "HEAD" => state.get(&request),
            _ => refused(405, "MethodNotAllowed"),
        }
    }
}

impl State {
    fn begin(&mut self, request: &Request) -> Answer {
        let id = format!("upload{}", self.requests.len());
        self.uploads.insert(id.clone(), BTreeMap::new());
        xml(format!(
            "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>{}</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>",
            request.key
        ))
    }

    fn put_part(&mut self, request: Request) -> Answer {
        let Some(parts) = self.uploads.get_mut(&request.query["uploadId"]) else {
            return refused(404, "NoSuchUpload");
        };
        let number = request.query["partNumber"].parse().unwrap();
        parts.insert(number, request.body);
        done(Vec::new())
    }

    fn complete(&mut self, request: &Request) -> Answer {
        let Some(parts) = self.uploads.remove(&request.query["uploadId"]) else {
            return refused(404, "NoSuchUpload");
        };
        let count = String::from_utf8_lossy(&request.body).matches("<PartNumber>").count();
        assert_eq!(count, parts.len());
        assert!(parts.values().rev().skip(1).all(|part| part.len() >= 5 << 20), "a small part");
        self.objects.insert(request.key.clone(), parts.into_values().flatten().collect());
        xml(format!(
            "<CompleteMultipartUploadResult><Key>{}</Key><ETag>e</ETag></CompleteMultipartUploadResult>",
            request.key
        ))
    }

    fn delete_all(&mut self, request: &Request) -> Answer {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let mut text = String::from("<DeleteResult>");
        for key in between(&body, "<Key>", "</Key>") {
            self.objects.remove(key);
            let _ = write!(text, "<Deleted><Key>{key}</Key></Deleted>");
        }
        xml(text + "</DeleteResult>")
    }

    fn list(&self, request: &Request) -> Answer {
        let asked = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let (prefix, after) = (asked("prefix"), asked("continuation-token"));
        let keys = self.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let page: Vec<_> = keys.clone().take(PAGE).collect();
        let is_truncated = keys.count() > PAGE;
        let mut text = format!("<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>");
        if let (true, Some((last, _))) = (is_truncated, page.last()) {
            let _ = write!(text, "<NextContinuationToken>{last}</NextContinuationToken>");
        }
        for (key, bytes) in page {
            let _ = write!(
                text,
                "<Contents><Key>{key}</Key><LastModified>2026-11-21T20:03:01.000Z</LastModified><ETag>e</ETag><Size>{}</Size></Contents>",
                bytes.len()
            );
        }
        xml(text + "</ListBucketResult>")
    }

    fn get(&self, request: &Request) -> Answer {
        let Some(bytes) = self.objects.get(&request.key) else { return refused(404, "NoSuchKey") };
        let Some(range) = request.headers.get("range") else { return done(bytes.clone()) };
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let from: usize = from.parse().unwrap();
        let to = bytes.len().min(to.parse::<usize>().unwrap() + 1);
        let headers = format!("content-range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
        Answer { status: 206, headers, body: bytes[from..to].to_vec() }
    }
}

/// Reads a request; none if the connection has ended.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let mut words = line.split(' ');
    let (method, address) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let key = decoded(path.trim_start_matches("/bucket").trim_start_matches('/'));
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), decoded(value))
    });
    let query = query.collect();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    assert!(length <= BODY_BYTES_MAX);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, key, query, headers, body })
}

/// Text with `%` and two digits for what cannot stand in an address.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split_once(end)).map(|(found, _)| found)
}

fn done(body: Vec<u8>) -> Answer {
    Answer { status: 200, headers: String::new(), body }
}

fn xml(text: String) -> Answer {
    done(text.into_bytes())
}

fn refused(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code><Message>refused</Message></Error>");
    Answer { status, ..xml(body) }
}
