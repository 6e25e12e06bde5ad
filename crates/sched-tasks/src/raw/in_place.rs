//! A large value that is made where it stays.
//!
//! Room: mechanism.
//!
//! # Invariant
//! What [`in_arc!`] gives out has every field.
//!
//! # Why it holds
//! The pattern in it has no `..`: a field that is not written does not compile.
//!
//! # Why at all
//! `Arc::new` makes a value on the stack and copies it, in wider pieces than it was written in: every such read waits for the writes. That was a quarter of the cost of opening a nursery.

/// `Arc::new`, field by field. All values are there before memory is taken.
macro_rules! in_arc {
    ($type:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        let _has_all_fields = |made: &$type| { let $type { $($field: _),* } = made; };
        $($(let $field = $value;)?)*
        // Not `Arc::get_mut`: it locks the count of weak references, an atomic operation for what has none.
        let place = ::std::sync::Arc::into_raw(::std::sync::Arc::<$type>::new_uninit()).cast_mut().cast::<$type>();
        // SAFETY: just made, so ours alone; as large and as aligned as the type says. All fields are written: the pattern above names them all. So the value is initialised
        // when `from_raw` takes back what `into_raw` gave, and nothing in between unwinds.
        unsafe {
            $((&raw mut (*place).$field).write($field);)*
            ::std::sync::Arc::from_raw(place.cast_const())
        }
    }};
}

pub(crate) use in_arc;
