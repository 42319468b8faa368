"""Graphs as steps, and their interrupts as questions."""
