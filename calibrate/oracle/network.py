"""nn.Modules from the layer list that `lockstep export --layers` prints.

Each dotted name becomes a module, so that parameters have their names in the model file
("layer1.0.conv2.weight") and DDP, FSDP and fully_shard see the tree of a handwritten network. A
module that is an FSDP unit runs its own layers when it is called. The unit around the other layers
runs them, in the order of the list.
"""

import functools
import math

import torch
from torch import nn

import rules

INPUT = -1  # the step's input, in a layer's list of inputs


class Node(nn.Module):
    """A place in the tree: parameters, children, and, for a unit, the layers that it runs."""

    def __init__(self):
        super().__init__()
        self.segment = None

    def forward(self, *tensors, target=None):
        return self.segment(tensors, target)


class Leaf:
    """The operands of one layer: its attributes and the places of its parameters."""

    def __init__(self, layer):
        self.kind = layer["kind"]
        self.inputs = layer["inputs"]
        self.attributes = layer["attributes"]
        self.places = []  # (module, attribute): FSDP puts other tensors there
        self.buffers = None  # module of batch norm's statistics

    def get(self, name, fallback=0):
        return self.attributes.get(name, fallback)

    def tensor(self, index):
        if index >= len(self.places):
            return None
        module, name = self.places[index]
        return getattr(module, name)


class Segment:
    """Consecutive layers of the list, run one after the other; nested units are called."""

    def __init__(self, steps, reads, writes):
        self.steps = steps  # [(callable, inputs, outputs, dropped afterwards)]
        self.reads = reads  # values that come in, by the number of their layer
        self.writes = writes

    def __call__(self, tensors, target):
        values = dict(zip(self.reads, tensors))
        del tensors
        for run, inputs, outputs, dropped in self.steps:
            results = run([values[i] for i in inputs], target)
            values.update(zip(outputs, results))
            del results
            for i in dropped:
                values.pop(i, None)
        results = tuple(values[i] for i in self.writes)
        return results[0] if len(results) == 1 else results


def build(step, units):
    """The root module of `step`; `units` are the dotted paths of the modules that will be wrapped."""
    root = Node()
    leaves = [make_leaf(root, layer) for layer in step["layers"]]
    chains = [chain(layer, set(units)) for layer in step["layers"]]
    make_segment(root, root, "", 0, range(len(leaves)), leaves, chains)
    return root


def find(root, path):
    return functools.reduce(getattr, path.split("."), root) if path else root


def make_node(root, path):
    node = root
    for name in path.split(".") if path else []:
        if name not in node._modules:
            node.add_module(name, Node())
        node = node._modules[name]
    return node


def make_leaf(root, layer):
    leaf = Leaf(layer)
    if "tied_to" in layer:
        path, _, name = layer["tied_to"].rpartition(".")
        leaf.places.append((make_node(root, path), name))
    shapes = [parameter["shape"] for parameter in layer["parameters"]]
    for parameter in layer["parameters"]:
        path, _, name = parameter["name"].rpartition(".")
        node = make_node(root, path)
        node.register_parameter(
            name, nn.Parameter(initial(layer["kind"], name, parameter["shape"], shapes[0]))
        )
        leaf.places.append((node, name))
    if layer["kind"] == "batch_norm":
        node = leaf.buffers = make_node(root, layer["name"])
        channels = shapes[0][0] if shapes else layer["attributes"]["channels"]
        node.register_buffer("running_mean", torch.zeros(channels))
        node.register_buffer("running_var", torch.ones(channels))
        node.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))
    return leaf


def initial(kind, name, shape, weight_shape):
    """Draws as calibrate/torch/real_network.cpp does, call by call: both networks start from the same numbers."""
    if kind in ("conv", "linear"):
        bound = 1 / math.sqrt(math.prod(weight_shape[1:]))
        return torch.empty(shape).uniform_(-bound, bound)
    if kind.endswith("_norm"):
        return torch.zeros(shape) if name == "bias" else torch.ones(shape)
    if kind == "layer_scale":
        return torch.full(shape, 1e-6)
    return torch.empty(shape).normal_(0, 0.02)


def chain(layer, units):
    """The units around a layer, outermost first."""
    found = set()
    for path in (layer["name"], layer["block"]):
        parts = path.split(".")
        found |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)} & units
    return sorted(found, key=len)


def make_segment(root, module, path, depth, layers, leaves, chains):
    """Gives `module` the layers [first, last] to run; returns the tensors that enter and leave."""
    groups = []  # (path of a nested unit or None, its layers)
    for i in layers:
        inner = chains[i][depth] if len(chains[i]) > depth else None
        if inner and groups and groups[-1][0] == inner:
            groups[-1][1].append(i)
        else:
            groups.append((inner, [i]))
    nested = [inner for inner, _ in groups if inner]
    if len(nested) != len(set(nested)):
        raise ValueError(f"a unit in '{path or 'the root'}' does not run in one piece")
    plan = []
    for inner, members in groups:
        if inner is None:
            leaf = leaves[members[0]]
            plan.append((functools.partial(run_leaf, leaf), leaf.inputs, members))
        else:
            child = find(root, inner)
            reads, writes = make_segment(root, child, inner, depth + 1, members, leaves, chains)
            plan.append((functools.partial(run_unit, root, inner), reads, writes))
    made = set(layers)
    reads = sorted({j for i in layers for j in leaves[i].inputs if j not in made})
    writes = sorted(
        {j for i in range(len(leaves)) if i not in made for j in leaves[i].inputs if j in made}
        | ({len(leaves) - 1} & made)
    )
    last_read = {}
    for position, (_, inputs, outputs) in enumerate(plan):
        last_read.update({i: position for i in (*inputs, *outputs)})
    steps = [
        (
            run,
            inputs,
            outputs,
            [i for i, at in last_read.items() if at == position and i not in writes],
        )
        for position, (run, inputs, outputs) in enumerate(plan)
    ]
    module.segment = Segment(steps, reads, writes)
    return reads, writes


def run_leaf(leaf, inputs, target):
    return (rules.RULES[leaf.kind](leaf, inputs, target),)


def run_unit(root, path, inputs, target):
    # Each call looks the module up: FullyShardedDataParallel replaces it by its wrapper.
    results = find(root, path)(*inputs, target=target)
    return results if isinstance(results, tuple) else (results,)


def random_batch(step, seed):
    """Input and target of the step's shape, drawn as random_batch() of calibrate/torch/real_network.cpp draws them."""
    torch.manual_seed(seed)
    shape = [step["samples"], *step["input_shape"]]
    if step["tokens"] > 0:
        rows = [l["parameters"][0]["shape"][0] for l in step["layers"] if l["kind"] == "embedding"][
            -1
        ]
        return torch.randint(rows, shape), torch.randint(rows, shape)
    linear = [l["parameters"] for l in step["layers"] if l["kind"] == "linear" and l["parameters"]]
    return torch.randn(shape), torch.randint(linear[-1][0]["shape"][0], (step["samples"],))
