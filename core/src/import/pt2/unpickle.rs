//! The tensors of a `torch.save` dict: an interpreter of the pickle opcodes that such dicts consist of.
//!
//! Nothing is imported and nothing is called: a global is its name, and of the few names that stand for tensors the
//! arguments are kept. Everything else becomes [`Item::Other`], and a name that is not known makes only the value that
//! uses it unreadable.

use std::collections::HashMap;
use std::rc::Rc;

use crate::dtype::DType;

/// A tensor as a view of one stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PickledTensor {
    pub(super) dtype: DType,
    /// Name of the storage: the entry `data/KEY`.
    pub(super) key: Rc<str>,
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<i64>,
}

/// What stands on the stack. Copies share what they hold: a pickle may put one item a million times.
#[derive(Clone, Debug)]
enum Item {
    Int(i64),
    Text(Rc<str>),
    Global(Rc<str>),
    /// With its depth: tuples without a tuple in them have 1.
    Tuple(Rc<[Item]>, u8),
    /// Values that are no tensors are not kept.
    Dict(Vec<(Rc<str>, Rc<PickledTensor>)>),
    Storage {
        dtype: DType,
        key: Rc<str>,
    },
    Tensor(Rc<PickledTensor>),
    Mark,
    Other,
}

/// Most items and bytes of a pickle: state dicts have a few per tensor.
const MAX_ITEMS: usize = 4_000_000;
/// Most dimensions of a tensor that is kept: torch has no more than 64.
const MAX_RANK: usize = 64;
/// Tuples in tuples that are kept; the arguments of a parameter have three levels.
const MAX_DEPTH: u8 = 16;

/// A tensor with its name. Both are shared: a pickle may repeat them without end.
pub(super) type NamedTensor = (Rc<str>, Rc<PickledTensor>);

/// Tensors by name, in file order. A value of the dict that is no plain tensor is left out.
///
/// # Errors
/// If this is no pickle of a dict, or uses what such dicts never do.
pub(super) fn tensors(pickle: &[u8]) -> Result<Vec<NamedTensor>, String> {
    let mut machine = Machine { rest: pickle, stack: Vec::new(), memo: HashMap::new(), items: 0 };
    match machine.run()? {
        Item::Dict(entries) => Ok(entries),
        _ => Err("the pickle holds no dict of tensors".to_owned()),
    }
}

struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Item>,
    memo: HashMap<u32, Item>,
    items: usize,
}

