//! hyper, which knows nothing of this runtime: client and server, over loopback.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::Shutdown,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, ready},
};

use futures::{AsyncRead, AsyncWrite};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1 as client,
    header::HOST,
    rt::{Read, ReadBufCursor, Write},
    server::conn::http1 as server,
    service::service_fn,
};
use sched_tasks::{
    Nursery, Runtime, TaskError,
    net::{AsyncTcpStream, TcpListener, TcpStream},
    nursery,
};

/// One of our connections, as hyper wants it.
struct Connection(AsyncTcpStream);

impl Read for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut buffer = [0; 4096];
        let most = into.remaining().min(buffer.len());
        let got = ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer[..most]))?;
        into.put_slice(&buffer[..got]);
        Poll::Ready(Ok(()))
    }
}

impl Write for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }
}

/// Spawns for hyper into a nursery, so nothing outlives it.
#[derive(Clone, Copy)]
struct Spawn<'scope, 'env>(&'scope Nursery<'scope, 'env>);

impl<'scope, F> hyper::rt::Executor<F> for Spawn<'scope, '_>
where
    F: Future + Send + 'scope,
    F::Output: Send + 'scope,
{
    fn execute(&self, future: F) {
        self.0.spawn_async(future);
    }
}

/// Answers with the path, and the body twice.
async fn double(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("the client sends it all").to_bytes();
    Ok(Response::new(Full::from([path.as_bytes(), &body, &body].concat())))
}

async fn ask(sender: &mut client::SendRequest<Full<Bytes>>, path: &str, body: Bytes) -> Result<Bytes, hyper::Error> {
    let request =
        Request::post(path).header(HOST, "localhost").body(Full::from(body)).expect("a request like any other");
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    assert!(response.status().is_success());
    Ok(response.into_body().collect().await?.to_bytes())
}

#[test]
fn hyper_serves_and_asks_on_this_runtime() {
    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 50;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let answered = AtomicUsize::new(0);
    runtime
        .run(|| -> Result<(), TaskError> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            nursery(|n| {
                let executor = Spawn(n);
                // The server: a fiber accepts, futures serve.
                n.try_spawn(move || {
                    for stream in listener.incoming().take(CONNECTIONS) {
                        let serving = server::Builder::new()
                            .serve_connection(Connection(stream?.into_async()), service_fn(double));
                        hyper::rt::Executor::execute(&executor, serving);
                    }
                    Ok(())
                });
                // The clients: a fiber connects, futures ask.
                for connection in 0..CONNECTIONS {
                    let answered = &answered;
                    n.try_spawn(move || {
                        let stream = TcpStream::connect(address)?.into_async();
                        n.try_spawn_async(async move {
                            let (mut sender, driver) = client::handshake(Connection(stream)).await?;
                            hyper::rt::Executor::execute(&executor, driver);
                            for request in 0..REQUESTS {
                                let path = format!("/{connection}/{request}");
                                let body = Bytes::from(vec![b'a' + (request % 26) as u8; request * 997]);
                                let answer = ask(&mut sender, &path, body.clone()).await?;
                                assert!(answer == [path.as_bytes(), &body, &body].concat(), "a wrong answer to {path}");
                                answered.fetch_add(1, SeqCst);
                            }
                            Ok(())
                        });
                        Ok(())
                    });
                }
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    assert_eq!(answered.into_inner(), CONNECTIONS * REQUESTS);
}
