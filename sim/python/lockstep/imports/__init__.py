"""Model files (docs/model-format.md) of networks as graphs of operators, for `lockstep.import_model`."""