impl<'a> Machine<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or("the pickle is cut short")?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.bytes(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, String> {
        let b = self.bytes(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.rest.iter().position(|&b| b == b'\n').ok_or("the pickle is cut short")?;
        let line = self.bytes(end)?;
        self.byte()?;
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    fn text(&mut self, len: usize) -> Result<Item, String> {
        Ok(Item::Text(String::from_utf8_lossy(self.bytes(len)?).into()))
    }

    fn pop(&mut self) -> Result<Item, String> {
        self.stack.pop().ok_or_else(|| "the pickle takes more than it puts".to_owned())
    }

    /// Everything above the last mark.
    fn above_mark(&mut self) -> Result<Vec<Item>, String> {
        let at = self.stack.iter().rposition(|i| matches!(i, Item::Mark)).ok_or("the pickle has no mark where it needs one")?;
        let items = self.stack.split_off(at + 1);
        self.stack.pop();
        Ok(items)
    }

    fn last(&mut self, n: usize) -> Result<Vec<Item>, String> {
        let at = self.stack.len().checked_sub(n).ok_or("the pickle takes more than it puts")?;
        Ok(self.stack.split_off(at))
    }

    fn set(&mut self, pairs: Vec<Item>) -> Result<(), String> {
        let Some(Item::Dict(dict)) = self.stack.last_mut() else {
            // Attributes of something that is not kept.
            return Ok(());
        };
        let mut pairs = pairs.into_iter();
        while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
            if let (Item::Text(name), Item::Tensor(tensor)) = (key, value) {
                dict.push((name, tensor));
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Item, String> {
        loop {
            self.items += 1;
            if self.items > MAX_ITEMS {
                return Err("the pickle is larger than any dict of tensors".to_owned());
            }
            match self.byte()? {
                // PROTO
                0x80 => drop(self.byte()?),
                // FRAME
                0x95 => drop(self.bytes(8)?),
                // EMPTY_DICT, EMPTY_TUPLE, EMPTY_LIST, MARK
                b'}' => self.stack.push(Item::Dict(Vec::new())),
                b')' => self.stack.push(tuple(Vec::new())),
                b']' => self.stack.push(Item::Other),
                b'(' => self.stack.push(Item::Mark),
                // BINUNICODE, SHORT_BINUNICODE
                b'X' => {
                    let len = self.u32()? as usize;
                    let text = self.text(len)?;
                    self.stack.push(text);
                }
                0x8c => {
                    let len = usize::from(self.byte()?);
                    let text = self.text(len)?;
                    self.stack.push(text);
                }
                // BININT, BININT1, BININT2, LONG1
                b'J' => {
                    let n = self.u32()?;
                    self.stack.push(Item::Int(i64::from(n as i32)));
                }
                b'K' => {
                    let n = self.byte()?;
                    self.stack.push(Item::Int(i64::from(n)));
                }
                b'M' => {
                    let b = self.bytes(2)?;
                    self.stack.push(Item::Int(i64::from(u16::from_le_bytes([b[0], b[1]]))));
                }
                0x8a => {
                    let len = usize::from(self.byte()?);
                    let bytes = self.bytes(len)?;
                    self.stack.push(long(bytes)?);
                }
                // BINFLOAT
                b'G' => {
                    self.bytes(8)?;
                    self.stack.push(Item::Other);
                }
                // TUPLE, TUPLE1, TUPLE2, TUPLE3
                b't' => {
                    let items = self.above_mark()?;
                    self.stack.push(tuple(items));
                }
                n @ 0x85..=0x87 => {
                    let items = self.last(usize::from(n - 0x84))?;
                    self.stack.push(tuple(items));
                }
                // BINPUT, LONG_BINPUT, MEMOIZE
                b'q' => {
                    let at = u32::from(self.byte()?);
                    self.put(at);
                }
                b'r' => {
                    let at = self.u32()?;
                    self.put(at);
                }
                0x94 => {
                    let at = u32::try_from(self.memo.len()).unwrap_or(u32::MAX);
                    self.put(at);
                }
                // BINGET, LONG_BINGET
                b'h' => {
                    let at = u32::from(self.byte()?);
                    self.get(at)?;
                }
                b'j' => {
                    let at = self.u32()?;
                    self.get(at)?;
                }
                // GLOBAL, STACK_GLOBAL
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.stack.push(Item::Global(format!("{module}.{name}").into()));
                }
                0x93 => {
                    let names = self.last(2)?;
                    let [Item::Text(module), Item::Text(name)] = names.as_slice() else {
                        return Err("the pickle has a global without a name".to_owned());
                    };
                    self.stack.push(Item::Global(format!("{module}.{name}").into()));
                }
                // BINPERSID
                b'Q' => {
                    let id = self.pop()?;
                    self.stack.push(storage(id));
                }
                // REDUCE, NEWOBJ
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    self.stack.push(call(&function, arguments));
                }
                // BUILD
                b'b' => drop(self.pop()?),
                // SETITEM, SETITEMS
                b's' => {
                    let pair = self.last(2)?;
                    self.set(pair)?;
                }
                b'u' => {
                    let pairs = self.above_mark()?;
                    self.set(pairs)?;
                }
                // APPEND, APPENDS
                b'a' => drop(self.pop()?),
                b'e' => drop(self.above_mark()?),
                // NEWTRUE, NEWFALSE, NONE
                0x88 | 0x89 | b'N' => self.stack.push(Item::Other),
                // POP
                b'0' => drop(self.pop()?),
                // STOP
                b'.' => return self.pop(),
                other => return Err(format!("the pickle has the opcode {other:#04x}, which a dict of tensors does not need")),
            }
        }
    }

    /// A dict is only remembered while it is empty, as picklers do it.
    fn put(&mut self, at: u32) {
        if let Some(top) = self.stack.last() {
            let kept = match top {
                Item::Dict(d) if !d.is_empty() => Item::Other,
                top => top.clone(),
            };
            self.memo.insert(at, kept);
        }
    }

    fn get(&mut self, at: u32) -> Result<(), String> {
        let item = self.memo.get(&at).ok_or("the pickle refers to what it does not hold")?.clone();
        self.stack.push(item);
        Ok(())
    }
}

