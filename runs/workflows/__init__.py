"""The workflows that ship with Waystation. Importing this package registers their steps."""

from runs.workflows import booking as booking
from runs.workflows import coding as coding
from runs.workflows import command as command
from runs.workflows import deliver as deliver
from runs.workflows import flow as flow
from runs.workflows import gate as gate
from runs.workflows import repo_tidy as repo_tidy
