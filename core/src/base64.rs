//! Base64 (RFC 4648, section 4) of data inside JSON.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of some bytes, with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |w, (i, &b)| w | u32::from(b) << (16 - 8 * i));
        for i in 0..4 {
            // One byte fills two characters, two fill three.
            let character = if i <= group.len() { ALPHABET[(word >> (18 - 6 * i) & 63) as usize] } else { b'=' };
            text.push(char::from(character));
        }
    }
    text
}

/// The bytes of a text; padding may be left out, white space is skipped.
///
/// # Errors
/// One sentence about the first character that does not belong, or about a text that ends too early.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut have, mut padding) = (0u32, 0u32, 0u32);
    for (at, c) in text.bytes().enumerate() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            _ => return Err(format!("its base64 has a character at position {at} that does not belong there")),
        };
        if padding > 0 {
            return Err(format!("its base64 goes on after the padding, at position {at}"));
        }
        word = word << 6 | u32::from(digit);
        have += 1;
        if have == 4 {
            bytes.extend_from_slice(&word.to_be_bytes()[1..]);
            (word, have) = (0, 0);
        }
    }
    let complete = match (have, padding) {
        (0, 0) => true,
        (2, 0 | 2) => {
            bytes.push((word >> 4) as u8);
            true
        }
        (3, 0 | 1) => {
            bytes.extend_from_slice(&((word >> 2) as u16).to_be_bytes());
            true
        }
        _ => false,
    };
    if complete { Ok(bytes) } else { Err("its base64 is cut off".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Ok(bytes.as_bytes()));
            assert_eq!(decode(text.trim_end_matches('=')).as_deref(), Ok(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Ok(all));
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for bad in ["Z", "Zg=", "Zg===", "=", "Zg==Zg==", "Zm9v!", "Zm8é", "Z===", "Zm9vY"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
        assert_eq!(decode("Zm\n9v").as_deref(), Ok(&b"foo"[..]));
    }
}
