"""The verbs that are needed once, and when something is wrong."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import show
from ..options import CONFIG, ConfigOption, JsonOption, SetOption
from . import opening
from .clock import WallClock
from .opening import DryRun
from .voice import Voice

if TYPE_CHECKING:
    from .desk import Desk

LocalOption = Annotated[bool, typer.Option("--local", help="Ask no network: this machine only.")]
ImageOption = Annotated[str, typer.Option("--image", envvar="IMAGE", help="The image to look at.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Write nothing; exit code 2 and a diff where they differ.")
]
RepositoryOption = Annotated[
    str,
    typer.Option(
        "--repository", metavar="OWNER/REPO", help="The GitHub repository that may log in."
    ),
]
TriggerOption = Annotated[
    str,
    typer.Option(
        "--cloudbuild-trigger", metavar="NAME", help="The trigger that runs the nightly clean-up."
    ),
]


def doctor(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    local: LocalOption = False,
    image: ImageOption = "",
    as_json: JsonOption = False,
) -> None:
    """Look for all that would stop a run: settings, tools, rights, cluster, bucket, quota.

    The exit code is that of the first thing found bad.
    """
    from . import doctor as work
    from .checks_local import LOCAL

    checks = list(LOCAL)
    if not local:
        from .checks_cloud import CLOUD
        from .checks_cluster import CLUSTER

        checks += [*CLOUD, *CLUSTER]
    voice = Voice(WallClock().now, kept=False)
    try:
        findings = work.examine(work.Room(config, overrides, image, voice), checks)
    finally:
        voice.done()
    result = work.report(findings)
    show(result, as_json, work.report_text)
    raise typer.Exit(result["exit_code"])


def bootstrap(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    repository: RepositoryOption = "",
    trigger: TriggerOption = "",
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Make or mend what a Google Cloud project needs once: APIs, cluster, bucket, accounts.

    Run again it changes nothing. `--dry-run` prints the commands and runs none.
    """
    from . import bootstrap as work
    from .bootstrap_github import variables
    from .bootstrap_steps import steps, wanted

    project = config.absolute().parent
    if dry_run:
        found = opening.settings(config, overrides)
        planned = wanted(steps(found, repository, trigger), project)
        result = work.described(planned, found.cloud.project, variables(found, repository))
        return show(result, as_json, _lines)
    with opening.desk(config, overrides) as desk:
        from .gcloud import Gcloud

        planned = wanted(steps(desk.config, repository, trigger, *_pods_account(desk)), project)
        gcloud = Gcloud(desk.clock, desk.say)
        making = work.Bootstrap(gcloud, desk.clock, desk.say, desk.project)
        done = making.run(planned)
        then = [making.numbered(words) for words in variables(desk.config, repository)]
    return show(work.report(done, then), as_json, work.report_text)


def render(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    check: CheckOption = False,
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Write k8s/ beside run.toml: the run's job and what it needs, for `kubectl apply -k k8s`.

    `--check` shows where the files differ, and why a cluster would refuse or never start them.
    """
    from . import render as work
    from .cost import read_prices
    from .manifests import manifests
    from .misfits import misfits

    settings = opening.settings(config, overrides)
    objects = manifests(settings, read_prices())
    folder = config.resolve().parent / work.FOLDER
    found = (work.look if check or dry_run else work.write)(folder, objects)
    unfit = misfits(folder, settings) if check else []
    wrong = check and (found.changed or unfit)
    verb = "would write" if dry_run else "wrote"
    told = work.difference(folder, objects) if wrong else _rendered_text(asdict(found), verb)
    result = asdict(found) | ({"misfits": unfit} if check else {})
    show(result, as_json, lambda _: "\n".join([told, *unfit]))
    if wrong:
        raise work.disagreement(folder, found.changed, _render_command(config, overrides))


def _render_command(config: Path, overrides: list[str]) -> str:
    """The command that mends what `--check` found, with the options that it was given."""
    where = [] if config == CONFIG else ["--config", str(config)]
    settings = [word for setting in overrides for word in ("--set", setting)]
    return shlex.join(["ops", "render", *where, *settings])


def _rendered_text(result: dict[str, Any], verb: str) -> str:
    written = [f"{verb} {name}" for name in result["changed"]]
    return "\n".join([*written, f"{result['folder']} is what run.toml says"][: len(written) or 1])


def _lines(result: dict[str, Any]) -> str:
    commands = [line for step in result["steps"] for line in step["commands"]]
    return "\n".join([*commands, *result["then"]])


def _pods_account(desk: Desk) -> Any:
    """How the pods' service account is looked at and made, without kubectl."""
    from .accounts import IDENTITY, account
    from .kube_setup import KubeSetup
    from .pods import SERVICE_ACCOUNT
    from .remote import Missing

    wanted = account(desk.config.cloud, "train")

    def kube() -> KubeSetup:
        return KubeSetup(desk.remote, desk.credentials, desk.gke.cluster(desk.place))

    def shown() -> bool:
        try:
            found = kube().service_account(SERVICE_ACCOUNT)
        except Missing:
            return False
        return (found["metadata"].get("annotations") or {}).get(IDENTITY) == wanted

    return shown, lambda: kube().apply_service_account(SERVICE_ACCOUNT, wanted)
