//! A server on a real socket that a test plays: it answers as slurmrestd 22.05 was heard to answer, or worse.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sched_slurm::{Credentials, Rest};
use serde_json::{Value, json};

/// What it does with a request.
pub(crate) enum Reply {
    /// A status and a body.
    Says(u16, String),
    /// A status and the beginning of a body that was to be longer.
    Cut(u16, String),
    /// It closes the connection without a word.
    Closes,
    /// It says nothing, for ever.
    Silent,
    /// It sends a byte of the body now and then.
    Drips(String),
}

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// Names are lower-case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Value>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

pub(crate) struct Server {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _folder: tempfile::TempDir,
}

pub(crate) const TOKEN: &str = "very.secret.token";

/// What slurmrestd offers.
pub(crate) fn offer(versions: &[&str]) -> Reply {
    let paths = versions.iter().flat_map(|version| {
        ["job/submit", "jobs", "job/{job_id}"].map(|path| (format!("/slurm/{version}/{path}"), json!({"get": {}})))
    });
    let paths: serde_json::Map<String, Value> = paths.collect();
    Reply::Says(200, json!({"openapi": "3.0.2", "info": {"title": "Slurm REST API"}, "paths": paths}).to_string())
}

pub(crate) fn errors(status: u16, number: i64, error: &str) -> Reply {
    Reply::Says(status, json!({"meta": {}, "errors": [{"error_code": number, "error": error}]}).to_string())
}

impl Server {
    /// It offers the version that Slurm 22.05 has; `answer` gets the rest.
    pub(crate) fn new(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::raw(false, move |asked| match &*asked.line {
            "GET /openapi/v3" => offer(&["v0.0.36", "v0.0.37", "v0.0.38"]),
            _ => answer(asked),
        })
    }

    /// On a socket of either kind. It serves until the process ends.
    pub(crate) fn raw(tcp: bool, answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (noted, answer) = (Arc::clone(&asked), Arc::new(answer));
        let serve = move |stream: Box<dyn Stream>| {
            let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
            thread::spawn(move || serve(stream, &noted, &*answer));
        };
        let address = if tcp {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(Box::new(stream))));
            address
        } else {
            let path = folder.path().join("rest.sock");
            let listener = UnixListener::bind(&path).unwrap();
            thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(Box::new(stream))));
            format!("unix:{}", path.display())
        };
        Self { address, asked, _folder: folder }
    }

    pub(crate) fn rest(&self) -> Rest {
        self.rest_with(&[])
    }

    pub(crate) fn rest_with(&self, options: &[&str]) -> Rest {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        Rest::new(&self.address, credentials("film"), &options).unwrap().with_timeout(Duration::from_millis(500))
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Methods and paths, beside the question for versions.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.asked().into_iter().map(|asked| asked.line);
        lines.filter(|line| !line.ends_with("/openapi/v3")).collect()
    }
}

pub(crate) fn credentials(user: &str) -> Credentials {
    Credentials { user: Some(user.to_owned()), token: Some(TOKEN.to_owned()) }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn serve(mut stream: Box<dyn Stream>, noted: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Reply) {
    let Some(asked) = read(&mut stream) else { return };
    noted.lock().unwrap().push(asked.clone());
    let mut head = |status: u16, length: usize, body: &str| {
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nContent-Type: application/json\r\n\r\n{body}"
        ); // it may be gone
    };
    match answer(&asked) {
        Reply::Says(status, body) => head(status, body.len(), &body),
        Reply::Cut(status, body) => head(status, body.len() + 100, &body),
        Reply::Closes => {}
        Reply::Silent => thread::sleep(Duration::from_secs(60)),
        Reply::Drips(body) => {
            head(200, body.len(), "");
            for byte in body.bytes() {
                let _ = stream.write_all(&[byte]);
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn read(stream: &mut dyn Read) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let line = line.trim().strip_suffix(" HTTP/1.1")?.to_owned();
    let mut asked = Asked { line, headers, body: None };
    if let Some(length) = asked.header("content-length").and_then(|length| length.parse().ok()) {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        asked.body = serde_json::from_slice(&body).ok();
    }
    Some(asked)
}
