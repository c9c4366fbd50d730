#!/usr/bin/env python3
"""Do graphs of PyTorch and ONNX become model files as a person would write them, and is a graph that cannot become a
model refused at its node? Modules need PyTorch 2.6 or newer, ONNX the package onnx; without these, tests are skipped."""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim/python"))
from lockstep import ConfigError, import_model  # noqa: E402
from lockstep.imports import torch_graph  # noqa: E402
from lockstep.imports.model_text import ImportedModel, Layer, layers_text  # noqa: E402

HAS_ONNX = importlib.util.find_spec("onnx") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torch.export") is not None


def error_of(function, *arguments):
    try:
        function(*arguments)
    except ConfigError as error:
        return str(error)
    return "no error"


# --- records of torch.export: `x` is an image, `w` a convolution's weight, `v` a matrix of parameters


def node(name, op, arguments, shape, module=""):
    tensors = {key: {"value": value} if isinstance(value, str) else value for key, value in arguments.items()}
    return {"name": name, "op": f"aten.{op}", "module": module, "block": "", "arguments": tensors, "shape": shape}


def small(nodes, output, source="small"):
    values = {
        "x": {"input": "x", "shape": [2, 3, 8, 8], "tokens": False},
        "w": {"parameter": "stem.weight", "shape": [4, 3, 3, 3]},
        "v": {"parameter": "head.weight", "shape": [10, 4]},
    }
    record = {"title": "small", "values": values, "nodes": nodes, "outputs": [output]}
    return import_model.of_graph(torch_graph.read(record, source))


def conv(**more):
    return node("c", "conv2d.default", {"input": "x", "weight": "w", "bias": None, **more}, [2, 4, 8, 8], "body.stem")


STEM = conv(padding=[1, 1])
POOLED = node("p", "mean.dim", {"self": "c", "dim": [-1, -2]}, [2, 4])
HEAD = node("y", "linear.default", {"input": "p", "weight": "v"}, [2, 10])

SMALL_TEXT = """# Imported from small
title: "small"
input: {image: [3, 8, 8], classes: 10}
published: {parameters: 148, source: "given when imported"}
layers:
  - conv: {out: 4, kernel: 3, padding: 1, bias: false}
    name: stem
  - adaptive_avg_pool: 1
    name: adaptive_avg_pool
  - flatten:
    name: flatten
  - linear: {out: classes, bias: false}
    name: head
  - cross_entropy:
    name: cross_entropy
"""


