//! Numbers as people read them.

/// Bytes with a binary unit: `512 B`, `1.5 MiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
    scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"], " ")
}

/// A count with a decimal unit: `950`, `25.6 M`.
#[must_use]
pub fn count(n: u64) -> String {
    scaled(n, 1000.0, &["", "K", "M", "G", "T", "P"], " ")
}

fn scaled(n: u64, step: f64, units: &[&str], space: &str) -> String {
    let mut x = n as f64;
    let mut unit = 0;
    // 999.95 would be shown as 1000.0.
    while x >= step * 0.99995 && unit + 1 < units.len() {
        x /= step;
        unit += 1;
    }
    let name = units[unit];
    match (unit, name) {
        (0, "") => n.to_string(),
        (0, _) => format!("{n}{space}{name}"),
        _ => format!("{x:.1}{space}{name}"),
    }
}

/// Nanoseconds as milliseconds with three decimals; a dash where there is no time.
#[must_use]
pub fn ms(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
}

/// `1 node`, `2 nodes`.
#[must_use]
pub fn plural(n: usize, noun: &str) -> String {
    match (n, noun) {
        (1, _) => format!("1 {noun}"),
        (n, noun) if noun.ends_with('y') => format!("{n} {}ies", &noun[..noun.len() - 1]),
        (n, noun) => format!("{n} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_show_a_full_next_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(count(999), "999");
        assert_eq!(count(25_557_032), "25.6 M");
        assert_eq!(count(u64::MAX), "18446.7 P");
        assert_eq!(ms(Some(1_234_567)), "1.235");
        assert_eq!(plural(1, "node"), "1 node");
        assert_eq!(plural(2, "boundary"), "2 boundaries");
    }
}
