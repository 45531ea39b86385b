#!/usr/bin/env python3
"""Writes aten_parts.json: what torch makes of operators that it decomposes. Needs torch; takes some minutes.

Sample calls (torch's own operator samples and a few modules in eval mode) are traced without gradients. For each operator
that a trace holds before decomposition, the operators of its decomposition are recorded twice: under `composite` with only
composite-implicit operators taken apart, under `core` down to the core ATen set. Calls are told apart by the ranks of
their first two tensors, and by whether they give a dtype, since that is what most decompositions depend on: `"RANK,RANK": [ALWAYS, SOMETIMES]` are the
parts of every such call, and those of some. An operator with `composite: {}` is composite-implicit, and no sample calls
it. Calls that train or drop out are left out. Needs the package `expecttest` for torch's samples.
"""
import collections, json, os, signal, sys, warnings

import torch
import torch.nn.attention
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore")
F = torch.nn.functional
MOST_SAMPLES = 10
CORE = torch.export.default_decompositions()


def composite(op):
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    try:
        return key in op.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    except RuntimeError:
        # An overload for TorchScript only.
        return False


class Record(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def core_parts(op, args, kwargs):
    flat, spec = pytree.tree_flatten((args, kwargs))
    at = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]

    def call(*tensors):
        values = list(flat)
        for i, t in zip(at, tensors):
            values[i] = t
        a, k = pytree.tree_unflatten(values, spec)
        return op(*a, **k)

    table = {k: v for k, v in CORE.items()}
    graph = make_fx(torch.func.functionalize(call), decomposition_table=table)(*[flat[i].detach().clone() for i in at])
    return {n.target for n in graph.graph.nodes if isinstance(n.target, OpOverload)}


def text(op):
    return str(op)


ALL = {kind: collections.defaultdict(lambda: collections.defaultdict(list)) for kind in ("composite", "core")}


class Walk(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if isinstance(target, OpOverload) and target.namespace in ("aten", "torchvision"):
            self.note(target, args, kwargs)
        return super().call_function(target, args, kwargs)

    def note(self, op, args, kwargs):
        given = dict(zip((a.name for a in op._schema.arguments), args)) | kwargs
        if given.get("train") or given.get("training") or given.get("dropout_p"):
            return
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        key = ",".join(str(t.dim()) for t in tensors[:2]) + (";dtype" if given.get("dtype") is not None else "")
        keep = lambda parts: sorted({text(p) for p in parts})
        clone = lambda: pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, (args, kwargs))
        if len(ALL["core"][text(op)][key]) >= MOST_SAMPLES:
            return
        try:
            if composite(op):
                a, k = clone()
                with Record() as record:
                    op(*a, **k)
                if op not in record.seen:
                    ALL["composite"][text(op)][key].append(keep(record.seen))
            a, k = clone()
            parts = core_parts(op, a, k)
            core = torch.Tag.core in op.tags and not {text(p) for p in parts} - {"aten.clone.default", "aten.alias.default", "aten.copy_.default"}
            if not core and op not in parts and (parts or op._schema.is_mutable is False):
                ALL["core"][text(op)][key].append(keep(parts))
        except Exception:
            pass


def trace(call, *args):
    flat, spec = pytree.tree_flatten(args)
    at = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]

    def f(*tensors):
        values = list(flat)
        for i, t in zip(at, tensors):
            values[i] = t
        return call(*pytree.tree_unflatten(values, spec))

    tensors = [flat[i].detach() for i in at]
    with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        graph = make_fx(f, pre_dispatch=True)(*tensors)
        Walk(graph).run(*tensors)


