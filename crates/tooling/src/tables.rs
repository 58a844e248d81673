//! What tables of several runs are made of.

use std::fmt;

/// The median; of an even number, the middle between the middle two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// A table for people: a head and rows of as many cells, each column as wide as its widest cell.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings and no row yet.
    pub fn new(head: &[&str]) -> Table {
        Table {
            rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&align(&self.rows))
    }
}

/// Rows of equally many cells as lines with aligned columns.
pub fn align(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

/// Columns of a page's words.
const WIDTH: usize = 120;

/// A paragraph in lines that are no longer than a page's.
pub fn wrapped(text: &str) -> String {
    let (mut page, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        if width > 0 {
            let is_full = width + 1 + word.len() > WIDTH;
            page.push(if is_full { '\n' } else { ' ' });
            width = if is_full { 0 } else { width + 1 };
        }
        page.push_str(word);
        width += word.len();
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_paragraph_is_broken_into_lines_that_are_full() {
        let page = wrapped(&"a word ".repeat(40));
        let lengths: Vec<usize> = page.lines().map(str::len).collect();
        assert_eq!(lengths, [120, 118, 40]);
    }

    #[test]
    fn a_column_is_as_wide_as_its_widest_cell() {
        let rows = [["a", "long"], ["200", "x"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(align(&rows), "  a  long\n200     x\n");
    }
}
