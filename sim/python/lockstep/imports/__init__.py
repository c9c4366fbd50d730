"""Networks as graphs of operators, and model files (docs/model-format.md) of them; `lockstep.import_model` is the door."""
