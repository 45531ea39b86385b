//! Text as it fits into cells, and numbers as people read them.

use std::borrow::Cow;
use std::time::Duration;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Cells that a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    if is_plain(text) { text.len() } else { UnicodeWidthStr::width(text) }
}

/// Whether every byte is one character that takes one cell.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

/// `text` in at most `cells` cells; where it is longer, its end is replaced by `ellipsis`.
#[must_use]
pub fn fit<'a>(text: &'a str, cells: usize, ellipsis: &str) -> Cow<'a, str> {
    // Text of fewer bytes than cells cannot be too wide: no grapheme is wider than its bytes.
    if text.len() <= cells || width(text) <= cells {
        return Cow::Borrowed(text);
    }
    let room = cells.saturating_sub(width(ellipsis));
    if let Some(front) = text.get(..room).filter(|_| cells > 0 && is_plain(text)) {
        return Cow::Owned(format!("{front}{ellipsis}"));
    }
    let mut out = String::new();
    let mut used = 0;
    for g in text.graphemes(true) {
        used += width(g);
        if used > room {
            break;
        }
        out.push_str(g);
    }
    if cells > 0 {
        out.push_str(ellipsis);
    }
    Cow::Owned(out)
}

/// `text` in at most `cells` cells; where it is longer, its beginning is left out: of a path the end tells more.
#[must_use]
pub fn fit_end<'a>(text: &'a str, cells: usize, ellipsis: &str) -> Cow<'a, str> {
    if text.len() <= cells || width(text) <= cells {
        return Cow::Borrowed(text);
    }
    let room = cells.saturating_sub(width(ellipsis));
    if let Some(end) = text.get(text.len().saturating_sub(room)..).filter(|_| cells > 0 && is_plain(text)) {
        return Cow::Owned(format!("{ellipsis}{end}"));
    }
    let mut used = 0;
    let mut kept: Vec<&str> = Vec::new();
    for g in text.graphemes(true).rev() {
        used += width(g);
        if used > room {
            break;
        }
        kept.push(g);
    }
    let mut out = if cells > 0 { ellipsis.to_owned() } else { String::new() };
    out.extend(kept.into_iter().rev());
    Cow::Owned(out)
}

/// `text` broken at spaces into lines of at most `cells` cells; a word that is longer is broken anywhere.
#[must_use]
pub fn broken(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let wide = width(word);
        let gap = usize::from(used > 0);
        if used + gap + wide > cells && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        let Some(last) = lines.last_mut() else { break };
        if used > 0 {
            last.push(' ');
            used += 1;
        }
        if wide <= cells {
            last.push_str(word);
            used += wide;
            continue;
        }
        for g in word.graphemes(true) {
            if used + width(g) > cells && used > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(last) = lines.last_mut() {
                last.push_str(g);
            }
            used += width(g);
        }
    }
    lines
}

fn scaled(n: f64, units: &[&str], step: f64) -> String {
    let mut n = n;
    let mut unit = 0;
    while n.abs() >= step * 0.9995 && unit + 1 < units.len() {
        n /= step;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 || n.abs() >= 99.95 { format!("{n:.0} {name}") } else { format!("{n:.1} {name}") }.trim_end().to_owned()
}

/// `1.2 MiB`, as the command line says it.
#[must_use]
pub fn bytes(n: u64) -> String {
    crate::cli::format::bytes(n)
}

/// A difference of bytes with its sign.
#[must_use]
pub fn bytes_difference(before: u64, after: u64, minus: &str) -> String {
    let sign = if after < before { minus } else { "+" };
    format!("{sign}{}", bytes(after.abs_diff(before)))
}

/// `25.6 M`, as the command line says it.
#[must_use]
pub fn count(n: u64) -> String {
    crate::cli::format::count(n)
}

/// `8.2 GFLOP`.
#[must_use]
pub fn flops(n: u64) -> String {
    scaled(n as f64, &["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"], 1000.0)
}

/// `41.2 ms`.
#[must_use]
pub fn nanos(n: u64) -> String {
    scaled(n as f64, &["ns", "µs", "ms", "s"], 1000.0)
}

/// [`nanos`] of a duration.
#[must_use]
pub fn duration(d: Duration) -> String {
    nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// `1 node`, `2 nodes`.
#[must_use]
pub fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_end_in_an_ellipsis_and_wide_ones_never_spill() {
        assert_eq!(fit("conv1", 5, "…"), "conv1");
        assert_eq!(fit("conv1.weight", 6, "…"), "conv1…");
        assert_eq!(fit_end("layer1.0.conv1", 6, "…"), "…conv1");
        assert_eq!(fit("層層層層", 5, "…"), "層層…");
        assert_eq!(fit("abc", 0, "…"), "");
        for cells in 0..12 {
            assert!(width(&fit("a層b層c👍🏽d", cells, "…")) <= cells);
            assert!(width(&fit_end("a層b層c👍🏽d", cells, "…")) <= cells);
        }
    }

    #[test]
    fn broken_text_loses_nothing_and_keeps_to_its_width() {
        assert_eq!(broken("a bc def", 4), ["a bc", "def"]);
        assert_eq!(broken("/very/long/path and", 6), ["/very/", "long/p", "ath", "and"]);
        assert_eq!(broken("", 5), [""]);
        for cells in 2..30 {
            let lines = broken("the file 層層層層層層 has a /rather/long/path/without/any/space in it", cells);
            assert!(lines.iter().all(|l| width(l) <= cells), "{cells}: {lines:?}");
            let all: String = lines.concat().chars().filter(|c| *c != ' ').collect();
            assert_eq!(all, "thefile層層層層層層hasa/rather/long/path/without/any/spaceinit");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1_234_567), "1.2 MiB");
        assert_eq!(bytes(86_016), "84.0 KiB");
        assert_eq!(count(25_557_032), "25.6 M");
        assert_eq!(count(122), "122");
        assert_eq!(nanos(41_200_000), "41.2 ms");
        assert_eq!(bytes_difference(3_000_000, 900_000, "-"), "-2.0 MiB");
    }
}
