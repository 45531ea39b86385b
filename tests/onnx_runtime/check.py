"""Checks exported models with the onnx package and ONNX Runtime.

Reads a list of jobs as JSON from the standard input and prints one JSON object a line: the job's name, and `faults`, a
list that is empty where all holds, or `skipped` with the reason.

A job has `exported` and, if it is to be run, `npz`; where there is an `original`, what the checker and ONNX Runtime say of that decides
whether the exported model has to pass, and both must give the same. `ours` are outputs of this program by name.
"""

import json
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort

BF16 = onnx.TensorProto.BFLOAT16


def first_line(e):
    return str(e).strip().split("\n")[0][:300]


def check(path):
    """What the checker has against a model, or None."""
    try:
        onnx.checker.check_model(path, full_check=True)
        return None
    except Exception as e:
        return first_line(e)


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    # What is compared are the models, not what an optimizer makes of them.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(s, job):
    arrays = np.load(job["npz"])
    by_name = {}
    if job.get("io"):
        with open(job["io"]) as f:
            described = json.load(f)["inputs"]
        if any("rows" in i for i in described):
            raise ValueError("stacked inputs")
        by_name = {i["name"]: i["key"] for i in described}
    fed = {}
    fed_in_order = [k for k in arrays.files if k.startswith("in_")]
    for n, i in enumerate(s.get_inputs()):
        keys = [by_name.get(i.name, ""), i.name, "in_" + i.name, f"in_{n}"]
        key = next((k for k in keys if k in arrays.files), None)
        if key is None and len(fed_in_order) == len(s.get_inputs()):
            key = fed_in_order[n]
        if key is None:
            continue
        a = arrays[key]
        if i.type == "tensor(bfloat16)":
            bits = a.view(np.uint16) if a.dtype.itemsize == 2 else (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            fed[i.name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, BF16)
        elif i.type == "tensor(string)":
            fed[i.name] = a.astype(object)
        else:
            fed[i.name] = ort.OrtValue.ortvalue_from_numpy(a)
    return fed


def numpy_of(v):
    if isinstance(v, ort.OrtValue):
        if v.is_tensor() and v.element_type() == BF16:
            v = ort.OrtValue.ortvalue_from_numpy(np.frombuffer(bytes(v.numpy()), np.uint16))
        return v.numpy()
    return v


def run(path, job):
    """Outputs by name, in order."""
    s = session(path)
    fed = feeds(s, job)
    names = [o.name for o in s.get_outputs()]
    if any(not isinstance(v, ort.OrtValue) for v in fed.values()):
        return dict(zip(names, s.run(None, {k: v if not isinstance(v, ort.OrtValue) else v.numpy() for k, v in fed.items()})))
    return dict(zip(names, (numpy_of(v) for v in s.run_with_ort_values(None, fed))))


def difference(a, b, rtol, atol):
    """What two outputs differ by, or None. Outputs may be lists and maps."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"{len(a)} and {len(b)} elements"
        return next(filter(None, (difference(x, y, rtol, atol) for x, y in zip(a, b))), None)
    if isinstance(a, dict) and isinstance(b, dict):
        return None if a == b else "other maps"
    if a is None or b is None:
        return None if a is b else "one is nothing"
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if a.dtype.kind not in "fc":
        return None if np.array_equal(a, b) else "other elements"
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return None
    return f"by up to {np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)))}"


def examine(job):
    faults = []
    original = job.get("original")
    refused = check(original) if original else None
    if refused is None:
        found = check(job["exported"])
        if found:
            faults.append(f"the checker: {found}")
    expected = None
    if not job.get("npz"):
        return {"faults": faults}
    if original:
        try:
            expected = run(original, job)
        except Exception as e:
            # Also what ONNX Runtime cannot run at all is checked above.
            return {"faults": faults, "skipped": f"ONNX Runtime does not run the original: {first_line(e)}"}
    try:
        got = run(job["exported"], job)
    except Exception as e:
        # It has no kernels for bfloat16, whose absence it tells in several ways.
        if "bfloat16" in str(e) or "NOT_IMPLEMENTED" in str(e):
            return {"faults": faults, "skipped": first_line(e)}
        return {"faults": faults + [f"ONNX Runtime: {first_line(e)}"]}
    if expected is not None:
        if len(expected) != len(got):
            faults.append(f"{len(got)} outputs, the original has {len(expected)}")
        for (name, a), b in zip(expected.items(), got.values()):
            d = difference(a, b, 1e-6, 1e-6)
            if d:
                faults.append(f"output {name} differs from the original's: {d}")
    if job.get("ours"):
        ours = np.load(job["ours"])
        for (name, a), b in zip(got.items(), (ours[k] for k in ours.files)):
            if isinstance(a, np.ndarray) and a.dtype.kind in "fiub" and a.dtype == b.dtype:
                d = difference(a, b, job.get("rtol", 1e-3), job.get("atol", 1e-4))
                if d:
                    faults.append(f"output {name} differs from this program's: {d}")
    return {"faults": faults}


def main():
    for job in json.load(sys.stdin):
        # Some external data are found only from the model's own folder.
        os.chdir(os.path.dirname(os.path.abspath(job["exported"])))
        # Some models end ONNX Runtime's process: each is looked at in one of its own.
        child = os.fork()
        if child == 0:
            print(json.dumps({"name": job["name"], **examine(job)}), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            print(json.dumps({"name": job["name"], "faults": [], "skipped": f"its process ended with {status}"}), flush=True)


main()
