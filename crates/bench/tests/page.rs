//! The HTML page in a browser, where one is installed: it is drawn, sorted, hovered over, zoomed,
//! turned.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_petrel-bench");
/// How long a browser may take beside other programs.
const PATIENCE: Duration = Duration::from_secs(90);

const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Does with the page what a reader does, and sends what came of it.
const READER: &str = r"
const outcome = {};
const wait = ms => new Promise(done => setTimeout(done, ms));
const mouse = (element, type, x, y, buttons) => element.dispatchEvent(new MouseEvent(type,
  {clientX: x, clientY: y, buttons: buttons || 0, button: 0, bubbles: true, cancelable: true, view: window}));
async function visit(plot) {
  plot.element.scrollIntoView({block: 'center', behavior: 'instant'});
  for (let turn = 0; turn < 100 && !(plot.isDrawn && plot.element._fullLayout); turn++) await wait(50);
  await wait(600);
  return plot.element.getBoundingClientRect();
}
async function drag(element, from, to) {
  mouse(element, 'mousemove', from[0], from[1]);
  mouse(element, 'mousedown', from[0], from[1], 1);
  for (let step = 1; step <= 10; step++) {
    const at = [0, 1].map(axis => from[axis] + (to[axis] - from[axis]) * step / 10);
    mouse(document.elementFromPoint(...at) ?? element, 'mousemove', at[0], at[1], 1);
    await wait(40);
  }
  mouse(document.elementFromPoint(...to) ?? element, 'mouseup', to[0], to[1]);
  await wait(400);
}
async function read() {
  outcome.tables = document.querySelectorAll('table').length;
  const headings = [...document.querySelectorAll('h3')].map(heading => heading.textContent);
  outcome.published = data.documents.filter(known => headings.includes(known.title)).length;
  const tables = [...document.querySelectorAll('table')];
  const table = tables.find(table => table.querySelector('th').textContent === 'connections');
  const column = () => [...table.querySelectorAll('tbody tr')].map(row => parseFloat(row.children[0].textContent));
  const head = table.querySelector('th');
  head.click();
  outcome.rising = column();
  head.click();
  outcome.falling = column();

  const bars = plots.find(plot => plot.chart.categories.length);
  let box = await visit(bars);
  outcome.bars = bars.element.querySelectorAll('.bars .point > path').length;
  const middle = [box.left + box.width / 2, box.top + box.height / 2];
  const layer = bars.element.querySelector('.nsewdrag');
  mouse(layer, 'mousemove', middle[0], middle[1]);
  await wait(600);
  outcome.hover = bars.element.querySelectorAll('.hoverlayer .legend, .hoverlayer .hovertext').length;
  const range = () => JSON.stringify(bars.element._fullLayout.xaxis.range);
  const before = range();
  await drag(layer, [box.left + box.width * 0.3, middle[1]], [box.left + box.width * 0.7, middle[1] + 3]);
  outcome.zoomed = range() !== before;

  const surface = plots.find(plot => plot.chart.surface);
  box = await visit(surface);
  const scene = surface.element._fullLayout.scene._scene;
  outcome.surfaceLevels = surface.chart.surface.x.length;
  if (scene && scene.glplot) {
    const eye = () => JSON.stringify(scene.getCamera().eye);
    const first = eye();
    const canvas = surface.element.querySelector('canvas');
    await drag(canvas, [box.left + 300, box.top + 300], [box.left + 420, box.top + 330]);
    outcome.turned = eye() !== first;
  } else {
    outcome.turned = 'no WebGL';
  }
  const colour = () => getComputedStyle(document.body).backgroundColor;
  const light = colour();
  document.getElementById('theme').click();
  outcome.themes = light !== colour();
}
window.addEventListener('error', event => { outcome.error = event.message; });
read().catch(error => { outcome.error = String(error.stack); })
  .then(() => fetch('/outcome', {method: 'POST', body: JSON.stringify(outcome)}));
";

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

fn run(directory: &Path, words: &str) {
    let output = Command::new(PROGRAM).args(shlex::split(words).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words} in {}: {said}", directory.display());
}

