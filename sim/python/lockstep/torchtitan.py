"""torchtitan's configuration as the JSON that `lockstep import-config` reads.

    python -m lockstep.torchtitan --module torchtitan.models.llama3.config_registry --config llama3_8b -o llama3_8b.json

Calls the named function and writes its result's to_dict(). torchtitan itself writes the same for
debug.save_config_file at the start of a run. Needs torchtitan; no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import List, Optional


def config_json(module: str, config: str) -> str:
    """The configuration's text. Raises ImportError and AttributeError where there is no such function."""
    made = getattr(importlib.import_module(module), config)()
    return json.dumps(made.to_dict(), indent=2, default=repr) + "\n"


def main(words: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lockstep.torchtitan", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--module", required=True, help="Module that holds the function")
    parser.add_argument("--config", required=True, help="Function that returns the configuration")
    parser.add_argument("-o", "--output", default="-", help="JSON file (default: print)")
    options = parser.parse_args(words)
    try:
        text = config_json(options.module, options.config)
    except (ImportError, AttributeError) as error:
        print(f"{options.module}.{options.config}: {error}", file=sys.stderr)
        return 2
    if options.output == "-":
        sys.stdout.write(text)
    else:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
