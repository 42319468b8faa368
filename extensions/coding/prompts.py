"""What coding agents are told; a step template may say something else (`prompt`).

See `runs.workflows.prompts`.
"""

from __future__ import annotations

PLAN = """\
Plan a change to the git repository in the current directory. Read whatever you need, but change
nothing: somebody else will carry
the plan out, after a person has approved it. Answer with the plan alone, in Markdown: what there is
now, what is to change in
which files and why, what could go wrong, and how it will be proven.

# The request: {{title}}

{{request}}

# What to look at most

{{focus}}

# The plan that was made before

{{state.plan}}

# What a person says about that plan

{{revision_feedback}}

# How the repository is checked

{{check_command}}
"""
MERGE = """\
Several people planned the same change apart from each other. Make one plan of theirs, in Markdown,
that a person can approve:
keep what they agree on, decide where they differ and say why, and leave out nothing that one of
them alone saw. Change no file.

# The request: {{title}}

{{request}}

# Their plans

{{plans}}

# What a person says about the last plan

{{revision_feedback}}
"""
EXECUTE = """\
Carry out the change below in the git repository in the current directory, and nothing beyond it.
Work until it is done; nobody
can answer questions. You need not commit. End with a short summary in Markdown: what you changed,
what you left, what a reviewer
should look at.

# The request: {{title}}

{{request}}

# The approved plan

{{plan}}

# What a review found in the change so far

{{state.review}}

# What a person wants changed in it

{{revision_feedback}}

# How the repository is checked

{{check_command}}
"""
REVIEW = """\
Review a change to the git repository in the current directory; it is committed already, and the
patch is below. Change nothing.
Answer in Markdown: first whether the change does what was asked, then what you found, the most
serious first, each with its file
and line. If all is well, say so in a sentence.

# The request: {{title}}

{{request}}

# The plan

{{plan}}

# What the repository's own check said

{{check}}

# The patch

{{patch}}
"""
