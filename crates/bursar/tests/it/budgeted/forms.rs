//! Functions of every form keep their type, their borrows and their lints.

use std::{
    cell::RefCell,
    collections::HashMap,
    future::{Future, ready},
    pin::{Pin, pin},
};

use bursar::budgeted;
use futures_lite::future::{block_on, yield_now};

#[budgeted]
fn first_word(text: &str) -> &str {
    for (at, byte) in text.bytes().enumerate() {
        if byte == b' ' {
            return &text[..at];
        }
    }
    text
}

#[budgeted]
fn evens<'a>(items: &'a [u32], names: &'a HashMap<u32, String>) -> impl Iterator<Item = &'a str> + use<'a> {
    let mut found = Vec::new();
    for item in items {
        found.extend(names.get(item).map(String::as_str));
    }
    found.into_iter()
}

#[budgeted]
fn largest<T, const N: usize>(items: [T; N]) -> Option<T>
where
    T: PartialOrd + Copy,
{
    let mut largest: Option<T> = None;
    for item in items {
        if largest.is_none_or(|known| item > known) {
            largest = Some(item);
        }
    }
    largest
}

#[budgeted]
fn tail_is_a_temporary(cell: &RefCell<Vec<u32>>) -> usize {
    cell.borrow().iter().copied().max().map_or(0, |max| max as usize)
}

#[budgeted]
fn never(limit: &mut u32) -> ! {
    loop {
        *limit -= 1;
        if *limit == 0 {
            std::panic::resume_unwind(Box::new("the end"));
        }
    }
}

#[budgeted]
fn value_of_a_loop(mut n: u64) -> u64 {
    #![allow(clippy::needless_return)]
    let root = 'search: loop {
        for i in 0.. {
            if i * i > n {
                break 'search i - 1;
            }
        }
        n += 1;
    };
    return root;
}

#[budgeted]
unsafe fn is_unsafe(n: u32) -> u32 {
    n
}

#[budgeted]
extern "C-unwind" fn is_foreign(n: u32) -> u32 {
    let mut sum = 0;
    for i in 0..n {
        sum += i;
    }
    sum
}

#[budgeted(interval = 3)]
fn borrows_in_heads(mut stack: Vec<Vec<u32>>) -> u32 {
    let mut sum = 0;
    while let Some(top) = stack.last_mut() {
        match top.pop() {
            Some(n) => sum += n,
            None => drop(stack.pop()),
        }
    }
    sum
}

#[budgeted]
#[allow(clippy::duplicate_underscore_argument, clippy::used_underscore_binding)]
fn names_that_look_like_ours(fuel: u32, _fuel: u32) -> u32 {
    let mut sum = fuel;
    let fuel = 2;
    for tick in 0..fuel {
        sum += tick + fuel + _fuel;
    }
    sum
}

macro_rules! written_by_a_macro {
    ($name:ident, $fuel:ident) => {
        #[budgeted]
        fn $name($fuel: u32) -> u32 {
            let fuel = 1;
            let mut sum = 0;
            for i in 0..$fuel {
                sum += i + fuel;
            }
            sum
        }
    };
}
written_by_a_macro!(expanded, fuel);

#[budgeted]
fn closures_of_every_kind(items: &[u32]) -> Vec<u32> {
    use std::iter::repeat_n;

    let mut calls = 0;
    let mut repeated = |n: u32| -> Vec<u32> {
        calls += 1;
        let mut all = Vec::new();
        for item in repeat_n(n, n as usize) {
            all.push(item);
        }
        all
    };
    let mut found = Vec::new();
    for item in items {
        found.extend(repeated(*item));
    }
    let takes_all = move || {
        while found.len() > 5 {
            found.pop();
        }
        found
    };
    let short = takes_all();
    let reused: fn(u32) -> u32 = |mut n| loop {
        n += 1;
        if n.is_multiple_of(4) {
            break n;
        }
    }; // captures nothing, so it is still a function
    let outlives: Box<dyn Fn() -> u32 + Send + 'static> = Box::new(|| {
        let mut n = 0;
        while n < 3 {
            n += 1;
        }
        n
    });
    assert_eq!((reused(calls), outlives()), (4, 3));
    short
}

#[test]
fn plain_functions_work_as_before() {
    assert_eq!(first_word("one two"), "one");
    let names = HashMap::from([(2, "two".to_owned()), (4, "four".to_owned())]);
    assert_eq!(evens(&[1, 2, 3, 4], &names).collect::<Vec<_>>(), ["two", "four"]);
    assert_eq!(largest([1.5, 3.5, 2.5]), Some(3.5));
    assert_eq!(tail_is_a_temporary(&RefCell::new(vec![1, 3])), 3);
    assert!(std::panic::catch_unwind(|| never(&mut 5000)).is_err());
    assert_eq!(value_of_a_loop(101), 10);
    assert_eq!(is_foreign(4), 6);
    assert_eq!(borrows_in_heads(vec![vec![1, 2], vec![3]]), 6);
    assert_eq!(names_that_look_like_ours(1, 2), 1 + (2 + 2) + (1 + 2 + 2));
    assert_eq!(expanded(3), 6);
    assert_eq!(closures_of_every_kind(&[1, 2, 3]), [1, 2, 2, 3, 3]);
}

