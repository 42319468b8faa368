"""A pipeline of content: up to 200 descriptions of products are written, five at a time, and
those that are too long are looked at one by one. Then somebody releases all of them at once.

`describe` stands for your own writer, such as a model; `publish_one` for your own shop.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from runs.workflows import (
    Child,
    Context,
    Done,
    Gather,
    Go,
    Outcome,
    Report,
    Review,
    State,
    StepFailed,
    read,
    step,
    use,
    workflow,
)

FOLDER = Path(__file__).parent / "published"
LONG = 200
"""Characters: a description that has more is looked at by a person."""


class Products(BaseModel):
    names: list[str] = Field(min_length=1, max_length=200, title="Products")


def describe(name: str) -> str:
    """Write about a product. Raises StepFailed where nothing can be said."""
    if not name.strip():
        raise StepFailed("A product without a name has no description.", code="no_name")
    return f"{name.strip()}: you will like it."


def publish_one(folder: str, number: str, text: str) -> None:
    """Put a description into the shop; doing it again changes nothing."""
    (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    (FOLDER / folder / f"{number}.md").write_text(text)


@step("content.split")
def split(state: State, context: Context) -> Outcome:
    """Begin a child run for each product. One that fails ends alone."""
    names = read(Products, context.order.input).names
    return Gather(
        children=[Child(name=f"{n:03}", update={"name": name}) for n, name in enumerate(names)],
        at_once=5,
        rate="600/min",
        on_child_failure="continue",
        into="texts",
    )


@step("content.write")
def write(state: State, context: Context) -> Outcome:
    """Write one description; a short one needs nobody."""
    text = context.once("describe", lambda: describe(state["name"]), optional=True)
    passes = f"{len(text)} characters are few" if len(text) <= LONG else ""
    report = Report(title=f"Is {state['name'][:60]} described well?", content=text)
    return Go(update={"text": text}, report=report, pass_review=passes)


@step("content.take")
def take(state: State, context: Context) -> Outcome:
    """Take the text as it was approved, which may be an edited one."""
    return Done(update={"text": state.get("decided_content", {}).get("write", state["text"])})


def texts_of(state: State) -> dict[str, str]:
    """The texts of the children that were completed."""
    ends = state["gathered"]
    return {n: state["texts"][n]["text"] for n in ends if ends[n]["status"] == "completed"}


@step("content.proof")
def proof(state: State, context: Context) -> Outcome:
    """Show what was written, and what was not, with its reason."""
    texts, ends = texts_of(state), state["gathered"]
    missing = [f"- {n}: {ends[n]['error']}" for n in ends if n not in texts]
    content = "\n".join([*(f"- {text}" for text in list(texts.values())[:10]), *missing])
    facts = {"Written": len(texts), "Not written": len(missing)}
    return Go(report=Report(content=content, facts=facts, material=texts))


@step("content.publish")
def publish(state: State, context: Context) -> Outcome:
    """Publish just the texts that were released."""
    texts = texts_of(state)
    context.require_approval("content.proof", texts)
    for done, (number, text) in enumerate(texts.items()):
        context.progress(done, len(texts), unit="texts")
        publish_one(context.order.id, number, text)
    return Done(update={"conclusion": f"{len(texts)} descriptions are published"})


EDITORS = Review(reviewers={"groups": ["editors"]}, edits=True)
content_pipeline = workflow(
    "content-pipeline",
    title="Describe products",
    input=Products,
    steps=[
        use(
            split,
            sub_steps=[
                use(
                    write,
                    pause_after=True,
                    may_pass=f"it has up to {LONG} characters",
                    review=EDITORS,
                ),
                take,
            ],
        ),
        use(
            proof,
            pause_after=True,
            question="Publish {Written} descriptions?",
            review=Review(reviewers={"groups": ["editors"]}),
        ),
        publish,
    ],
)
