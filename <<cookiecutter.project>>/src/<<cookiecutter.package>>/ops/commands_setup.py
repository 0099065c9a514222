"""The verbs that are needed once, and when something is wrong."""

from __future__ import annotations

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
    from .bootstrap_steps import steps

    if dry_run:
        found = opening.settings(config, overrides)
        planned = steps(found, repository, trigger)
        result = work.described(planned, found.cloud.project)
        return show(result, as_json, _lines)
    with opening.desk(config, overrides) as desk:
        from .gcloud import Gcloud

        planned = steps(desk.config, repository, trigger, *_pods_account(desk))
        gcloud = Gcloud(desk.clock, desk.say)
        done = work.Bootstrap(gcloud, desk.clock, desk.say, desk.project).run(planned)
    return show(work.report(done), as_json, work.report_text)


def _lines(result: dict[str, Any]) -> str:
    return "\n".join(line for step in result["steps"] for line in step["commands"])


def _pods_account(desk: Desk) -> Any:
    """How the pods' service account is looked at and made, without kubectl."""
    from .accounts import IDENTITY, account
    from .kube_setup import KubeSetup
    from .rayjob import SERVICE_ACCOUNT
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
