//! The example of the README: `cargo run -p bursar --example hello`.

use bursar::prelude::*;

fn main() -> Result<(), TaskError> {
    let words = ["every", "task", "belongs", "to", "a", "nursery"].map(String::from);
    let (tx, rx) = channel(4);
    let letters: usize = nursery(|n| {
        for word in &words {
            let tx = tx.clone();
            n.try_spawn(move || Ok(tx.send(word.len())?)); // borrows `word`, and blocks only itself
        }
        drop(tx);
        n.timeout(std::time::Duration::from_secs(1)); // the whole tree ends in time
        Ok(rx.iter().sum())
    })?; // here all tasks have ended, whatever happened
    println!("{letters} letters");
    Ok(())
}
