//! Where the checks go in a body.
//!
//! Room: surface.
//!
//! # Invariant
//! Every check is in the body whose counter it uses: a function, a closure or an async block. No counter is captured,
//! so closures stay `Fn` and `'static`, and futures `Send`, if they were. And no expression moves into another block or
//! closure, except the whole body of a closure, so temporaries live as long as before.
//!
//! # Why it holds
//! A visitor enters one body at a time, counts the checks it puts there, and then declares the counter at the top:
//! mutable if there are any checks. Bodies of inner items are not entered. A loop is charged by a statement at the top
//! of its body, and a loop that only computes by the range it iterates over (see `plain`). A future about to be awaited
//! goes through a function and comes back, because a block around it would end the life of its temporaries.
//!
//! The counter's name has the hygiene of a `macro_rules!` local: it clashes with no name of the user.
//!
//! # Rejected
//! Checks at the end of a loop's body: `continue` jumps over them. The body as a closure: `return`, `?`, `.await` and borrows of the result change.

use proc_macro2::{Ident, Span};
use quote::quote_spanned;
use syn::{
    Block, Expr, ExprAsync, ExprAwait, ExprClosure, ExprConst, ExprForLoop, ExprLoop, ExprRepeat, ExprWhile,
    GenericArgument, Item, Pat, Path, Stmt, Type, parse_quote_spanned,
    spanned::Spanned,
    visit_mut::{self, VisitMut},
};

use crate::plain;

/// Puts checks into bodies.
pub(crate) struct Instrumenter {
    /// The path of `Fuel`.
    pub(crate) fuel: Path,
    pub(crate) interval: Option<u32>,
}

impl Instrumenter {
    /// Puts checks into the body of a function. Its entry is charged even if it does nothing else.
    pub(crate) fn function(&self, block: &mut Block) {
        let mut body = Body { instrumenter: self, checks: 0 };
        body.visit_block_mut(block);
        self.declare(block, body.checks);
    }

    /// Declares the counter of a body. After items, which run nothing: `clippy::items_after_statements` wants them first.
    fn declare(&self, block: &mut Block, checks: usize) {
        let at = block.stmts.iter().take_while(|statement| matches!(statement, Stmt::Item(_))).count();
        block.stmts.insert(at, self.declaration(checks));
    }

    fn declaration(&self, checks: usize) -> Stmt {
        let (span, fuel) = (here(Span::call_site()), &self.fuel);
        let enter = match self.interval {
            Some(interval) => quote_spanned!(span=> #fuel::enter_every(#interval)),
            None => quote_spanned!(span=> #fuel::enter()),
        };
        let counter = counter(span, checks);
        if checks == 0 {
            parse_quote_spanned!(span=> let #counter = #enter;)
        } else {
            parse_quote_spanned!(span=> let mut #counter = #enter;)
        }
    }
}

/// The same position, with hygienic names.
fn here(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

fn counter(span: Span, checks: usize) -> Ident {
    Ident::new(if checks == 0 { "_fuel" } else { "fuel" }, span)
}

/// One body, while it is visited.
struct Body<'a> {
    instrumenter: &'a Instrumenter,
    /// How many checks were put there.
    checks: usize,
}

impl Body<'_> {
    fn charge_iterations(&mut self, body: &mut Block, at: Span) {
        self.checks += 1;
        let (span, fuel) = (here(at), &self.instrumenter.fuel);
        let counter = counter(span, self.checks);
        body.stmts.insert(0, parse_quote_spanned!(span=> #fuel::tick(&mut #counter);));
    }

    /// Checks a loop once in a chunk of iterations, whose number is known beforehand. Nothing in it is charged.
    fn charge_chunks(&mut self, node: &mut ExprForLoop) {
        self.visit_expr_mut(&mut node.expr); // its ends may be anything
        self.checks += 1;
        let (span, fuel) = (here(node.for_token.span()), &self.instrumenter.fuel);
        let counter = counter(span, self.checks);
        let chunk = Ident::new("chunk", span);
        let (pat, range, body) = (&node.pat, &node.expr, &node.body);
        let body = parse_quote_spanned!(span=> { for #pat in #chunk #body });
        let range = parse_quote_spanned!(span=> #fuel::chunks(#range, &mut #counter));
        node.body = body;
        *node.expr = range;
        *node.pat = parse_quote_spanned!(span=> #chunk);
    }

    /// Visits an inner body. Returns how many checks it needs.
    fn inner(&self, visit: impl FnOnce(&mut Self)) -> usize {
        let mut inner = Self { instrumenter: self.instrumenter, checks: 0 };
        visit(&mut inner);
        inner.checks
    }
}

impl VisitMut for Body<'_> {
    fn visit_expr_for_loop_mut(&mut self, node: &mut ExprForLoop) {
        if plain::is_plain(node) {
            return self.charge_chunks(node);
        }
        visit_mut::visit_expr_for_loop_mut(self, node);
        self.charge_iterations(&mut node.body, node.for_token.span());
    }

    fn visit_expr_while_mut(&mut self, node: &mut ExprWhile) {
        visit_mut::visit_expr_while_mut(self, node);
        self.charge_iterations(&mut node.body, node.while_token.span());
    }

    fn visit_expr_loop_mut(&mut self, node: &mut ExprLoop) {
        visit_mut::visit_expr_loop_mut(self, node);
        self.charge_iterations(&mut node.body, node.loop_token.span());
    }

    fn visit_expr_await_mut(&mut self, node: &mut ExprAwait) {
        visit_mut::visit_expr_await_mut(self, node);
        self.checks += 1;
        let (span, fuel, future) = (here(node.await_token.span()), &self.instrumenter.fuel, &node.base);
        let counter = counter(span, self.checks);
        // The future first: awaits inside it borrow the counter too.
        *node.base = parse_quote_spanned!(span=> #fuel::awaiting(#future, &mut #counter));
    }

    fn visit_expr_closure_mut(&mut self, node: &mut ExprClosure) {
        let checks = self.inner(|inner| inner.visit_expr_mut(&mut node.body));
        if checks == 0 {
            return;
        }
        match &mut *node.body {
            Expr::Block(body) if body.label.is_none() && body.attrs.is_empty() => {
                self.instrumenter.declare(&mut body.block, checks);
            }
            body => {
                let declaration = self.instrumenter.declaration(checks);
                *body = parse_quote_spanned!(here(body.span())=> { #declaration #body });
            }
        }
    }

    fn visit_expr_async_mut(&mut self, node: &mut ExprAsync) {
        let checks = self.inner(|inner| inner.visit_block_mut(&mut node.block));
        if checks > 0 {
            self.instrumenter.declare(&mut node.block, checks);
        }
    }

    fn visit_expr_repeat_mut(&mut self, node: &mut ExprRepeat) {
        self.visit_expr_mut(&mut node.expr); // and not the length: the compiler runs it
    }

    // Nothing of these runs here: inner items are functions of their own, the others are run by the compiler.
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
}
