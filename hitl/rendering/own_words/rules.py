"""Titles and descriptions of `runs.definitions.editing.fields`."""

from __future__ import annotations

from django.utils.translation import gettext_noop

RULES = (
    gettext_noop("Ask a person after this step"),
    gettext_noop("What the work then waits for"),
    gettext_noop("Rounds of revision"),
    gettext_noop("Default: 3."),
    gettext_noop("Further answers"),
    gettext_noop("Besides approve, revise and cancel."),
    gettext_noop("Label"),
    gettext_noop("Leads to"),
    gettext_noop("It is an approval"),
    gettext_noop("As approve is. What asks for an approval passes for no other answer."),
    gettext_noop("Where a revision leads"),
    gettext_noop("Default: back to this step."),
    gettext_noop("Where it leads if it fails for good"),
    gettext_noop(
        "When its tries are used up, the run goes to this step, which can read what went wrong, "
        "instead of failing. Empty: the run fails."
    ),
    gettext_noop("Only once the run was cancelled, or has expired"),
    gettext_noop(
        "Such a step is no part of the sequence. It runs once after that end, for up to 5 minutes "
        "where it names no other time, and asks nobody."
    ),
    gettext_noop("Tries after a failure"),
    gettext_noop("Tries in all"),
    gettext_noop("1 for no second one."),
    gettext_noop("Seconds before the second try"),
    gettext_noop("At most, and twice that before each further one. Usually 2."),
    gettext_noop("Most seconds before a try"),
    gettext_noop("Usually 300."),
    gettext_noop("What is tried again"),
    gettext_noop("Codes or names of exceptions; all where this is empty."),
    gettext_noop("Seconds that one try may take"),
    gettext_noop(
        "Where this is empty, what WAYSTATION_STEP_TIMEOUT says, usually an hour; "
        "agents and programs whose own limits are longer have the time of those."
    ),
    gettext_noop("When it is left out"),
    gettext_noop("A JSON Schema: the step is left out where the state fits it."),
    gettext_noop("How often it may run in one run"),
    gettext_noop("Which workers take it"),
    gettext_noop("Where its code has changed since the order"),
    gettext_noop(
        "continue goes on with the new code; hold waits for an operator. As its "
        "function or the server says where this says nothing."
    ),
    gettext_noop("Stop before it"),
    gettext_noop("Stop after it"),
    gettext_noop("Data that comes with the answer"),
    gettext_noop("A JSON Schema of an object. With stages, each brings the property of its name."),
    gettext_noop("What is asked after it"),
    gettext_noop(
        "Such as: Refund {amount} to {customer}? Names are filled in from the facts of "
        "the step's report and from the input. Empty: the report's title, else as "
        "usual."
    ),
    gettext_noop("When it may pass its review by itself"),
    gettext_noop(
        "In words, such as: the confidence is over the threshold. Empty: never. Each "
        "time it does, that is recorded like a decision."
    ),
    gettext_noop("Who answers"),
    gettext_noop("Default: anyone on this order."),
    gettext_noop("People"),
    gettext_noop("Groups"),
    gettext_noop("Person"),
    gettext_noop("Group"),
    gettext_noop("How many must approve"),
    gettext_noop("Default: 1."),
    gettext_noop("Stages"),
    gettext_noop(
        "Two or more groups of reviewers, each asked for its own reason, in place of "
        "the reviewers above. All must approve."
    ),
    gettext_noop("Small letters, digits, - and _. What this stage brings has this name."),
    gettext_noop("What they are asked"),
    gettext_noop("Asked after these stages"),
    gettext_noop("Names of stages. Without one, it is asked at once."),
    gettext_noop("Mail addresses of people without an account"),
    gettext_noop("Its deadline"),
    gettext_noop(
        "Since its turn began. When it has passed, the question does what its own "
        "deadline says, and expires where that says nothing."
    ),
    gettext_noop("After"),
    gettext_noop(
        "A number and its unit, a duration in ISO 8601 such as PT4H, or a time such as "
        "“until 12:00”, “next day 09:00” or “next working day 17:00”."
    ),
    gettext_noop("What is counted until then"),
    gettext_noop("The working hours of a calendar. Default: every hour."),
    gettext_noop("Default: as of the question's own deadline."),
    gettext_noop("Time zone"),
    gettext_noop("Such as Europe/Berlin. Default: the server's."),
    gettext_noop("When it has passed"),
    gettext_noop("Default: the question expires."),
    gettext_noop("The requester may approve"),
    gettext_noop("Answers that need a reason"),
    gettext_noop("Such as approve, revise, cancel."),
    gettext_noop("Risk"),
    gettext_noop("High is never answered in bulk, nor from a link without a login."),
    gettext_noop("It wants a fresh second factor"),
    gettext_noop("Of everybody who lets the run go on, whatever the risk."),
    gettext_noop("It may be answered from its link without a login"),
    gettext_noop("Of low risk alone."),
    gettext_noop("The answer may bring an edited text"),
    gettext_noop("Deadline"),
    gettext_noop("Since the question was asked."),
    gettext_noop("Reminders"),
    gettext_noop("Escalation"),
    gettext_noop("From when on others may answer too, in order."),
    gettext_noop("Seconds for which an approval may be taken back"),
    gettext_noop("Reducers"),
    gettext_noop("How what steps write is merged into the state; else replaced."),
    gettext_noop("Key of the state"),
    gettext_noop("How it is merged"),
    gettext_noop("What the state may hold"),
    gettext_noop("A JSON Schema: a step that writes something else fails."),
    gettext_noop("When checkpoints are written"),
    gettext_noop("What is kept"),
    gettext_noop("Days that checkpoints are kept"),
    gettext_noop("Default: as the settings say."),
    gettext_noop("Checkpoints that are kept of a thread"),
    gettext_noop("Bytes that one run may write"),
    gettext_noop("Name"),
    gettext_noop("Title"),
)
