//! How many turns each band gets, in the whole loop: real edges, real nodes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use sched_flow::{Band, Builder, Flow, Graph, Message, NodeResult, NodeSpec, Out, Policy, Stage, sink, source};

/// Counts turns until enough were had.
struct Tally {
    enough: u64,
    total: AtomicU64,
    of: Vec<AtomicU64>,
}

impl Tally {
    fn new(places: usize, enough: u64) -> Arc<Self> {
        let of = (0..places).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { enough, total: AtomicU64::new(0), of })
    }

    /// Counts a turn. False if there were enough before.
    fn count(&self, place: usize) -> bool {
        if self.total.fetch_add(1, SeqCst) >= self.enough {
            return false;
        }
        self.of[place].fetch_add(1, SeqCst);
        true
    }

    fn counts(&self) -> Vec<u64> {
        self.of.iter().map(|count| count.load(SeqCst)).collect()
    }
}

/// Sends itself one message after the other along an edge of a band: it has something to do at any time.
struct Busy {
    tally: Arc<Tally>,
    place: usize,
}

impl Stage for Busy {
    type In = ();
    type Out = ();

    fn on_start(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        out.emit(());
        Ok(())
    }

    fn on_message(&mut self, _: Message<()>, out: &mut Out<'_, ()>) -> NodeResult {
        if self.tally.count(self.place) {
            out.emit(());
        } else {
            out.shutdown();
        }
        Ok(())
    }
}

/// So many busy nodes in each band, a turn a message.
fn busy_bands(builder: Builder, each: usize, enough: u64) -> Vec<u64> {
    let tally = Tally::new(3, enough);
    let mut graph = Graph::new("bands");
    for band in Band::ALL {
        for number in 0..each {
            let node = Busy { tally: Arc::clone(&tally), place: band as usize };
            let node = graph.add(format!("{band}-{number}"), NodeSpec::stage(node));
            graph.connect(&node, &node).capacity(1).policy(Policy::Drop).priority(band.priority());
        }
    }
    builder.register(graph).batch(1).build().unwrap().run().unwrap();
    tally.counts()
}

#[test]
fn seven_thousand_turns_of_busy_bands_are_four_two_and_one_thousand() {
    for each in [1, 4] {
        assert_eq!(busy_bands(Flow::builder(), each, 7_000), [4_000, 2_000, 1_000], "{each} nodes a band");
    }
    assert_eq!(busy_bands(Flow::builder().shares(5, 1, 1), 1, 7_000), [5_000, 1_000, 1_000]);
}

#[test]
fn two_workers_share_turns_as_one_does() {
    // With four nodes a band, two workers never have all of a band in their hands, so every turn is picked from three busy bands. Turns are picked in
    // the order of the cycle and counted when they are given: the two that are on their way may be counted in either order.
    let counts = busy_bands(Flow::builder().workers(2), 4, 7_000);
    for (count, exact) in counts.iter().zip([4_000u64, 2_000, 1_000]) {
        assert!(count.abs_diff(exact) <= 2, "{counts:?}");
    }
}

/// Endless sources and their sinks, in the bands given: both have turns there.
fn chains(builder: Builder, bands: &[Band], enough: u64) -> (Vec<u64>, Vec<u64>) {
    let tally = Tally::new(bands.len() * 2, enough);
    let mut graph = Graph::new("chains");
    for (place, band) in bands.iter().enumerate() {
        let (asked, served) = (Arc::clone(&tally), Arc::clone(&tally));
        let from = source(move || asked.count(place * 2).then_some(())).band(*band);
        let from = graph.add(format!("from-{place}"), from);
        let to = graph.add(format!("to-{place}"), sink(move |()| _ = served.count(place * 2 + 1)));
        graph.connect(&from, &to).capacity(4).priority(band.priority());
    }
    builder.register(graph).batch(1).build().unwrap().run().unwrap();
    let counts = tally.counts();
    let by_chain = counts.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    (by_chain, counts)
}

#[test]
fn sources_and_sinks_of_three_bands_share_as_bands_do() {
    // Edges fill up and run dry all the time, but in each band one of the two has something to do.
    let (bands, all) = chains(Flow::builder(), &Band::ALL, 7_000);
    assert_eq!(bands, [4_000, 2_000, 1_000], "{all:?}");
}

#[test]
fn nodes_of_one_band_share_equally() {
    for band in Band::ALL {
        let (_, counts) = chains(Flow::builder(), &[band; 3], 6_000);
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        // A source is ahead of its sink by what the edge holds.
        assert!(most - least <= 5, "{band}: {counts:?}");
    }
    // Three that are always ready, and nothing else: to the turn.
    let tally = Tally::new(3, 6_000);
    let mut graph = Graph::new("three");
    for place in 0..3 {
        let node = graph.add(format!("busy-{place}"), NodeSpec::stage(Busy { tally: Arc::clone(&tally), place }));
        graph.connect(&node, &node).capacity(1).policy(Policy::Drop);
    }
    Flow::builder().register(graph).batch(1).build().unwrap().run().unwrap();
    assert_eq!(tally.counts(), [2_000, 2_000, 2_000]);
}

#[test]
fn two_workers_starve_no_node_of_a_band() {
    let (chains, counts) = chains(Flow::builder().workers(2), &[Band::Normal; 4], 8_000);
    // Which node is on which worker depends on the machine; that no node is left behind does not.
    assert!(chains.iter().all(|turns| *turns >= 1_000), "{counts:?}");
}
