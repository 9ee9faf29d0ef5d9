//! Tables that fit a terminal: what does not fit on one line goes into further ones, the same columns of every row.

use core::ops::Range;

use crate::text::columns;
use anstyle::Style;

use super::text::fit;

const DIM: Style = Style::new().dimmed();
const GAP: usize = 2;
/// Where the further lines of a row begin.
const MARGIN: usize = 4;
/// So many columns are left to a text that is cut, or it has a line of its own.
const LEAST: usize = 20;

/// One column.
pub(crate) struct TableColumn {
    pub(crate) heading: &'static str,
    pub(crate) right: bool,
}

/// What stands in a column of a row, in one line.
#[derive(Clone, Default)]
pub(crate) struct TableCell {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// Columns and rows.
pub(crate) struct TextTable {
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) rows: Vec<Vec<TableCell>>,
    /// Whether the last column is a text, which is cut to what is left of its line.
    pub(crate) cut: bool,
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self { text, style: Style::new() }
    }
}

impl TableCell {
    pub(crate) const fn styled(text: String, style: Style) -> Self {
        Self { text, style }
    }
}

impl TextTable {
    /// In lines of at most that many columns; `None`: each row in one line.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let widths = self.widths();
        let width = width.unwrap_or(usize::MAX);
        let lines = self.lines(&widths, width);
        let headings = self.columns.iter().map(|column| TableCell::styled(column.heading.to_owned(), DIM));
        let headings: Vec<TableCell> = headings.collect();
        core::iter::once(&headings)
            .chain(&self.rows)
            .map(|row| self.row(row, &widths, &lines, width))
            .collect()
    }

    /// How wide each column is.
    fn widths(&self) -> Vec<usize> {
        let of = |(at, column): (usize, &TableColumn)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(&cell.text));
            cells.chain([columns(column.heading)]).max().unwrap_or_default()
        };
        self.columns.iter().enumerate().map(of).collect()
    }

    /// The first column of each line.
    fn lines(&self, widths: &[usize], width: usize) -> Vec<usize> {
        let (mut lines, mut at) = (vec![0], 0_usize);
        for (column, wide) in widths.iter().enumerate() {
            let last = column.saturating_add(1) == widths.len();
            let needs = if self.cut && last { LEAST.min(*wide) } else { *wide };
            let gap = if at == 0 { 0 } else { GAP };
            if column > 0 && at.saturating_add(gap).saturating_add(needs) > width {
                lines.push(column);
                at = MARGIN.saturating_add(needs);
            } else {
                at = at.saturating_add(gap).saturating_add(needs);
            }
        }
        lines
    }

    fn row(&self, cells: &[TableCell], widths: &[usize], lines: &[usize], width: usize) -> String {
        let ends = lines.iter().skip(1).copied().chain([cells.len()]);
        let parts = lines.iter().copied().zip(ends);
        let mut row = String::new();
        for (first, end) in parts {
            row.push_str(self.line(cells, widths, first..end, width).trim_end());
            row.push('\n');
        }
        row
    }

    /// Those columns of a row.
    fn line(&self, cells: &[TableCell], widths: &[usize], part: Range<usize>, width: usize) -> String {
        let mut at = if part.start > 0 { MARGIN } else { 0 };
        let mut line = " ".repeat(at);
        let shapes = self.columns.iter().zip(widths).zip(cells).enumerate();
        for (column, ((shape, wide), cell)) in shapes.skip(part.start).take(part.len()) {
            if column > part.start {
                line.push_str(&" ".repeat(GAP));
                at = at.saturating_add(GAP);
            }
            let last = column.saturating_add(1) == self.columns.len();
            let text =
                if self.cut && last { fit(&cell.text, width.saturating_sub(at)) } else { cell.text.clone() };
            let blanks = " ".repeat(wide.saturating_sub(columns(&text)));
            let style = cell.style;
            let shown = format!("{style}{text}{style:#}");
            line.push_str(&if shape.right { blanks + &shown } else { shown + &blanks });
            at = at.saturating_add(*wide);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<usize>) -> Vec<String> {
        let column = |heading, right| TableColumn { heading, right };
        let row = |cells: [&str; 4]| cells.map(|text| TableCell::from(text.to_owned())).to_vec();
        let table = TextTable {
            columns: vec![
                column("id", false),
                column("calls", true),
                column("retries", true),
                column("title", false),
            ],
            rows: vec![
                row(["first-session", "12", "3", "What does the order cost in euros?"]),
                row(["日本", "7", "0", "short"]),
            ],
            cut: true,
        };
        let text = anstream::adapter::strip_str(&table.render(width)).to_string();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_last_text_takes_the_width_there_is() {
        assert_eq!(shown(None)[1], "first-session     12        3  What does the order cost in euros?");
        assert_eq!(
            shown(Some(60)),
            [
                "id             calls  retries  title",
                "first-session     12        3  What does the order cost in …",
                "日本               7        0  short",
            ]
        );
    }

    #[test]
    fn columns_that_do_not_fit_stand_in_further_lines_below_each_other() {
        assert_eq!(
            shown(Some(30)),
            [
                "id             calls  retries",
                "    title",
                "first-session     12        3",
                "    What does the order cost …",
                "日本               7        0",
                "    short",
            ]
        );
        assert!(shown(Some(12)).iter().all(|line| columns(line) <= 13), "{:?}", shown(Some(12)));
    }
}
