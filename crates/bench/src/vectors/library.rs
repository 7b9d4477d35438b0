//! Libraries of Python, each in a process that answers orders as a server does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use petrel_client::RawCommand;
use petrel_client::blocking::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::experiment::{Description, Experiment, Options};
use crate::server::{Chosen, Peer, Server};
use crate::wire::client;
use crate::{cache, sys};

use super::data::{Data, Share};
use super::engine::{Answers, Beside, Engine, Form, Loaded};
use super::{BUILD, LINKS};

/// Program that drives the libraries.
const SCRIPT: &str = include_str!("../../../../bench/python/vectors.py");

/// Installed library.
#[derive(Deserialize)]
struct Installed {
    version: String,
}

/// Libraries that the interpreter has and the option `libraries` names.
pub fn installed(python: &Path, options: &Options) -> Chosen {
    let (script, list) = list(python).unwrap_or_else(|why| {
        eprintln!("libraries of Python are left out: {why}");
        (PathBuf::new(), HashMap::new())
    });
    let mut chosen = Chosen { peers: Vec::new(), absent: Vec::new() };
    let known = Description::named(super::Vectors::NAME).work_names();
    for name in known.filter(|name| options.wants("libraries", name)) {
        match list.get(name) {
            Some(is) => chosen.peers.push(Peer::library(name, &is.version, python, &script)),
            None => chosen.absent.push(name.to_owned()),
        }
    }
    chosen
}

fn list(python: &Path) -> Result<(PathBuf, HashMap<String, Installed>), String> {
    let script = cache::directory().join("vectors.py");
    cache::write_if_new(&script, SCRIPT).map_err(|error| error.to_string())?;
    let mut command = Command::new(python);
    command.arg(&script).arg("--list").stdin(Stdio::null());
    let output = sys::die_with_parent(&mut command).output();
    let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
    let list = serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        said.lines().last().unwrap_or("no answer").to_owned()
    })?;
    Ok((script, list))
}

/// Whether a library has vectors in a form, and can do a work.
pub fn has(name: &str, form: Form, work: &str) -> bool {
    let forms = Description::named(super::Vectors::NAME).work(name).words("forms");
    // Its inserts are linked later, by an optimiser that is called.
    let is_later = name == "qdrant" && work == "insert";
    forms.contains(&form.to_string().as_str()) && work.parse::<Share>().is_err() && !is_later
}

/// Longest time until a set is built.
const LOAD_MAX: Duration = Duration::from_secs(3600);

/// A library with vectors.
pub struct Library {
    client: Client,
    form: Form,
    threads: usize,
}

impl Library {
    /// Connects; loads nothing yet.
    pub fn new(server: &Server, form: Form, threads: usize) -> Result<Library, String> {
        let client = client(server.endpoint()).map_err(|error| error.to_string())?;
        Ok(Library { client, form, threads })
    }

    fn ask<T: DeserializeOwned>(&mut self, order: &serde_json::Value) -> Result<T, String> {
        let answer = self.client.command("DO").arg(order.to_string()).within(LOAD_MAX);
        let answer = answer.reply::<Bytes>().run().map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }
}

impl Engine for Library {
    fn load(&mut self, _: &Server, data: &Data) -> Result<Loaded, String> {
        let shape = &data.shape;
        self.ask(&json!({
            "do": "load", "file": data.file, "form": self.form.to_string(), "threads": self.threads,
            "dim": shape.dim, "count": shape.count, "queries": shape.queries, "spare": shape.spare,
            "capacity": shape.count + shape.spare, "links": LINKS, "build": BUILD,
        }))
    }

    fn search(
        &mut self,
        _: &Server,
        data: &Data,
        _: Share,
        effort: u32,
    ) -> Result<Answers, String> {
        self.ask(&json!({"do": "search", "effort": effort, "queries": data.shape.queries}))
    }

    fn insert(&mut self, _: &Data, effort: u32, seconds: f64) -> Result<Beside, String> {
        self.ask(&json!({"do": "insert", "effort": effort, "seconds": seconds}))
    }
}
