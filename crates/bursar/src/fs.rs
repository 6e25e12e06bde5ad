//! Files that block only the task.
//!
//! Room: interface.
//!
//! Named and used like [`std::fs`]; on a plain thread every call is a plain call. In a task it runs on a thread kept for that, as by
//! [`unblock`](crate::unblock), so read and write much at a time. Buffers may be borrowed, errors name the path, and a cancellation leaves no operation
//! half done.
//!
//! ```
//! use bursar::{fs, prelude::*};
//!
//! let folder = std::env::temp_dir().join(format!("bursar-fs-{}", std::process::id()));
//! fs::create_dir_all(&folder)?;
//! nursery(|n| {
//!     for i in 0..10 {
//!         let path = folder.join(i.to_string());
//!         n.try_spawn(move || Ok(fs::write(path, vec![b'x'; i])?));
//!     }
//!     Ok(())
//! })?; // all ten are written
//! let bytes: u64 = fs::read_dir(&folder)?.iter().map(|entry| Ok(entry.metadata()?.len())).sum::<std::io::Result<_>>()?;
//! assert_eq!(bytes, 45);
//! fs::remove_dir_all(&folder)?;
//! # Ok::<(), TaskError>(())
//! ```

#[doc(inline)]
pub use sched_tasks::fs::{
    File, OpenOptions, canonicalize, copy, create_dir_all, metadata, read, read_dir, read_to_string, remove_dir_all,
    remove_file, rename, write,
};
