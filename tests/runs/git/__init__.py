"""Workspaces, mirrors and forges."""
