//! A call of a torch operator with its arguments resolved: values are those of the graph being written, and what was
//! not passed has the default of the operator's schema.

use super::level::Fact;
use super::schemas::Schema;
use crate::dtype::DType;
use crate::graph::{AttrValue, Node, ValueId, out_of_place};

/// Why a node is not lowered, as a clause: "its stride is no constant".
pub(super) type Refusal = String;
/// What a step of lowering gives.
pub(super) type Res<T> = Result<T, Refusal>;

/// An argument.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Value(ValueId),
    List(Vec<Arg>),
    Body(usize),
}

/// A size: known, or a value (a 0-d i64 tensor).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Known(i64),
    Value(ValueId),
}

/// A Python number, or a value that holds one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    Value(ValueId),
}

/// One call.
pub(super) struct Call<'a> {
    pub(super) node: &'a Node,
    args: Vec<(&'a str, Arg)>,
    schema: Option<Schema>,
    outputs: Vec<Option<Fact>>,
}

impl<'a> Call<'a> {
    /// Resolves a node's arguments; `value` gives the value of an input by its position.
    pub(super) fn new(node: &'a Node, outputs: Vec<Option<Fact>>, value: &dyn Fn(usize) -> Res<ValueId>) -> Res<Self> {
        let args = node.attrs.iter().map(|a| Ok((&*a.name, resolve(&a.value, value)?))).collect::<Res<Vec<_>>>()?;
        Ok(Self { node, args, schema: Schema::of(&node.op), outputs })
    }

    /// The operator's name without namespace and overload; in-place forms have the name of the plain one.
    pub(super) fn name(&self) -> &str {
        out_of_place(&self.node.op.name).unwrap_or(&self.node.op.name)
    }

    /// Which results the node has, with what the program says of them.
    pub(super) fn outputs(&self) -> &[Option<Fact>] {
        &self.outputs
    }

    /// What the program says of a result.
    pub(super) fn out(&self, slot: usize) -> Fact {
        self.outputs.get(slot).cloned().flatten().unwrap_or_default()
    }

    /// Sizes of a result, where the program gives them all in numbers.
    pub(super) fn out_sizes(&self, slot: usize) -> Option<Vec<i64>> {
        self.outputs.get(slot)?.as_ref()?.shape.dims()?.iter().map(|d| i64::try_from(d.known()?).ok()).collect()
    }

    /// Element type of the first result.
    pub(super) fn out_dtype(&self) -> Res<DType> {
        self.out(0).dtype.ok_or_else(|| "the element type of its result is not known".to_owned())
    }

    /// Whether an argument was passed or has a default.
    pub(super) fn has(&self, name: &str) -> bool {
        self.args.iter().any(|(n, _)| *n == name) || self.schema.is_some_and(|s| s.has_default(name))
    }

    /// An argument. Missing ones are an error.
    pub(super) fn arg(&self, name: &str) -> Res<Arg> {
        if let Some((_, arg)) = self.args.iter().find(|(n, _)| *n == name) {
            return Ok(arg.clone());
        }
        let default = self.schema.and_then(|s| s.default(name)).ok_or_else(|| format!("its argument `{name}` is missing"))?;
        resolve(&default, &|_| Err("a default refers to a value".to_owned()))
    }

    /// Arguments by position, for calls that name none.
    pub(super) fn positional(&self) -> impl Iterator<Item = &Arg> {
        self.args.iter().map(|(_, a)| a)
    }

    fn wrong<T>(name: &str, want: &str) -> Res<T> {
        Err(format!("its argument `{name}` is not {want}"))
    }

    pub(super) fn tensor(&self, name: &str) -> Res<ValueId> {
        match self.arg(name)? {
            Arg::Value(v) => Ok(v),
            _ => Self::wrong(name, "a tensor"),
        }
    }

    pub(super) fn opt_tensor(&self, name: &str) -> Res<Option<ValueId>> {
        match self.arg(name)? {
            Arg::Value(v) => Ok(Some(v)),
            Arg::None => Ok(None),
            _ => Self::wrong(name, "a tensor or None"),
        }
    }

