"""The command `ops`: from run.toml to a TPU slice and back.

Exit codes: 0 done; 2 wrong input; 3 not found; 4 refused by the cloud (rights, quota); 5 no
capacity anywhere in the list; 6 the job failed; 7 deadline; 8 something of ours is left over.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from ..console import run_app
<% if cookiecutter.framework == "torch_xla" %>
from . import commands_preflight, commands_project, commands_push, commands_run, commands_setup
<% else %>
from . import commands_project, commands_push, commands_run, commands_setup
<% endif %>

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_RUN, _PROJECT = "One run, in this order", "The whole project"
_SETUP = "Once, and when something is wrong"

_of_run: tuple[Callable[..., None], ...] = (
    commands_run.plan,
<% if cookiecutter.framework == "torch_xla" %>
    commands_preflight.preflight,
<% endif %>
    commands_push.build,
    commands_run.provision,
    commands_run.submit,
    commands_run.watch,
    commands_run.logs,
    commands_run.dashboard,
    commands_push.report,
    commands_run.teardown,
)
_of_project: tuple[Callable[..., None], ...] = (
    commands_project.status,
    commands_project.cost,
    commands_project.sweep,
)
_of_setup: tuple[Callable[..., None], ...] = (
    commands_setup.bootstrap,
    commands_setup.doctor,
    commands_setup.render,
)

for _panel, _verbs in ((_RUN, _of_run), (_PROJECT, _of_project), (_SETUP, _of_setup)):
    for _verb in _verbs:
        app.command(rich_help_panel=_panel)(_verb)


def main() -> None:
    run_app(app)


if __name__ == "__main__":
    main()
