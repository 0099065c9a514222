"""The template's Jinja extension: checks the answers before anything is written.

How it works, from the top of cookiecutter.json down:

1. `__answers` has answers kept as they stand. Cookiecutter renders every answer that comes from the
   command line, a config file or cruft as a template; from here on only the expressions of
   cookiecutter.json itself are one, so that an answer never runs.
2. `suggest` gives the defaults that depend on answers before them.
3. `__checked` holds all answers against the rules of template_answers.py. Right ones are put back
   in their normal form (`gs://b/` -> `b`) into the very mapping that Cookiecutter hands to all
   files, names and hooks: a template file writes `<< cookiecutter.bucket >>` and nothing else.
   Wrong ones end the run with one message, before a file or folder exists.

`cruft update` renders the old and the new version of the template in one process with the old
version's module: the names in this file must never change. All that does change lives in files that
are read afresh for each environment, among them the catalog of the project itself.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

from cookiecutter.exceptions import ContextDecodingException
from jinja2 import Environment
from jinja2.ext import Extension

ROOT = Path(__file__).resolve().parent


class InvalidAnswers(ContextDecodingException, SystemExit):
    """Answers that cannot work; the message names all of them.

    Both commands end with the message and exit code 1 instead of a traceback: `cookiecutter` prints
    this kind of its own exceptions, and `cruft`, which catches none, is ended by SystemExit.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = message


class Answers(Extension):
    """Named in `_extensions` of cookiecutter.json."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        questions = json.loads((ROOT / "cookiecutter.json").read_text(encoding="utf-8"))
        self._expressions = {value for value in questions.values() if isinstance(value, str)}
        self._answering = False
        environment.filters["verbatim"] = self._verbatim
        environment.filters.update(load("template_answers.py").filters(load, InvalidAnswers))

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Jinja's hook before parsing: an answer becomes a template that renders to itself."""
        if not self._answering or source in self._expressions:
            return source
        begin, end = self.environment.variable_start_string, self.environment.variable_end_string
        begins = (begin, self.environment.block_start_string, self.environment.comment_start_string)
        delimiter = "|".join(re.escape(text) for text in begins)
        return re.sub(delimiter, lambda found: f"{begin} '{found[0]}' {end}", source)

    def _verbatim(self, text: str) -> str:
        self._answering = True
        return text


def load(file: str) -> ModuleType:
    """A module from its file, read now and not by `import`.

    `import` would hand out another version's module under `cruft update`, and would leave a
    `__pycache__` in the template for the project to inherit.
    """
    path = ROOT / file
    module = ModuleType(f"template:{file}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their own module up
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), module.__dict__)  # noqa: S102
    return module
