//! Whether a login may do what an end of an edge does.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! A probe changes nothing: no stream keeps what it publishes, and no consumer hears of it.
//!
//! # Why it holds
//! A message on the subject of the edge names a stream that is not the one of the edge, and the broker refuses that. An acknowledgement is for a consumer that is not there.
//!
//! # Rejected
//! To wait for the first pack: a sender would have begun, and a receiver would handle messages that come again.

use std::time::Duration;

use async_nats::header::NATS_EXPECTED_STREAM;
use async_nats::{HeaderMap, Request};

use crate::drive::connect::{self, Link};
use crate::drive::presence::End;
use crate::edge::Edge;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// A name that no stream of an edge has, and no consumer.
const ABSENT: &str = "bursar_probe";

/// Does what an end does, without effect. It returns when the broker has answered: what is not permitted [`Link::until_forbidden`] says before that.
pub(crate) async fn probe(link: &Link, edge: &Edge, end: End) {
    // The broker looks at this before it answers what follows.
    let _heard = link.client.subscribe(connect::reports(edge)).await;
    let request = Request::new().timeout(Some(ANSWER));
    let (subject, request) = match end {
        End::Sender => {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_EXPECTED_STREAM, ABSENT);
            (edge.address().subject().to_owned(), request.headers(headers))
        }
        End::Receiver => (format!("$JS.ACK.{}.{ABSENT}.1.1.1.1.1", edge.address().stream()), request),
    };
    let _ = link.client.send_request(subject, request).await; // that no consumer listens is an answer, too
}
