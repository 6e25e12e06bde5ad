//! Files block the task, not its worker.

use std::{
    io::{ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU32, Ordering::SeqCst},
        mpsc,
    },
};

use sched_tasks::{
    Runtime, block_on,
    fs::{self, File, OpenOptions},
    nursery, run, unblock, yield_now,
};

/// A folder of the test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bursar-test-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read_in_a_task_and_on_a_plain_thread() {
    let there_and_back = || {
        let folder = Folder::new();
        let deep = folder.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let (one, two, three) = (deep.join("one"), deep.join("two"), deep.join("three"));
        fs::write(&one, "first").unwrap();
        assert_eq!(fs::copy(&one, &two).unwrap(), 5);
        fs::rename(&one, &three).unwrap();
        assert_eq!(fs::read(&two).unwrap(), b"first");
        assert_eq!(fs::read_to_string(&three).unwrap(), "first");
        assert!(fs::metadata(&three).unwrap().is_file() && fs::metadata(&deep).unwrap().is_dir());
        assert_eq!(fs::canonicalize(deep.join("../b/two")).unwrap(), fs::canonicalize(&two).unwrap());
        let mut names: Vec<_> = fs::read_dir(&deep).unwrap().iter().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["three", "two"]);
        fs::remove_file(&two).unwrap();
        fs::remove_dir_all(folder.join("a")).unwrap();
        assert!(fs::read_dir(&*folder).unwrap().is_empty());
    };
    there_and_back();
    run(there_and_back).unwrap();
}

#[test]
fn a_file_reads_writes_and_seeks_with_borrowed_buffers() {
    run(|| {
        let folder = Folder::new();
        let path = folder.join("file");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        assert_eq!(file.path(), path);
        let words = [String::from("alpha "), String::from("beta")];
        for word in &words {
            file.write_all(word.as_bytes()).unwrap();
        }
        assert_eq!(file.write_vectored(&[IoSlice::new(b" ga"), IoSlice::new(b"mma")]).unwrap(), 6);
        file.flush().unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 16);

        let mut head = [0; 5];
        file.rewind().unwrap();
        (&file).read_exact(&mut head).unwrap();
        assert_eq!(&head, b"alpha");
        let (mut one, mut two) = ([0; 1], [0; 4]);
        assert_eq!(file.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).unwrap(), 5);
        assert_eq!((&one, &two), (b" ", b"beta"));

        assert_eq!(file.seek(SeekFrom::End(-5)).unwrap(), 11);
        let mut rest = String::from("...");
        assert_eq!(file.read_to_string(&mut rest).unwrap(), 5);
        assert_eq!(rest, "...gamma");

        file.set_len(3).unwrap();
        file.rewind().unwrap();
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"alp");
        assert_eq!(file.read(&mut head).unwrap(), 0);
        let mut std = file.into_std();
        assert_eq!(std.stream_position().unwrap(), 3);
    })
    .unwrap();
}

#[test]
fn options_are_those_of_the_standard_library() {
    let folder = Folder::new();
    let path = folder.join("log");
    File::create(&path).unwrap().write_all(b"one").unwrap();
    File::options().append(true).open(&path).unwrap().write_all(b" two").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
    let taken = File::options().write(true).create_new(true).open(&path).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    OpenOptions::from(options).truncate(true).create(true).open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn every_error_names_the_path_and_keeps_its_kind() {
    run(|| {
        let folder = Folder::new();
        let (gone, there) = (folder.join("gone"), folder.join("there"));
        fs::write(&there, [0xff]).unwrap();
        let missing = [
            ("open", File::open(&gone).map(drop)),
            ("read", fs::read(&gone).map(drop)),
            ("read", fs::read_to_string(&gone).map(drop)),
            ("look at", fs::metadata(&gone).map(drop)),
            ("list", fs::read_dir(&gone).map(drop)),
            ("find", fs::canonicalize(&gone).map(drop)),
            ("remove", fs::remove_file(&gone)),
            ("remove folder", fs::remove_dir_all(&gone)),
            ("copy", fs::copy(&gone, &there).map(drop)),
            ("rename", fs::rename(&gone, &there)),
        ];
        for (verb, outcome) in missing {
            let error = outcome.unwrap_err();
            let begin = format!("failed to {verb} `{}`", gone.display());
            assert!(error.to_string().starts_with(&begin), "{error}");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            let original = error.get_ref().and_then(|about| about.source()).expect("the original");
            assert!(error.to_string().ends_with(&original.to_string()), "{error}");
        }
        let below = there.join("below");
        for error in [fs::create_dir_all(&below), fs::write(&below, ""), File::create(&below).map(drop)] {
            let error = error.unwrap_err();
            assert!(error.to_string().contains(&format!("`{}`: ", below.display())), "{error}");
        }
        let error = File::open(&there).unwrap().write(b"x").unwrap_err(); // opened to be read
        assert!(error.to_string().starts_with(&format!("failed to write `{}`", there.display())), "{error}");
        assert_eq!(fs::read_to_string(&there).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(File::open(&there).unwrap().read_exact(&mut [0; 2]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    })
    .unwrap();
}

#[test]
fn many_tasks_share_two_threads() {
    let runtime = Runtime::builder().workers(2).blocking_threads(2).build().unwrap();
    let folder = Folder::new();
    let outcome = runtime.nursery(|n| {
        for number in 0..200_usize {
            let folder = &folder;
            n.try_spawn(move || {
                let path = folder.join(number.to_string());
                let bytes = vec![number as u8; number * 10];
                let mut file = File::create(&path)?;
                for chunk in bytes.chunks(500) {
                    file.write_all(chunk)?;
                }
                assert_eq!(fs::read(&path)?, bytes);
                Ok(fs::remove_file(&path)?)
            });
        }
        Ok(())
    });
    outcome.unwrap();
    assert!(fs::read_dir(&*folder).unwrap().is_empty());
}

#[test]
fn a_cancelled_task_does_not_begin_what_waits_for_a_thread() {
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let folder = Folder::new();
    let (begun, has_begun) = async_channel::bounded(1);
    let (go, may_go) = mpsc::channel::<()>();
    let outcome = runtime.run(|| {
        nursery(|n| {
            n.spawn(move || {
                unblock(move || {
                    begun.send_blocking(()).unwrap();
                    may_go.recv().unwrap();
                });
            });
            block_on(has_begun.recv()).unwrap(); // the only thread is taken
            let outcome = nursery(|inner| {
                for number in 0..10 {
                    let folder = &folder;
                    inner.try_spawn(move || Ok(fs::write(folder.join(number.to_string()), "never")?));
                }
                yield_now(); // all ten wait for the thread
                inner.cancel();
                Ok(())
            });
            assert!(outcome.unwrap_err().is_cancelled()); // although the thread is still taken
            go.send(()).unwrap();
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    assert!(fs::read_dir(&*folder).unwrap().is_empty());
}
