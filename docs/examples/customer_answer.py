"""An agent answers a customer: it reckons, reads pages and sends vouchers, each as a person lets
it. Then a LangGraph graph writes the letter, and asks before it goes out.

The model is the server's (`WAYSTATION_MODEL`). Without one the scripted model answers, which
understands nothing, but uses the tools: order `calculate 6 * 7` or `fetch https://example.org`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from extensions.langgraph.graphs.named import graph
from runs.agents.tools import ToolUse, tool
from runs.workflows import Context, Done, Outcome, State, step, use, workflow

FOLDER = Path(__file__).parent / "data"


@tool(
    "send_voucher",
    description="Send the customer a voucher over an amount in EUR.",
    risk="high",
    editable=["/amount"],
    preview=lambda arguments: f"A voucher over **{arguments['amount']} EUR**.",
    parameters={
        "type": "object",
        "properties": {"amount": {"type": "integer", "minimum": 1, "maximum": 100}},
        "required": ["amount"],
        "additionalProperties": False,
    },
)
def send_voucher(arguments: Mapping[str, Any], use: ToolUse) -> str:
    """A call of high risk: a person approves it first, and may change the amount."""
    return post(use.key, f"A voucher over {arguments['amount']} EUR")


def post(key: str, text: str) -> str:
    """Send something to the customer, once for each key."""
    (FOLDER / "letters").mkdir(parents=True, exist_ok=True)
    name = f"{key.replace('/', '-')}.txt"
    (FOLDER / "letters" / name).write_text(text)
    return name


class Letter(TypedDict, total=False):
    """The state of the graph."""

    findings: str
    letter: str


@graph("customer-letter")
def letter_graph() -> Any:
    """Write a letter and let a person accept it, edit it, or say no."""
    from langgraph.graph import END, START, StateGraph  # installed apart
    from langgraph.types import interrupt  # as above

    def write(state: Letter) -> Letter:
        return {"letter": f"Dear customer,\n\n{state['findings']}"}

    def ask(state: Letter) -> Letter:
        call = {"action": "send_letter", "args": {"text": state["letter"]}}
        allowed = {"allow_accept": True, "allow_edit": True, "allow_ignore": True}
        answer: Any = interrupt([{"action_request": call, "config": allowed}])[0]
        if answer["type"] in {"accept", "edit"}:
            return {"letter": answer["args"]["args"]["text"]}
        return {"letter": ""}

    made: Any = StateGraph(Letter)
    made.add_node("write", write)
    made.add_node("ask", ask)
    made.add_edge(START, "write")
    made.add_edge("write", "ask")
    made.add_edge("ask", END)
    return made


@step("answer.send")
def send(state: State, context: Context) -> Outcome:
    """Send the letter as it was accepted."""
    if not state["letter"]:
        return Done(update={"conclusion": "No letter was sent"})
    return Done(update={"sent": context.once("send", lambda: post(context.key, state["letter"]))})


customer_answer = workflow(
    "customer-answer",
    title="Answer a customer",
    steps=[
        use(
            "agent",
            name="work",
            title="Find out",
            review={"reviewers": {"groups": ["support"]}},
            config={
                "instructions": "Help our customer. A voucher is for what went wrong.",
                "tools": ["calculate", "fetch", "send_voucher", "ask_human"],
                "approvals": [
                    {"tool": "calculate", "when": "always", "ask": False, "why": "It only reckons."}
                ],
            },
        ),
        use(
            "langgraph",
            name="letter",
            title="Write the letter",
            review={"reviewers": {"groups": ["support"]}},
            config={
                "graph": "customer-letter",
                "input": {"findings": "/output"},
                "output": ["letter"],
            },
        ),
        send,
    ],
)