class Modules(unittest.TestCase):
    def error(self, nodes, output):
        return error_of(small, nodes, output)

    def test_are_written_as_people_write_them(self):
        model = small([STEM, POOLED, HEAD], "y")
        self.assertEqual(model.parameters, 4 * 3 * 3 * 3 + 10 * 4)
        self.assertEqual(model.text(148), SMALL_TEXT)

    def test_leave_out_what_the_output_does_not_depend_on(self):
        beside = node("r", "relu.default", {"self": "c"}, [2, 4, 8, 8])
        self.assertEqual(small([STEM, beside, POOLED, HEAD], "y").text(), small([STEM, POOLED, HEAD], "y").text())

    def test_unknown_operators_are_listed_with_their_place(self):
        unknown = [
            node("a", "fft.default", {"self": "c"}, [2, 4, 8, 8], "body.a"),
            node("b", "fft.default", {"self": "a"}, [2, 4, 8, 8]),
            node("d", "sort.default", {"self": "c"}, [2, 4, 8, 8]),
        ]
        first, second = self.error([STEM, *unknown, POOLED, HEAD], "y").split("\n")
        self.assertEqual(first, "small: node 'a' in body.a: the operator 'aten.fft.default' is not known")
        self.assertIn("small: node 'd': the operator 'aten.sort.default' is not known; known: _softmax, ", second)
        self.assertIn("conv2d", second)

    def test_what_the_format_cannot_say_is_refused_at_its_node(self):
        wide, same = [2, 4, 8, 8], conv()
        same["arguments"]["padding"] = "same"
        for nodes, output, message in [
            ([conv(stride=[1, 2])], "c", "small: node 'c' in body.stem: aten.conv2d.default: its stride differs in"),
            ([same], "c", "aten.conv2d.default: its padding is not in numbers"),
            ([STEM, node("s", "softmax.int", {"self": "c", "dim": 1}, [2, 4])], "s",
             "node 's': aten.softmax.int: a softmax is known inside of attention only"),
            ([STEM, node("s", "select.int", {"self": "c", "index": 1}, [2])], "s", "node 's': aten.select.int: "),
            ([STEM, node("s", "sqrt.default", {"self": "c"}, wide), node("t", "relu.default", {"self": "s"}, wide)],
             "t", "small: node 's': the operators from here to t (sqrt) make no layer"),
            ([STEM], "c", "small: outputs: the first output is an image"),
            ([STEM, POOLED], "z", "'z' is no layer's output"),
            ([POOLED], "p", "reads 'c', which no node before it makes"),
        ]:  # fmt: skip
            with self.subTest(message=message):
                self.assertIn(message, self.error(nodes, output))

    @unittest.skipUnless(HAS_TORCH, "no PyTorch here")
    def test_genuine_ones_are_read(self):
        import torch

        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1, bias=False), torch.nn.ReLU(inplace=True), torch.nn.Flatten(),
            torch.nn.Linear(4 * 8 * 8, 10),
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "my.yaml")
            import_model.write(module, torch.zeros(2, 3, 8, 8), str(path), title="mine")
            lines = path.read_text().split("\n")
        self.assertEqual(lines[:2], ["# Imported from mine", 'title: "mine"'])
        self.assertEqual([line.strip("- ") for line in lines[4:-1:2]], [
            "conv: {out: 4, kernel: 3, padding: 1, bias: false}", "relu: {inplace: true}", "flatten:",
            "linear: {out: classes}", "cross_entropy:",
        ])  # fmt: skip


# --- ONNX made by the tests: an image "x" of any batch goes through the nodes to "y"

STEM_NODE = ("Conv", "c", ["x", "stem.weight"], {"pads": [1, 1, 1, 1]})
POOL_NODE = ("GlobalAveragePool", "p", ["c"], {})
FLAT_NODE = ("Flatten", "f", ["p"], {})
HEAD_NODE = ("Gemm", "y", ["f", "head.weight", "head.bias"], {"transB": 1})


def onnx_bytes(nodes):
    from onnx import TensorProto, helper

    def weight(name, shape):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT)
        tensor.dims.extend(shape)
        return tensor

    graph = helper.make_graph(
        [
            helper.make_node(op.rpartition(".")[2], inputs, [output], domain=op.rpartition(".")[0], **attributes)
            for op, output, inputs, attributes in nodes
        ],
        "main_graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [weight("stem.weight", [4, 3, 3, 3]), weight("head.weight", [10, 4]), weight("head.bias", [10])],
    )
    return helper.make_model(graph).SerializeToString()


