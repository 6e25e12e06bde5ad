//! An HTTP server by hyper: a fiber accepts, a future serves each connection, and all of them end with their nursery.
//!
//! `cargo run --release -p bursar --features hyper --example http_server` serves a client of its own and ends. With an address it serves until it is stopped:
//! `… --example http_server -- 127.0.0.1:7001`, and then `curl 127.0.0.1:7001/name`.

use std::{convert::Infallible, env, io::Read, io::Write, time::Duration};

use bursar::{
    hyper::{Io, Timer},
    net::{TcpListener, TcpStream},
    prelude::*,
};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};

async fn greet(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let name = request.uri().path().trim_start_matches('/').to_owned();
    Ok(Response::new(Full::from(format!("hello, {}\n", if name.is_empty() { "world" } else { &name }))))
}

/// Accepts for ever; the end of the nursery ends it.
fn serve<'scope>(n: &'scope Nursery<'scope, '_>, listener: &'scope TcpListener) -> Result<(), TaskError> {
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        n.spawn_async(async move {
            let mut server = http1::Builder::new();
            // A client that sends no request is not waited for.
            server.timer(Timer).header_read_timeout(Duration::from_secs(10));
            let connection = server.serve_connection(Io::new(stream.into_async()), service_fn(greet));
            if let Err(error) = connection.await {
                eprintln!("a connection ended early: {error}");
            }
        });
    }
    Ok(())
}

fn main() -> Result<(), TaskError> {
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let here = listener.local_addr()?;
    nursery(|n| {
        n.try_spawn(|| serve(n, &listener));
        if address.is_some() {
            println!("listening at http://{here}");
            return Ok(());
        }
        let mut client = TcpStream::connect(here)?;
        client.write_all(b"GET /bursar HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        println!("{}", answer.lines().last().unwrap_or_default());
        n.cancel();
        Ok(())
    })
    .or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
}
