"""Programs that tests start: scripted and hostile coding agents, a sandbox that holds nobody."""
