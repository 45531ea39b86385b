//! The numpy array format: versions 1 to 3, row- and column-major, both byte orders.

use std::io::{Read, Write};

use recut_core::dtype::DType;

use super::weight::buffer_for;
use crate::tensor::{Tensor, element_count};

/// Bytes every file begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header that is read; real ones are a few hundred bytes.
const MAX_HEADER: usize = 1 << 20;

/// What a header says.
struct Header {
    kind: Kind,
    big_endian: bool,
    fortran: bool,
    dims: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Plain(DType),
    /// Bytes padded with zeros to this length.
    Bytes(usize),
    /// Text of this many UTF-32 characters, padded with zeros.
    Text(usize),
}

/// Reads an array of at most `available` bytes, header included.
pub(super) fn read(from: &mut dyn Read, available: u64) -> Result<Tensor, String> {
    let mut start = [0u8; 8];
    from.read_exact(&mut start).map_err(|e| format!("it is too short: {e}"))?;
    if !start.starts_with(MAGIC) {
        return Err("it is no numpy array".to_owned());
    }
    let mut len = [0u8; 4];
    let wide = match start[6] {
        1 => 2,
        2 | 3 => 4,
        v => return Err(format!("version {v} of the format is not known")),
    };
    from.read_exact(&mut len[..wide]).map_err(|e| format!("it is too short: {e}"))?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_HEADER {
        return Err(format!("its header claims {len} bytes"));
    }
    let mut text = vec![0; len];
    from.read_exact(&mut text).map_err(|e| format!("its header is too short: {e}"))?;
    let header = parse_header(&String::from_utf8_lossy(&text))?;
    let left = available.saturating_sub((8 + wide + len) as u64);
    let count = element_count(&header.dims).ok_or("its shape overflows")?;
    let width = match header.kind {
        Kind::Plain(d) => crate::tensor::element_bytes(d),
        Kind::Bytes(n) => n,
        Kind::Text(n) => n.saturating_mul(4),
    };
    let want = count.checked_mul(width).ok_or("its shape overflows")?;
    if want as u64 > left {
        return Err(format!("it ends after {left} of the {want} bytes that its shape {:?} takes", header.dims));
    }
    let tensor = match header.kind {
        Kind::Plain(dtype) => {
            let mut buffer = buffer_for(dtype, &header.dims).map_err(|e| e.to_string())?;
            from.read_exact(buffer.bytes_mut()).map_err(|e| format!("its elements cannot be read: {e}"))?;
            let component = if matches!(dtype, DType::C64 | DType::C128) { width / 2 } else { width };
            if component > 1 && header.big_endian != cfg!(target_endian = "big") {
                buffer.bytes_mut().chunks_exact_mut(component).for_each(<[u8]>::reverse);
            }
            if dtype == DType::Bool && buffer.bytes().iter().any(|&b| b > 1) {
                return Err("a boolean is neither 0 nor 1".to_owned());
            }
            Tensor::from_buffer(dtype, &header.dims, buffer).map_err(|e| e.to_string())?
        }
        Kind::Bytes(n) | Kind::Text(n) => {
            if n == 0 && count as u64 > left.max(1 << 16) {
                return Err("it claims more strings than it can hold".to_owned());
            }
            let mut bytes = vec![0; want];
            from.read_exact(&mut bytes).map_err(|e| format!("its elements cannot be read: {e}"))?;
            let strings = match (header.kind, width) {
                (_, 0) => vec![Box::default(); count],
                (Kind::Text(_), _) => bytes.chunks_exact(width).map(|c| utf32(c, header.big_endian)).collect::<Result<_, _>>()?,
                _ => bytes.chunks_exact(width).map(|c| trimmed(c).into()).collect(),
            };
            Tensor::from_strings(&header.dims, strings).map_err(|e| e.to_string())?
        }
    };
    if header.fortran { row_major(&tensor) } else { Ok(tensor) }
}

fn trimmed(padded: &[u8]) -> &[u8] {
    let end = padded.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
    &padded[..end]
}

fn utf32(padded: &[u8], big_endian: bool) -> Result<Box<[u8]>, String> {
    let mut text = String::new();
    let mut zeros = 0;
    for c in padded.as_chunks::<4>().0 {
        let code = if big_endian { u32::from_be_bytes(*c) } else { u32::from_le_bytes(*c) };
        if code == 0 {
            zeros += 1;
            continue;
        }
        text.extend(std::iter::repeat_n('\0', std::mem::take(&mut zeros)));
        text.push(char::from_u32(code).ok_or("a string holds a code that is no character")?);
    }
    Ok(text.into_bytes().into())
}

