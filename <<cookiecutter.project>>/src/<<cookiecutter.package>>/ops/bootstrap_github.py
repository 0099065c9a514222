"""Steps of `ops bootstrap` for GitHub Actions: a login without a key, for one repository."""

from __future__ import annotations

import re

from ..config import Config
from ..errors import InputError
from .accounts import account
from .bootstrap import NUMBER, Step
from .bootstrap_rights import on_account
from .gcloud import Words

ISSUER = "https://token.actions.githubusercontent.com"
PROVIDER = "github"
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
    pool = _pool_id(config)
    member = f"principalSet://iam.googleapis.com/{_path(config)}/attribute.repository/{name}"
    whose = f"workflows of {name}"
    binding = on_account(config, "build", member, "roles/iam.workloadIdentityUser", whose)
    return [_pool(config, pool, why), _provider(config, pool, name), binding]


def variables(config: Config, name: str) -> list[Words]:
    """What gives the repository's workflows their login; without a repository, nothing."""
    if not name:
        return []
    values = {
        "WORKLOAD_IDENTITY_PROVIDER": f"{_path(config)}/providers/{PROVIDER}",
        "SERVICE_ACCOUNT": account(config.cloud, "build"),
    }
    command = ("gh", "variable", "set")
    return [
        (*command, key, "--repo", name, "--body", value) for key, value in values.items() if name
    ]


def _pool_id(config: Config) -> str:
    return f"github-{config.cloud.cluster}"


def _path(config: Config) -> str:
    return f"projects/{NUMBER}/locations/global/workloadIdentityPools/{_pool_id(config)}"


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
    where = (PROVIDER, *scope, f"--project={config.cloud.project}")
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