    pub(super) fn tensors(&self, name: &str) -> Res<Vec<ValueId>> {
        self.opt_tensors(name)?.into_iter().map(|v| v.map_or_else(|| Self::wrong(name, "a list of tensors"), Ok)).collect()
    }

    pub(super) fn opt_tensors(&self, name: &str) -> Res<Vec<Option<ValueId>>> {
        let Arg::List(items) = self.arg(name)? else { return Self::wrong(name, "a list of tensors") };
        items
            .into_iter()
            .map(|i| match i {
                Arg::Value(v) => Ok(Some(v)),
                Arg::None => Ok(None),
                _ => Self::wrong(name, "a list of tensors"),
            })
            .collect()
    }

    pub(super) fn opt_int(&self, name: &str) -> Res<Option<i64>> {
        match self.arg(name)? {
            Arg::Int(n) => Ok(Some(n)),
            Arg::None => Ok(None),
            _ => Self::wrong(name, "a constant integer"),
        }
    }

    pub(super) fn int(&self, name: &str) -> Res<i64> {
        self.opt_int(name)?.map_or_else(|| Self::wrong(name, "a constant integer"), Ok)
    }

    /// A constant integer that can be counted with: no size, offset or number of parts is beyond 32 bits.
    pub(super) fn count(&self, name: &str) -> Res<i64> {
        let n = self.int(name)?;
        i32::try_from(n).map(i64::from).map_err(|_| format!("its argument `{name}` is {n}, which is beyond any size"))
    }

    pub(super) fn flag(&self, name: &str) -> Res<bool> {
        match self.arg(name)? {
            Arg::Bool(b) => Ok(b),
            Arg::Int(n) => Ok(n != 0),
            _ => Self::wrong(name, "a boolean"),
        }
    }

    pub(super) fn opt_float(&self, name: &str) -> Res<Option<f64>> {
        match self.arg(name)? {
            Arg::Float(x) => Ok(Some(x)),
            Arg::Int(n) => Ok(Some(n as f64)),
            Arg::None => Ok(None),
            _ => Self::wrong(name, "a constant number"),
        }
    }

    pub(super) fn float(&self, name: &str) -> Res<f64> {
        self.opt_float(name)?.map_or_else(|| Self::wrong(name, "a constant number"), Ok)
    }

    pub(super) fn text(&self, name: &str) -> Res<Option<Box<str>>> {
        match self.arg(name)? {
            Arg::Text(t) => Ok(Some(t)),
            Arg::None => Ok(None),
            _ => Self::wrong(name, "a text"),
        }
    }

    /// Constant integers; one integer counts as a list of one.
    pub(super) fn ints(&self, name: &str) -> Res<Vec<i64>> {
        self.opt_ints(name)?.map_or_else(|| Self::wrong(name, "constant integers"), Ok)
    }

