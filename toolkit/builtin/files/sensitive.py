"""Patterns of paths that hold secrets, or files that other programs run: parts of paths, with `*` and `?` in names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Not read by default: keys, passwords and tokens, the places where developer tools store them, and shell histories.
DEFAULT_PRIVATE = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", ".envrc"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "!id_*.pub"),
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".mozilla", ".thunderbird"),
    *(".aws", ".azure", ".kube", "kubeconfig", ".docker/config.json", ".dockercfg", ".terraformrc", ".terraform.d"),
    *(".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub", ".config/rclone", ".config/op"),
    *(".config/git/credentials", ".config/github-copilot", ".config/chromium", ".config/google-chrome"),
    *(".git/config", ".git/modules", ".git-credentials", ".subversion/auth"),
    *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml"),
    *("credentials.json", "credentials.toml", ".credentials", ".credentials.*", "service-account*.json"),
    *(".codex/auth.json", ".composer/auth.json", ".config/*/auth.json", ".local/share/*/auth.json"),
    *("oauth_creds.json", ".claude.json", ".vault-token", ".htpasswd"),
    *(".cargo/credentials", ".gem/credentials", ".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc"),
    *(".m2/settings.xml", ".kaggle"),
    *(".gradle/gradle.properties", ".huggingface", ".cache/huggingface/token", ".cache/huggingface/stored_tokens"),
    *(".pgpass", ".my.cnf", ".boto", ".s3cfg", "*.tfstate", "*.tfstate.backup", ".*_history"),
)
# Changed only with approval by default: files that a shell, editor, git, interpreter, agent or CI server runs later.
# Nearly all of them begin with a dot, or are in a directory that does, so all such paths are guarded, with exceptions.
DEFAULT_GUARDED = (
    *(".*", "!.gitignore", "!.gitkeep", "!.keep", "!.mailmap", "!.editorconfig", "!.nojekyll"),
    *("!.dockerignore", "!.npmignore", "!.prettierignore", "!.eslintignore"),
    *("!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("*.git", "hooks/pre-*", "hooks/post-*", "hooks/update", "hooks/commit-msg", "hooks/prepare-commit-msg"),
    *("lefthook*.yml", "lefthook*.yaml", "lefthook*.toml", "lefthook*.json"),
    *("appveyor.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile"),
    *("_vimrc", "_gvimrc", "vimfiles", "*.code-workspace", "*.sublime-project"),
    *("*.pth", "sitecustomize.py", "usercustomize.py", "pyvenv.cfg", "site-packages", "node_modules", "venv"),
    *("env/bin", "env/lib", "env/scripts"),
)


class Patterns:
    """Matches a path if it or one of its parent directories fits a pattern, whatever the case of letters.

    A pattern that begins with `!` is an exception.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        folded = [pattern.casefold() for pattern in patterns]
        included = _join_patterns(pattern for pattern in folded if not pattern.startswith("!"))
        excluded = _join_patterns(pattern[1:] for pattern in folded if pattern.startswith("!"))
        self._search = re.compile(rf"(?:\A|/)(?!{excluded}(?:/|\Z)){included}(?:/|\Z)").search

    def __contains__(self, names: Sequence[str]) -> bool:
        return self._search("/".join(names).casefold()) is not None


def _join_patterns(patterns: Iterable[str]) -> str:
    escaped = (re.escape(each).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for each in patterns)
    return f"(?:{'|'.join(escaped) or '(?!)'})"  # (?!) matches nothing
