"""Tests of `runs.engine.body_processes`: how bodies are ended, and what they leave behind."""
