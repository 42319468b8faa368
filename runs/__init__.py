"""The machine: work orders and runs, the engine, the SDK and the workflows that we ship."""
