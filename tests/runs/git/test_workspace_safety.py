"""A repository is a stranger's: nothing it holds may run or leak, unless an operator wrote the
command.
"""

import os
import shutil
import sys
import time

import pytest

from runs.git.workspace import GitWorkspace, WorkspaceLimits
from runs.processes import process
from runs.workflows.base import StepFailed, Stopped
from tests.worlds.repositories import bare_copy, git, make_repository, never, order_for

HOOKS = [
    *(
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "reference-transaction",
        "pre-push",
        "post-merge",
    ),
    *(
        "post-index-change",
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
        "fsmonitor-watchman",
    ),
]


@pytest.fixture
def trap(tmp_path):
    """A program that leaves a mark when it is run."""
    program = tmp_path / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def origin(tmp_path):
    return make_repository(
        tmp_path / "origin",
        {"a.py": "a = 1\n", ".gitattributes": "* filter=evil diff=evil merge=evil text=auto\n"},
    )


@pytest.fixture
def workspace(tmp_path, origin):
    with make(tmp_path, origin) as made:
        yield made


def make(tmp_path, origin, **changes):
    fields = {"at": None, "check": never, "limits": WorkspaceLimits(lock_seconds=3)} | changes
    return GitWorkspace(tmp_path / "work" / "wo_1", order_for(origin), **fields)


