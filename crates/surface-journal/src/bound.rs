//! Tables that grow from run to run are bounded: the longest unused rows are deleted.
//!
//! Room: driver.

use rusqlite::Connection;

/// Deletes the longest unused rows of a table beyond `most`; a tenth more than needed, so that it is rarely done.
pub(crate) fn forget_beyond(db: &Connection, table: &str, key: &str, most: i64) -> rusqlite::Result<()> {
    let rows: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    if rows > most {
        let sql = format!("DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} ORDER BY at_ms LIMIT ?1)");
        db.execute(&sql, [rows - most + most / 10])?;
    }
    Ok(())
}
