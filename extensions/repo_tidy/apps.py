import sys
from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints.extension import Extension
from extensions.repo_tidy.words import WORDS

DEMO = {"rules": "F, I, UP, E7", "target_version": "py311", "unsafe_fixes": False, "push": False}


class RepoTidyConfig(Extension):
    name = "extensions.repo_tidy"
    workflows = ("extensions.repo_tidy.templates",)
    words = WORDS

    def demo(self, by: Any) -> None:
        """One work order on a real repository."""
        from runs import services as runs  # here: models are not there before
        from runs.git.samples import make_sample
        from runs.models import Repository

        repository = make_sample(Path(settings.WAYSTATION_DATA) / "sample" / "celery")
        check = [sys.executable, "-m", "compileall", "-q", "src"]
        Repository.objects.create(name="celery (sample)", url=str(repository), check_command=check)
        runs.submit(
            "repo-tidy",
            by=by,
            title="Tidy the sample repository",
            repository_url=str(repository),
            input=DEMO,
        )
