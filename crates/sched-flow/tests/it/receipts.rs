//! What a source learns of the messages it emitted.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use sched_flow::{
    Flow, Graph, Message, NodeError, NodeResult, NodeSpec, Out, Policy, Produced, Receipts, Source, Stage, batcher,
    sink,
};

/// Emits numbers, and leaves its receipts where a test can read them.
struct Numbers {
    left: u64,
    receipts: Arc<Mutex<Option<Receipts>>>,
    told: Arc<AtomicUsize>,
}

impl Source for Numbers {
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        let told = Arc::clone(&self.told);
        let notify = move || _ = told.fetch_add(1, SeqCst);
        *self.receipts.lock().unwrap() = Some(out.receipts(notify)?);
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<Produced, NodeError> {
        out.emit(self.left);
        self.left -= 1;
        Ok(if self.left == 0 { Produced::End } else { Produced::More })
    }
}

/// Keeps every message for ever.
struct Keeps(usize);

impl Stage for Keeps {
    type In = u64;
    type Out = u64;

    fn on_message(&mut self, _message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        self.0 += 1;
        out.in_flight().set(self.0);
        Ok(())
    }
}

/// Runs ten numbers into a node. Returns how many are handled, how many finished, and whether the source was told.
fn receipts_of(node: NodeSpec, policy: Policy) -> Result<(u64, u64, bool), String> {
    let receipts = Arc::<Mutex<Option<Receipts>>>::default();
    let told = Arc::<AtomicUsize>::default();
    let mut graph = Graph::new("receipts");
    let source = Numbers { left: 10, receipts: Arc::clone(&receipts), told: Arc::clone(&told) };
    let numbers = graph.add("numbers", NodeSpec::source(source));
    let node = graph.add("node", node);
    graph.connect(&numbers, &node).policy(policy).capacity(3);
    let ended = Flow::new(graph).unwrap().run().unwrap();
    if let Some((_, why)) = ended.stats.failures().next() {
        return Err(why.to_owned());
    }
    let receipts = receipts.lock().unwrap().take().unwrap();
    Ok((receipts.handled(), receipts.finished(), told.load(SeqCst) > 0))
}

#[test]
fn what_was_handled_is_finished() {
    assert_eq!(receipts_of(sink(|_: u64| {}), Policy::Block), Ok((10, 10, true)));
}

#[test]
fn what_a_node_held_and_let_go_at_the_end_is_finished() {
    assert_eq!(receipts_of(batcher::<u64>(4).into(), Policy::Block), Ok((10, 10, true)));
}

#[test]
fn what_a_node_holds_when_all_is_over_was_never_finished() {
    assert_eq!(receipts_of(NodeSpec::stage(Keeps(0)), Policy::Block), Ok((10, 0, true)));
}

#[test]
fn an_edge_that_drops_gives_no_receipts() {
    let why = receipts_of(sink(|_: u64| {}), Policy::Latest).unwrap_err();
    assert!(why.contains("has the policy latest") && why.ends_with("use Block"), "{why}");
}
