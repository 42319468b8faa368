"""Agents: loops, tools, endings, endpoints."""