def modules():
    r = torch.randn
    nn = torch.nn
    x2 = r(2, 4, 8, 8)
    for m, shape in [
        (nn.Linear(4, 3), (2, 4)), (nn.Linear(4, 3), (2, 5, 4)), (nn.Linear(4, 3), (4,)), (nn.Linear(4, 3), (2, 2, 5, 4)),
        (nn.Linear(4, 3, bias=False), (2, 4)), (nn.Linear(4, 3, bias=False), (2, 5, 4)),
        (nn.Conv1d(4, 3, 3), (2, 4, 8)), (nn.Conv2d(4, 3, 3), (2, 4, 8, 8)), (nn.Conv3d(4, 3, 3), (2, 4, 8, 8, 8)),
        (nn.Conv2d(4, 3, 3, padding="same"), (2, 4, 8, 8)), (nn.ConvTranspose1d(4, 3, 3), (2, 4, 8)),
        (nn.ConvTranspose2d(4, 3, 3), (2, 4, 8, 8)), (nn.ConvTranspose3d(4, 3, 3), (2, 4, 8, 8, 8)),
        (nn.BatchNorm1d(4), (2, 4, 8)), (nn.BatchNorm1d(4), (2, 4)), (nn.BatchNorm2d(4), (2, 4, 8, 8)), (nn.BatchNorm3d(4), (2, 4, 8, 8, 8)),
        (nn.LayerNorm(8), (2, 4, 8)), (nn.LayerNorm(8), (2, 8)), (nn.LayerNorm(8), (2, 4, 8, 8)), (nn.GroupNorm(2, 4), (2, 4, 8, 8)),
        (nn.GroupNorm(2, 4), (2, 4, 8)), (nn.InstanceNorm2d(4), (2, 4, 8, 8)), (nn.RMSNorm(8), (2, 4, 8)), (nn.LocalResponseNorm(2), (2, 4, 8, 8)),
        (nn.Dropout(), (2, 4)), (nn.Dropout(), (2, 4, 8)), (nn.Dropout(), (2, 4, 8, 8)), (nn.Dropout2d(), (2, 4, 8, 8)), (nn.AlphaDropout(), (2, 4)),
        (nn.MaxPool1d(2), (2, 4, 8)), (nn.MaxPool2d(2), (2, 4, 8, 8)), (nn.MaxPool3d(2), (2, 4, 8, 8, 8)),
        (nn.AvgPool1d(2), (2, 4, 8)), (nn.AvgPool2d(2), (2, 4, 8, 8)), (nn.AvgPool3d(2), (2, 4, 8, 8, 8)),
        (nn.AdaptiveAvgPool1d(1), (2, 4, 8)), (nn.AdaptiveAvgPool2d(1), (2, 4, 8, 8)), (nn.AdaptiveAvgPool2d(3), (2, 4, 8, 8)),
        (nn.AdaptiveAvgPool3d(2), (2, 4, 8, 8, 8)), (nn.AdaptiveMaxPool2d(2), (2, 4, 8, 8)), (nn.LPPool2d(2, 2), (2, 4, 8, 8)),
        (nn.Upsample(scale_factor=2), (2, 4, 8, 8)), (nn.Upsample(scale_factor=2), (2, 4, 8)), (nn.Upsample(scale_factor=2), (2, 4, 4, 8, 8)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 8, 8)), (nn.Upsample(scale_factor=2, mode="bicubic"), (2, 4, 8, 8)),
        (nn.Upsample(scale_factor=2, mode="linear"), (2, 4, 8)), (nn.Upsample(scale_factor=2, mode="trilinear"), (2, 4, 4, 8, 8)),
        (nn.PixelShuffle(2), (2, 4, 8, 8)), (nn.PixelUnshuffle(2), (2, 4, 8, 8)), (nn.Flatten(), (2, 4, 8, 8)), (nn.Unflatten(1, (2, 2)), (2, 4, 8)),
        (nn.LSTM(8, 4), (5, 2, 8)), (nn.LSTM(8, 4, batch_first=True, bidirectional=True), (2, 5, 8)), (nn.GRU(8, 4), (5, 2, 8)), (nn.RNN(8, 4), (5, 2, 8)),
        (nn.MultiheadAttention(8, 2, batch_first=True), None), (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
        (nn.Softmax(-1), (2, 4)), (nn.Softmax(-1), (2, 4, 8)), (nn.Softmax(-1), (2, 4, 8, 8)), (nn.LogSoftmax(-1), (2, 4)), (nn.PReLU(), (2, 4)),
        (nn.ReLU6(), (2, 4)), (nn.SELU(), (2, 4)), (nn.CELU(), (2, 4)), (nn.Tanhshrink(), (2, 4)), (nn.Softsign(), (2, 4)), (nn.GLU(), (2, 4)),
        (nn.ReLU(inplace=True), (2, 4)), (nn.Hardswish(inplace=True), (2, 4)), (nn.SiLU(inplace=True), (2, 4)), (nn.ChannelShuffle(2), (2, 4, 8, 8)),
        (nn.ZeroPad2d(1), (2, 4, 8, 8)), (nn.ReflectionPad2d(1), (2, 4, 8, 8)), (nn.ReplicationPad2d(1), (2, 4, 8, 8)), (nn.CircularPad2d(1), (2, 4, 8, 8)),
        (nn.CosineSimilarity(), None), (nn.Bilinear(3, 4, 2), None), (nn.LSTMCell(8, 4), (2, 8)), (nn.GRUCell(8, 4), (2, 8)),
    ]:
        m = m.eval().requires_grad_(False)
        if isinstance(m, nn.MultiheadAttention):
            yield m, (r(2, 5, 8),) * 3
        elif isinstance(m, nn.CosineSimilarity):
            yield m, (r(2, 8), r(2, 8))
        elif isinstance(m, nn.Bilinear):
            yield m, (r(2, 3), r(2, 4))
        else:
            yield m, (r(*shape),)
    q = r(2, 2, 5, 8)
    yield F.scaled_dot_product_attention, (q, q, q)
    yield lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (q,)
    yield F.scaled_dot_product_attention, (q, q, q, torch.zeros(5, 5))
    yield F.scaled_dot_product_attention, (q[0], q[0], q[0])
    yield lambda a, b: torch.einsum("bik,bkj->bij", a, b), (r(2, 3, 4), r(2, 4, 5))
    yield lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), (q, q)
    yield lambda a, b: torch.einsum("bik,kj->bij", a, b), (r(2, 3, 4), r(4, 5))
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 2, 3, 4), (2, 2, 4, 5)), ((4,), (4,)), ((3, 4), (4,))]:
        yield torch.matmul, (r(*a), r(*b))
    for f in (torch.sigmoid_, torch.relu_, torch.tanh_):
        yield f, (r(2, 3),)
    for name in ("add_", "sub_", "mul_", "div_", "clamp_", "masked_fill_", "copy_", "zero_", "fill_", "pow_", "exp_", "neg_", "sqrt_"):
        other = {"clamp_": (0.0, 1.0), "masked_fill_": (torch.ones(2, 3, dtype=torch.bool), 0.0), "zero_": (), "fill_": (1.0,), "exp_": (), "neg_": (),
                 "sqrt_": (), "pow_": (2,)}.get(name, (r(2, 3),))
        yield lambda x, *a, name=name: getattr(x, name)(*a), (r(2, 3), *other)
    x = x2
    for f in (
        lambda x: x.reshape(2, -1), lambda x: x.flatten(1), lambda x: x.contiguous(), lambda x: x.view_as(x), lambda x: x.to(torch.float16),
        lambda x: x.type_as(x), lambda x: x.chunk(2, 1), lambda x: x.movedim(1, 2), lambda x: x.swapaxes(1, 2), lambda x: x.tile(2, 1, 1, 1),
        lambda x: x.unflatten(1, (2, 2)), lambda x: x.narrow(1, 0, 2), lambda x: torch.stack([x, x]).sum(), lambda x: torch.hstack([x, x]),
        lambda x: torch.vstack([x, x]), lambda x: torch.concat([x, x]), lambda x: x.expand_as(x), lambda x: x.square(), lambda x: x.std(),
        lambda x: x.var(1), lambda x: torch.where(x > 0), lambda x: torch.where(x > 0, x, 0.0), lambda x: torch.diff(x), lambda x: x.mT,
        lambda x: (x > 0) & (x < 1), lambda x: x.true_divide(2), lambda x: x.floor_divide(2), lambda x: x @ x, lambda x: x.softmax(1), lambda x: x.log_softmax(1),
        lambda x: torch.meshgrid(x[0, 0, 0], x[0, 0, 1], indexing="ij"), lambda x: x.norm(), lambda x: torch.linalg.norm(x), lambda x: F.normalize(x),
        lambda x: F.one_hot((x > 0).long(), 2), lambda x: x.clip(0, 1), lambda x: x.argsort(), lambda x: x.repeat_interleave(2, 1), lambda x: F.pad(x, (1, 1)),
        lambda x: torch.ones_like(x), lambda x: F.unfold(x, 2), lambda x: torch.broadcast_to(x, (2, 2, 4, 8, 8)), lambda x: F.embedding((x[0, 0] > 0).long(), x[0, 0]),
        lambda x: torch.arange(5) + x[0, 0, 0, 0], lambda x: torch.arange(1, 5) + x[0, 0, 0, 0], lambda x: torch.zeros(2) + x[0, 0, 0, 0],
        lambda x: torch.ones(2) + x[0, 0, 0, 0], lambda x: torch.full((2,), 1.0) + x[0, 0, 0, 0], lambda x: x.new_zeros(2), lambda x: x.new_full((2,), 1.0),
        lambda x: torch.eye(8) + x, lambda x: torch.linspace(0, 1, 8) + x, lambda x: torch.triu(x),
        lambda x: F.gelu(x), lambda x: F.hardswish(x), lambda x: F.hardsigmoid(x), lambda x: F.mish(x), lambda x: F.silu(x), lambda x: F.softplus(x),
        lambda x: F.leaky_relu(x), lambda x: F.elu(x), lambda x: F.logsigmoid(x), lambda x: F.hardtanh(x), lambda x: x.unbind(1), lambda x: x.split(2, 1),
    ):
        yield f, (x,)


