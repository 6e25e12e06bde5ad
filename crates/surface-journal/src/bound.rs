//! What is learnt from run to run is bounded: of a full table the longest unused rows go.

use rusqlite::Connection;

/// Of a table with rows that have a time, forgets the longest unused beyond `most`; a tenth more than needed, so that it is rarely done.
pub(crate) fn forget_beyond(db: &Connection, table: &str, key: &str, most: i64) -> rusqlite::Result<()> {
    let rows: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    if rows > most {
        let sql = format!("DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} ORDER BY at_ms LIMIT ?1)");
        db.execute(&sql, [rows - most + most / 10])?;
    }
    Ok(())
}
