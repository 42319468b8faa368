"""The door for AG-UI's clients, `/langgraph/agui/<template>`: the runs of `hitl.doors.langgraph`,
in the words of that protocol.
"""