/// Elements in column-major order, put in row-major order.
fn row_major(t: &Tensor) -> Result<Tensor, String> {
    let dims = t.dims();
    if dims.len() < 2 {
        return Ok(t.clone());
    }
    let mut strides = vec![1usize; dims.len()];
    for i in 1..dims.len() {
        strides[i] = strides[i - 1] * dims[i - 1];
    }
    let mut index = vec![0usize; dims.len()];
    let mut order = (0..t.len()).map(|_| {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        for (i, &size) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < size {
                break;
            }
            *i = 0;
        }
        at
    });
    if let Some(strings) = t.as_strings() {
        return Tensor::from_strings(dims, order.map(|i| strings[i].clone()).collect()).map_err(|e| e.to_string());
    }
    let width = crate::tensor::element_bytes(t.dtype());
    let mut out = Tensor::zeros(t.dtype(), dims).map_err(|e| e.to_string())?;
    for element in out.bytes_mut().chunks_exact_mut(width.max(1)) {
        let at = order.next().unwrap_or(0) * width;
        element.copy_from_slice(&t.bytes()[at..at + width]);
    }
    Ok(out)
}

/// Reads the header's dictionary literal: the three keys that the format has, in any order.
fn parse_header(text: &str) -> Result<Header, String> {
    let value = |key: &str| {
        let quoted = [format!("'{key}'"), format!("\"{key}\"")];
        let at = quoted.iter().find_map(|q| text.find(q.as_str()).map(|i| i + q.len()));
        let rest = text[at.ok_or_else(|| format!("its header lacks `{key}`"))?..].trim_start();
        rest.strip_prefix(':').map(str::trim_start).ok_or_else(|| format!("its header is broken at `{key}`"))
    };
    let descr = value("descr")?;
    let Some(quote @ ('\'' | '"')) = descr.chars().next() else {
        return Err("it is a structured array: save its fields one by one".to_owned());
    };
    let descr = descr[1..].split(quote).next().unwrap_or_default();
    let fortran = value("fortran_order")?.starts_with("True");
    let shape = value("shape")?;
    let inside = shape.strip_prefix('(').and_then(|s| s.split_once(')')).ok_or("its header has no shape")?.0;
    let dims = inside
        .split(',')
        .map(|d| d.trim().trim_end_matches('L'))
        .filter(|d| !d.is_empty())
        .map(|d| d.parse::<usize>().map_err(|_| format!("its header has the size `{}`", d.escape_debug())))
        .collect::<Result<Vec<_>, _>>()?;
    if dims.len() > 64 {
        return Err(format!("it has {} dimensions", dims.len()));
    }
    let (kind, big_endian) = parse_type(descr)?;
    Ok(Header { kind, big_endian, fortran, dims })
}

fn parse_type(descr: &str) -> Result<(Kind, bool), String> {
    let unknown = || format!("its type `{}` is not known", descr.escape_debug());
    let (order, rest) = match descr.as_bytes().first() {
        Some(b'<' | b'>' | b'|' | b'=') => descr.split_at(1),
        _ => ("|", descr),
    };
    let mut chars = rest.chars();
    let letter = chars.next().ok_or_else(unknown)?;
    if letter == 'O' {
        return Err("it holds Python objects, which are not loaded".to_owned());
    }
    let size: usize = chars.as_str().parse().map_err(|_| unknown())?;
    let kind = match (letter, size) {
        ('b', 1) => Kind::Plain(DType::Bool),
        ('i', 1) => Kind::Plain(DType::I8),
        ('i', 2) => Kind::Plain(DType::I16),
        ('i', 4) => Kind::Plain(DType::I32),
        ('i', 8) => Kind::Plain(DType::I64),
        ('u', 1) => Kind::Plain(DType::U8),
        ('u', 2) => Kind::Plain(DType::U16),
        ('u', 4) => Kind::Plain(DType::U32),
        ('u', 8) => Kind::Plain(DType::U64),
        ('f', 2) => Kind::Plain(DType::F16),
        ('f', 4) => Kind::Plain(DType::F32),
        ('f', 8) => Kind::Plain(DType::F64),
        ('c', 8) => Kind::Plain(DType::C64),
        ('c', 16) => Kind::Plain(DType::C128),
        // What numpy makes of types it does not know: bfloat16, and one-byte floats.
        ('V', 2) => Kind::Plain(DType::Bf16),
        ('V', 1) => Kind::Plain(DType::U8),
        ('S' | 'a', n) => Kind::Bytes(n),
        ('U', n) => Kind::Text(n),
        _ => return Err(unknown()),
    };
    let big = order == ">" || order == "=" && cfg!(target_endian = "big");
    Ok((kind, big))
}