def set_traps(git_dir, trap):
    (git_dir / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(trap, git_dir / "hooks" / name)
    with (git_dir / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {trap}\n\thooksPath = {git_dir}/hooks\n\tsshCommand = "
            f"{trap}\n\tpager = {trap}\n\teditor = {trap}\n"
            f'[filter "evil"]\n\tclean = {trap}\n\tsmudge = {trap}\n\trequired = true\n'
            f'[diff]\n\texternal = {trap}\n[diff "evil"]\n\ttextconv = {trap}\n\tcommand = {trap}\n'
            f'[merge "evil"]\n\tdriver = {trap}\n[gpg]\n\tprogram = {trap}\n[commit]\n\tgpgsign '
            "= true\n"
            f"[uploadpack]\n\tpackObjectsHook = {trap}\n[alias]\n\tstatus = !{trap}\n"
            f"[credential]\n\thelper = !{trap}\n"
        )


def use_all_of_it(workspace):
    workspace.restore()
    (workspace.path / "a.py").write_text("a = 2\n")
    workspace.git("status", "--porcelain")
    workspace.git("diff", "HEAD")
    workspace.commit("Change", ["a.py"])
    workspace.snapshot()
    workspace.reset(workspace.base())
    workspace.restore()


def test_hooks_filters_and_programs_of_the_origin_never_run(tmp_path, origin, workspace, trap):
    set_traps(origin / ".git", trap)
    use_all_of_it(workspace)
    assert not (tmp_path / "sprung").exists()


def test_hooks_filters_and_programs_planted_in_the_workspace_never_run(tmp_path, workspace, trap):
    workspace.restore()
    set_traps(workspace.path / ".git", trap)
    (workspace.path / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    use_all_of_it(workspace)
    assert not (tmp_path / "sprung").exists()


def test_hooks_of_a_local_origin_do_not_run_at_a_push(tmp_path, origin, trap):
    bare = bare_copy(origin, tmp_path / "bare.git")
    set_traps(bare, trap)
    with make(tmp_path, bare) as workspace:
        workspace.restore()
        (workspace.path / "a.py").write_text("a = 2\n")
        workspace.commit("Change", ["a.py"])
        workspace.push()
    assert git(bare, "rev-parse", "waystation/wo_1")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a repository to somebody else")
def test_a_local_origin_of_another_user_can_be_cloned(tmp_path, origin, workspace):
    for folder, _, names in os.walk(origin):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            shutil.chown(path, "nobody", "nogroup")
    workspace.restore()
    assert workspace.head()


def test_a_clone_shares_no_files_with_its_origin(origin, workspace):
    workspace.restore()
    links = {
        path.stat().st_nlink
        for path in (workspace.path / ".git" / "objects").rglob("*")
        if path.is_file()
    }
    assert links == {1}
    assert not (workspace.path / ".git" / "objects" / "info" / "alternates").exists()


def test_line_ends_and_bytes_are_the_commits_own(tmp_path):
    files: dict[str, str | bytes] = {
        "crlf.py": b"a = 1\r\n",
        "latin.py": b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        ".gitattributes": "*.py text eol=lf ident working-tree-encoding=UTF-16\n",
    }
    origin = tmp_path / "origin"
    make_repository(origin, {name: files[name] for name in ("crlf.py", "latin.py")})
    (origin / ".git" / "info" / "attributes").write_text("* -text -working-tree-encoding\n")
    (origin / ".gitattributes").write_text(files[".gitattributes"])
    git(origin, "add", ".gitattributes")
    git(origin, "commit", "-q", "-m", "Attributes")
    with make(tmp_path, origin) as workspace:
        workspace.restore()
        assert (workspace.path / "crlf.py").read_bytes() == files["crlf.py"]
        assert (workspace.path / "latin.py").read_bytes() == files["latin.py"]
        assert workspace.git("status", "--porcelain") == ""


def test_programs_see_nothing_of_our_environment(workspace, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    workspace.restore()
    names = {line.partition("=")[0] for line in workspace.run(["env"]).output.splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD"}


def test_submodules_are_left_out(tmp_path, origin, trap):
    other = make_repository(tmp_path / "other", {"x.py": ""})
    git(origin, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(origin, "commit", "-q", "-m", "Submodule")
    with make(tmp_path, origin) as workspace:
        workspace.restore()
        assert list((workspace.path / "sub").iterdir()) == []
        assert workspace.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% /tmp/x", "http://127.0.0.1:9/x", "git://127.0.0.1/x"]
)
def test_transports_that_were_not_allowed_are_refused_by_git_too(tmp_path, url):
    with make(tmp_path, url) as workspace, pytest.raises(StepFailed) as failed:
        workspace.restore()
    assert "not allowed" in str(failed.value)


def test_a_failure_does_not_repeat_credentials(tmp_path):
    with (
        make(tmp_path, "https://ada:s3cret@127.0.0.1:9/x") as workspace,
        pytest.raises(StepFailed) as failed,
    ):
        workspace.restore()
    assert "s3cret" not in str(failed.value)


# Programs and their bounds


def run(*arguments, seconds=20.0, limit=10_000_000, check=never, tmp_path, stdin=b""):
    bounds = process.Bounds(seconds=seconds, max_output=limit, check=check)
    return process.run(
        arguments, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, bounds=bounds, stdin=stdin
    )


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


GRANDCHILD = "sleep 60 & echo $! > pid; "


def ends(tmp_path):
    deadline = time.monotonic() + 5
    while is_running(int((tmp_path / "pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.02)  # nothing tells when a foreign process is gone
    return not is_running(int((tmp_path / "pid").read_text()))


def test_a_timeout_ends_the_grandchildren(tmp_path):
    with pytest.raises(process.ProcessTimeIsUp):
        run("sh", "-c", GRANDCHILD + "sleep 60", seconds=0.5, tmp_path=tmp_path)
    assert ends(tmp_path)


def test_a_cancel_ends_the_program_and_its_children_within_a_second(tmp_path):
    def check():
        if (tmp_path / "pid").exists():
            raise Stopped("cancelled")

    begun = time.monotonic()
    with pytest.raises(Stopped):
        run("sh", "-c", GRANDCHILD + "sleep 60", check=check, tmp_path=tmp_path)
    assert time.monotonic() - begun < 2
    assert ends(tmp_path)


def test_a_child_that_keeps_the_pipes_open_does_not_keep_us(tmp_path):
    begun = time.monotonic()
    done = run("sh", "-c", GRANDCHILD + "echo done", tmp_path=tmp_path)
    assert (done.returncode, done.output) == (0, b"done\n")
    assert time.monotonic() - begun < 5
    assert ends(tmp_path)


def test_a_program_that_closes_its_output_is_still_bounded(tmp_path):
    with pytest.raises(process.ProcessTimeIsUp):
        run("sh", "-c", "exec >&- 2>&-; sleep 60", seconds=0.5, tmp_path=tmp_path)


def test_too_much_output_ends_the_program(tmp_path):
    with pytest.raises(process.TooMuchOutput):
        run("sh", "-c", "yes; " + GRANDCHILD, limit=1_000_000, tmp_path=tmp_path)


def test_much_on_both_pipes_does_not_deadlock(tmp_path):
    code = (
        "import sys; [(sys.stdout.write('o' * 70000), sys.stderr.write('e' * 70000)) for _ in "
        "range(20)]"
    )
    done = run(sys.executable, "-c", code, tmp_path=tmp_path)
    assert (len(done.output), len(done.errors)) == (1_400_000, 1_400_000)


def test_input_that_nobody_reads_does_not_block(tmp_path):
    assert run("true", stdin=b"x" * 5_000_000, tmp_path=tmp_path).returncode == 0
    assert run("cat", stdin=b"x" * 500_000, tmp_path=tmp_path).output == b"x" * 500_000


@pytest.mark.parametrize("arguments", [["no-such-program"], ["/etc/passwd"], ["echo", "a\0b"]])
def test_a_program_that_cannot_start_is_said(tmp_path, arguments):
    with pytest.raises(process.ProgramMissing):
        run(*arguments, tmp_path=tmp_path)


def test_the_workspace_says_it_in_the_words_of_a_step(workspace):
    workspace.restore()
    for arguments, timeout, code in (
        (["none"], None, "program_missing"),
        (["sleep", "9"], 0.2, "timeout"),
    ):
        with pytest.raises(StepFailed) as failed:
            workspace.run(arguments, timeout=timeout)
        assert failed.value.code == code


def test_an_exit_code_and_a_signal_are_answers(workspace):
    workspace.restore()
    assert workspace.run(["sh", "-c", "echo out; echo err >&2; exit 3"]).returncode == 3
    assert workspace.run(["sh", "-c", "kill -9 $$"]).returncode == -9


def test_a_file_of_the_home_folder_is_read_and_written_where_it_is_and_links_lead_nowhere(
    workspace, tmp_path
):
    workspace.restore()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_text("not the program's to show")
    home = workspace.write_home("sessions/one/a.json", "first").parents[2]
    assert workspace.read_home("sessions/*/a.json", most=100) == "first"
    assert workspace.read_home("sessions/*/a.json", most=4) == ""
    shutil.rmtree(home / "sessions" / "one")
    (home / "sessions" / "one").symlink_to(outside)
    (home / "sessions" / "two").mkdir()
    (home / "sessions" / "two" / "a.json").symlink_to(outside / "a.json")
    assert workspace.read_home("sessions/*/a.json", most=100) == ""
    workspace.write_home("sessions/one/a.json", "second")
    workspace.write_home("sessions/two/a.json", "third")
    assert (outside / "a.json").read_text() == "not the program's to show"
    assert workspace.read_home("sessions/one/a.json", most=100) == "second"
