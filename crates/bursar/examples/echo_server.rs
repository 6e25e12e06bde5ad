//! A server that sends back what it gets, a fiber for each connection.
//!
//! `cargo run --release -p bursar --example echo_server` serves clients of its own and ends. With an address it serves
//! until it is stopped: `… --example echo_server -- 127.0.0.1:7000`, and then `nc 127.0.0.1 7000`.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    time::Instant,
};

use bursar::{
    net::{TcpListener, TcpStream},
    prelude::*,
};

const CLIENTS: usize = 200;
const ROUNDS: usize = 50;

/// Accepts for ever; the nursery's end, or a failure, ends it.
fn serve<'scope>(n: &'scope Nursery<'scope, '_>, listener: &'scope TcpListener) -> Result<(), TaskError> {
    for stream in listener.incoming() {
        let stream = stream?;
        n.spawn(move || {
            // A client that breaks off is no reason to stop serving the others.
            if let Err(error) = echo(stream) {
                eprintln!("a connection ended early: {error}");
            }
        });
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Says something, hears it, and so on.
fn talk(address: std::net::SocketAddr, who: usize) -> Result<usize, TaskError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut heard = [0; 16];
    for round in 0..ROUNDS {
        let said = format!("{who:>7}, {round:>7}");
        stream.write_all(said.as_bytes())?;
        stream.read_exact(&mut heard)?;
        if heard != said.as_bytes() {
            return Err(TaskError::msg(format!("said {said:?}, heard {heard:?}")));
        }
    }
    stream.shutdown(Shutdown::Both)?;
    Ok(ROUNDS)
}

fn main() -> Result<(), TaskError> {
    if let Some(address) = std::env::args().nth(1) {
        let listener = TcpListener::bind(address.as_str())?;
        println!("echoing at {}; Ctrl-C ends it", listener.local_addr()?);
        return nursery(|n| n.try_spawn(|| serve(n, &listener)).join());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let begun = Instant::now();
    let rounds: usize = nursery(|n| {
        n.try_spawn(|| serve(n, &listener));
        let clients: Vec<_> = (0..CLIENTS).map(|who| n.try_spawn(move || talk(address, who))).collect();
        let rounds = clients.into_iter().map(Task::join).sum::<Result<_, _>>()?;
        n.dismiss(); // the clients are done: the server may go
        Ok(rounds)
    })?;
    println!("{CLIENTS} clients, {rounds} round trips in {:?}", begun.elapsed());
    assert_eq!(rounds, CLIENTS * ROUNDS);
    Ok(())
}
