"""What wires the apps: settings."""
