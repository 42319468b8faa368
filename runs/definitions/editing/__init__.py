"""What is done with templates as wholes: looked up by version, copied, compared, switched off."""
