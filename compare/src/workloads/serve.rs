//! What `echo` and `http` share: servers of each side on one worker, how long each is asked, and the rows.

use std::convert::Infallible;
use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bursar::hyper::Io;
use bursar::net::TcpListener;
use bursar::prelude::*;
use bursar::{Runtime, TaskError};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Failure;
use crate::load::{BODY, Client, Served, ask};
use crate::measure::Plan;
use crate::table::{Bar, Row};

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Server {
    Fibers,
    Futures,
    Tokio,
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(BODY)))
}

fn echo(mut stream: bursar::net::TcpStream) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

async fn echo_async(mut stream: bursar::net::AsyncTcpStream) {
    use futures_lite::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Serves with our runtime until `stop` says so.
fn ours(
    server: Server,
    is_http: bool,
    begun: &mpsc::Sender<SocketAddr>,
    stop: mpsc::Receiver<()>,
) -> Result<(), Failure> {
    let runtime = Runtime::builder().workers(1).build()?;
    let served = runtime.run(|| {
        let listener = &TcpListener::bind("127.0.0.1:0")?;
        begun.send(listener.local_addr()?)?;
        nursery(|n| {
            n.try_spawn(move || {
                for stream in listener.incoming() {
                    let stream = stream?;
                    stream.set_nodelay(true)?;
                    match (server, is_http) {
                        (_, true) => {
                            let server = http1::Builder::new();
                            n.spawn_async(server.serve_connection(Io::new(stream.into_async()), service_fn(hello)));
                        }
                        (Server::Fibers, false) => drop(n.spawn(move || echo(stream))),
                        (_, false) => drop(n.spawn_async(echo_async(stream.into_async()))),
                    }
                }
                Ok::<_, TaskError>(())
            });
            bursar::unblock(move || stop.recv())?;
            n.cancel();
            Ok(())
        })
    })?;
    match served {
        Err(error) if !error.is_cancelled() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The same on tokio.
fn on_tokio(is_http: bool, begun: &mpsc::Sender<SocketAddr>, stop: mpsc::Receiver<()>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stopped = async {
        // Until its client has ended.
        tokio::task::spawn_blocking(move || stop.recv()).await
    };
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        begun.send(listener.local_addr()?)?;
        let serving = async {
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                tokio::spawn(serve_on_tokio(stream, is_http));
            }
            #[allow(unreachable_code, reason = "it says which error the block has")]
            Ok::<(), std::io::Error>(())
        };
        first(serving, stopped).await
    })
}

async fn first<E: Into<Failure>>(
    serving: impl Future<Output = Result<(), E>>,
    stopped: impl Future<Output = Result<Result<(), mpsc::RecvError>, tokio::task::JoinError>>,
) -> Result<(), Failure> {
    tokio::select! {
        served = serving => served.map_err(Into::into),
        stopped = stopped => Ok(stopped??),
    }
}

async fn serve_on_tokio(mut stream: tokio::net::TcpStream, is_http: bool) {
    if is_http {
        let io = hyper_util::rt::TokioIo::new(stream);
        let _ = http1::Builder::new().serve_connection(io, service_fn(hello)).await;
        return;
    }
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// How a server does with so many connections.
fn served(plan: &Plan, server: Server, is_http: bool, connections: usize) -> Result<Served, Failure> {
    let (begun, address) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let served = match server {
                Server::Tokio => on_tokio(is_http, &begun, stopped),
                _ => ours(server, is_http, &begun, stopped),
            };
            served.map_err(|failure| failure.to_string())
        });
        let address = address.recv().map_err(|_| "the server did not begin")?;
        let time = Duration::from_millis(plan.pick(1_000, 300) as u64);
        let asked = ask(Client { address, is_http, connections, time });
        stop.send(())?;
        serving.join().map_err(|_| "a server panicked")??;
        asked
    })
}

/// Each of a second, for each server.
const ROUNDS: usize = 5;

/// The best of some rounds for each server, beside tokio's. In each round another begins.
pub fn rows(plan: &Plan, name: &'static str, is_http: bool, servers: &[Server]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for connections in [1, 64, 256, 1_000] {
        let sides: Vec<Server> = servers.iter().copied().chain([Server::Tokio]).collect();
        let mut best = vec![None::<Served>; sides.len()];
        for round in 0..plan.pick(ROUNDS, 1) {
            for turn in 0..sides.len() {
                let at = (round + turn) % sides.len();
                plan.step(&format!("{:?}, {connections} connections, round {round}", sides[at]));
                let served = served(plan, sides[at], is_http, connections)?;
                best[at] = Some(best[at].map_or(served, |best| best.best(served)));
            }
        }
        let best: Vec<Served> = best.into_iter().flatten().collect();
        let [ours @ .., tokio] = &*best else { return Err("no server answered".into()) };
        for (server, ours) in servers.iter().zip(ours) {
            let peer = |what: &str| format!("tokio, {connections}, {}{what}", format!("{server:?}").to_lowercase());
            let per_second = [1e6 / ours.per_second, 1e6 / tokio.per_second];
            rows.push(Row::new(name, peer(""), per_second, "µs/request", Bar::Times(1.0)));
            rows.push(Row::new(name, peer(", p99"), [ours.p99_us, tokio.p99_us], "µs", Bar::Times(1.0)));
            rows.push(Row::new(name, peer(", CPU"), [ours.cpu_us, tokio.cpu_us], "µs/request", Bar::Times(1.0)));
            rows.push(Row::new(name, peer(", sleeps"), [ours.switches, tokio.switches], "per request", Bar::Open));
        }
    }
    Ok(rows)
}
