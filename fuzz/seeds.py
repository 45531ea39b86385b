#!/usr/bin/env python3
"""Makes the seed corpora of the fuzz targets from the small models of the tests. Python's own library is all it needs.

Given the path of a recut program, it also writes those models as recut graph files.
"""

import io
import json
import pathlib
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "tests" / "models"
CASES = HERE.parent / "tests" / "cases"
LARGEST = 64 << 10
SEPARATOR = b"\n~~\n"
# Paddings in which torch keeps nothing.
QUIET = ("stack_trace", "source_fn_stack", "from_node", "torch_fn", "_numeric_debug_handle")


def seed(target: str, name: str, content: bytes) -> None:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    if len(content) <= LARGEST:
        (folder / name).write_bytes(content)


def small(program: dict, keep_traces: bool) -> bytes:
    """The program's JSON without what mutations would be lost in."""
    if not keep_traces:
        for node in program["graph_module"]["graph"]["nodes"]:
            for key in QUIET:
                node.get("metadata", {}).pop(key, None)
    return json.dumps(program, separators=(",", ":"), allow_nan=True).encode()


def pieces(program: dict, size: int):
    """Programs of a few nodes each: what a node reads and the piece does not make becomes an input."""
    graph = program["graph_module"]["graph"]
    for start in range(0, len(graph["nodes"]), size):
        nodes = graph["nodes"][start : start + size]
        made = {o["as_tensor"]["name"] for n in nodes for o in n["outputs"] if "as_tensor" in o}
        read = set()
        for n in nodes:
            text = json.dumps(n["inputs"])
            read |= {v for v in graph["tensor_values"] if json.dumps(v) in text}
        inputs = sorted(read - made)
        tensor = lambda v: {"as_tensor": {"name": v}}
        yield {
            "graph_module": {
                "graph": {
                    **graph,
                    "nodes": nodes,
                    "inputs": [tensor(v) for v in inputs],
                    "outputs": [tensor(v) for v in sorted(made)],
                    "tensor_values": {v: m for v, m in graph["tensor_values"].items() if v in read | made},
                },
                "signature": {
                    "input_specs": [{"user_input": {"arg": tensor(v)}} for v in inputs],
                    "output_specs": [{"user_output": {"arg": tensor(v)}} for v in sorted(made)],
                },
                "module_call_graph": [],
            },
            **{k: v for k, v in program.items() if k != "graph_module"},
        }


def archive(path: pathlib.Path) -> None:
    seed("pt2_archive", path.name, path.read_bytes())
    with zipfile.ZipFile(path) as outer:
        names = outer.namelist()

        def entry(end: str) -> bytes:
            return next((outer.read(n) for n in names if n.endswith(end)), b'{"config":{}}')

        programs = [n for n in names if "/models/" in n and n.endswith(".json") or n == "serialized_exported_program.json"]
        for n in programs:
            program = json.loads(outer.read(n))
            lists = [entry("_weights_config.json"), entry("_constants_config.json")]
            for keep in (False, True):
                seed("pt2_program", f"{path.stem}_{len(programs)}_{keep:d}", SEPARATOR.join([small(program, keep), *lists]))
            for i, piece in enumerate(pieces(program, 4)):
                seed("pt2_program", f"{path.stem}_piece_{i}", small(piece, False))
        for n in names:
            if n.endswith(".pt"):
                try:
                    with zipfile.ZipFile(io.BytesIO(outer.read(n))) as inner:
                        for m in inner.namelist():
                            if m.endswith("data.pkl"):
                                seed("unpickle", f"{path.stem}_{n.replace('/', '_')}", inner.read(m))
                except zipfile.BadZipFile:
                    continue


SELECTORS = [
    "op:Relu", "op:*", "op:aten::add.Tensor", "torch.nn.ReLU", "aten::relu", "torch.ops.aten.relu.default", "module:layers.0.**",
    "module:layers.*@1", "class:Linear and not node:*1", 'node:"a b\\u{1b}\\n"', 're:"^lay(er|ers)"', 'op:re:"Re.*"', "value:x or value:p_layers_0_attn_weight",
    "source:model.py:12", "partition:run_on_acc_0", "between(op:MatMul, op:Add)", "upstream(node:add, 3)", "downstream((op:Add or op:Mul), 1)",
    "not (not (op:Add))", "/layers.0/attn/MatMul", "operator.add", "torch.Tensor.add_", "add*", "module:**", "a.b.c", '""',
]

