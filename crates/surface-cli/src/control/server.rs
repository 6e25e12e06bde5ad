//! A socket that is served: who may come, how many, how long they may keep us.
//!
//! Room: surface. Threads around a [`Desk`]; what is answered is its matter.
//!
//! # Invariants
//! - Whatever clients do, memory and threads stay bounded.
//! - When [`Served`] is gone, so is the socket, and nothing of it holds the desk any more.
//!
//! # Why they hold
//! At most [`CLIENTS`] are served, each by a thread of its own that reads lines of bounded length and gives up on a client which sends or reads
//! nothing for a while.
//! Dropping `Served` shuts down the listener, which wakes its thread, and every stream, which wakes theirs (first for reading only, so that
//! the last answers are sent; `a_client_gets_the_answer_to_the_request_that_ended_the_run`), and waits for all that are still
//! counted; a thread that is no longer counted has let go of everything before.

use std::collections::HashMap;
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use super::socket;
use super::wire::{self, Answer, Line, REQUEST_BYTES_MAX, Refusal, Reply, Request};

/// Clients at a time.
pub(crate) const CLIENTS: usize = 32;
/// A client that sends nothing for so long is hung up on.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// A client that takes nothing for so long is hung up on.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// At the end, clients have so long to take their answers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Who answers.
pub(crate) trait Controller: Send + Sync {
    /// Does what a client wants, or says why not. What takes long looks at `closing`: then the socket is being closed.
    ///
    /// # Errors
    /// If it cannot be granted.
    fn respond(&self, request: Request, closing: &AtomicBool) -> Result<Answer, Refusal>;

    /// Tells a client every event from now on, until either side hangs up.
    ///
    /// # Errors
    /// If the client does not take one.
    fn subscribe(&self, client: &mut dyn Write, closing: &AtomicBool) -> io::Result<()> {
        send_line(client, &Reply::from(self.respond(Request::Subscribe, closing)))
    }
}

/// A socket that is served. Dropped, it is gone.
#[must_use = "a socket that is dropped is closed"]
pub(crate) struct ServerHandle {
    server: Arc<Server>,
    listener: UnixListener,
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
}

/// Lets `desk` answer whoever comes to the socket in `folder`.
///
/// # Errors
/// If the socket cannot be opened.
pub(crate) fn open(folder: &Path, controller: Arc<dyn Controller>) -> io::Result<ServerHandle> {
    let listener = socket::listen(folder)?;
    let server = Arc::new(Server { controller, clients: Arc::default(), closing: AtomicBool::new(false) });
    let (ours, listening) = (server.clone(), listener.try_clone()?);
    let thread = std::thread::Builder::new().name("control".into()).spawn(move || accept(&ours, &listening))?;
    Ok(ServerHandle { server, listener, socket: socket::socket_path(folder), thread: Some(thread) })
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.server.closing.store(true, SeqCst);
        let _ = std::fs::remove_file(&self.socket); // if somebody else did, it is gone as well
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both); // wakes `accept`
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for client in self.server.clients.close().into_values() {
            let _ = client.thread.map(JoinHandle::join);
        }
    }
}

/// What all threads of a socket share.
struct Server {
    controller: Arc<dyn Controller>,
    clients: Arc<Clients>,
    closing: AtomicBool,
}

/// Apart from the hall, so that a thread can let go of the hall before it is no longer counted.
#[derive(Default)]
struct Clients {
    all: Mutex<HashMap<u64, Client>>,
    left: Condvar,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, number: u64) {
        self.lock().remove(&number);
        self.left.notify_all();
    }

    /// Takes no more requests and lets everybody have the answer to the last one: what was asked for may be what ended the run.
    /// Gives those who did not take it in time; they are hung up on.
    fn close(&self) -> HashMap<u64, Client> {
        let all = self.lock();
        for client in all.values() {
            let _ = client.stream.shutdown(Shutdown::Read);
        }
        let waited = self.left.wait_timeout_while(all, CLOSE_TIMEOUT, |all| !all.is_empty());
        let mut all = waited.unwrap_or_else(PoisonError::into_inner).0;
        for client in all.values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        std::mem::take(&mut *all)
    }
}

struct Client {
    stream: UnixStream,
    /// Put there when it has started; the client may have gone by then.
    thread: Option<JoinHandle<()>>,
}

fn accept(server: &Arc<Server>, listener: &UnixListener) {
    for number in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if server.closing.load(SeqCst) => return,
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            // Out of descriptors, most likely: somebody else must give some back.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if server.closing.load(SeqCst) {
            return;
        }
        // A client that cannot be set up, or is not ours, is hung up on.
        let _ = add_client(server, number, stream);
    }
}

fn add_client(server: &Arc<Server>, number: u64, mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    if !socket::is_ours(&stream)? {
        return Ok(());
    }
    let mut clients = server.clients.lock();
    if clients.len() >= CLIENTS {
        let message = format!("{CLIENTS} clients are being served, which is the most; try again when one has gone");
        return send_line(&mut stream, &Reply::error("busy", message));
    }
    clients.insert(number, Client { stream: stream.try_clone()?, thread: None });
    let ours = server.clone();
    let spawned = std::thread::Builder::new().name("control-client".into()).spawn(move || {
        let _ = ours.serve_client(&stream); // however it ended, it is over
        let _ = stream.shutdown(Shutdown::Both);
        let clients = ours.clients.clone();
        drop(ours);
        clients.remove(number);
    });
    match spawned {
        Ok(thread) => clients.get_mut(&number).map(|client| client.thread = Some(thread)),
        Err(_) => clients.remove(&number).map(drop),
    };
    Ok(())
}

/// Sends a line.
pub(crate) fn send_line(client: &mut (impl Write + ?Sized), reply: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    client.write_all(&line)
}

impl Server {
    fn serve_client(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut writer = stream;
        let mut line = Vec::new();
        while !self.closing.load(SeqCst) {
            match wire::read_line(&mut reader, &mut line, REQUEST_BYTES_MAX)? {
                Line::Whole => {}
                Line::End => return Ok(()),
                Line::TooLong => {
                    let message = format!("the request has more than {REQUEST_BYTES_MAX} bytes, which is the most");
                    return send_line(&mut writer, &Reply::error("too_long", message));
                }
            }
            let answer = match wire::parse(&line) {
                Ok(Request::Subscribe) => return self.controller.subscribe(&mut writer, &self.closing),
                Ok(request) => self.controller.respond(request, &self.closing),
                Err(refusal) => Err(refusal),
            };
            // Whoever speaks another version is hung up on.
            let is_stranger = answer.as_ref().is_err_and(|refusal| refusal.kind == wire::WRONG_VERSION);
            send_line(&mut writer, &Reply::from(answer))?;
            if is_stranger {
                return Ok(());
            }
        }
        Ok(())
    }
}
