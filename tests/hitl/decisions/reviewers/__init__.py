"""Tests of who answers a question: rules, rights, stages and stand-ins."""
