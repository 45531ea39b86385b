//! Telling from the first bytes what a file is, where it is no ONNX file.

/// Whether it is a zip archive: torch.export writes such.
pub(super) fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Whether it is a JSON object, as far as one can see: `{` and then a key or the end.
pub(super) fn is_json(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    text.strip_prefix(b"{").is_some_and(|rest| matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}') | None))
}

/// Why a file that begins like this is not read; `None` if it may be an ONNX file, which has no mark of its own.
pub(super) fn refuse(head: &[u8], len: u64) -> Option<String> {
    let no = |what: &str| Some(format!("this is not an ONNX model: it is {what}"));
    if len == 0 {
        return Some("the file is empty".to_owned());
    }
    if head.starts_with(&[0x1f, 0x8b]) {
        return no("gzip-compressed: decompress it first");
    }
    let marks: [(&[u8], &str); 8] = [
        (b"\x28\xb5\x2f\xfd", "zstd-compressed: decompress it first"),
        (b"BZh", "bzip2-compressed: decompress it first"),
        (b"\xfd7zXZ\0", "xz-compressed: decompress it first"),
        (b"\x89HDF", "an HDF5 file (Keras): convert it to ONNX first"),
        (b"\x93NUMPY", "a NumPy array"),
        (b"GGUF", "a GGUF file: it holds weights and no graph"),
        (b"\x80\x02", "a Python pickle (an old torch.save file): export the model to ONNX first"),
        (b"\x7fELF", "a program or library"),
    ];
    for (mark, what) in marks {
        if head.starts_with(mark) {
            return no(what);
        }
    }
    if head.get(4..8) == Some(b"TFL3") {
        return no("a TensorFlow Lite model");
    }
    if head.get(4..8) == Some(b"ORTM") {
        return no("an ONNX Runtime (.ort) model: use the ONNX file it was made from");
    }
    if head.starts_with(b"version https://git-lfs") {
        return no("a Git LFS pointer, not the file itself: run `git lfs pull`");
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return no("UTF-16 text");
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if text.starts_with(b"<") {
        let lower = text[..text.len().min(1024)].to_ascii_lowercase();
        let has = |needle: &[u8]| lower.windows(needle.len()).any(|w| w == needle);
        if has(b"<net ") || has(b"<net>") {
            return no("an OpenVINO IR (XML), which this version does not read yet");
        }
        if has(b"<!doctype html") || has(b"<html") {
            return no("an HTML page: was a web page saved instead of the file?");
        }
        return no("an XML or HTML text");
    }
    // An ONNX file begins with a field key, mostly 0x08: control characters no text begins with. One that begins like
    // text has long runs of it.
    let sample = &head[..head.len().min(512)];
    let is_text = |b: u8| b >= 0x80 || matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e);
    if sample.iter().all(|&b| is_text(b)) && std::str::from_utf8(sample).map_or_else(|e| e.valid_up_to() + 4 > sample.len(), |_| true) {
        return no("a text file");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(head: &[u8]) -> String {
        refuse(head, head.len() as u64).unwrap_or_default()
    }

    #[test]
    fn formats_are_named() {
        assert!(says(b"").contains("empty"));
        assert!(says(b"\x1f\x8b\x08\0").contains("gzip"));
        assert!(says(b"<!DOCTYPE html><html>").contains("HTML"));
        assert!(says(b"<?xml version=\"1.0\"?>\n<net name=\"m\">").contains("OpenVINO"));
        assert!(says(b"version https://git-lfs.github.com/spec/v1\n").contains("LFS"));
        assert!(says(b"\xff\xfeh\0i\0").contains("UTF-16"));
        assert!(says(b"just some words\n").contains("text"));
        assert!(says("späte Wörter 世".as_bytes()).contains("text"));
    }

    #[test]
    fn json_is_told_by_its_brace() {
        for yes in [&b"{\"format\": 1"[..], b"\xef\xbb\xbf\n {\r\n\t\"a\"", b"{}", b"{ "] {
            assert!(is_json(yes));
        }
        for no in [&b""[..], b"{{", b"{a: 1}", b"[1]", b"\x08\x08{\""] {
            assert!(!is_json(no));
        }
    }

    #[test]
    fn onnx_passes() {
        assert_eq!(refuse(b"\x08\x08\x12\x07pytorch", 20), None);
        // Descending fields: opset_import first.
        assert_eq!(refuse(b"B\x02\x10\x0f:\x03", 20), None);
        assert_eq!(refuse(b"\x3a\x05", 20), None);
    }
}
