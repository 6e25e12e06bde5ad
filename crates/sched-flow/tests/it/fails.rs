//! Nodes that fail for good, and nodes that try again.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sched_flow::{Graph, Message, NodeError, NodeResult, NodeSpec, OnError, Out, Retry, Stage, map, source, try_map};

use crate::basics::{keep, on_both};

#[test]
fn a_node_that_failed_ends_what_feeds_only_it_and_no_more() {
    on_both(|builder| {
        let mut graph = Graph::new("dead sink");
        // The first source does not end by itself; the second also feeds another.
        let one = graph.add("one", source(|| Some(1u64)));
        let pass = graph.add("pass", map(|n: u64| n));
        let mut left = 1_000u64;
        let two = graph.add(
            "two",
            source(move || {
                left = left.checked_sub(1)?;
                Some(2u64)
            }),
        );
        let fails = try_map(|_: u64| Err::<u64, _>(NodeError::msg("no disk").for_good()));
        let fails = graph.add("fails", fails);
        let (node, _nothing) = keep::<u64>();
        let out = graph.add("out", node);
        let (node, others) = keep::<u64>();
        let rest = graph.add("rest", node);
        graph.connect(&one, &pass).capacity(4);
        graph.connect(&pass, &fails).capacity(4);
        graph.connect(&two, &fails).capacity(4);
        graph.connect(&fails, &out);
        graph.connect(&two, &rest).capacity(4);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        assert_eq!(others.lock().unwrap().len(), 1_000, "a living branch goes on");
        assert_eq!(ended.stats.failures().collect::<Vec<_>>(), [("fails", "no disk")]);
    });
}

/// Gathers numbers, and writes them at a tick and at its end, unless the disk is full: so often.
struct Gathers {
    gathered: Vec<u64>,
    full: u32,
    written: Arc<Mutex<Vec<u64>>>,
}

impl Gathers {
    fn write(&mut self, out: &Out<'_, ()>) -> NodeResult {
        if self.full > 0 {
            self.full -= 1;
            return Err(NodeError::msg("the disk is full").for_good());
        }
        self.written.lock().unwrap().append(&mut self.gathered);
        out.in_flight().set(0);
        Ok(())
    }
}

impl Stage for Gathers {
    type In = u64;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, ()>) -> NodeResult {
        self.gathered.push(message.payload);
        out.in_flight().set(self.gathered.len());
        if self.gathered.len() == 1 {
            out.tick_at(out.now() + Duration::from_millis(1));
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.write(out)
    }

    fn on_end(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.write(out)
    }
}

#[test]
fn what_a_node_gathered_and_could_not_write_is_tried_again() {
    // Numbers that come slowly meet the full disk at a tick, those that come at once at the end.
    for (slowly, full, times) in [(true, 5, 8), (false, 5, 8), (true, 5, 3), (false, 5, 3)] {
        on_both(|builder| {
            let mut graph = Graph::new("full disk");
            let mut numbers = 0..30u64;
            let from = source(move || numbers.next());
            let from = graph.add("from", if slowly { from.tick(Duration::from_millis(2)) } else { from });
            let written = Arc::new(Mutex::new(Vec::new()));
            let node = Gathers { gathered: Vec::new(), full, written: Arc::clone(&written) };
            let retry = Retry::times(times).backoff(Duration::from_millis(3));
            let to = graph.add("to", NodeSpec::stage(node).on_error(OnError::Retry(retry)));
            graph.connect(&from, &to).capacity(2);
            let ended = builder.register(graph).build().unwrap().run().unwrap();
            let to = ended.stats.node("to").unwrap();
            let edge = ended.stats.edge("from:out->to:in").unwrap();
            let written = written.lock().unwrap();
            if times > full {
                assert!(written.iter().copied().eq(0..30), "{written:?}");
                assert_eq!((to.failure.as_deref(), to.lost, to.retries), (None, 0, u64::from(full)));
            } else {
                assert_eq!((to.failure.as_deref(), written.len()), (Some("the disk is full"), 0));
                assert_eq!(to.lost + edge.dropped, edge.put, "{edge:?}");
            }
        });
    }
}
