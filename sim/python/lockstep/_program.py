"""Finds and runs the program, and turns its error messages into exceptions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import List, NamedTuple, Optional, Sequence


class Problem(NamedTuple):
    """One mistake and its place: in a scenario, or in the text of an override."""

    file: str
    line: int
    column: int
    message: str


class LockstepWarning(UserWarning):
    """There is an answer, but not for every point."""


class LockstepError(Exception):
    """The program has no answer. `code` is its exit code; None if it could not be started."""

    def __init__(self, message: str, code: Optional[int] = None):
        super().__init__(message)
        self.code = code


class ConfigError(LockstepError):
    """The question is wrong. The text is the program's own, a line for each mistake; `problems` are
    the mistakes that have a place."""

    def __init__(self, message: str, code: Optional[int] = None):
        super().__init__(message, code)
        self.problems: List[Problem] = [
            Problem(m[1], int(m[2]), int(m[3]), m[4])
            for m in re.finditer(r"^(.+?):(\d+):(\d+): (.*)$", message, re.MULTILINE)
        ]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def _program() -> str:
    chosen = os.environ.get("LOCKSTEP_PROGRAM") or shutil.which("lockstep")
    if not chosen:
        raise LockstepError("the program lockstep is not on PATH; install it, or name it in LOCKSTEP_PROGRAM")
    return chosen


def ask(words: Sequence[str]) -> Answer:
    """Returns standard output where there is an answer, if only for some points. Raises LockstepError."""
    try:
        done = subprocess.run(
            [_program(), *words], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise LockstepError(f"cannot start {error.filename}: {error.strerror}") from error
    if done.stdout:
        return Answer(done.returncode, done.stdout, done.stderr)
    message = done.stderr.strip() or f"lockstep ended with code {done.returncode}"
    kind = ConfigError if done.returncode == 2 else LockstepError
    raise kind(message, done.returncode)
