"""Every store of bodies under the one contract, also with the engine on top."""