CONFIG = {
    "version": 1, "model": {"file": "m.onnx", "graph_sha256": "00"}, "backend": "tensorrt", "torch_executed_ops": ["torch.nn.ReLU", "aten::where"],
    "torch_executed_modules": ["layers.0"], "torch_executed_nodes": ["node:*"], "accelerated_nodes": [], "leaf_modules": ["module:layers.*"],
    "wraps": [{"definition": "f", "instances": [{"id": "InlinedCustomOp_0", "select": "module:layers.1"}, {"id": "b", "select": "op:MatMul and module:layers.0"}]}],
    "definitions": {"f": {"op": "InlinedCustomOp", "domain": "recut", "attributes": {"alpha": 0.1, "n": 3, "s": "x", "l": [1, 2]},
        "body": {"kind": "python", "file": "ops.py", "callable": "f", "sha256": "00", "weights": "none", "structure": [["$0", {"scale": "$1"}], 3]}}},
    "partitioner": {"strategy": "min-partitions", "min_block_size": 1, "require_full_compilation": True},
    "run": {"engine": "cpu", "torch_engine": "auto", "precision": "fp32", "threads": 2, "overrides": ["op:Add=tract:fp16"]}, "dims": {"N": 4},
}

FORMAT = {"format": "recut.graph", "version": 1}
GRAPHS = [
    {**FORMAT, "dialect": "onnx", "inputs": ["x"], "outputs": ["y"],
     "nodes": [{"name": "mm", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"], "module": "head.fc", "call": 1, "source": "File \"m.py\", line 3, in f"},
               {"name": "act", "op": "LeakyRelu", "inputs": ["h"], "outputs": ["y"], "attrs": {"alpha": 0.1}, "torch_op": "aten.leaky_relu.default"}],
     "values": {"x": {"dtype": "f32", "shape": ["batch", 2]}, "h": {"shape": ["2*batch + 1", None]}},
     "initializers": {"w": {"dtype": "f32", "shape": [2, 2], "data": [1, 2, 3, 4.5]}}, "opsets": {"": 20}, "modules": {"head": {"class": "Head"}},
     "columns": {"latency": {"unit": "us", "values": {"mm": 12.5, "act": 0.8}}, "device": {"values": {"mm": "npu"}}}},
    {**FORMAT, "dialect": "aten", "inputs": ["a", "b"], "outputs": ["c", "d"],
     "nodes": [{"op": "aten.cat.default", "inputs": ["a", "b"], "outputs": ["c"], "attrs": {"tensors": [{"input": 0}, {"input": 1}], "dim": 1}},
               {"op": "aten.relu.default", "inputs": ["c"], "outputs": ["d"], "attrs": {"self": {"input": 0}}}]},
    {**FORMAT, "inputs": ["c", "x"], "outputs": ["y"], "nodes": [{"name": "if", "op": "If", "dialect": "onnx", "inputs": ["c"], "outputs": ["y"],
     "bodies": [{"attr": b, "name": b, "outputs": ["z"], "nodes": [{"op": op, "inputs": ["x"], "outputs": ["z"], "dialect": "onnx"}],
                 "captures": {"x": "x"}} for b, op in (("then_branch", "Neg"), ("else_branch", "Abs"))]}]},
    {**FORMAT, "inputs": [], "outputs": ["o"], "nodes": [{"op": {"domain": "d", "name": "N", "overload": "o"}, "inputs": [None, "t"], "outputs": ["o"],
     "attrs": {"f": {"float": "NaN"}, "i": {"ints": []}, "l": {"list": [1, "a", None]}, "b": {"bytes": "AP8="}, "t": {"type": "f32"},
               "v": {"tensor": {"dtype": "i64", "shape": [2], "data": "AQAAAAAAAAACAAAAAAAAAA=="}}, "r": {"reference": "alpha"}}}],
     "initializers": {"t": {"dtype": "bf16", "shape": [2, 2], "file": "x.bin", "offset": 4, "length": 8, "strides": [1, 2]},
                      "z": {"dtype": "i4", "shape": [3], "zeros": True}, "m": {"dtype": "f8e5m2", "shape": [1], "missing": "gone"}}, "files": {"x.bin": {"bytes": 8}}},
]

if __name__ == "__main__":
    for path in sorted([*MODELS.glob("*.pt2"), *MODELS.glob("ops/*.pt2")]):
        archive(path)
    for path in sorted([*MODELS.glob("*.onnx"), *CASES.glob("*.onnx"), *(HERE.parent / "sample-graphs").glob("*.onnx")]):
        if path.is_file():
            seed("onnx", path.name, path.read_bytes())
    for i, text in enumerate(GRAPHS):
        seed("json_graph", str(i), json.dumps(text).encode())
    for path in sorted([*MODELS.glob("*.onnx"), *MODELS.glob("*.pt2")]) if len(sys.argv) > 1 else []:
        made = subprocess.run([sys.argv[1], "export", str(path), "--to", "json"], capture_output=True, check=False)
        if made.returncode == 0:
            seed("json_graph", path.name, made.stdout)
    for i, text in enumerate(SELECTORS):
        seed("selector", str(i), text.encode())
    seed("config", "all", json.dumps(CONFIG, indent=2).encode())
    seed("config", "least", b'{"version":1}')
    for path in sorted(CASES.glob("*.json")):
        if b'"version"' in path.read_bytes():
            seed("config", path.name, path.read_bytes())
