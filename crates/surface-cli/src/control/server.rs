//! The server of a control socket: who may connect, how many, and how long.
//!
//! Room: driver.
//!
//! Threads around a [`Controller`], which answers the requests.
//!
//! # Invariants
//! - Whatever clients do, memory and threads stay bounded.
//! - When [`ServerHandle`] is dropped, the socket is gone, and nothing holds the controller any more.
//!
//! # Why they hold
//! At most so many as the caller says ([`CLIENTS`] of a run) are served, each by a thread of its own that reads lines of bounded length and disconnects a client that sends or reads
//! nothing for a while.
//! Dropping `ServerHandle` shuts down the listener, which wakes its thread, and every stream, which wakes theirs (first for reading only, so that
//! the last answers are sent; `a_client_gets_the_answer_to_the_request_that_ended_the_run`), and waits for all that are still
//! counted; a thread that is no longer counted has dropped everything before.

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
/// A client that sends nothing for this long is disconnected.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// A client that reads nothing for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// At the end, clients have this long to read their answers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers requests.
pub(crate) trait Controller: Send + Sync {
    /// Does what a client asks for, or refuses. A long request checks `closing`: then the socket is being closed.
    ///
    /// # Errors
    /// If it is refused.
    fn respond(&self, request: Request, closing: &AtomicBool) -> Result<Answer, Refusal>;

    /// Sends a client every event from now on, until either side closes the connection.
    ///
    /// # Errors
    /// If the client does not take one.
    fn subscribe(&self, client: &mut dyn Write, closing: &AtomicBool) -> io::Result<()> {
        send_line(client, &Reply::from(self.respond(Request::Subscribe, closing)))
    }
}

/// A socket that is served. Dropping it closes the socket.
#[must_use = "a socket that is dropped is closed"]
pub(crate) struct ServerHandle {
    server: Arc<Server>,
    listener: UnixListener,
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
}

/// Lets `controller` answer the clients of the socket in `folder`.
///
/// # Errors
/// If the socket cannot be opened.
pub(crate) fn open(folder: &Path, controller: Arc<dyn Controller>) -> io::Result<ServerHandle> {
    serve(socket::listen(folder)?, socket::socket_path(folder), CLIENTS, controller)
}

/// The same for a socket at any path, with this many clients at a time.
///
/// # Errors
/// If the socket cannot be opened.
pub(crate) fn open_at(path: &Path, clients: usize, controller: Arc<dyn Controller>) -> io::Result<ServerHandle> {
    serve(socket::listen_at(path)?, path.to_owned(), clients, controller)
}

fn serve(
    listener: UnixListener,
    socket: PathBuf,
    clients_max: usize,
    controller: Arc<dyn Controller>,
) -> io::Result<ServerHandle> {
    let server = Arc::new(Server { controller, clients: Arc::default(), clients_max, closing: AtomicBool::new(false) });
    let (ours, listening) = (server.clone(), listener.try_clone()?);
    let thread = std::thread::Builder::new().name("control".into()).spawn(move || accept(&ours, &listening))?;
    Ok(ServerHandle { server, listener, socket, thread: Some(thread) })
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.server.closing.store(true, SeqCst);
        let _ = std::fs::remove_file(&self.socket); // it may be gone already
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
    clients_max: usize,
    closing: AtomicBool,
}

/// Apart from the server, so that a thread can drop the server before it is no longer counted.
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

    /// Takes no more requests and lets every client read the answer to its last one, which may be the one that ended the run.
    /// Returns the clients that did not read it in time; they are disconnected.
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
    /// Set when it has started; the client may be gone by then.
    thread: Option<JoinHandle<()>>,
}

fn accept(server: &Arc<Server>, listener: &UnixListener) {
    for number in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if server.closing.load(SeqCst) => return,
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            // Probably out of file descriptors: wait until some are closed.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if server.closing.load(SeqCst) {
            return;
        }
        // A client that cannot be set up, or belongs to another user, is disconnected.
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
    let most = server.clients_max;
    if clients.len() >= most {
        let message = format!("{most} clients are connected, the limit; try again later");
        return send_line(&mut stream, &Reply::error("busy", message));
    }
    clients.insert(number, Client { stream: stream.try_clone()?, thread: None });
    let ours = server.clone();
    let spawned = std::thread::Builder::new().name("control-client".into()).spawn(move || {
        let _ = ours.serve_client(&stream); // the connection has ended, with or without an error
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
                    let message = format!("the request has more than {REQUEST_BYTES_MAX} bytes, the limit");
                    return send_line(&mut writer, &Reply::error("too_long", message));
                }
            }
            let answer = match wire::parse(&line) {
                Ok(Request::Subscribe) => return self.controller.subscribe(&mut writer, &self.closing),
                Ok(request) => self.controller.respond(request, &self.closing),
                Err(refusal) => Err(refusal),
            };
            // A client with another version is disconnected.
            let is_stranger = answer.as_ref().is_err_and(|refusal| refusal.kind == wire::WRONG_VERSION);
            send_line(&mut writer, &Reply::from(answer))?;
            if is_stranger {
                return Ok(());
            }
        }
        Ok(())
    }
}
