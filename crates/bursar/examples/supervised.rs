//! Failing, being started again, and giving up: `cargo run -p bursar --example supervised`.
//!
//! A bakery has an oven, which loses the loaf it burns but never the orders that wait, and a shop, whose till opens after the oven is hot. The oven burns one loaf: it
//! is started again, and only the customer of that loaf notices. Then it burns every loaf: its supervisor gives up, the one above tries once more with everything
//! fresh, and gives up too, and the error that comes out tells the whole story.

use std::time::Duration;

use bursar::{
    actor::{Actor, Child, ChildInfo, Context, DeadLetter, RestartsExceeded, Strategy, Supervisor},
    prelude::*,
    sync::oneshot,
};

struct Oven;

struct Order {
    bread: &'static str,
    reply: oneshot::Sender<String>,
}

impl Actor for Oven {
    type Message = Order;

    fn started(&mut self, ctx: &mut Context<Order>) -> Result<(), TaskError> {
        println!("    (the oven is hot; restarts so far: {})", ctx.restarts());
        Ok(())
    }

    fn handle(&mut self, Order { bread, reply }: Order, _: &mut Context<Order>) -> Result<(), TaskError> {
        if bread.starts_with("burnt") {
            return Err(TaskError::msg(format!("the {bread} caught fire")));
        }
        let _ = reply.send(format!("one {bread}")); // the customer may have left
        Ok(())
    }
}

fn bakery<'a>() -> Supervisor<'a> {
    let oven = Child::actor("oven", || Oven).mailbox(8).dead_letters(|letter| {
        if let DeadLetter::Lost { error: Some(error) } = letter {
            println!("    (one order is lost: {})", error.reason());
        }
    });
    let kitchen =
        Supervisor::new(Strategy::OneForOne).name("kitchen").max_restarts(2, Duration::from_secs(60)).child(oven);
    let till = Child::task("till", || {
        println!("    (the till is open)");
        sleep(Duration::from_secs(3600));
        Ok(())
    });
    Supervisor::new(Strategy::RestForOne)
        .name("bakery")
        .max_restarts(1, Duration::from_secs(60))
        .child(Child::supervisor(kitchen))
        .child(till)
}

fn show(children: &[ChildInfo], depth: usize) {
    for child in children {
        let last = child.last_error.as_ref().map_or("no failure".into(), |error| error.reason().to_string());
        println!("{:depth$}    {:8} {:10} restarts {}, {last}", "", child.name, child.state, child.restarts);
        show(&child.children, depth + 2);
    }
}

fn main() {
    let outcome = nursery(|n| {
        let bakery = bakery().start(n)?;
        let oven = bakery.supervisor("kitchen")?.address("oven")?;

        println!("three orders, one of which cannot end well:");
        for bread in ["rye", "burnt toast", "baguette"] {
            match oven.ask(|reply| Order { bread, reply }) {
                Ok(bread) => println!("  {bread}, thank you"),
                Err(error) => println!("  no {bread}: {error}"),
            }
        }
        show(&bakery.children(), 0);

        println!("nothing but burnt bread from now on:");
        while oven.ask(|reply| Order { bread: "burnt cake", reply }).is_ok() || !oven.is_closed() {}
        println!("  the oven takes no more orders");
        bakery.wait()
    });

    let error = outcome.expect_err("the bakery has given up");
    println!("\n{error}");
    let facts = error.downcast_ref::<RestartsExceeded>().expect("a supervisor gave up");
    assert_eq!((&*facts.supervisor, &*facts.child, facts.restarts), ("bakery", "kitchen", 1));
}
