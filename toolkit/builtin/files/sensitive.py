"""Patterns of paths that hold secrets, or files that other programs run: parts of paths, with `*` and `?` in names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Not read by default: keys, passwords and tokens, the places where developer tools store them, and shell histories.
DEFAULT_PRIVATE = (
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_*_sk",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    "kubeconfig",
    ".docker/config.json",
    ".dockercfg",
    ".config/gcloud",
    ".config/gh",
    ".config/rclone",
    ".git/config",
    ".git/modules",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".boto",
    ".s3cfg",
    ".terraformrc",
    ".terraform.d",
    ".huggingface",
    ".cache/huggingface/token",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    "*.tfstate",
    "*.tfstate.backup",
    ".htpasswd",
    ".vault-token",
    "credentials.json",
    "service-account*.json",
    ".*_history",
)
# Changed only with approval by default: files that a shell, editor, git, interpreter, agent or CI server runs later.
DEFAULT_GUARDED = (
    "*.git",
    "hooks/pre-commit",
    "hooks/pre-push",
    "hooks/pre-receive",
    "hooks/post-receive",
    "hooks/post-update",
    "hooks/update",
    ".gitconfig",
    ".gitmodules",
    ".config/git",
    ".githooks",
    ".husky",
    "lefthook.yml",
    "lefthook.yaml",
    ".lefthook",
    ".pre-commit-config.yaml",
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".gitlab-ci.yml",
    ".gitlab",
    ".circleci",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker.yml",
    ".woodpecker",
    ".buildkite",
    "appveyor.yml",
    ".appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".xprofile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".direnvrc",
    ".cargo/config.toml",
    ".local/bin",
    ".vimrc",
    ".exrc",
    ".config/nvim",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".devcontainer.json",
    ".mcp.json",
    ".cursor",
    ".claude",
    "*.pth",
    "sitecustomize.py",
    "usercustomize.py",
    "pyvenv.cfg",
    "site-packages",
    ".venv",
    "venv",
    "env/bin",
    "env/lib",
    "env/scripts",
    ".tox",
    ".nox",
)


class Patterns:
    """Matches a path if it or one of its parent directories fits a pattern, whatever the case of letters.

    Args:
        patterns: Parts of paths; one that begins with `!` is an exception.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        folded = [pattern.casefold() for pattern in patterns]
        included = _join_patterns(pattern for pattern in folded if not pattern.startswith("!"))
        excluded = _join_patterns(pattern[1:] for pattern in folded if pattern.startswith("!"))
        self._search = re.compile(rf"(?:\A|/)(?!{excluded}(?:/|\Z)){included}(?:/|\Z)").search

    def __contains__(self, names: Sequence[str]) -> bool:
        return self._search("/".join(names).casefold()) is not None


def _join_patterns(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(_to_regex, patterns)) or '(?!)'})"  # which matches nothing


def _to_regex(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


NO_PATTERNS = Patterns(())