fn start(browser: &str, profile: &Path, what: &[&str]) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"])
        .args(["--enable-unsafe-swiftshader", "--window-size=1400,1000", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(what)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Serves a page to a browser until the script in it has sent its outcome.
fn outcome_of(browser: &str, profile: &Path, page: &str) -> serde_json::Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}/?theme=light", listener.local_addr().unwrap());
    let mut child =
        start(browser, profile, &[&address, "--remote-debugging-port=0"]).spawn().unwrap();
    let begin = Instant::now();
    let outcome = loop {
        assert!(begin.elapsed() < PATIENCE, "the page sent no outcome");
        let Ok((socket, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        if let Some(body) = answer(socket, page) {
            break serde_json::from_slice(&body).unwrap();
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    outcome
}

/// Answers one request; the body of a POST is what came.
fn answer(socket: TcpStream, page: &str) -> Option<Vec<u8>> {
    socket.set_nonblocking(false).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let mut reader = BufReader::new(socket);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let lower = line.to_lowercase();
        if let Some(text) = lower.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let page = if first.starts_with("GET /?") { page } else { "" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    let mut socket = reader.into_inner();
    socket.write_all(head.as_bytes()).ok()?;
    socket.write_all(page.as_bytes()).ok()?;
    first.starts_with("POST /outcome").then_some(body)
}

#[test]
fn a_page_is_read_in_a_browser() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no Chromium on PATH");
        return;
    };
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    let _ = fs::remove_dir_all(&place);
    let directory = place.join("results");
    let out = directory.display();
    run(
        &place,
        &format!(
            "matrix --servers floor-epoll --keys 100 --pipelines 1,4 --server-threads 1 --rounds 2 --warmup 0 \
             --seconds 0.05 --connections 2 --client-threads 1 --out {out}"
        ),
    );
    run(
        &place,
        &format!(
            "connections --servers floor-epoll --counts 1,2,4,8 --idle 0 --operations 400 --rounds 1 \
             --server-threads 1 --keys 100 --out {out}"
        ),
    );
    let points = fs::read_dir(&directory).unwrap().flatten().filter_map(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|e| e == "dat").then(|| fs::read_to_string(path).unwrap())
    });
    let points: Vec<String> = points.collect();
    assert_eq!(points.len(), 6, "a file for gnuplot for each surface");
    assert!(points.iter().all(|text| text.contains("\n8 99 ") || text.contains("\n8 80 ")));

    let page = place.join("page.html");
    run(&place, &format!("report {out} --page {}", page.display()));
    let text = fs::read_to_string(&page).unwrap();
    // The page itself may send nothing anywhere.
    assert!(text.contains("default-src 'none'") && !text.contains("connect-src"));
    let with = text.replace("default-src 'none'", "default-src 'none'; connect-src 'self'");
    let with = with.replace("</body>", &format!("<script>{READER}</script></body>"));
    let profile = place.join("profile");
    let outcome = outcome_of(browser, &profile, &with);
    assert!(outcome["error"].is_null() && outcome.is_object(), "{outcome}");
    assert!(outcome["tables"].as_u64() > Some(8), "{outcome}");
    assert_eq!(outcome["published"], 5, "{outcome}");
    let numbers = |name: &str| -> Vec<f64> {
        outcome[name].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
    };
    assert!(numbers("rising").is_sorted() && numbers("falling").is_sorted_by(|a, b| a >= b));
    assert_eq!(outcome["bars"], 4, "SET and GET at two pipelines: {outcome}");
    assert!(outcome["hover"].as_u64() > Some(0), "{outcome}");
    assert_eq!(outcome["zoomed"], true, "{outcome}");
    assert_eq!(outcome["surfaceLevels"], 4, "{outcome}");
    assert_eq!(outcome["turned"], true, "{outcome}");
    assert_eq!(outcome["themes"], true, "{outcome}");

    let picture = place.join("page.png");
    let address = format!("file://{}?theme=light", page.display());
    let picture_to = format!("--screenshot={}", picture.display());
    let shot =
        start(browser, &profile, &["--virtual-time-budget=5000", &picture_to, &address]).status();
    assert!(shot.unwrap().success());
    assert!(fs::metadata(&picture).unwrap().len() > 10_000, "{}", picture.display());
    let _ = fs::remove_dir_all(&profile);
}
