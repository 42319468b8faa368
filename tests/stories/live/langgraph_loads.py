"""People, templates and tokens that the tests of the door `/langgraph` need."""

from tests.databases.copies import PEOPLE

RULED = """
definitions.edit_template("both-agree", needs_repository=False, steps=[
    {**slow_steps_asking, "review": {"quorum": 2}},
])
definitions.edit_template("two-people", needs_repository=False, steps=[
    {**slow_steps_asking, "review": {"self_approval": False, "edits": True}},
])
definitions.edit_step_template("slow-crew", title="Crew", config={"parallel": True}, sub_steps=[
    {"step_type": "planning", "name": name, "step_template_slug": "slow-tick"}
    for name in ("north", "south")
])
definitions.edit_template("slow-crew", needs_repository=False, steps=[
    {"step_type": "execute", "name": "crew", "step_template_slug": "slow-crew"},
])
"""
LOADS = (
    PEOPLE
    + """
from runs import definitions
slow_steps_asking = {"step_type": "planning", "step_template_slug": "slow-tick",
    "pause_after": True, "pause_phase": "awaiting_plan_approval"}
"""
    + RULED
    + """
for name, scope in {"ask": "ask", "answer": "answer", "read": "read"}.items():
    ApiToken.objects.create(user=User.objects.get(username="ana"), name=name, scope=scope,
        digest=ApiToken.digest_of(f"wst_ana-{name}"))
"""
)
