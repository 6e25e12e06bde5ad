//! Memory of C programs, read and written.
//!
//! Room: surface. Knows pointers.
//!
//! # Invariant
//! Only what is not NULL and is aligned is read or written. That it points to what its type says, the caller promises: no program can look.

use std::ffi::{CStr, c_char};

use crate::codes::{JANUS_INVALID_ARGUMENT, Refusal};

/// Names an argument in a message.
fn unusable(name: &str, address: usize, align: usize) -> Refusal {
    let text = match address {
        0 => format!("`{name}` is NULL; pass the address of a variable"),
        _ => format!("`{name}` is {address:#x}, which is not a multiple of {align}; pass the address of a variable"),
    };
    Refusal::new(JANUS_INVALID_ARGUMENT, text)
}

/// Where a result goes, once there is one.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// If it is neither NULL nor unaligned, `pointer` may be written to until the call returns.
    pub(crate) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self, Refusal> {
        if pointer.is_null() || !pointer.is_aligned() {
            return Err(unusable(name, pointer.addr(), align_of::<T>()));
        }
        Ok(Self(pointer))
    }

    pub(crate) fn put(self, value: T) {
        // SAFETY: by `new` it may be written to. What was there is not dropped: it may be uninitialised.
        unsafe { self.0.write(value) }
    }
}

/// What `pointer` points to; none if it is NULL.
///
/// # Safety
/// If it is neither NULL nor unaligned, `pointer` may be read.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T, name: &str) -> Result<Option<T>, Refusal> {
    if pointer.is_null() {
        return Ok(None);
    }
    if !pointer.is_aligned() {
        return Err(unusable(name, pointer.addr(), align_of::<T>()));
    }
    // SAFETY: as the caller promised.
    Ok(Some(unsafe { pointer.read() }))
}

/// The text at `pointer`; none if it is NULL. What is not UTF-8 is replaced.
///
/// # Safety
/// If it is not NULL, `pointer` is a text that ends with a NUL.
pub(crate) unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: as the caller promised.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// Copies a text, cut to `length` bytes with a NUL at the end.
///
/// # Safety
/// If it is not NULL, `length` bytes may be written to `buffer`.
pub(crate) unsafe fn put_text(text: &str, buffer: *mut c_char, length: usize) {
    if buffer.is_null() || length == 0 {
        return;
    }
    let copied = text.floor_char_boundary(length - 1);
    // SAFETY: as the caller promised: `copied + 1` is at most `length`, and the text is as long as `copied`; a text of ours is not in the caller's buffer.
    unsafe {
        buffer.copy_from_nonoverlapping(text.as_ptr().cast(), copied);
        buffer.add(copied).write(0);
    }
}
