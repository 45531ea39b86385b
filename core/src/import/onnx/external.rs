//! What a tensor says of its external data.

use super::names::show;
use super::proto::StringStringEntry;

/// What `external_data` says of one tensor.
#[derive(Debug, PartialEq)]
pub(super) struct Entry<'p> {
    pub(super) location: &'p [u8],
    pub(super) offset: u64,
    pub(super) length: Option<u64>,
}

impl<'p> Entry<'p> {
    /// Reads the key-value pairs. Unknown keys (`checksum`) are informative only.
    pub(super) fn parse(pairs: &'p [StringStringEntry]) -> Result<Self, String> {
        let mut entry = Self { location: b"", offset: 0, length: None };
        for p in pairs {
            let number = |what: &str| {
                let text = std::str::from_utf8(&p.value).map(str::trim).unwrap_or("");
                text.parse::<u64>()
                    .map_err(|_| format!("its external data has {what} `{}`, which is not a number from 0 on", show(&p.value)))
            };
            match p.key.as_ref() {
                b"location" => entry.location = &p.value,
                b"offset" => entry.offset = number("offset")?,
                b"length" => entry.length = Some(number("length")?),
                _ => {}
            }
        }
        if entry.location.is_empty() {
            return Err("its data is external, but no location says in which file".into());
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_must_be_numbers() {
        let pair = |k: &'static str, v: &'static str| StringStringEntry { key: k.into(), value: v.into() };
        for (k, v) in [("offset", "-1"), ("offset", "12abc"), ("length", "18446744073709551616"), ("length", "")] {
            let e = Entry::parse(&[pair("location", "w"), pair(k, v)].map(|p| p)).map(|_| ()).unwrap_err();
            assert!(e.contains(k), "{e}");
        }
        assert!(Entry::parse(&[pair("location", "")]).unwrap_err().contains("location"));
    }
}