/// A tuple, if it is not nested more deeply than any that is needed: dropping it would take a call for each level.
fn tuple(items: Vec<Item>) -> Item {
    let inner = items.iter().map(|i| if let Item::Tuple(_, depth) = i { *depth } else { 0 }).max().unwrap_or(0);
    if inner < MAX_DEPTH { Item::Tuple(items.into(), inner + 1) } else { Item::Other }
}

fn long(bytes: &[u8]) -> Result<Item, String> {
    if bytes.len() > 8 {
        return Err("the pickle has an integer of more than 64 bits".to_owned());
    }
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut whole = [if negative { 0xff } else { 0 }; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    Ok(Item::Int(i64::from_le_bytes(whole)))
}

/// `("storage", torch.FloatStorage, "0", "cpu", 24)`.
fn storage(id: Item) -> Item {
    let Item::Tuple(parts, _) = id else { return Item::Other };
    match &*parts {
        [Item::Text(kind), Item::Global(class), Item::Text(key), ..] if **kind == *"storage" => match storage_dtype(class) {
            Some(dtype) => Item::Storage { dtype, key: key.clone() },
            None => Item::Other,
        },
        _ => Item::Other,
    }
}

fn storage_dtype(class: &str) -> Option<DType> {
    Some(match class.strip_prefix("torch.")?.strip_suffix("Storage")? {
        "Float" => DType::F32,
        "Double" => DType::F64,
        "Half" => DType::F16,
        "BFloat16" => DType::Bf16,
        "Long" => DType::I64,
        "Int" => DType::I32,
        "Short" => DType::I16,
        "Char" => DType::I8,
        "Byte" => DType::U8,
        "Bool" => DType::Bool,
        "ComplexFloat" => DType::C64,
        "ComplexDouble" => DType::C128,
        _ => return None,
    })
}

/// The few calls that stand for tensors and dicts; the arguments of all others are dropped.
fn call(function: &Item, arguments: Item) -> Item {
    let (Item::Global(name), Item::Tuple(arguments, _)) = (function, arguments) else { return Item::Other };
    match &**name {
        "collections.OrderedDict" => Item::Dict(Vec::new()),
        "torch._utils._rebuild_parameter" => match arguments.first() {
            Some(Item::Tensor(tensor)) => Item::Tensor(tensor.clone()),
            _ => Item::Other,
        },
        "torch._utils._rebuild_tensor_v2" => rebuilt(&arguments).map_or(Item::Other, |t| Item::Tensor(t.into())),
        _ => Item::Other,
    }
}

fn rebuilt(arguments: &[Item]) -> Option<PickledTensor> {
    let [Item::Storage { dtype, key }, Item::Int(offset), Item::Tuple(shape, _), Item::Tuple(strides, _), ..] = arguments else {
        return None;
    };
    if shape.len() > MAX_RANK || strides.len() > MAX_RANK {
        return None;
    }
    let int = |i: &Item| if let Item::Int(n) = i { Some(*n) } else { None };
    Some(PickledTensor {
        dtype: *dtype,
        key: key.clone(),
        offset: u64::try_from(*offset).ok()?,
        shape: shape.iter().map(|i| int(i).and_then(|n| u64::try_from(n).ok())).collect::<Option<_>>()?,
        strides: strides.iter().map(int).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"w": _rebuild_tensor_v2(storage "0", 1, (2, 3), (3, 1), ...)}` in protocol 2.
    fn pickle() -> Vec<u8> {
        let mut p = b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((".to_vec();
        p.extend(b"X\x07\x00\x00\x00storageq\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05X\x03\x00\x00\x00cpuq\x06K\x07tq\x07Q");
        p.extend(b"K\x01K\x02K\x03\x86q\x08K\x03K\x01\x86q\x09\x89ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0du.");
        p
    }

    #[test]
    fn a_dict_of_tensors_is_read() {
        let t = PickledTensor { dtype: DType::F32, key: "0".into(), offset: 1, shape: vec![2, 3], strides: vec![3, 1] };
        assert_eq!(tensors(&pickle()).unwrap(), [("w".into(), t.into())]);
    }

    #[test]
    fn nothing_is_ever_called() {
        // os.system("true"), alone and as a value of a dict.
        let call = b"cos\nsystem\nX\x04\x00\x00\x00true\x85R";
        assert!(tensors(&[b"\x80\x02", &call[..], b"."].concat()).is_err());
        let inside = [b"\x80\x02}X\x01\x00\x00\x00w", &call[..], b"s."].concat();
        assert_eq!(tensors(&inside).unwrap(), []);
    }

    /// `n` times what `step` says, between the beginning of a dict and its end.
    fn repeated(before: &[u8], step: &[u8], n: usize, after: &[u8]) -> Vec<u8> {
        [b"\x80\x02}X\x01\x00\x00\x00w", before, &step.repeat(n), after, b"s."].concat()
    }

    #[test]
    fn a_tuple_in_a_tuple_a_million_times_over() {
        assert_eq!(tensors(&repeated(b")", b"\x85", 1_000_000, b"")).unwrap(), []);
        // A dict that is a value of a dict that is one.
        let nested = [b"\x80\x02".to_vec(), b"}K\x00".repeat(500_000), b"}".to_vec(), b"s".repeat(500_000), b".".to_vec()].concat();
        assert_eq!(tensors(&nested).unwrap(), []);
    }

    #[test]
    fn items_that_double_at_every_step_take_no_memory() {
        // Pairs of the pair before: 2^60 items, were each a copy.
        assert_eq!(tensors(&repeated(b")q\x00", b"h\x00h\x00\x86q\x000", 60, b"")).unwrap(), []);
        // A text of 1 MiB, a million times.
        let text = [b"X\x00\x00\x10\x00", vec![b'a'; 1 << 20].as_slice(), b"q\x00("].concat();
        assert_eq!(tensors(&repeated(&text, b"h\x00", 1_000_000, b"t0")).unwrap(), []);
    }

    #[test]
    fn a_tensor_of_more_dimensions_than_torch_has_is_left_out() {
        let mut p = pickle();
        let at = p.windows(7).position(|w| w == b"K\x02K\x03\x86q\x08").unwrap();
        let sizes = [&b"("[..], &b"K\x01".repeat(65), b"tq\x08"].concat();
        p.splice(at..at + 7, sizes);
        assert_eq!(tensors(&p).unwrap(), []);
    }

    #[test]
    fn damaged_pickles_are_errors() {
        let whole = pickle();
        for end in 0..whole.len() {
            assert!(tensors(&whole[..end]).is_err(), "cut at {end}");
        }
        for at in 0..whole.len() {
            let mut p = whole.clone();
            p[at] ^= 0xff;
            // Whatever it says: no panic.
            let _ = tensors(&p);
        }
    }
}