@unittest.skipUnless(HAS_ONNX, "no onnx here")
class Onnx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name, "small.onnx"))

    def imported(self, content):
        Path(self.path).write_bytes(content)
        return import_model.of_onnx(self.path)

    def layers(self, nodes):
        return self.imported(onnx_bytes(nodes)).text().partition("layers:\n")[2]

    def error(self, nodes):
        return error_of(self.layers, nodes)

    def test_plain_networks_need_no_shapes(self):
        nodes = [STEM_NODE, ("Relu", "r", ["c"], {}), ("GlobalAveragePool", "p", ["r"], {}), FLAT_NODE, HEAD_NODE]
        model = self.imported(onnx_bytes(nodes))
        self.assertEqual(model.parameters, 4 * 3 * 3 * 3 + 10 * 4 + 10)
        self.assertEqual(
            model.text(),
            f'# Imported from {self.path}\ntitle: "small"\ninput: {{image: [3, 8, 8], classes: 10}}\n'
            "layers:\n"
            "  - conv: {out: 4, kernel: 3, padding: 1, bias: false}\n"
            "    name: stem\n"
            "  - relu: {inplace: true}\n"
            "    name: relu\n"
            "  - adaptive_avg_pool: 1\n"
            "    name: adaptive_avg_pool\n"
            "  - flatten:\n"
            "    name: flatten\n"
            "  - linear: {out: classes}\n"
            "    name: head\n"
            "  - cross_entropy:\n"
            "    name: cross_entropy\n",
        )

    def test_operators_of_parts_become_the_layer_they_are(self):
        def activation(*parts):
            pool = ("GlobalAveragePool", "p", [parts[-1][1]], {})
            return self.layers([STEM_NODE, *parts, pool, FLAT_NODE, HEAD_NODE])

        sigmoid = ("Sigmoid", "s", ["c"], {})
        self.assertIn("  - silu:\n", activation(sigmoid, ("Mul", "a", ["c", "s"], {})))
        self.assertIn("  - sigmoid:\n", activation(sigmoid))
        self.assertIn("  - gelu:\n", activation(("Erf", "e", ["c"], {}), ("Mul", "a", ["c", "e"], {})))

    def test_unknown_operators_are_listed_with_their_node(self):
        unknown = [("Det", "d", ["c"], {}), ("my.domain.Relu", "e", ["c"], {})]
        first, second = self.error([STEM_NODE, *unknown, POOL_NODE, FLAT_NODE, HEAD_NODE]).split("\n")
        self.assertEqual(first, f"{self.path}: node 'd': the operator 'Det' is not known")
        self.assertIn("node 'e': the operator 'my.domain.Relu' is not known; known: Add, ", second)

    def test_what_the_format_cannot_say_is_refused_at_its_node(self):
        rest = [POOL_NODE, FLAT_NODE, HEAD_NODE]
        for nodes, message in [
            ([("Conv", "c", ["x", "stem.weight"], {"pads": [1, 1, 2, 2]})],
             "node 'c': Conv: its padding differs before and after"),
            ([("Conv", "c", ["x", "stem.weight"], {"auto_pad": "SAME_UPPER"})],
             "Conv: auto_pad SAME_UPPER is not known"),
            ([STEM_NODE, ("Reshape", "r", ["c"], {}), ("Relu", "y", ["r"], {})],
             "node 'r': Reshape: its shape is not in the file; export with torch.onnx.export(..., dynamo=True)"),
            ([STEM_NODE, ("Transpose", "y", ["c"], {"perm": [0, 3, 1, 2]})],
             "the order 0, 3, 1, 2 of an image's dimensions is not known"),
            ([("Conv", "c", ["x", "x"], {})], "its input 2 is no parameter"),
            ([STEM_NODE, ("Relu", "r", ["nothing"], {}), *rest], "reads 'nothing', which no node before"),
        ]:  # fmt: skip
            with self.subTest(message=message):
                self.assertIn(message, self.error(nodes))

    def test_damaged_files_are_errors_and_nothing_else(self):
        whole = onnx_bytes([STEM_NODE, POOL_NODE, FLAT_NODE, HEAD_NODE])
        refused = 0
        damaged = [whole[:size] for size in range(len(whole))]
        for at in range(len(whole)):
            for flip in (1, 0x40, 0x80, 0xFF):
                damaged.append(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        for content in damaged:
            refused += error_of(lambda: self.imported(content).text()) != "no error"
        self.assertGreater(refused, 2 * len(whole))

    def test_no_onnx_is_refused(self):
        self.assertIn("small.onnx: cannot be read: ", error_of(import_model.of_onnx, self.path))
        self.assertIn("small.onnx: is no ONNX model", error_of(self.imported, b"\x07\x01hello"))
        self.assertIn("small.onnx: graph: missing", error_of(self.imported, b""))
        self.assertIn("small.onnx: cannot be read: ", error_of(self.imported, b"\x1f\x8bhello"))


def block(path, before):
    return [
        Layer(f"{path}.fc", path, "linear", "4", [before]),
        Layer(f"{path}.add", path, "add", "", [f"{path}.fc", before]),
    ]


class Blocks(unittest.TestCase):
    def test_that_look_alike_are_repeated(self):
        layers = [Layer("stem", "", "linear", "4", ["input"])]
        for path in ("h.1", "h.2", "h.3"):
            layers += block(path, layers[-1].name)
        self.assertEqual(
            layers_text(layers),
            "layers:\n  - linear: 4\n    name: stem\n"
            "  - name: h.{i + 1}\n    repeat:\n      count: 3\n      layers:\n"
            "        - linear: 4\n          name: fc\n"
            "        - add:\n          name: add\n          from: [fc, input]\n",
        )

    def test_whose_names_would_mean_another_layer_are_none(self):
        """Inside the block h.1 the name "stem" would mean h.1.stem."""
        text = layers_text([
            Layer("stem", "", "relu", "", ["input"]),
            Layer("more", "", "relu", "", ["stem"]),
            Layer("h.1.stem", "h.1", "relu", "", ["more"]),
            Layer("h.1.add", "h.1", "add", "", ["h.1.stem", "stem"]),
        ])  # fmt: skip
        self.assertIn("    name: h.1.add\n    from: [h.1.stem, stem]\n", text)
        self.assertNotIn("repeat", text)

    def test_in_two_pieces_are_none(self):
        text = layers_text([
            Layer("h.1.a", "h.1", "relu", "", ["input"]),
            Layer("b", "", "relu", "", ["h.1.a"]),
            Layer("h.1.c", "h.1", "relu", "", ["b"]),
        ])  # fmt: skip
        self.assertNotIn("repeat", text)

    def test_shared_parameters_count_once(self):
        layers = [Layer(name, "", "linear", "4", ["input"], parameters={"w": 16}) for name in ("a", "b")]
        self.assertEqual(ImportedModel("file", "title", layers).parameters, 16)


class Command(unittest.TestCase):
    def run_main(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = import_model.main(list(words))
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def test_says_how_it_is_called(self):
        for words in (
            ["torchvision.models.resnet50", "--image", "3", "8", "8"],
            ["a:b"],
            ["a:b", "--tokens", "x"],
            ["a:b", "--tokens", "8", "--image", "3", "8", "8"],
            ["none.onnx", "-o", "model.txt"],
        ):
            with self.subTest(words=words):
                code, out, err = self.run_main(*words)
                self.assertEqual((code, out), (2, ""))
                self.assertIn("usage: python -m lockstep.import_model", err)

    def test_modules_that_are_not_there_are_refused(self):
        for name in ("lockstep.none:make", "lockstep:none"):
            code, out, err = self.run_main(name, "--tokens", "8")
            self.assertEqual((code, out), (2, ""))
            self.assertIn(f"{name}: cannot be imported: ", err)

    @unittest.skipIf(HAS_ONNX, "onnx is here")
    def test_says_what_reads_onnx(self):
        _, out, err = self.run_main("my.onnx")
        self.assertEqual((out, err), ("", "my.onnx: needs the Python package onnx; Debian: python3-onnx\n"))

    @unittest.skipUnless(HAS_ONNX, "no onnx here")
    def test_prints_a_model_or_writes_it(self):
        record = str(ROOT / "tests/imports/data/graphs/resnet50.onnx.gz")
        code, out, err = self.run_main(record, "--parameters", "25557032")
        self.assertEqual((code, err), (0, f"{record}: 25557032 parameters\n"))
        self.assertIn('title: "resnet50"\n', out)
        self.assertIn("published: {parameters: 25557032, ", out)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "my.yaml")
            self.assertEqual(self.run_main(record, "--parameters", "25557032", "-o", path)[:2], (0, ""))
            self.assertEqual(Path(path).read_text(), out)
        code, out, err = self.run_main(record, "--parameters", "25557033")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err, f"--parameters: {record} has 25557032 parameters, not 25557033\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
