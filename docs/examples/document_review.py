"""A document goes through stages: an editor may change the text, lawyers must agree, then it is
published.

Each stage sees the text as the one before left it. A wish for a revision goes back to the author.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from runs.workflows import (
    Context,
    Done,
    Go,
    Outcome,
    Report,
    Review,
    State,
    read,
    step,
    use,
    wait_for_input,
    workflow,
)

SHELF = Path(__file__).parent / "published"


class Document(BaseModel):
    title: str = Field(min_length=1, max_length=80, title="Title of the document")
    text: str = Field(min_length=1, max_length=50_000)


class Text(BaseModel):
    """What the author is asked for when the document came back."""

    text: str = Field(min_length=1, max_length=50_000)


def report_of(state: State, stage: str) -> Report:
    return Report(
        content=state["text"],
        facts={"Title": state["title"], "Stage": stage, "Words": len(state["text"].split())},
        material={"title": state["title"], "text": state["text"]},
    )


@step("document.submit", asks=True)
def submit(state: State, context: Context) -> Outcome:
    """Take the document as it was sent in. After Revise, ask the author for a new text."""
    if "text" not in state:
        document = read(Document, context.order.input)
        return Go(update=document.model_dump(), report=None)
    asked = wait_for_input(
        {},
        context,
        required_inputs=Text,
        blocking_reason="awaiting_new_text",
        question=f"“{state['title']}” came back: {state['revision_feedback']}",
        to="edit",
    )
    return asked or Go()


@step("document.edit")
def edit(state: State, context: Context) -> Outcome:
    """Show the editor the text; what is edited there is the text from then on."""
    return Go(report=report_of(state, "Editing"))


@step("document.legal")
def legal(state: State, context: Context) -> Outcome:
    """Show the lawyers the text as the editor left it."""
    text = state.get("decided_content", {}).get("edit", state["text"])
    return Go(update={"text": text}, report=report_of({**state, "text": text}, "Legal"))


@step("document.publish")
def publish(state: State, context: Context) -> Outcome:
    """Publish exactly the text that the lawyers agreed to."""
    context.require_approval("document.legal", {"title": state["title"], "text": state["text"]})
    name = context.once("publish", lambda: put_on_shelf(context.order.id, state["text"]))
    return Done(update={"published": name})


def put_on_shelf(order_id: str, text: str) -> str:
    SHELF.mkdir(exist_ok=True)
    (SHELF / f"{order_id}.md").write_text(text)
    return f"{order_id}.md"


document_review = workflow(
    "document-review",
    title="Review a document",
    input=Document,
    steps=[
        submit,
        use(
            edit,
            pause_after=True,
            revise_to="submit",
            review=Review(reviewers={"groups": ["editors"]}, edits=True),
        ),
        use(
            legal,
            pause_after=True,
            revise_to="submit",
            review=Review(reviewers={"groups": ["legal"]}, quorum=2, self_approval=False),
        ),
        publish,
    ],
)
