//! An answer that is a list, read while it arrives: `/jobs` lists the jobs of all users, some 3 kB each.
//!
//! Room: surface.
//!
//! # Invariants
//! - Of a list only what is asked for is kept in memory, however long the list is.
//! - A list that is cut is an error, not a shorter list.
//!
//! # Why they hold
//! The list is read item by item, and the reader of the body fails if it ends before its length; JSON that ends early is an error, too.
//!
//! # Rejected
//! `update_time`, with which `/jobs` answers only if something has changed: it wants the time of the answer that the asker has, by the clock of slurmctld and to the second,
//! and these versions do not tell it. A change in that second, or with clocks that differ, would be missed for good. Nor is an answer smaller with it: it is all jobs or none.

use core::fmt;
use core::marker::PhantomData;
use std::io::{BufReader, Read};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::answers::Problem;

/// Reads an answer whose list is called `name`, and keeps what `keep` makes of its items.
///
/// # Errors
/// If it is no such answer, or ends before its end.
pub fn list<T: for<'de> Deserialize<'de>, K>(
    body: impl Read,
    name: &'static str,
    keep: impl FnMut(T) -> K,
) -> serde_json::Result<Listed<K::Item>>
where
    K: IntoIterator,
{
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(body));
    let listed = Answer { name, keep, item: PhantomData }.deserialize(&mut json)?;
    json.end()?;
    Ok(listed)
}

/// An answer that is a list.
#[derive(Debug)]
pub struct Listed<K> {
    /// What was kept of it.
    pub items: Vec<K>,
    /// What went wrong.
    pub errors: Vec<Problem>,
}

/// The object, and the list inside it: one value reads both, because `keep` is one.
struct Answer<T, F> {
    name: &'static str,
    keep: F,
    item: PhantomData<fn() -> T>,
}

impl<'de, T: Deserialize<'de>, K: IntoIterator, F: FnMut(T) -> K> DeserializeSeed<'de> for Answer<T, F> {
    type Value = Listed<K::Item>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>, K: IntoIterator, F: FnMut(T) -> K> Visitor<'de> for Answer<T, F> {
    type Value = Listed<K::Item>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an answer with `{}`", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut answer: A) -> Result<Self::Value, A::Error> {
        let mut listed = Listed { items: Vec::new(), errors: Vec::new() };
        let mut has_list = false;
        while let Some(key) = answer.next_key::<String>()? {
            if key == self.name {
                has_list = true;
                answer.next_value_seed(Items { keep: &mut self.keep, items: &mut listed.items, item: PhantomData })?;
            } else if key == "errors" {
                listed.errors = answer.next_value()?;
            } else {
                answer.next_value::<IgnoredAny>()?;
            }
        }
        if has_list || !listed.errors.is_empty() { Ok(listed) } else { Err(A::Error::missing_field(self.name)) }
    }
}

struct Items<'a, T, F, I> {
    keep: &'a mut F,
    items: &'a mut Vec<I>,
    item: PhantomData<fn() -> T>,
}

impl<'de, T: Deserialize<'de>, K: IntoIterator, F: FnMut(T) -> K> DeserializeSeed<'de> for Items<'_, T, F, K::Item> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, K: IntoIterator, F: FnMut(T) -> K> Visitor<'de> for Items<'_, T, F, K::Item> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(item) = sequence.next_element::<T>()? {
            self.items.extend((self.keep)(item));
        }
        Ok(())
    }
}
