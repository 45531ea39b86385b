//! Text tables: columns as wide as their widest cell, readable without colour.

use recut_core::diagnostic::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::output::{Tone, paint};

/// How a column's cells are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Widest that a cell is shown; the end of a name tells more than its beginning, so the beginning goes.
const MAX_CELL: usize = 56;

/// A table being built.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<(String, Option<Tone>)>>,
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self { columns: columns.iter().map(|(t, a)| ((*t).to_owned(), *a)).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells may hold names from files: they are made printable here.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.toned(cells.into_iter().map(|c| (c, None)));
    }

    /// Adds a row whose cells have tones.
    pub fn toned(&mut self, cells: impl IntoIterator<Item = (String, Option<Tone>)>) {
        self.rows.push(cells.into_iter().map(|(c, t)| (shorten(&printable(&c)), t)).collect());
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, each line ending in a line feed; `indent` spaces before every line.
    #[must_use]
    pub fn render(&self, colored: bool, indent: usize) -> String {
        let widths: Vec<usize> = (self.columns.iter().enumerate())
            .map(|(i, (title, _))| self.rows.iter().filter_map(|r| r.get(i)).map(|(c, _)| c.width()).max().unwrap_or(0).max(title.width()))
            .collect();
        let mut text = String::new();
        let titles: Vec<_> = self.columns.iter().map(|(t, _)| (t.clone(), Some(Tone::Dim))).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            let mut gap = 0;
            for ((i, (cell, tone)), (_, align)) in row.iter().enumerate().zip(&self.columns) {
                let pad = widths.get(i).map_or(0, |w| w.saturating_sub(cell.width()));
                let (before, after) = if *align == Align::Right { (pad, 0) } else { (0, pad) };
                // Padding is written only before the next cell, so that no line ends in spaces.
                line.push_str(&" ".repeat(gap + before));
                line.push_str(&tone.map_or_else(|| cell.clone(), |t| paint(colored, t, cell)));
                gap = after + 2;
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// At most [`MAX_CELL`] columns of a cell, from its end.
fn shorten(cell: &str) -> String {
    if cell.width() <= MAX_CELL {
        return cell.to_owned();
    }
    let mut width = 1;
    let tail = cell.char_indices().rev().take_while(|(_, c)| {
        width += c.width().unwrap_or(0);
        width <= MAX_CELL
    });
    let start = tail.last().map_or(cell.len(), |(i, _)| i);
    format!("…{}", &cell[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_hostile_names_stay_in_their_cell() {
        let mut t = Table::new(&[("name", Align::Left), ("ms", Align::Right)]);
        t.row(["a\u{1b}[2J\n".to_owned(), "1.5".to_owned()]);
        t.row(["日本".to_owned(), "10.25".to_owned()]);
        assert_eq!(t.render(false, 1), " name                ms\n a\\u{1b}[2J\\u{a}    1.5\n 日本             10.25\n");
    }

    #[test]
    fn long_names_keep_their_end() {
        let cell = shorten(&format!("{}end", "x".repeat(100)));
        assert_eq!(cell.width(), MAX_CELL);
        assert!(cell.starts_with('…') && cell.ends_with("end"));
    }
}
