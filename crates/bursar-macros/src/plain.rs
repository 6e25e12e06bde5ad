//! Loops that do nothing but compute: they need no check in every iteration.
//!
//! Room: decisions.
//!
//! # Invariant
//! A loop is plain only if each of its iterations ends by itself, soon, and allocates nothing: so one check for a chunk
//! of iterations delays nothing. And its body is left only at its end or by `continue`, so the number of iterations is
//! known beforehand.
//!
//! # Why it holds
//! What is allowed is listed. Everything else (a call, a macro, an inner loop, `break`, `return`, `?`) makes the loop
//! an ordinary one. Operators and the methods below may be overloaded and do more: then a check comes later than it
//! should, by at most one interval.

use syn::{Block, Expr, ExprForLoop, RangeLimits, Stmt};

/// Methods of numbers and slices that only compute.
const METHODS: &[&str] = &[
    "abs",
    "abs_diff",
    "clamp",
    "count_ones",
    "count_zeros",
    "is_empty",
    "is_power_of_two",
    "leading_zeros",
    "len",
    "max",
    "min",
    "mul_add",
    "overflowing_add",
    "overflowing_mul",
    "overflowing_sub",
    "pow",
    "rem_euclid",
    "rotate_left",
    "rotate_right",
    "saturating_add",
    "saturating_mul",
    "saturating_sub",
    "sqrt",
    "swap",
    "swap_bytes",
    "to_bits",
    "trailing_zeros",
    "wrapping_add",
    "wrapping_mul",
    "wrapping_neg",
    "wrapping_shl",
    "wrapping_shr",
    "wrapping_sub",
];

/// Whether it iterates over a range, and does nothing else but compute.
pub(crate) fn is_plain(node: &ExprForLoop) -> bool {
    let counts = match &*node.expr {
        Expr::Range(range) => {
            matches!(range.limits, RangeLimits::HalfOpen(_)) && range.start.is_some() && range.end.is_some()
        }
        _ => false,
    };
    counts && node.label.is_none() && block(&node.body)
}

fn block(block: &Block) -> bool {
    block.stmts.iter().all(|statement| match statement {
        Stmt::Local(local) => local.init.as_ref().is_none_or(|init| init.diverge.is_none() && expression(&init.expr)),
        Stmt::Expr(plain, _) => expression(plain),
        Stmt::Item(_) | Stmt::Macro(_) => false,
    })
}

fn expression(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Continue(again) => again.label.is_none(),
        Expr::Assign(node) => expression(&node.left) && expression(&node.right),
        Expr::Binary(node) => expression(&node.left) && expression(&node.right),
        Expr::Block(node) => node.label.is_none() && block(&node.block),
        Expr::Cast(node) => expression(&node.expr),
        Expr::Field(node) => expression(&node.base),
        Expr::Group(node) => expression(&node.expr),
        Expr::If(node) => {
            let otherwise = node.else_branch.as_ref().is_none_or(|(_, otherwise)| expression(otherwise));
            expression(&node.cond) && block(&node.then_branch) && otherwise
        }
        Expr::Index(node) => expression(&node.expr) && expression(&node.index),
        Expr::Let(node) => expression(&node.expr),
        Expr::Match(node) => {
            let arm =
                |arm: &syn::Arm| arm.guard.as_ref().is_none_or(|(_, guard)| expression(guard)) && expression(&arm.body);
            expression(&node.expr) && node.arms.iter().all(arm)
        }
        Expr::MethodCall(node) => {
            METHODS.iter().any(|known| node.method == known)
                && expression(&node.receiver)
                && node.args.iter().all(expression)
        }
        Expr::Paren(node) => expression(&node.expr),
        Expr::Reference(node) => expression(&node.expr),
        Expr::Tuple(node) => node.elems.iter().all(expression),
        Expr::Unary(node) => expression(&node.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn what_only_computes_is_plain() {
        let plain: [ExprForLoop; 4] = [
            parse_quote!(for _ in 0..n {
                x = (x ^ (x >> 29)).wrapping_mul(31);
            }),
            parse_quote!(for i in 0..items.len() {
                if items[i] > sum {
                    sum += u64::from_x as u64;
                } else {
                    continue;
                }
            }),
            parse_quote!(for i in a..b {
                let (p, q) = (i, -i);
                match p {
                    0 => best = best.max(q),
                    _ => {}
                }
            }),
            parse_quote!(for _ in 0..9 {}),
        ];
        for node in plain {
            assert!(is_plain(&node), "{}", quote::quote!(#node));
        }
    }

    #[test]
    fn what_may_take_long_or_leave_or_allocate_is_not_plain() {
        let ordinary: [ExprForLoop; 14] = [
            parse_quote!(for x in items {
                sum += x;
            }),
            parse_quote!(for x in 0..=9 {
                sum += x;
            }),
            parse_quote!(for x in 0.. {
                sum += x;
            }),
            parse_quote!('a: for x in 0..9 {
                sum += x;
            }),
            parse_quote!(for x in 0..9 {
                work(x);
            }),
            parse_quote!(for x in 0..9 {
                all.push(x);
            }),
            parse_quote!(for x in 0..9 {
                println!("{x}");
            }),
            parse_quote!(for x in 0..9 {
                let v = vec![x];
            }),
            parse_quote!(for x in 0..9 {
                if x == 3 {
                    break;
                }
            }),
            parse_quote!(for x in 0..9 {
                if x == 3 {
                    return;
                }
            }),
            parse_quote!(for x in 0..9 {
                sum += a[x]?;
            }),
            parse_quote!(for x in 0..9 {
                while a[x] > 0 {
                    a[x] -= 1;
                }
            }),
            parse_quote!(for x in 0..9 {
                let f = || x;
            }),
            parse_quote!(for x in 0..9 {
                let Some(y) = a[x] else { return };
            }),
        ];
        for node in ordinary {
            assert!(!is_plain(&node), "{}", quote::quote!(#node));
        }
    }
}
