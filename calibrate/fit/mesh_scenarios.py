"""A measured step of a mesh as a scenario, and the parts that such scenarios share."""

import csv
import dataclasses
import pathlib

MEASUREMENTS = pathlib.Path(__file__).resolve().parents[2] / "platforms" / "measurements" / "meshes"
GIB = 2.0**30


@dataclasses.dataclass
class Row:
    """A measured step: the scenario, and the measured figures.

    `stage`: the pipeline stage with measured memory; -1 = the last, None = the fullest rank.
    `memory_kind`: the field of the prediction that is compared with the peak.
    """

    source: str
    number: int
    scenario: dict
    fields: dict
    step_seconds: float = 0.0
    peak_bytes: float = 0.0
    stage: int | None = None
    memory_kind: str = "allocated_bytes"
    fits: bool = True
    note: str = ""


def read_table(name):
    """The rows of a CSV file of measurements; its header has # before each line."""
    with open(MEASUREMENTS / name, encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def megatron_tensor(size, sequence):
    """`parallel.tensor` of Megatron-LM: fused projections, split loss, overlap in backward."""
    if size == 1:
        return 1
    return {"size": size, "sequence": sequence, "keep_gathered": False, "shared_exchanges": True,
            "split_loss": True, "overlap": "backward", "copies": False,
            "repeat_last_exchange": True}


def user_buffers(size):
    """`parallel.tensor` of Megatron-Core with exchanges that travel in pieces beside products."""
    tensor = megatron_tensor(size, True)
    if size > 1:
        tensor["overlap"] = "pieces"
    return tensor


def pipeline(stages, transfers, **more):
    """`parallel.pipeline`, or the number 1 for a single stage."""
    return 1 if stages == 1 else {"stages": stages, "transfers": transfers, **more}


def base_scenario(row, model, parameters, batch, platform, parallel, strategy, **more):
    """A scenario of one row; `row` gives the source and the number for its name."""
    return {"name": f"{row[0]} {row[1]}", "model": model, "model_parameters": parameters,
            "batch": batch, "platform": platform, "gpus": [more.pop("gpus")],
            "parallel": parallel, "strategies": [strategy], **more}


def axes(**degrees):
    """The fields by which a table can group."""
    return {"cp": 1, "tp": 1, "pp": 1, "dp": 1, **degrees}