    pub(super) fn opt_ints(&self, name: &str) -> Res<Option<Vec<i64>>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::Int(n) => Ok(Some(vec![n])),
            Arg::List(items) => {
                let int = |i: Arg| if let Arg::Int(n) = i { Ok(n) } else { Self::wrong(name, "constant integers") };
                items.into_iter().map(int).collect::<Res<Vec<_>>>().map(Some)
            }
            _ => Self::wrong(name, "constant integers"),
        }
    }

    /// `n` constant integers: one is repeated, as torch does.
    pub(super) fn ints_of(&self, name: &str, n: usize) -> Res<Vec<i64>> {
        let given = self.ints(name)?;
        match given.len() {
            len if len == n => Ok(given),
            1 => Ok(vec![given[0]; n]),
            len => Err(format!("its argument `{name}` has {len} entries for {n} axes")),
        }
    }

    pub(super) fn opt_floats(&self, name: &str) -> Res<Option<Vec<f64>>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::Float(x) => Ok(Some(vec![x])),
            Arg::List(items) => {
                let number = |i: Arg| match i {
                    Arg::Float(x) => Ok(x),
                    Arg::Int(n) => Ok(n as f64),
                    _ => Self::wrong(name, "constant numbers"),
                };
                items.into_iter().map(number).collect::<Res<Vec<_>>>().map(Some)
            }
            _ => Self::wrong(name, "constant numbers"),
        }
    }

    /// One size.
    pub(super) fn size(&self, name: &str) -> Res<Size> {
        self.opt_size(name)?.map_or_else(|| Self::wrong(name, "an integer"), Ok)
    }

    pub(super) fn opt_size(&self, name: &str) -> Res<Option<Size>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            other => as_size(&other).map_or_else(|| Self::wrong(name, "an integer"), |s| Ok(Some(s))),
        }
    }

    pub(super) fn sizes(&self, name: &str) -> Res<Vec<Size>> {
        self.opt_sizes(name)?.map_or_else(|| Self::wrong(name, "a list of integers"), Ok)
    }

    pub(super) fn opt_sizes(&self, name: &str) -> Res<Option<Vec<Size>>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::List(items) => {
                let size = |i: &Arg| as_size(i).map_or_else(|| Self::wrong(name, "a list of integers"), Ok);
                items.iter().map(size).collect::<Res<Vec<_>>>().map(Some)
            }
            other => as_size(&other).map_or_else(|| Self::wrong(name, "a list of integers"), |s| Ok(Some(vec![s]))),
        }
    }

    /// A Python number, a symbol, or a tensor in its place.
    pub(super) fn number(&self, name: &str) -> Res<Number> {
        self.opt_number(name)?.map_or_else(|| Self::wrong(name, "a number"), Ok)
    }

    pub(super) fn opt_number(&self, name: &str) -> Res<Option<Number>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            other => as_number(&other).map_or_else(|| Self::wrong(name, "a number"), |n| Ok(Some(n))),
        }
    }

    /// An element type, or `None`.
    pub(super) fn dtype(&self, name: &str) -> Res<Option<DType>> {
        if !self.has(name) {
            return Ok(None);
        }
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::Text(t) => match DType::parse(&t) {
                Some(d) => Ok(Some(d)),
                None => Err(format!("there is no element type `{t}` in ONNX")),
            },
            _ => Self::wrong(name, "an element type"),
        }
    }
}

fn as_size(arg: &Arg) -> Option<Size> {
    match arg {
        Arg::Int(n) => Some(Size::Known(*n)),
        Arg::Bool(b) => Some(Size::Known(i64::from(*b))),
        Arg::Value(v) => Some(Size::Value(*v)),
        _ => None,
    }
}

/// The number that an argument is.
pub(super) fn as_number(arg: &Arg) -> Option<Number> {
    match arg {
        Arg::Int(n) => Some(Number::Int(*n)),
        Arg::Float(x) => Some(Number::Float(*x)),
        Arg::Bool(b) => Some(Number::Bool(*b)),
        Arg::Value(v) => Some(Number::Value(*v)),
        _ => None,
    }
}

fn resolve(value: &AttrValue, input: &dyn Fn(usize) -> Res<ValueId>) -> Res<Arg> {
    Ok(match value {
        AttrValue::None => Arg::None,
        AttrValue::Bool(b) => Arg::Bool(*b),
        AttrValue::Int(n) => Arg::Int(*n),
        AttrValue::Float(x) => Arg::Float(*x),
        AttrValue::Bytes(b) => Arg::Text(String::from_utf8_lossy(b).into()),
        AttrValue::Type(t) => Arg::Text(t.clone()),
        AttrValue::Ints(v) => Arg::List(v.iter().map(|&n| Arg::Int(n)).collect()),
        AttrValue::Floats(v) => Arg::List(v.iter().map(|&x| Arg::Float(x)).collect()),
        AttrValue::ByteStrings(v) => Arg::List(v.iter().map(|b| Arg::Text(String::from_utf8_lossy(b).into())).collect()),
        AttrValue::Body(b) => Arg::Body(*b),
        AttrValue::Bodies(b) => Arg::List(b.iter().map(|&b| Arg::Body(b)).collect()),
        // Nesting is that of the file's JSON, which its reader limits.
        AttrValue::List(items) => Arg::List(items.iter().map(|i| resolve(i, input)).collect::<Res<_>>()?),
        AttrValue::Input(i) => Arg::Value(input(*i)?),
        AttrValue::Tensor(_) | AttrValue::Tensors(_) | AttrValue::Reference(_) => return Err("an argument is a stored tensor".to_owned()),
    })
}
