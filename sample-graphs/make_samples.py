#!/usr/bin/env python
"""Make the models of this folder:  python make_samples.py [OUTDIR]

Needs torch, onnx and onnxscript (any recent release). Weights are random with a fixed seed, so the files say nothing
about accuracy; they are here for their structure. For every NAME there is NAME.onnx and NAME.npz with the inputs
(`in_<name>`) and what PyTorch computes from them (`out_<index>`).
"""

import os
import sys

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 1234


class BasicBlock(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + identity)


class TinyCNN(nn.Module):
    """A residual net with the module names of torchvision's ResNet."""

    def __init__(self, classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def random_bn_stats(m: nn.Module) -> None:
    for mod in m.modules():
        if isinstance(mod, nn.BatchNorm2d):
            mod.running_mean.uniform_(-0.2, 0.2)
            mod.running_var.uniform_(0.5, 1.5)
            with torch.no_grad():
                mod.weight.uniform_(0.5, 1.5)
                mod.bias.uniform_(-0.2, 0.2)


class Attention(nn.Module):
    def __init__(self, d: int, h: int):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d: int, h: int):
        super().__init__()
        self.ln_1 = nn.LayerNorm(d)
        self.attn = Attention(d, h)
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class TinyTransformer(nn.Module):
    """Decoder-only, 2 layers, d=32, 2 heads; output head tied to the embedding (shared storage)."""

    def __init__(self, vocab: int = 64, d: int = 32, h: int = 2, layers: int = 2, ctx: int = 16):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(ctx, d)
        self.h = nn.ModuleList(Block(d, h) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for blk in self.h:
            x = blk(x)
        return self.lm_head(self.ln_f(x))


@torch.library.custom_op("mylib::my_func", mutates_args=())
def my_func(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return a + b, a * b


@my_func.register_fake
def _(a, b):
    return torch.empty_like(a), torch.empty_like(a)


class TinyCustomOp(nn.Module):
    def forward(self, x):
        t1, t2 = torch.ops.mylib.my_func(x + 1, x + 2)
        return t1 / t2


class TinyLSTM(nn.Module):
    def __init__(self, vocab=50, d=16, hid=24, classes=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, hid, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hid, classes)

    def forward(self, ids):
        y, (h, c) = self.rnn(self.emb(ids))
        return self.head(torch.cat([h[-2], h[-1]], dim=1)), y[:, -1]


class TinyCond(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda v: torch.relu(self.a(v)), lambda v: torch.tanh(self.b(v)) - 1.0, (x,))
        return self.out(y)


class TinyDynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(12, 16)
        self.l2 = nn.Linear(16, 4)

    def forward(self, x):  # x: [batch, seq, 12]
        b, s, _ = x.shape
        y = torch.relu(self.l1(x)).reshape(b * s, 16)
        return self.l2(y).view(b, s, 4).mean(1), torch.ones(b) * s


def custom_op_onnx_table():
    """Translate mylib::my_func to an opaque ONNX node `my_func` of domain `mylib` (no function body)."""
    import onnx
    import onnxscript

    if not onnx.defs.has("my_func", "mylib"):  # onnxscript wants to know the op's schema
        P = onnx.defs.OpSchema.FormalParameter
        onnx.defs.register_schema(onnx.defs.OpSchema(
            "my_func", "mylib", 1, inputs=[P("a", "T"), P("b", "T")], outputs=[P("s", "T"), P("p", "T")],
            type_constraints=[("T", ["tensor(float)"], "")]))
    mylib = onnxscript.values.Opset("mylib", 1)

    def my_func_onnx(a, b):
        return mylib.my_func(a, b)

    return {torch.ops.mylib.my_func.default: my_func_onnx}


def add_function_body(src: str, dst: str) -> None:
    """Add a FunctionProto mylib.my_func (Add and Mul) to the model, so that any runtime can run it."""
    import onnx
    from onnx import helper as h

    m = onnx.load(src)
    opset = next(o.version for o in m.opset_import if o.domain == "")
    m.functions.append(h.make_function(
        "mylib", "my_func", ["a", "b"], ["s", "p"],
        [h.make_node("Add", ["a", "b"], ["s"], name="fn_add"), h.make_node("Mul", ["a", "b"], ["p"], name="fn_mul")],
        [h.make_opsetid("", opset)]))
    onnx.checker.check_model(m)
    onnx.save(m, dst)


# --------------------------------------------------------------------------- export
def export(out: str, name: str, model: nn.Module, args: tuple, names: list[str], dynamic_shapes=None, **kw) -> None:
    model.eval()
    with torch.no_grad():
        results = model(*args)
    results = results if isinstance(results, tuple) else (results,)
    arrays = {f"in_{n}": a.numpy() for n, a in zip(names, args)} | {f"out_{i}": r.numpy() for i, r in enumerate(results)}
    np.savez(os.path.join(out, f"{name}.npz"), **arrays)
    torch.onnx.export(model, args, os.path.join(out, f"{name}.onnx"), dynamo=True, verbose=False, external_data=False,
                      dynamic_shapes=dynamic_shapes, input_names=names, **kw)


def main() -> None:
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    seed = lambda: torch.manual_seed(SEED)  # noqa: E731

    seed()
    cnn = TinyCNN().eval()
    random_bn_stats(cnn)
    x = torch.randn(2, 3, 32, 32)
    export(out, "tiny_cnn", cnn, (x,), ["x"])
    torch.onnx.export(cnn, (x,), os.path.join(out, "tiny_cnn_ts.onnx"), dynamo=False, input_names=["x"], do_constant_folding=False)

    seed()
    export(out, "tiny_transformer", TinyTransformer(), (torch.randint(0, 64, (2, 16)),), ["idx"])
    seed()
    x = torch.randn(2, 3)
    export(out, "tiny_custom_op", TinyCustomOp(), (x,), ["x"], custom_translation_table=custom_op_onnx_table())
    add_function_body(os.path.join(out, "tiny_custom_op.onnx"), os.path.join(out, "tiny_custom_op_fn.onnx"))
    seed()
    export(out, "tiny_lstm", TinyLSTM(), (torch.randint(0, 50, (2, 7)),), ["ids"])
    seed()
    export(out, "tiny_cond", TinyCond(), (torch.randn(3, 8),), ["x"])
    seed()
    dims = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("seq", min=1, max=128)}
    export(out, "tiny_dynamic", TinyDynamic(), (torch.randn(3, 5, 12),), ["x"], dynamic_shapes=(dims,))


if __name__ == "__main__":
    main()