#[test]
fn an_unsafe_function_stays_unsafe() {
    let function: unsafe fn(u32) -> u32 = is_unsafe;
    assert_ne!(function as usize, 0);
}

struct Tree {
    value: u32,
    children: Vec<Tree>,
}

#[budgeted]
impl Tree {
    const LEAF: Self = Self::leaf(1);

    #[budgeted(skip)]
    const fn leaf(value: u32) -> Self {
        Self { value, children: Vec::new() }
    }

    fn sum(&self) -> u32 {
        let mut sum = self.value;
        for child in &self.children {
            sum += child.sum();
        }
        sum
    }

    fn deepest_mut(&mut self) -> &mut Self {
        if self.children.is_empty() {
            return self;
        }
        self.children[0].deepest_mut()
    }

    fn into_values(self) -> Vec<u32> {
        let (mut values, mut open) = (Vec::new(), vec![self]);
        while let Some(Self { value, children }) = open.pop() {
            values.push(value);
            open.extend(children);
        }
        values
    }
}

struct Countdown(u32);

#[budgeted]
impl Iterator for Countdown {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0 = self.0.checked_sub(1)?;
        Some(self.0)
    }
}

#[test]
fn methods_work_as_before() {
    let mut tree = Tree { value: 2, children: vec![Tree::leaf(3), Tree::LEAF] };
    tree.deepest_mut().value = 30;
    assert_eq!(tree.sum(), 33);
    assert_eq!(tree.into_values(), [2, 1, 30]);
    assert_eq!(Countdown(3).collect::<Vec<_>>(), [2, 1, 0]);
}

async fn length(text: &str) -> usize {
    yield_now().await;
    text.len()
}

async fn parsed(text: &str) -> Result<usize, std::num::ParseIntError> {
    yield_now().await;
    text.parse()
}

#[budgeted]
#[allow(clippy::await_holding_refcell_ref)]
async fn awaits_in_every_place(cell: &RefCell<Vec<String>>) -> Result<usize, std::num::ParseIntError> {
    let mut sum = length(&String::from("a temporary that lives until the semicolon")).await;
    while length("condition").await + sum < 60 {
        sum += parsed("1").await?;
    }
    match length(&cell.borrow()[0].clone()).await {
        0 => {}
        n => {
            for _ in 0..n {
                sum += ready(1).await;
            }
        }
    }
    let mut same = pin!(length("pinned"));
    sum += same.as_mut().await;
    let boxed: Pin<Box<dyn Future<Output = usize> + Send>> = Box::pin(async move {
        let mut inner = 0;
        for _ in 0..3 {
            inner += length("abc").await;
        }
        inner
    });
    let closure = async |n: usize| {
        let mut all = 0;
        for _ in 0..n {
            all += length("x").await;
        }
        all
    };
    sum += boxed.await + closure(2).await;
    sum += length(&sum.to_string()).await;
    Ok(length(&sum.to_string()).await + sum)
}

#[budgeted]
async fn ends_in_an_await(text: &str) -> usize {
    length(&text.to_uppercase()).await
}

#[budgeted]
fn gives_a_future(n: usize) -> impl Future<Output = usize> + Send + 'static {
    async move {
        let mut sum = 0;
        for _ in 0..n {
            sum += length("xy").await;
        }
        sum
    }
}

trait Asks {
    fn ask(&self) -> impl Future<Output = usize> + Send;
}

#[budgeted]
impl Asks for String {
    async fn ask(&self) -> usize {
        let mut sum = 0;
        for _ in 0..2 {
            sum += length(self).await;
        }
        sum
    }
}

fn needs_send<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn async_functions_work_as_before_and_stay_send() {
    let cell = RefCell::new(vec!["four".to_owned()]);
    // 42, then by ones until 9 more reach 60; 4 for the cell; 6 pinned; 9 boxed; 2 by the closure; twice the digits
    let expected = (51 + 4 + 6 + 9 + 2) + 2 + 2;
    assert_eq!(block_on(awaits_in_every_place(&cell)), Ok(expected));
    assert_eq!(block_on(needs_send(ends_in_an_await("abc"))), 3);
    assert_eq!(block_on(needs_send(gives_a_future(3))), 6);
    assert_eq!(block_on(needs_send("ab".to_owned().ask())), 4);
    let task = bursar::nursery(|n| n.spawn_async(ends_in_an_await("in a task")).join());
    assert_eq!(task.unwrap(), 9);
}
