"""Steps of `ops bootstrap` for GitHub Actions: a login without a key, for one repository."""

from __future__ import annotations

import re

from ..config import Config
from ..errors import InputError
from .bootstrap import NUMBER, Step
from .bootstrap_rights import on_account

ISSUER = "https://token.actions.githubusercontent.com"
# A subject has at most 127 bytes, and GitHub's own holds the name of the branch.
MAPPING = (
    "google.subject=assertion.repository_id + '/' + assertion.run_id,"
    "attribute.repository=assertion.repository"
)


def github(config: Config, name: str) -> list[Step]:
    """Keyless login for the workflows of one GitHub repository. Raises InputError."""
    why = f"workflows of {name or 'one repository'} log in without a key"
    if not name:
        skipped = "name the GitHub repository whose workflows may log in: --repository OWNER/REPO"
        return [Step("GitHub login", why, skipped=skipped)]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[\w.-]{1,100}", name, re.ASCII):
        raise InputError(f'"{name}" is no GitHub repository', "--repository", "give OWNER/REPO")
    pool = f"github-{config.cloud.cluster}"
    path = f"projects/{NUMBER}/locations/global/workloadIdentityPools/{pool}"
    member = f"principalSet://iam.googleapis.com/{path}/attribute.repository/{name}"
    whose = f"workflows of {name}"
    binding = on_account(config, "build", member, "roles/iam.workloadIdentityUser", whose)
    return [_pool(config, pool, why), _provider(config, pool, name), binding]


def _pool(config: Config, pool: str, why: str) -> Step:
    command = ("gcloud", "iam", "workload-identity-pools")
    where = (pool, "--location=global", f"--project={config.cloud.project}")
    return Step(
        "GitHub login",
        why,
        (*command, "describe", *where),
        ((*command, "create", *where, "--display-name=GitHub Actions"),),
        there=lambda found: bool(found and found.get("state") == "ACTIVE"),
        # A pool that was removed keeps its name for a month.
        mend=((*command, "undelete", *where),),
    )


def _provider(config: Config, pool: str, name: str) -> Step:
    command = ("gcloud", "iam", "workload-identity-pools", "providers")
    scope = (f"--workload-identity-pool={pool}", "--location=global")
    where = ("github", *scope, f"--project={config.cloud.project}")
    condition = f"assertion.repository == '{name}'"
    rules = (
        f"--issuer-uri={ISSUER}",
        f"--attribute-mapping={MAPPING}",
        f"--attribute-condition={condition}",
    )
    return Step(
        "GitHub login's rule",
        f"tokens of {name} only; anyone's workflow has GitHub's signature",
        (*command, "describe", *where),
        ((*command, "create-oidc", *where, *rules),),
        there=lambda found: bool(found and found.get("attributeCondition") == condition),
        mend=((*command, "update-oidc", *where, *rules),),
    )
