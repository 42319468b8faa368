"""The environment in which git and other programs see a stranger's repository: ours from the ground
up, none of theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# In a file and not only in the environment: git clears its own variables for the other side of a
# local clone or push.
SETTINGS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.pager": "cat",
    "core.sshCommand": "ssh -oBatchMode=yes",
    "credential.helper": "",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "diff.renames": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "advice.detachedHead": "false",
    "init.defaultBranch": "main",
    "safe.directory": "*",
    "protocol.allow": "never",
    "http.followRedirects": "false",  # an allowed host must not send us on to one that is not
}

# The highest of git's attribute files: no filter, no conversion, so the work tree holds exactly the
# bytes of the commit.
ATTRIBUTES = b"* -text -ident -filter -working-tree-encoding !eol !diff !merge\n"


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write git's only configuration beside the repository's own, which is pinned to what our clone
    wrote.
    """
    lines = []
    for name, value in settings.items():
        value = value.replace("\\", "\\\\").replace('"', '\\"')
        section, _, key = name.rpartition(".")
        head, _, part = section.partition(".")
        lines.append(
            f'[{head} "{part}"]\n\t{key} = "{value}"\n'
            if part
            else f'[{head}]\n\t{key} = "{value}"\n'
        )
    text = "".join(lines)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


def program_environment(*, home: Path, temporary: Path, search_path: str) -> dict[str, str]:
    """What a program started for a repository may know: nothing of ours, so no secret can leak into
    it or its output.
    """
    return {"PATH": search_path, "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(temporary)}


def git_environment(
    program: Mapping[str, str], *, file: Path, settings: Mapping[str, str], author: tuple[str, str]
) -> dict[str, str]:
    name, mail = author
    forced = ["core.hooksPath", "core.fsmonitor", "core.sshCommand", "credential.helper"]
    environment = {
        **program,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(file),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
        "GIT_CONFIG_COUNT": str(len(forced)),
    }
    # stronger than anything in the repository's own configuration
    for number, key in enumerate(forced):
        environment |= {
            f"GIT_CONFIG_KEY_{number}": key,
            f"GIT_CONFIG_VALUE_{number}": settings[key],
        }
    return environment