/// Writes an array. What numpy has no type for is stored as integers of the same width.
pub(super) fn write(to: &mut dyn Write, t: &Tensor) -> std::io::Result<()> {
    let texts = t.as_strings().map(|s| {
        let texts: Option<Vec<&str>> = s.iter().map(|s| std::str::from_utf8(s).ok()).collect();
        (s, texts)
    });
    let descr = match (&texts, t.dtype()) {
        (Some((_, Some(texts))), _) => format!("<U{}", texts.iter().map(|s| s.chars().count()).max().unwrap_or(0).max(1)),
        (Some((bytes, None)), _) => format!("|S{}", bytes.iter().map(|s| s.len()).max().unwrap_or(0).max(1)),
        (None, dtype) => type_of(dtype).to_owned(),
    };
    let dims: String = t.dims().iter().map(|d| format!("{d}, ")).collect();
    let dims = if t.rank() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The data starts at a multiple of 64, and the header ends with a line feed.
    let padding = 63 - (10 + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    to.write_all(MAGIC)?;
    to.write_all(&[1, 0])?;
    to.write_all(&u16::try_from(header.len()).map_err(std::io::Error::other)?.to_le_bytes())?;
    to.write_all(header.as_bytes())?;
    match texts {
        Some((_, Some(texts))) => {
            let width = texts.iter().map(|s| s.chars().count()).max().unwrap_or(0).max(1);
            for s in texts {
                let codes = s.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
                codes.map(u32::to_le_bytes).try_for_each(|c| to.write_all(&c))?;
            }
            Ok(())
        }
        Some((bytes, None)) => {
            let width = bytes.iter().map(|s| s.len()).max().unwrap_or(0).max(1);
            for s in bytes {
                to.write_all(s)?;
                to.write_all(&vec![0; width - s.len()])?;
            }
            Ok(())
        }
        None if cfg!(target_endian = "big") => {
            let mut bytes = t.bytes().to_vec();
            super::weight::to_native(t.dtype(), &mut bytes);
            to.write_all(&bytes)
        }
        None => to.write_all(t.bytes()),
    }
}

fn type_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::F16 => "<f2",
        DType::Bf16 | DType::U16 => "<u2",
        DType::I8 | DType::I4 | DType::I2 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::Bool => "|b1",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::U8 | DType::U4 | DType::U2 => "|u1",
        DType::F8e4m3fn | DType::F8e4m3fnuz | DType::F8e5m2 | DType::F8e5m2fnuz | DType::F8e8m0 | DType::F4e2m1 => "|u1",
        DType::String => "|S1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut f = MAGIC.to_vec();
        f.extend([1, 0]);
        f.extend((header.len() as u16).to_le_bytes());
        f.extend(header.as_bytes());
        f.extend(data);
        f
    }

    fn load(bytes: &[u8]) -> Result<Tensor, String> {
        read(&mut &bytes[..], bytes.len() as u64)
    }

    #[test]
    fn orders_of_bytes_and_elements() {
        let t = load(&file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6])).unwrap();
        assert_eq!((t.dims(), t.as_slice::<i16>().unwrap()), ([2, 3].as_slice(), [1, 2, 3, 4, 5, 6].as_slice()));
        let t = load(&file("{'shape': (), 'descr': '<V2', 'fortran_order': False}", &[0x80, 0x3f])).unwrap();
        assert_eq!(t.as_slice::<half::bf16>().unwrap(), [half::bf16::ONE]);
        let t = load(&file("{'descr': '<U2', 'fortran_order': False, 'shape': (1,)}", &[b'h', 0, 0, 0, 0, 0, 0, 0])).unwrap();
        assert_eq!(&*t.as_strings().unwrap()[0], b"h");
    }

    #[test]
    fn hostile_headers_are_errors() {
        for header in [
            "",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 4, }",
            "{'descr': '<f4', 'fortran_order': False}",
        ] {
            assert!(load(&file(header, &[0; 8])).is_err(), "{header}");
        }
        assert!(load(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut tensors = vec![
            Tensor::from_slice(&[2, 0], &[] as &[f64]).unwrap(),
            Tensor::scalar(3i8),
            Tensor::from_slice(&[3], &[1u64, 2, u64::MAX]).unwrap(),
            Tensor::from_bytes(DType::Bool, &[2], &[1, 0]).unwrap(),
        ];
        tensors.push(Tensor::from_strings(&[2], vec![b"h\xc3\xa9".as_slice().into(), b"".as_slice().into()]).unwrap());
        tensors.push(Tensor::from_strings(&[1], vec![b"\xff\xfe".as_slice().into()]).unwrap());
        for t in tensors {
            let mut f = Vec::new();
            write(&mut f, &t).unwrap();
            let back = load(&f).unwrap();
            assert_eq!((back.dims(), back.bytes(), back.as_strings()), (t.dims(), t.bytes(), t.as_strings()));
            if t.dtype() != DType::String {
                assert_eq!((f.len() - t.byte_len()) % 64, 0);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), header in "[ -~]{0,80}") {
            let _ = load(&bytes);
            let _ = load(&file(&header, &bytes));
        }
    }
}
