"""The SDK: what a workflow is written with."""
