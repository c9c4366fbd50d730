#!/usr/bin/env python3
"""Imports the records of record_graphs.py as model files: write_models.py FOLDER PATTERN FOLDER_OF_RECORDS...

"resnet50.json.gz" becomes FOLDER/resnet50.json.yaml, with the importer's count of parameters as the published count.
"""
import gzip
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "sim/python"))
from lockstep import import_model  # noqa: E402
from lockstep.imports import torch_graph  # noqa: E402


def imported(record):
    if ".onnx" in record.name:
        return import_model.of_onnx(str(record))
    document = json.loads(gzip.decompress(record.read_bytes()))
    return import_model.of_graph(torch_graph.read(document, document["title"]))


folder, pattern, *sources = sys.argv[1:]
pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
for source in sources:
    for path in pathlib.Path(source).glob(pattern):
        model = imported(path)
        name = path.name[: -len(".gz")] if path.name.endswith(".gz") else path.name
        pathlib.Path(folder, name + ".yaml").write_text(model.text(model.parameters))
