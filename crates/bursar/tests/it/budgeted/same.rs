//! A function computes the same with the attribute and without it.

use proptest::prelude::*;

/// Each function twice, from the same text.
macro_rules! twins {
    ($($function:item)*) => {
        mod plain { $($function)* }
        #[bursar::budgeted(interval = 7)]
        mod budgeted { $($function)* }
    };
}

twins! {
    pub(super) fn collatz_steps(mut n: u32, limit: u32) -> Option<u32> {
        let mut steps = 0;
        while n != 1 {
            if steps == limit {
                return None;
            }
            n = if n & 1 == 0 { n / 2 } else { n.checked_mul(3)?.checked_add(1)? };
            steps += 1;
        }
        Some(steps)
    }

    pub(super) fn sorted<T: PartialOrd>(mut items: Vec<T>) -> Vec<T> {
        for end in (1..items.len()).rev() {
            let mut swapped = false;
            for i in 0..end {
                if items[i] > items[i + 1] {
                    items.swap(i, i + 1);
                    swapped = true;
                }
            }
            if !swapped {
                break;
            }
        }
        items
    }

    pub(super) fn balanced(text: &str) -> Result<usize, usize> {
        let (mut open, mut deepest) = (Vec::new(), 0);
        'bytes: for (at, byte) in text.bytes().enumerate() {
            let opener = match byte {
                b'(' | b'[' => {
                    open.push(byte);
                    deepest = deepest.max(open.len());
                    continue 'bytes;
                }
                b')' => b'(',
                b']' => b'[',
                _ => continue,
            };
            loop {
                match open.pop() {
                    Some(last) if last == opener => break,
                    Some(_) if open.len() > 3 => {}
                    _ => return Err(at),
                }
            }
        }
        if open.is_empty() { Ok(deepest) } else { Err(text.len()) }
    }

    pub(super) fn summed_by_closures(rows: &[Vec<i64>]) -> Vec<i64> {
        let mut seen = 0_i64;
        let mut sum = |row: &Vec<i64>| {
            let mut sum = 0_i64;
            for n in row {
                seen = seen.wrapping_add(1);
                sum = sum.wrapping_add(n.wrapping_mul(seen));
            }
            sum
        };
        rows.iter().map(&mut sum).collect()
    }

    pub(super) async fn folded(numbers: &[u32], stop: u32) -> Result<u32, u32> {
        let mut sum = 0_u32;
        for n in numbers {
            futures_lite::future::yield_now().await;
            let doubled = async { n.checked_mul(2).ok_or(*n) }.await?;
            sum = sum.wrapping_add(doubled);
            if sum == stop {
                break;
            }
        }
        Ok(sum)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_attribute_changes_no_result(
        n in 1_u32..,
        limit in 0_u32..300,
        items in prop::collection::vec(any::<i16>(), 0..40),
        text in "[()\\[\\]a]{0,40}",
        rows in prop::collection::vec(prop::collection::vec(any::<i64>(), 0..10), 0..6),
        numbers in prop::collection::vec(prop_oneof![0..u32::MAX / 2, Just(u32::MAX)], 0..30),
    ) {
        use futures_lite::future::block_on;
        prop_assert_eq!(plain::collatz_steps(n, limit), budgeted::collatz_steps(n, limit));
        prop_assert_eq!(plain::sorted(items.clone()), budgeted::sorted(items));
        prop_assert_eq!(plain::balanced(&text), budgeted::balanced(&text));
        prop_assert_eq!(plain::summed_by_closures(&rows), budgeted::summed_by_closures(&rows));
        prop_assert_eq!(block_on(plain::folded(&numbers, limit)), block_on(budgeted::folded(&numbers, limit)));
    }
}
