"""AG-UI: the door for its clients, `/langgraph/agui/<template>`, which tells the runs of
`extensions.langgraph.api` in the words of that protocol.
"""