def samples():
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        for dtype in (torch.float32, torch.bool, torch.int64):
            if dtype not in op.dtypes:
                continue
            try:
                for i, s in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
                    if i >= 24:
                        break
                    yield lambda *a, op=op, s=s: op.op(a[0], *a[1], **a[2]), (s.input, s.args, s.kwargs)
            except Exception:
                pass
            break


# Export makes this of it in eval mode; tracing on a CPU shows the kernel's own form.
NORM = "aten._native_batch_norm_legit_no_training.default"


def main():
    torch.manual_seed(0)
    torch.backends.mkldnn.enabled = False
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError()))
    for call, args in [*modules(), *samples()]:
        signal.alarm(20)
        try:
            trace(call, *args)
        except Exception:
            pass
        finally:
            signal.alarm(0)
    operators = {}
    for kind in ("composite", "core"):
        for op, by_rank in ALL[kind].items():
            for ranks, seen in by_rank.items():
                if not seen:
                    continue
                always = sorted(set.intersection(*map(set, seen)))
                sometimes = sorted(set.union(*map(set, seen)) - set(always))
                operators.setdefault(op, {}).setdefault(kind, {})[ranks] = [always, sometimes]
    # A call of `to` that changes nothing is nothing; all others are a copy.
    for overload in torch.ops.aten.to.overloads():
        every = {"": [["aten._to_copy.default"], []]}
        operators["aten.to." + overload] = {"composite": every, "core": every}
    for kind in operators.get("aten.batch_norm.default", {}).values():
        kind.update((ranks, [[NORM], []]) for ranks in kind)
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else []:
            op = getattr(packet, overload)
            if composite(op) and not overload.endswith("out"):
                operators.setdefault(text(op), {}).setdefault("composite", {})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "aten_parts.json")
    with open(path, "w") as f:
        f.write('{"torch": "%s", "ops": {\n' % torch.__version__.split("+")[0])
        f.write(",\n".join(f"{json.dumps(op)}: {json.dumps(operators[op], separators=(',', ':'), sort_keys=True)}" for op in sorted(operators)))
        f.write("\n}}\n")
    print(len(operators), "operators", file=sys.stderr)


main()
